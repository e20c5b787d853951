/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's handle of an operation, over Tutti's. */
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <torch/csrc/distributed/c10d/Hooks.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/work.h>

namespace tutti_torch
{

/* What the backend wants to hear of finished operations; shared with works that outlive it. */
class Listeners
{
  public:
    void add(int64_t id, c10d::CompletionHook hook);
    void remove(int64_t id);
    bool any() const
    {
        return n_.load(std::memory_order_relaxed) > 0;
    }
    void tell(const c10d::CompletionHookArgs &args);

  private:
    std::mutex mu_;
    std::atomic<int> n_{ 0 };
    /* Shared, so that they are called without the mutex: a hook may be Python, and a thread that has the
     * interpreter's lock may want the mutex. */
    std::unordered_map<int64_t, std::shared_ptr<c10d::CompletionHook>> hooks_;
};

/* What is known about an operation when it starts. */
struct Info {
    c10d::OpType type;
    const char *title; /* of the profiler's event, "tutti:all_reduce" */
    int rank;
    uint64_t seq;
    std::chrono::milliseconds timeout;
    std::vector<at::Tensor> inputs;  /* for the profiler */
    std::vector<at::Tensor> outputs; /* the result */
    std::shared_ptr<Listeners> listeners;
    std::vector<std::vector<at::Tensor>> lists = {}; /* the result, if it is several lists */
};

class Work : public c10d::Work
{
  public:
    explicit Work(Info info);
    ~Work() override;

    /* Gives it the operations under way, which it takes over; all must be done for it to be. `last`
     * runs once when they are, before anybody is told: it may throw. */
    void start(std::vector<tt_work *> works, std::function<void()> last = nullptr);
    /* It is done already. */
    void done(int source = -1);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override
    {
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
    float getDuration() const override;
    uint64_t getSequencenumber() const override
    {
        return info_.seq;
    }
    std::chrono::milliseconds getTimeout() const override
    {
        return info_.timeout;
    }
    uint64_t getCompletionKey() const override
    {
        return key_;
    }

  private:
    struct Watch;

    bool parts_done() const;
    void watch(); /* has parts_ended() called when all are done; mu_ is held */
    void parts_ended();
    void settle(); /* all parts are done: the outcome, profiler and listeners; once */
    void set_outcome();
    void complete();       /* the futures */
    void complete_later(); /* on a thread for it; once */
    void finish_futures();
    void tell_listeners();
    c10::IValue value() const; /* of the future */

    Info info_;
    uint64_t key_;
    std::chrono::steady_clock::time_point begin_, end_;
    std::vector<tt_work *> works_; /* owned; empty: done */
    std::function<void()> last_;
    std::mutex mu_;
    std::atomic<bool> settled_{ false }; /* set under mu_; what follows is fixed then */
    int source_ = -1;
    std::exception_ptr error_;
    c10d::WorkResult outcome_ = c10d::WorkResult::UNKNOWN;
    bool watched_ = false;                                    /* mu_ */
    bool completing_ = false;                                 /* mu_ */
    c10::intrusive_ptr<c10::ivalue::Future> future_, result_; /* mu_; NULL: not asked for */
};

} /* namespace tutti_torch */
