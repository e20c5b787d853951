// SPDX-License-Identifier: Apache-2.0
// Collectives of dense tensors: wrap them, call the C library.
#include <algorithm>

#include "backend.hpp"
#include "tutti/error.h"

namespace tutti_torch
{

using c10d::OpType;

namespace
{

void same_type(const at::Tensor &a, const at::Tensor &b, const char *op)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "tutti: ", op,
                ": invalid tensor type: expected outputs of the inputs' type, ", b.scalar_type(),
                ", got ", a.scalar_type());
}

// Types are the same everywhere; shapes only as far as `sizes` says, if at all.
void all_like(const Refuse &refuse, const TensorList &ts, const at::Tensor &like, bool sizes)
{
    for (size_t i = 0; i < ts.size(); i++) {
        c10d::assertTypeMatch(refuse, like.options(), ts, i);
        if (sizes)
            c10d::assertSizesMatch(refuse, like.sizes(), ts, i);
    }
}

// Outputs of different sizes, each for what its rank gives. NCCL takes them and so do we, in Gloo's place too, which
// refuses them. Tensors that begin at one address cannot be meant so.
bool one_per_rank(const TensorList &outs, const at::Tensor &in, int rank)
{
    std::vector<const void *> places = { in.const_data_ptr() };

    if ((int)outs.size() <= rank || outs[rank].sizes() != in.sizes())
        return false;
    for (const at::Tensor &t : outs)
        places.push_back(t.const_data_ptr());
    std::sort(places.begin(), places.end());
    return std::adjacent_find(places.begin(), places.end()) == places.end();
}

// Several tensors of one rank in one call, where that has a meaning.
void all_alike(const Refuse &refuse, const TensorList &ts)
{
    if (ts.size() > 1)
        c10d::assertTypeAndSizesMatch(refuse, ts);
}

TensorList flat(const TensorLists &lists)
{
    TensorList all;

    for (const TensorList &l : lists)
        all.insert(all.end(), l.begin(), l.end());
    return all;
}

// Copies ts[from] into the others; NULL if there are none.
std::function<void()> copied(const TensorList &ts, size_t from)
{
    if (ts.size() == 1)
        return nullptr;
    return [ts, from]() mutable {
        at::NoGradGuard no_grad;
        for (size_t i = 0; i < ts.size(); i++)
            if (i != from)
                ts[i].copy_(ts[from]);
    };
}

void fold(at::Tensor &to, const at::Tensor &from, c10d::ReduceOp::RedOpType op)
{
    using c10d::ReduceOp;
    switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::AVG:
        to.add_(from);
        return;
    case ReduceOp::PRODUCT:
        to.mul_(from);
        return;
    case ReduceOp::MIN:
        at::minimum_out(to, to, from);
        return;
    case ReduceOp::MAX:
        at::maximum_out(to, to, from);
        return;
    case ReduceOp::BAND:
        to.bitwise_and_(from);
        return;
    case ReduceOp::BOR:
        to.bitwise_or_(from);
        return;
    case ReduceOp::BXOR:
        to.bitwise_xor_(from);
        return;
    default:
        TORCH_CHECK(false,
                    "tutti: all_reduce: unsupported reduction operation for several tensors");
    }
}

} // namespace

WorkPtr Backend::broadcast(TensorList &ts, const c10d::BroadcastOptions &opts)
{
    Refuse refuse("broadcast");
    c10d::assertRootRank(refuse, opts.rootRank, getSize());
    c10d::assertRootTensor(refuse, opts.rootTensor, (int64_t)ts.size());
    all_alike(refuse, ts);
    auto root = (size_t)opts.rootTensor;
    bool async = is_async(opts.asyncOp);
    auto issue = [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        return tt_pg_broadcast(group(), wrap(ts[root], "broadcast", Use::MOVE, async),
                               (int)opts.rootRank, &o, w);
    };

    return run(info(OpType::BROADCAST, ts, ts, opts.timeout), async, issue, copied(ts, root));
}

