/* SPDX-License-Identifier: Apache-2.0 */
/* A Tutti group as a backend of PyTorch's process groups. Every operation here wraps its tensors, calls
 * the C library and gives back a Work; nothing else is decided on this side. */
#pragma once

#include <sys/types.h>

#include <map>
#include <thread>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <tutti/pg.h>

#include "convert.hpp"
#include "work.hpp"

namespace tutti_torch
{

using TensorList = std::vector<at::Tensor>;
using TensorLists = std::vector<TensorList>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

struct GroupOptions : c10d::Backend::Options {
    explicit GroupOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
        : c10d::Backend::Options("tutti", timeout)
    {
    }
    c10::intrusive_ptr<c10d::Backend::Options> clone() const override
    {
        return c10::make_intrusive<GroupOptions>(*this);
    }

    /* PyTorch takes a backend that is called "gloo" for its own class without asking: DDP's log reads
     * the number of threads out of its options. Gloo's fields are therefore where they are there. */
    std::vector<std::shared_ptr<void>> gloo_devices;
    int gloo_threads = 2;

    int64_t staging_bytes = 0; /* of shared memory per rank; 0: chosen */
    bool no_cma = false;       /* do not copy straight between processes */
};

class Backend : public c10d::Backend
{
  public:
    /* `name`: what PyTorch knows it by, "tutti" or "gloo". Collective. */
    Backend(const StorePtr &store, int rank, int size, c10::intrusive_ptr<GroupOptions> options,
            std::string name);
    ~Backend() override;

    const std::string getBackendName() const override
    {
        return name_;
    }
    c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override
    {
        return options_;
    }
    void setTimeout(std::chrono::milliseconds timeout) override;
    uint64_t getSequenceNumberForGroup() override;
    void setSequenceNumberForGroup() override
    {
    }
    c10d::ErrorType getError() override;
    void abort() override;
    void shutdown() override;
    void waitForPendingWorks() override
    {
    }
    void enableCollectivesTiming() override
    {
    }

    bool supportsSplitting() const override
    {
        return true;
    }
    c10::intrusive_ptr<c10d::Backend> split(
        const StorePtr &store, const std::vector<int> &ranks,
        const c10::intrusive_ptr<c10d::Backend::Options> &opts) override;
    c10::intrusive_ptr<c10d::Backend> merge(const StorePtr &store,
                                            const c10::intrusive_ptr<c10d::Backend::Options> &opts,
                                            const int &rank, const int &size) override;
    bool supportsShrinking() const override
    {
        return true;
    }
    c10::intrusive_ptr<c10d::Backend> shrink(
        const std::vector<int64_t> &ranks_to_exclude, int flags,
        const c10::intrusive_ptr<c10d::Backend::Options> &opts) override;

    /* New members for this group, by handles that they exchange on their own. */
    bool supportsReconfigure() const override
    {
        return true;
    }
    c10d::ReconfigureHandle get_reconfigure_handle() const override;
    WorkPtr reconfigure(const c10d::ReconfigureOptions &opts) override;

    bool supportsAbortHooks() const override
    {
        return true;
    }
    void registerAbortHook(int64_t id, c10d::AbortHook hook) override;
    void unregisterAbortHook(int64_t id) override;
    bool supportsCompletionHooks() const override
    {
        return true;
    }
    void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override;
    void unregisterCompletionHook(int64_t id) override;

    /* Memory that the group shares. */
    bool supportsTensorAlloc(c10::DeviceIndex) override
    {
        return true;
    }
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;
    at::Tensor empty(at::IntArrayRef shape, at::ScalarType type);
    std::shared_ptr<c10::Allocator> getMemAllocator() override;

    bool supportsCoalescing() const override
    {
        return true;
    }
    void startCoalescing() override;
    WorkPtr endCoalescing() override;

