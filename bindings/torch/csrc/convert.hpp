/* SPDX-License-Identifier: Apache-2.0 */
/* From PyTorch's words to Tutti's: tensors, reductions, time-outs, errors. */
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/collective.h>

namespace tutti_torch
{

/* Throws what `st` and the thread's last error say; does nothing for TT_OK. `timeout`: how long the operation might take,
 * for the words; 0 if that is not known. */
void check(tt_status st, std::chrono::milliseconds timeout = kNoTimeout);
[[noreturn]] void raise(tt_status st, const std::string &words,
                        std::chrono::milliseconds timeout = kNoTimeout);
std::exception_ptr exception_of(tt_status st, const std::string &words,
                                std::chrono::milliseconds timeout = kNoTimeout);

/* Throws for arguments that an operation cannot take. PyTorch's own checks (c10d/Utils.hpp), which Gloo uses too, call it, so
 * that programs get the type and the words that they know. */
class Refuse
{
  public:
    explicit Refuse(const char *op) : op_(op)
    {
    }
    void operator()(const std::string &words) const
    {
        TORCH_CHECK(false, "tutti: ", op_, ": ", words);
    }

  private:
    const char *op_;
};

/* Tutti tensors made while it lives belong to it. */
class Scope
{
  public:
    Scope() : scope_(tt_scope_open())
    {
    }
    ~Scope()
    {
        tt_scope_close(&scope_);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    tt_scope scope_;
};

enum class Use {
    MOVE,   /* elements are only carried: any type, as bytes of the same size */
    REDUCE, /* they are computed with */
};

/* The tensor's memory as a Tutti tensor of the open scope, without a copy. `keep`: whoever holds the
 * result also holds `t`. Throws for memory that is not the CPU's and types that cannot be reduced. */
tt_tensor *wrap(const at::Tensor &t, const char *op, Use use, bool keep,
                c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::UNUSED);

/* The memory of a contiguous tensor as one dimension: for operations that look at sizes only. */
std::vector<tt_tensor *> wrap_all(const std::vector<at::Tensor> &ts, const char *op, Use use,
                                  bool keep,
                                  c10d::ReduceOp::RedOpType reduce = c10d::ReduceOp::UNUSED);

/* op, factor and time-out. */
tt_coll_options options(std::chrono::milliseconds timeout);
tt_coll_options options(const c10d::ReduceOp &op, std::chrono::milliseconds timeout);

int milliseconds(std::chrono::milliseconds t);

tt_dtype dtype_of(at::ScalarType type); /* throws for types that Tutti has not */
at::ScalarType scalar_type_of(tt_dtype dtype);

} /* namespace tutti_torch */
