// SPDX-License-Identifier: Apache-2.0
// Collectives of dense tensors: wrap them, call the C library.
#include "backend.hpp"

namespace tutti_torch
{

using c10d::OpType;

namespace
{

void expect_one(const TensorList &ts, const char *op, const char *what)
{
    TORCH_CHECK_VALUE(ts.size() == 1, "tutti: ", op, ": expected one ", what, " tensor, got ",
                      ts.size());
}

// The one list of a list of lists, which must have a tensor for each rank.
const TensorList &only(const TensorLists &lists, int size, const char *op, const char *what)
{
    TORCH_CHECK_VALUE(lists.size() == 1, "tutti: ", op, ": expected one list of ", what,
                      " tensors, got ", lists.size());
    TORCH_CHECK_VALUE((int)lists[0].size() == size, "tutti: ", op, ": expected ", size, " ", what,
                      " tensors, one for each rank, got ", lists[0].size());
    return lists[0];
}

void same_length(const TensorList &a, const TensorList &b, const char *op)
{
    TORCH_CHECK_VALUE(a.size() == b.size(), "tutti: ", op,
                      ": expected as many outputs as inputs, got ", a.size(), " and ", b.size());
}

void same_type(const at::Tensor &a, const at::Tensor &b, const char *op)
{
    TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), "tutti: ", op,
                     ": expected outputs of the inputs' type, ", b.scalar_type(), ", got ",
                     a.scalar_type());
}

void same_types(const TensorList &ts, const at::Tensor &like, const char *op)
{
    for (const at::Tensor &t : ts)
        same_type(t, like, op);
}

TensorList flat(const TensorLists &lists)
{
    TensorList all;

    for (const TensorList &l : lists)
        all.insert(all.end(), l.begin(), l.end());
    return all;
}

} // namespace

WorkPtr Backend::broadcast(TensorList &ts, const c10d::BroadcastOptions &opts)
{
    expect_one(ts, "broadcast", "input");
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::BROADCAST, ts, ts, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        return tt_pg_broadcast(group(), wrap(ts[0], "broadcast", Use::MOVE, async),
                               (int)opts.rootRank, &o, w);
    });
}

WorkPtr Backend::allreduce(TensorList &ts, const c10d::AllreduceOptions &opts)
{
    if (ts.size() != 1) {
        c10d::AllreduceCoalescedOptions all;
        static_cast<c10d::AllreduceOptions &>(all) = opts;
        return allreduce_coalesced(ts, all);
    }
    if (ts[0].layout() == at::kSparse)
        return allreduce_sparse(ts, opts);
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLREDUCE, ts, ts, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.reduceOp, opts.timeout);
        return tt_pg_all_reduce(
            group(), wrap(ts[0], "all_reduce", Use::REDUCE, async, opts.reduceOp), &o, w);
    });
}

WorkPtr Backend::allreduce_coalesced(TensorList &ts, const c10d::AllreduceCoalescedOptions &opts)
{
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLREDUCE_COALESCED, ts, ts, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.reduceOp, opts.timeout);
        auto all = wrap_all(ts, "all_reduce_coalesced", Use::REDUCE, async, opts.reduceOp);
        return tt_pg_all_reduce_coalesced(group(), all.data(), (int)all.size(), &o, w);
    });
}