    WorkPtr broadcast(TensorList &ts, const c10d::BroadcastOptions &opts) override;
    WorkPtr allreduce(TensorList &ts, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_sparse(TensorList &ts, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_coalesced(TensorList &ts,
                                const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPtr reduce(TensorList &ts, const c10d::ReduceOptions &opts) override;
    WorkPtr allgather(TensorLists &outs, TensorList &ins,
                      const c10d::AllgatherOptions &opts) override;
    WorkPtr all_gather_single(at::Tensor &out, at::Tensor &in,
                              const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_coalesced(TensorLists &outs, TensorList &ins,
                                const c10d::AllgatherOptions &opts) override;
    WorkPtr all_gather_single_coalesced(TensorList &outs, TensorList &ins,
                                        const c10d::AllgatherOptions &opts) override;
    WorkPtr gather(TensorLists &outs, TensorList &ins, const c10d::GatherOptions &opts) override;
    WorkPtr gather_single(at::Tensor &out, at::Tensor &in,
                          const c10d::GatherOptions &opts) override;
    WorkPtr scatter(TensorList &outs, TensorLists &ins, const c10d::ScatterOptions &opts) override;
    WorkPtr reduce_scatter(TensorList &outs, TensorLists &ins,
                           const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_single(at::Tensor &out, at::Tensor &in,
                                  const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_single_coalesced(TensorList &outs, TensorList &ins,
                                            const c10d::ReduceScatterOptions &opts) override;
    WorkPtr all_to_all_single(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &out_splits,
                              std::vector<int64_t> &in_splits,
                              const c10d::AllToAllOptions &opts) override;
    WorkPtr alltoall(TensorList &outs, TensorList &ins, const c10d::AllToAllOptions &opts) override;
    WorkPtr barrier(const c10d::BarrierOptions &opts) override;
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override;
    WorkPtr send(TensorList &ts, int dest, int tag) override;
    WorkPtr recv(TensorList &ts, int source, int tag) override;
    WorkPtr recvAnysource(TensorList &ts, int tag) override;

  private:
    using Issue = std::function<tt_status(tt_work **)>;

    tt_pg *group() const; /* throws when it is gone */
    Info info(c10d::OpType type, const TensorList &ins, const TensorList &outs,
              std::chrono::milliseconds timeout);
    /* Whether an operation that the caller wants to wait for may still be waited for at once. */
    bool is_async(bool async_op);
    /* `last`: what is left to do when the operation has succeeded, before anybody is told. */
    template <class F>
    WorkPtr run(Info info, bool async, F issue, std::function<void()> last = nullptr);
    WorkPtr started(const c10::intrusive_ptr<Work> &work, tt_work *w,
                    std::function<void()> last = nullptr);
    /* Gloo wants tensors of one shape where Tutti can do with more: programs that say "gloo" get its errors. */
    bool as_gloo() const
    {
        return name_ == "gloo";
    }
    WorkPtr allgather_several(TensorLists &outs, TensorList &ins,
                              const c10d::AllgatherOptions &opts);
    c10::intrusive_ptr<Backend> child(const StorePtr &store, int rank,
                                      const std::vector<int64_t> &global_ranks,
                                      const c10::intrusive_ptr<c10d::Backend::Options> &opts);
    std::vector<int64_t> global_ranks() const;

    std::shared_ptr<void> gloo_store_; /* unused, before options_ as in Gloo's class: see there */
    c10::intrusive_ptr<GroupOptions> options_;
    std::string name_;
    const std::string *titles_;
    StorePtr store_; /* for shrinking */
    int n_shrunk_ = 0;
    std::string instance_;          /* random: no other backend has the same handle */
    std::vector<int64_t> ids_used_; /* of reconfigurations */
    pid_t pid_;                     /* that made it */
    tt_pg *pg_ = nullptr;           /* NULL: waits for its first reconfiguration, or that failed */
    std::shared_ptr<Listeners> listeners_ = std::make_shared<Listeners>();

    std::mutex mu_;
    std::map<int64_t, std::shared_ptr<c10d::AbortHook>> abort_hooks_; /* mu_ */
    /* What a thread has begun since it started to coalesce. */
    struct Coalesced {
        std::vector<tt_work *> works; /* owned */
        TensorList outputs;
        std::vector<std::function<void()>> lasts;
    };
    std::map<std::thread::id, Coalesced> coalescing_; /* mu_ */
    std::atomic<int> n_coalescing_{ 0 };
};

template <class F> WorkPtr Backend::run(Info info, bool async, F issue, std::function<void()> last)
{
    auto work = c10::make_intrusive<Work>(std::move(info));
    tt_work *w = nullptr;
    Scope scope;

    check(issue(async ? &w : nullptr), work->getTimeout());
    if (async)
        return started(work, w, std::move(last));
    if (last != nullptr)
        last();
    work->done();
    return work;
}

} /* namespace tutti_torch */