WorkPtr Backend::allreduce(TensorList &ts, const c10d::AllreduceOptions &opts)
{
    Refuse refuse("all_reduce");
    c10d::assertNonEmpty(refuse, ts);
    c10d::assertLayoutMatch(refuse, ts);
    all_alike(refuse, ts);
    if (ts[0].layout() == at::kSparse)
        return allreduce_sparse(ts, opts);
    bool async = is_async(opts.asyncOp);
    auto issue = [&](tt_work **w) {
        tt_coll_options o = options(opts.reduceOp, opts.timeout);
        return tt_pg_all_reduce(
            group(), wrap(ts[0], "all_reduce", Use::REDUCE, async, opts.reduceOp), &o, w);
    };

    // Several tensors are reduced with each other, too: here first, then among the ranks.
    for (size_t i = 1; i < ts.size(); i++) {
        at::NoGradGuard no_grad;
        fold(ts[0], ts[i], opts.reduceOp);
    }
    return run(info(OpType::ALLREDUCE, ts, ts, opts.timeout), async, issue, copied(ts, 0));
}

WorkPtr Backend::allreduce_coalesced(TensorList &ts, const c10d::AllreduceCoalescedOptions &opts)
{
    Refuse refuse("all_reduce_coalesced");
    c10d::assertNonEmpty(refuse, ts);
    c10d::assertLayoutMatch(refuse, ts);
    TORCH_CHECK(ts[0].layout() == at::kStrided, "tutti: all_reduce_coalesced: unsupported layout ",
                ts[0].layout());
    for (size_t i = 1; as_gloo() && i < ts.size(); i++)
        if (ts[i].scalar_type() != ts[0].scalar_type())
            refuse("tensors must all have the same type");
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLREDUCE_COALESCED, ts, ts, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.reduceOp, opts.timeout);
        auto all = wrap_all(ts, "all_reduce_coalesced", Use::REDUCE, async, opts.reduceOp);
        return tt_pg_all_reduce_coalesced(group(), all.data(), (int)all.size(), &o, w);
    });
}

WorkPtr Backend::reduce(TensorList &ts, const c10d::ReduceOptions &opts)
{
    Refuse refuse("reduce");
    c10d::assertRootRank(refuse, opts.rootRank, getSize());
    c10d::assertRootTensor(refuse, opts.rootTensor, (int64_t)ts.size());
    c10d::assertSingleElement(refuse, ts);
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::REDUCE, ts, ts, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.reduceOp, opts.timeout);
        return tt_pg_reduce(group(), wrap(ts[0], "reduce", Use::REDUCE, async, opts.reduceOp),
                            (int)opts.rootRank, &o, w);
    });
}

// ---- gather, scatter --------------------------------------------------------------------------

WorkPtr Backend::allgather(TensorLists &outs, TensorList &ins, const c10d::AllgatherOptions &opts)
{
    Refuse refuse("all_gather");
    size_t n_each = ins.size() * (size_t)getSize();
    c10d::assertNonEmptyInputTensorList(refuse, ins.size());
    c10d::assertInputOutputTensorListsSameSize(refuse, outs.size(), ins.size());
    for (size_t i = 0; i < outs.size(); i++)
        if (outs[i].size() != n_each)
            refuse(c10::str("invalid output tensor list at index ", i, " (expected length ", n_each,
                            ", one for each rank, got ", outs[i].size(), ")"));
    all_alike(refuse, ins);
    for (const TensorList &list : outs)
        all_like(refuse, list, ins[0],
                 ins.size() > 1 || (as_gloo() && !one_per_rank(list, ins[0], getRank())));
    if (ins.size() > 1)
        return allgather_several(outs, ins, opts);
    const TensorList &each = outs[0];
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLGATHER, ins, each, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        auto all = wrap_all(each, "all_gather", Use::MOVE, async);
        return tt_pg_all_gather(group(), wrap(ins[0], "all_gather", Use::MOVE, async), all.data(),
                                (int)all.size(), &o, w);
    });
}

