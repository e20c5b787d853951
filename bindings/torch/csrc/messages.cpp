// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, and sums of sparse tensors.
#include "backend.hpp"

#include <tutti/sparse.h>

namespace tutti_torch
{

using c10d::OpType;

// ---- point to point -----------------------------------------------------------------------------

WorkPtr Backend::send(TensorList &ts, int dest, int tag)
{
    c10d::assertSingleElement(Refuse("send"), ts);
    return run(info(OpType::SEND, ts, {}, kNoTimeout), true, [&](tt_work **w) {
        return tt_pg_send(group(), wrap(ts[0], "send", Use::MOVE, true), dest, tag, nullptr, w);
    });
}

WorkPtr Backend::recv(TensorList &ts, int source, int tag)
{
    c10d::assertSingleElement(Refuse("recv"), ts);
    return run(info(OpType::RECV, ts, ts, kNoTimeout), true, [&](tt_work **w) {
        return tt_pg_recv(group(), wrap(ts[0], "recv", Use::MOVE, true), source, tag, nullptr,
                          nullptr, w);
    });
}

WorkPtr Backend::recvAnysource(TensorList &ts, int tag)
{
    c10d::assertSingleElement(Refuse("recv"), ts);
    return run(info(OpType::RECVANYSOURCE, ts, ts, kNoTimeout), true, [&](tt_work **w) {
        return tt_pg_recv(group(), wrap(ts[0], "recv", Use::MOVE, true), TT_ANY_SOURCE, tag,
                          nullptr, nullptr, w);
    });
}

// ---- sparse -------------------------------------------------------------------------------------

// Tutti replaces the indices and values of its own tensor; at the end they go into PyTorch's.
WorkPtr Backend::allreduce_sparse(TensorList &ts, const c10d::AllreduceOptions &opts)
{
    TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM || opts.reduceOp == c10d::ReduceOp::AVG,
                "tutti: all_reduce: unsupported reduction operation: sparse tensors can be summed");
    at::Tensor in = ts[0];
    for (size_t i = 1; i < ts.size(); i++)
        in = in + ts[i];
    in = in.coalesce();
    TORCH_CHECK(in.dim() <= TT_MAX_DIMS, "tutti: all_reduce: at most ", TT_MAX_DIMS,
                " dimensions, got ", in.dim());
    tt_shape shape{};
    shape.n_dims = (int)in.dim();
    std::copy(in.sizes().begin(), in.sizes().end(), shape.dims);
    auto work = c10::make_intrusive<Work>(info(OpType::_ALLREDUCE_SPARSE, ts, ts, opts.timeout));
    at::Tensor indices = in._indices().contiguous(), values = in._values().contiguous();
    Scope scope;
    tt_tensor *s = tt_sparse_coo_unchecked(
        wrap(indices, "all_reduce", Use::REDUCE, true),
        wrap(values, "all_reduce", Use::REDUCE, true, opts.reduceOp), shape, true);
    tt_coll_options o = options(opts.reduceOp, opts.timeout);
    tt_work *w = nullptr;

    if (s == nullptr)
        check(tt_last_status());
    check(tt_pg_all_reduce(group(), s, &o, &w));
    auto held = std::shared_ptr<tt_tensor>(tt_tensor_retain(s), tt_tensor_free);
    auto copy_back = [ts, held]() mutable {
        Scope inner;
        at::NoGradGuard no_grad;
        auto copy = [](tt_tensor *t) {
            tt_shape sh = tt_tensor_shape(t);
            return at::from_blob(tt_tensor_data(t), at::IntArrayRef(sh.dims, (size_t)sh.n_dims),
                                 scalar_type_of(tt_tensor_dtype(t)))
                .clone();
        };
        at::Tensor sum = at::_sparse_coo_tensor_unsafe(copy(tt_sparse_indices(held.get())),
                                                       copy(tt_sparse_values(held.get())),
                                                       ts[0].sizes(), ts[0].options());
        sum._coalesced_(true);
        for (at::Tensor &target : ts)
            target.copy_(sum);
    };
    started(work, w, copy_back);
    if (!is_async(opts.asyncOp))
        work->wait(kNoTimeout);
    return work;
}

} // namespace tutti_torch
