// SPDX-License-Identifier: Apache-2.0
#include "convert.hpp"

#include <algorithm>
#include <climits>
#include <optional>

#include <c10/util/Exception.h>

namespace tutti_torch
{

using Red = c10d::ReduceOp;

// ---- errors ---------------------------------------------------------------------------------

// Programs look for the words that Gloo has for what happened, so they stand behind ours.
static std::string gloo_words(tt_status st, std::chrono::milliseconds timeout)
{
    if (st == TT_ERR_TIMEOUT && timeout.count() > 0)
        return c10::str(" (the timeout of the operation or of its group; Timed out waiting ",
                        timeout.count(), "ms)");
    if (st == TT_ERR_TIMEOUT)
        return " (the timeout of the operation or of its group)";
    if (st == TT_ERR_PEER)
        return " (Connection closed by peer)";
    return "";
}

void raise(tt_status st, const std::string &words, std::chrono::milliseconds timeout)
{
    std::string text = words.empty() ? tt_status_text(st) : words;

    text += gloo_words(st, timeout);
    switch (st) {
    case TT_ERR_NOMEM:
        C10_THROW_ERROR(OutOfMemoryError, text);
    case TT_ERR_UNSUPPORTED:
        C10_THROW_ERROR(NotImplementedError, text);
    default:
        C10_THROW_ERROR(DistBackendError, text);
    }
}

void check(tt_status st, std::chrono::milliseconds timeout)
{
    if (C10_UNLIKELY(st != TT_OK))
        raise(st, tt_last_error(), timeout);
}

std::exception_ptr exception_of(tt_status st, const std::string &words,
                                std::chrono::milliseconds timeout)
{
    try {
        raise(st, words, timeout);
    } catch (...) {
        return std::current_exception();
    }
}

// ---- types ----------------------------------------------------------------------------------

static std::optional<tt_dtype> own_type(at::ScalarType type)
{
    switch (type) {
    case at::kFloat:
        return TT_F32;
    case at::kDouble:
        return TT_F64;
    case at::kHalf:
        return TT_F16;
    case at::kBFloat16:
        return TT_BF16;
    case at::kChar:
        return TT_I8;
    case at::kByte:
        return TT_U8;
    case at::kShort:
        return TT_I16;
    case at::kInt:
        return TT_I32;
    case at::kLong:
        return TT_I64;
    case at::kBool:
        return TT_BOOL;
    case at::kComplexFloat:
        return TT_C64;
    case at::kComplexDouble:
        return TT_C128;
    default:
        return std::nullopt;
    }
}

tt_dtype dtype_of(at::ScalarType type)
{
    auto own = own_type(type);
    TORCH_CHECK(own.has_value(), "tutti: elements of type ", c10::toString(type),
                " are not supported here");
    return *own;
}

at::ScalarType scalar_type_of(tt_dtype dtype)
{
    static const at::ScalarType types[TT_N_DTYPES] = {
        at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,         at::kByte,
        at::kShort, at::kInt,    at::kLong, at::kBool,     at::kComplexFloat, at::kComplexDouble
    };
    return types[dtype];
}

// A type of the same size, for elements that are only carried.
static tt_dtype carrier(at::ScalarType type)
{
    switch (c10::elementSize(type)) {
    case 1:
        return TT_U8;
    case 2:
        return TT_I16;
    case 4:
        return TT_I32;
    case 8:
        return TT_I64;
    case 16:
        return TT_C128;
    default:
        TORCH_CHECK(false, "tutti: elements of type ", c10::toString(type), " cannot be carried");
    }
}

// Sums, products and bits of unsigned numbers are those of signed ones; order and division are not.
static bool like_signed(at::ScalarType type, Red::RedOpType op)
{
    bool is_unsigned = type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64;
    return is_unsigned && (op == Red::SUM || op == Red::PRODUCT || op == Red::BAND ||
                           op == Red::BOR || op == Red::BXOR);
}

static tt_dtype choose_type(const at::Tensor &t, const char *op, Use use, Red::RedOpType reduce)
{
    auto own = own_type(t.scalar_type());
    if (C10_LIKELY(own.has_value()))
        return *own;
    if (use == Use::MOVE || like_signed(t.scalar_type(), reduce))
        return carrier(t.scalar_type());
    TORCH_CHECK(false, "tutti: ", op, ": Invalid scalar type: elements of type ",
                c10::toString(t.scalar_type()),
                " cannot be reduced like that; they can be sent, gathered, scattered and "
                "broadcast");
}

// ---- tensors --------------------------------------------------------------------------------

static void release(void *ctx, void *)
{
    c10::raw::intrusive_ptr::decref(static_cast<c10::TensorImpl *>(ctx));
}

// More dimensions than Tutti has: those of a contiguous tensor behind the first are one.
static bool shape_of(const at::Tensor &t, tt_shape &shape, int64_t *strides)
{
    auto sizes = t.sizes();
    bool plain = t.is_contiguous();

    shape.n_dims = (int)sizes.size();
    if (shape.n_dims > TT_MAX_DIMS) {
        TORCH_CHECK(plain, "tutti: expected a contiguous tensor or at most ", TT_MAX_DIMS,
                    " dimensions, got ", sizes.size());
        shape.n_dims = 2;
        shape.dims[0] = sizes[0];
        shape.dims[1] = sizes[0] > 0 ? t.numel() / sizes[0] : 0;
        return false;
    }
    std::copy(sizes.begin(), sizes.end(), shape.dims);
    if (!plain)
        std::copy(t.strides().begin(), t.strides().end(), strides);
    return !plain;
}

tt_tensor *wrap(const at::Tensor &t, const char *op, Use use, bool keep, Red::RedOpType reduce)
{
    TORCH_CHECK(t.defined(), "tutti: ", op, ": expected a tensor, got none");
    TORCH_CHECK(t.device().is_cpu(), "tutti: ", op,
                ": expected a tensor in CPU memory, got one on ", t.device());
    TORCH_CHECK(t.layout() == at::kStrided, "tutti: ", op, ": expected a dense tensor, got ",
                t.layout());
    TORCH_CHECK(!t.is_conj() && !t.is_neg(), "tutti: ", op,
                ": expected a tensor without pending conjugation or negation; call "
                "resolve_conj() or resolve_neg()");
    tt_shape shape{};
    int64_t strides[TT_MAX_DIMS];
    bool strided = shape_of(t, shape, strides);
    tt_dtype dtype = choose_type(t, op, use, reduce);
    c10::TensorImpl *impl = t.unsafeGetTensorImpl();
    static char nothing;
    void *data = t.numel() > 0 ? t.data_ptr() : &nothing;

    if (keep)
        c10::raw::intrusive_ptr::incref(impl);
    tt_tensor *w =
        tt_wrap(data, shape, strided ? strides : nullptr, dtype, keep ? release : nullptr, impl);
    if (w == nullptr) {
        if (keep)
            c10::raw::intrusive_ptr::decref(impl);
        check(tt_last_status());
    }
    return w;
}

std::vector<tt_tensor *> wrap_all(const std::vector<at::Tensor> &ts, const char *op, Use use,
                                  bool keep, Red::RedOpType reduce)
{
    std::vector<tt_tensor *> all;

    all.reserve(ts.size());
    for (const at::Tensor &t : ts)
        all.push_back(wrap(t, op, use, keep, reduce));
    return all;
}

// ---- options --------------------------------------------------------------------------------

int milliseconds(std::chrono::milliseconds t)
{
    return (int)std::min<long long>(t.count(), INT_MAX);
}

tt_coll_options options(std::chrono::milliseconds timeout)
{
    tt_coll_options o{};

    if (timeout.count() > 0)
        o.timeout_ms = milliseconds(timeout);
    return o;
}

tt_coll_options options(const Red &op, std::chrono::milliseconds timeout)
{
    static const tt_reduce_op ops[] = { TT_REDUCE_SUM, TT_REDUCE_AVG,  TT_REDUCE_PRODUCT,
                                        TT_REDUCE_MIN, TT_REDUCE_MAX,  TT_REDUCE_BAND,
                                        TT_REDUCE_BOR, TT_REDUCE_BXOR, TT_REDUCE_PREMUL_SUM };
    tt_coll_options o = options(timeout);
    auto kind = (Red::RedOpType)op;

    TORCH_CHECK(kind < std::size(ops), "tutti: ", (int)kind, " is no reduction");
    o.op = ops[kind];
    if (kind == Red::PREMUL_SUM) {
        auto *extra = dynamic_cast<c10d::PreMulSumSupplement *>(op.supplement_.get());
        TORCH_CHECK(extra != nullptr, "tutti: a pre-multiplied sum needs a factor");
        o.factor = extra->tensor_factor.defined() ? extra->tensor_factor.item<double>()
                                                  : extra->double_factor;
    }
    return o;
}

} // namespace tutti_torch