// Several inputs per rank: every output list gets all inputs of all ranks, rank by rank.
WorkPtr Backend::allgather_several(TensorLists &outs, TensorList &ins,
                                   const c10d::AllgatherOptions &opts)
{
    at::NoGradGuard no_grad;
    std::vector<int64_t> shape = ins[0].sizes().vec();
    shape.insert(shape.begin(), (int64_t)ins.size() * getSize());
    at::Tensor mine = at::stack(ins), all = at::empty(shape, ins[0].options());
    Info about = info(OpType::ALLGATHER, ins, flat(outs), opts.timeout);
    about.lists = outs;
    bool async = is_async(opts.asyncOp);
    auto issue = [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        return tt_pg_all_gather_into(group(), wrap(mine, "all_gather", Use::MOVE, async),
                                     wrap(all, "all_gather", Use::MOVE, async), &o, w);
    };
    auto spread = [outs, all]() mutable {
        at::NoGradGuard no_grad_here;
        for (TensorList &list : outs)
            for (size_t i = 0; i < list.size(); i++)
                list[i].copy_(all[(int64_t)i]);
    };

    return run(std::move(about), async, issue, spread);
}

WorkPtr Backend::all_gather_single(at::Tensor &out, at::Tensor &in,
                                   const c10d::AllgatherOptions &opts)
{
    same_type(out, in, "all_gather_single");
    bool async = is_async(opts.asyncOp);

    return run(
        info(OpType::_ALLGATHER_BASE, { in }, { out }, opts.timeout), async, [&](tt_work **w) {
            tt_coll_options o = options(opts.timeout);
            return tt_pg_all_gather_into(group(), wrap(in, "all_gather_single", Use::MOVE, async),
                                         wrap(out, "all_gather_single", Use::MOVE, async), &o, w);
        });
}

// outs[rank][k]: rank's ins[k].
WorkPtr Backend::allgather_coalesced(TensorLists &outs, TensorList &ins,
                                     const c10d::AllgatherOptions &opts)
{
    Refuse refuse("all_gather_coalesced");
    c10d::assertNonEmptyInputTensorList(refuse, ins.size());
    c10d::assertAllgatherCoalescedOutputTensorLists(refuse, outs, ins.size(), getSize());
    for (const TensorList &list : outs)
        for (size_t i = 0; i < list.size(); i++) {
            if (as_gloo() && list[i].sizes() != ins[i].sizes())
                refuse(c10::str("invalid size of output tensor at index ", i, " (expected ",
                                ins[i].sizes(), ", got ", list[i].sizes(), ")"));
            c10d::assertTypeMatch(refuse, ins[i].options(), list, i);
        }
    bool async = is_async(opts.asyncOp);
    TensorList each = flat(outs);

    return run(info(OpType::ALLGATHER_COALESCED, ins, each, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        auto from = wrap_all(ins, "all_gather_coalesced", Use::MOVE, async);
        auto to = wrap_all(each, "all_gather_coalesced", Use::MOVE, async);
        return tt_pg_all_gather_coalesced(group(), from.data(), (int)from.size(), to.data(), &o, w);
    });
}

WorkPtr Backend::all_gather_single_coalesced(TensorList &outs, TensorList &ins,
                                             const c10d::AllgatherOptions &opts)
{
    c10d::assertInputOutputTensorListsSameSize(Refuse("all_gather_single_coalesced"), outs.size(),
                                               ins.size());
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLGATHER_INTO_TENSOR_COALESCED, ins, outs, opts.timeout), async,
               [&](tt_work **w) {
                   tt_coll_options o = options(opts.timeout);
                   auto from = wrap_all(ins, "all_gather_single_coalesced", Use::MOVE, async);
                   auto to = wrap_all(outs, "all_gather_single_coalesced", Use::MOVE, async);
                   return tt_pg_all_gather_into_coalesced(group(), from.data(), to.data(),
                                                          (int)from.size(), &o, w);
               });
}

WorkPtr Backend::gather(TensorLists &outs, TensorList &ins, const c10d::GatherOptions &opts)
{
    Refuse refuse("gather");
    c10d::assertRootRank(refuse, opts.rootRank, getSize());
    c10d::assertSingleElementInput(refuse, ins);
    bool root = opts.rootRank == getRank();
    if (root)
        c10d::assertGatherOutputTensorList(refuse, outs, getSize());
    else if (!outs.empty() && !outs[0].empty())
        c10d::assertEmptyOutputTensorList(refuse, outs);
    TensorList each = root ? outs[0] : TensorList();
    all_like(refuse, each, ins[0], as_gloo());
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::GATHER, ins, each, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        auto all = wrap_all(each, "gather", Use::MOVE, async);
        return tt_pg_gather(group(), wrap(ins[0], "gather", Use::MOVE, async),
                            root ? all.data() : nullptr, (int)all.size(), (int)opts.rootRank, &o,
                            w);
    });
}