WorkPtr Backend::reduce(TensorList &ts, const c10d::ReduceOptions &opts)
{
    expect_one(ts, "reduce", "input");
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
    expect_one(ins, "all_gather", "input");
    const TensorList &each = only(outs, getSize(), "all_gather", "output");
    same_types(each, ins[0], "all_gather");
    bool async = is_async(opts.asyncOp);

    return run(info(OpType::ALLGATHER, ins, each, opts.timeout), async, [&](tt_work **w) {
        tt_coll_options o = options(opts.timeout);
        auto all = wrap_all(each, "all_gather", Use::MOVE, async);
        return tt_pg_all_gather(group(), wrap(ins[0], "all_gather", Use::MOVE, async), all.data(),
                                (int)all.size(), &o, w);
    });
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
    TORCH_CHECK_VALUE((int)outs.size() == getSize(), "tutti: all_gather_coalesced: expected ",
                      getSize(), " lists of outputs, one for each rank, got ", outs.size());
    for (const TensorList &list : outs)
        same_length(list, ins, "all_gather_coalesced");
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
    same_length(outs, ins, "all_gather_single_coalesced");
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
    expect_one(ins, "gather", "input");
    bool root = opts.rootRank == getRank();
    TORCH_CHECK_VALUE(root || outs.empty() || outs[0].empty(),
                      "tutti: gather: only the root, rank ", opts.rootRank, ", has outputs");
    TensorList each = root ? only(outs, getSize(), "gather", "output") : TensorList();
    same_types(each, ins[0], "gather");
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
        TORCH_CHECK_VALUE(out.numel() == in.numel() * getSize(),
                          "tutti: gather_single: expected an output of ", in.numel() * getSize(),
                          " elements, got ", out.numel());
        outs.push_back(out.is_contiguous() ? out.view({ getSize(), in.numel() }).unbind(0)
                                           : out.chunk(getSize(), 0));
    }
    return gather(outs, ins, opts);
}

WorkPtr Backend::scatter(TensorList &outs, TensorLists &ins, const c10d::ScatterOptions &opts)
{
    expect_one(outs, "scatter", "output");
    bool root = opts.rootRank == getRank();
    TORCH_CHECK_VALUE(root || ins.empty() || ins[0].empty(), "tutti: scatter: only the root, rank ",
                      opts.rootRank, ", has inputs");
    TensorList each = root ? only(ins, getSize(), "scatter", "input") : TensorList();
    same_types(each, outs[0], "scatter");
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
    expect_one(outs, "reduce_scatter", "output");
    const TensorList &each = only(ins, getSize(), "reduce_scatter", "input");
    same_types(each, outs[0], "reduce_scatter");
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
    same_length(outs, ins, "reduce_scatter_single_coalesced");
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
        TORCH_CHECK_VALUE(splits->empty() || (int)splits->size() == getSize(),
                          "tutti: all_to_all_single: expected ", getSize(), " splits, got ",
                          splits->size());
    bool async = is_async(opts.asyncOp);
    bool equal = out_splits.empty() && in_splits.empty();
    auto filled = [&](const std::vector<int64_t> &given, const at::Tensor &t) {
        int64_t rows = t.dim() > 0 ? t.size(0) : 1;
        TORCH_CHECK_VALUE(!given.empty() || rows % getSize() == 0,
                          "tutti: all_to_all_single: ", rows, " rows cannot be cut into ",
                          getSize(), " equal parts");
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
    TORCH_CHECK_VALUE((int)ins.size() == getSize() && (int)outs.size() == getSize(),
                      "tutti: all_to_all: expected ", getSize(), " inputs and outputs, got ",
                      ins.size(), " and ", outs.size());
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

// The ranks in "... rank 1 did not come ..." or "... ranks 1, 2 did not come ...".
static std::string missing_ranks(const std::string &text)
{
    size_t end = text.find(" did not come"), from = text.rfind("rank", end);

    if (end == text.npos || from == text.npos)
        return "";
    from = text.find(' ', from) + 1;
    return text.substr(from, end - from);
}

// Programs know Gloo's words for what has happened, so they stand behind ours.
static std::string gloo_words(const std::string &text, int rank, long long timeout_ms, bool all)
{
    std::string missing = missing_ranks(text);

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
    auto limit = opts.timeout.count() < 0 ? options_->timeout : opts.timeout;
    raise(st, text + ": " + gloo_words(text, getRank(), limit.count(), wait_all_ranks));
}

} // namespace tutti_torch
