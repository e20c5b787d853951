// SPDX-License-Identifier: Apache-2.0
// Memory that the group's ranks share, for tensors and for PyTorch's buckets and pools.
#include "backend.hpp"

#include <c10/core/CPUAllocator.h>

namespace tutti_torch
{

at::Tensor Backend::empty(at::IntArrayRef shape, at::ScalarType type)
{
    TORCH_CHECK(shape.size() <= TT_MAX_DIMS, "tutti: empty: at most ", TT_MAX_DIMS,
                " dimensions, got ", shape.size());
    tt_shape s{};
    s.n_dims = 1;
    s.dims[0] = c10::multiply_integers(shape) * (int64_t)c10::elementSize(type);
    Scope scope;
    tt_tensor *t = tt_pg_alloc(group(), s, TT_U8);
    if (t == nullptr)
        check(tt_last_status());
    tt_tensor_retain(t);
    return at::from_blob(
        tt_tensor_data(t), shape, [t](void *) { tt_tensor_free(t); },
        at::TensorOptions().dtype(type));
}

// DDP and FSDP ask for it; without room for shared memory they train all the same. For complex parameters DDP asks for complex
// elements but uses them as pairs of real numbers, so that it gets these.
at::Tensor Backend::allocateTensor(long size, at::TensorOptions options)
{
    auto type = c10::typeMetaToScalarType(options.dtype());

    if (c10::isComplexType(type)) {
        type = c10::toRealValueType(type);
        size *= 2;
    }
    try {
        return empty({ size }, type);
    } catch (const c10::OutOfMemoryError &) {
        return at::empty({ size }, options.dtype(type));
    }
}

namespace
{

// Memory of a group, for PyTorch's pools; the group lives as long as the allocator.
class GroupAllocator : public c10::Allocator
{
  public:
    explicit GroupAllocator(c10::intrusive_ptr<Backend> backend) : backend_(std::move(backend))
    {
    }

    c10::DataPtr allocate(size_t n) override
    {
        auto *keep = new at::Tensor(backend_->empty({ (int64_t)n }, at::kByte));
        return { keep->data_ptr(), keep, free_tensor, at::kCPU };
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr;
    }
    void copy_data(void *dest, const void *src, std::size_t count) const override
    {
        default_copy_data(dest, src, count);
    }

  private:
    static void free_tensor(void *ctx)
    {
        delete static_cast<at::Tensor *>(ctx);
    }

    c10::intrusive_ptr<Backend> backend_;
};

} // namespace

std::shared_ptr<c10::Allocator> Backend::getMemAllocator()
{
    return std::make_shared<GroupAllocator>(
        c10::intrusive_ptr<Backend>::unsafe_reclaim_from_nonowning(this));
}

} // namespace tutti_torch