WorkPtr Backend::gather_single(at::Tensor &out, at::Tensor &in, const c10d::GatherOptions &opts)
{
    TensorList ins = { in };
    TensorLists outs;

    if (opts.rootRank == getRank()) {
        TORCH_CHECK(out.numel() == in.numel() * getSize(),
                    "tutti: gather_single: expected an output of ", in.numel() * getSize(),
                    " elements, got ", out.numel());
        outs.push_back(out.is_contiguous() ? out.view({ getSize(), in.numel() }).unbind(0)
                                           : out.chunk(getSize(), 0));
    }
    return gather(outs, ins, opts);
}

WorkPtr Backend::scatter(TensorList &outs, TensorLists &ins, const c10d::ScatterOptions &opts)
{
    Refuse refuse("scatter");
    c10d::assertRootRank(refuse, opts.rootRank, getSize());
    c10d::assertSingleElementOutput(refuse, outs);
    bool root = opts.rootRank == getRank();
    if (root)
        c10d::assertScatterInputTensorList(refuse, ins, getSize());
    else if (!ins.empty() && !ins[0].empty())
        c10d::assertEmptyInputTensorList(refuse, ins);
    TensorList each = root ? ins[0] : TensorList();
    all_like(refuse, each, outs[0], as_gloo());
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::SCATTER, each, outs, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        auto all = wrap_all(each, "scatter", Use::MOVE, async);
        return tt_pg_scatter(group(), wrap(outs[0], "scatter", Use::MOVE, async),
                             root ? all.data() : nullptr, (int)all.size(), (int)opts.rootRank, &o,
                             w);
    });
}

WorkPtr Backend::reduce_scatter(TensorList &outs, TensorLists &ins,
                                const c10d::ReduceScatterOptions &opts)
{
    Refuse refuse("reduce_scatter");
    c10d::assertSingleElementOutput(refuse, outs);
    c10d::assertScatterInputTensorList(refuse, ins, getSize());
    const TensorList &each = ins[0];
    all_like(refuse, each, outs[0], false);
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::REDUCE_SCATTER, each, outs, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.reduceOp, opts.timeout);
        auto all = wrap_all(each, "reduce_scatter", Use::REDUCE, async, opts.reduceOp);
        return tt_pg_reduce_scatter(
            group(), wrap(outs[0], "reduce_scatter", Use::REDUCE, async, opts.reduceOp), all.data(),
            (int)all.size(), &o, w);
    });
}

WorkPtr Backend::reduce_scatter_single(at::Tensor &out, at::Tensor &in,
                                       const c10d::ReduceScatterOptions &opts)
{
    same_type(out, in, "reduce_scatter_single");
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::_REDUCE_SCATTER_BASE, { in }, { out }, opts.timeout), async,
               [&](tt_work **w) {
                   tt_coll_options o = options(opts.reduceOp, opts.timeout);
                   const char *op = "reduce_scatter_single";
                   return tt_pg_reduce_scatter_from(
                       group(), wrap(out, op, Use::REDUCE, async, opts.reduceOp),
                       wrap(in, op, Use::REDUCE, async, opts.reduceOp), &o, w);
               });
}

WorkPtr Backend::reduce_scatter_single_coalesced(TensorList &outs, TensorList &ins,
                                                 const c10d::ReduceScatterOptions &opts)
{
    c10d::assertInputOutputTensorListsSameSize(Refuse("reduce_scatter_single_coalesced"),
                                               outs.size(), ins.size());
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::REDUCE_SCATTER_TENSOR_COALESCED, ins, outs, opts.timeout), async,
               [&](tt_work **w) {
                   tt_coll_options o = options(opts.reduceOp, opts.timeout);
                   const char *op = "reduce_scatter_single_coalesced";
                   auto from = wrap_all(ins, op, Use::REDUCE, async, opts.reduceOp);
                   auto to = wrap_all(outs, op, Use::REDUCE, async, opts.reduceOp);
                   return tt_pg_reduce_scatter_coalesced(group(), to.data(), from.data(),
                                                         (int)from.size(), &o, w);
               });
}

// ---- all to all -------------------------------------------------------------------------------

WorkPtr Backend::all_to_all_single(at::Tensor &out, at::Tensor &in,
                                   std::vector<int64_t> &out_splits,
                                   std::vector<int64_t> &in_splits,
                                   const c10d::AllToAllOptions &opts)
{
    same_type(out, in, "all_to_all_single");
    for (auto *splits : { &out_splits, &in_splits })
        TORCH_CHECK(splits->empty() || (int)splits->size() == getSize(),
                    "tutti: all_to_all_single: Number of tensor splits not equal to group size: "
                    "expected ",
                    getSize(), " splits, got ", splits->size());
    bool async = is_async(opts.asyncOp);
    bool equal = out_splits.empty() && in_splits.empty();
    auto filled = [&](const std::vector<int64_t> &given, const at::Tensor &t) {
        int64_t rows = t.dim() > 0 ? t.size(0) : 1;
        TORCH_CHECK(!given.empty() || rows % getSize() == 0,
                    "tutti: all_to_all_single: Tensor's dim 0 does not divide equally across group "
                    "size: ",
                    rows, " rows cannot be cut into ", getSize(), " equal parts");
        return given.empty() ? std::vector<int64_t>((size_t)getSize(), rows / getSize()) : given;
    };
    std::vector<int64_t> to = filled(out_splits, out), from = filled(in_splits, in);

    return run(info(OpType::ALLTOALL_BASE, { in }, { out }, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        return tt_pg_all_to_all_single(group(), wrap(out, "all_to_all_single", Use::MOVE, async),
                                       wrap(in, "all_to_all_single", Use::MOVE, async),
                                       equal ? nullptr : to.data(), equal ? nullptr : from.data(),
                                       &o, w);
    });
}

WorkPtr Backend::alltoall(TensorList &outs, TensorList &ins, const c10d::AllToAllOptions &opts)
{
    c10d::assertAllToAllTensorListSizes(Refuse("all_to_all"), outs.size(), ins.size(), getSize());
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLTOALL, ins, outs, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        auto to = wrap_all(outs, "all_to_all", Use::MOVE, async);
        auto from = wrap_all(ins, "all_to_all", Use::MOVE, async);
        return tt_pg_all_to_all(group(), to.data(), from.data(), (int)to.size(), &o, w);
    });
}

// ---- barriers -----------------------------------------------------------------------------------

WorkPtr Backend::barrier(const c10d::BarrierOptions &opts)
{
    return run(info(OpType::BARRIER, {}, {}, opts.timeout), is_async(opts.asyncOp),
               [&](tt_work **w) {
                   tt_coll_options o = options(opts.timeout);
                   return tt_pg_barrier(group(), &o, w);
               });
}

// "1, 2": the ranks that a failure is about.
static std::string ranks_of(const tt_error_info &info)
{
    std::string text;

    for (int i = 0; i < std::min(info.n_ranks, TT_ERROR_RANKS); i++)
        text += (i > 0 ? ", " : "") + std::to_string(info.ranks[i]);
    return text;
}

// Programs know Gloo's words for what has happened, so they stand behind ours.
static std::string gloo_words(const tt_error_info &info, int rank, long long timeout_ms, bool all)
{
    std::string missing = ranks_of(info);

    if (rank != 0)
        return "Rank " + std::to_string(rank) +
               " successfully reached monitoredBarrier, but received errors while waiting for "
               "send/recv from rank 0";
    if (timeout_ms == 0 || missing.empty())
        return "Rank 0 timed out in monitoredBarrier";
    return (all ? "Ranks " : "Rank ") + missing + " failed to pass monitoredBarrier in " +
           std::to_string(timeout_ms) + " ms";
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks)
{
    bool at_once = opts.timeout.count() == 0; // not "none": that is negative
    tt_coll_options o = options(at_once ? std::chrono::milliseconds(1) : opts.timeout);

    o.report_all_ranks = wait_all_ranks;
    tt_status st = tt_pg_monitored_barrier(group(), &o);
    if (st == TT_OK)
        return;
    std::string text = tt_last_error();
    tt_error_info info;
    tt_last_error_info(&info);
    auto limit = opts.timeout.count() < 0 ? options_->timeout : opts.timeout;
    raise(st, text + ": " + gloo_words(info, getRank(), limit.count(), wait_all_ranks));
}

} // namespace tutti_torch
