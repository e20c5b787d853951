// SPDX-License-Identifier: Apache-2.0
#include "work.hpp"

#include <climits>

#include <ATen/record_function.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "convert.hpp"
#include "pool.hpp"

namespace tutti_torch
{

using c10::ivalue::Future;
using Clock = std::chrono::steady_clock;

// ---- listeners --------------------------------------------------------------------------------

void Listeners::add(int64_t id, c10d::CompletionHook hook)
{
    auto shared = std::make_shared<c10d::CompletionHook>(std::move(hook));
    std::lock_guard<std::mutex> lock(mu_);
    hooks_[id].swap(shared);
    n_ = (int)hooks_.size();
}

void Listeners::remove(int64_t id)
{
    std::unique_lock<std::mutex> lock(mu_);
    auto gone = hooks_.extract(id); // destroyed without the mutex
    n_ = (int)hooks_.size();
    lock.unlock();
}

void Listeners::tell(const c10d::CompletionHookArgs &args)
{
    std::vector<std::shared_ptr<c10d::CompletionHook>> all;
    {
        std::lock_guard<std::mutex> lock(mu_);
        for (auto &entry : hooks_)
            all.push_back(entry.second);
    }
    for (auto &hook : all)
        (*hook)(args);
}

// ---- life -------------------------------------------------------------------------------------

static uint64_t next_key()
{
    static std::atomic<uint64_t> last{ 0 };
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// The inputs matter to the profiler only.
static std::optional<std::vector<at::Tensor>> profiled(const Info &info)
{
    if (!at::hasCallbacks())
        return std::nullopt;
    return info.inputs;
}

Work::Work(Info info)
    : c10d::Work(info.rank, info.type, info.title, profiled(info)), info_(std::move(info)),
      key_(next_key()), begin_(Clock::now())
{
}

Work::~Work()
{
    for (tt_work *w : works_)
        tt_work_free(w);
}

void Work::start(std::vector<tt_work *> works, std::function<void()> last)
{
    works_ = std::move(works);
    last_ = std::move(last);
    if (recordFunctionEndCallback_ != nullptr || info_.listeners->any()) {
        std::lock_guard<std::mutex> lock(mu_);
        watch();
    }
}

void Work::done(int source)
{
    settle();
    source_ = source;
}

// ---- the end ----------------------------------------------------------------------------------

bool Work::parts_done() const
{
    for (tt_work *w : works_)
        if (!tt_work_done(w))
            return false;
    return true;
}

// Keeps the work alive until its last part is done.
struct Work::Watch {
    c10::intrusive_ptr<Work> work;
    std::atomic<size_t> n_left;

    // Called from C: nothing may be thrown.
    static tt_value *part_ended(void *ctx, tt_future *) noexcept
    {
        auto *watch = static_cast<Watch *>(ctx);

        if (watch->n_left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            try {
                watch->work->parts_ended();
            } catch (...) { // no memory: the one who waits notices the end
            }
            delete watch;
        }
        return nullptr;
    }
};

void Work::watch()
{
    if (watched_)
        return;
    watched_ = true;
    auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    auto *watch = new Watch{ std::move(self), { works_.size() + 1 } };

    for (tt_work *w : works_) {
        tt_future *f = tt_work_future(w);
        tt_future *then = f != nullptr ? tt_future_then(f, Watch::part_ended, watch) : nullptr;

        if (then == nullptr) // no memory: the one who waits notices the end
            Watch::part_ended(watch, nullptr);
        tt_future_free(then);
        tt_future_free(f);
    }
    if (watch->n_left.fetch_sub(1, std::memory_order_acq_rel) == 1)
        run_later([watch] { // mu_ is held here
            watch->work->parts_ended();
            delete watch;
        });
}

// On the thread that moves data, which must not wait for the interpreter's lock: hooks may be Python, and whoever
// has that lock may wait for this thread.
void Work::parts_ended()
{
    if (!parts_done())
        return;
    if (info_.listeners->any()) {
        auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
        run_later([self] {
            self->settle();
            self->complete_later();
        });
        return;
    }
    settle();
    complete_later();
}

void Work::set_outcome()
{
    for (tt_work *w : works_) {
        tt_status st = tt_work_status(w);

        if (tt_work_source(w) >= 0)
            source_ = tt_work_source(w);
        if (st != TT_OK && error_ == nullptr) {
            error_ = exception_of(st, tt_work_error(w), info_.timeout);
            outcome_ =
                st == TT_ERR_TIMEOUT ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
        }
    }
    if (error_ == nullptr && last_ != nullptr) {
        try {
            last_();
        } catch (...) {
            error_ = std::current_exception();
            outcome_ = c10d::WorkResult::UNKNOWN;
        }
    }
    last_ = nullptr;
    if (error_ == nullptr)
        outcome_ = c10d::WorkResult::SUCCESS;
}

void Work::settle()
{
    if (settled_.load(std::memory_order_acquire))
        return;
    std::unique_lock<std::mutex> lock(mu_);
    if (settled_.load(std::memory_order_relaxed))
        return;
    set_outcome();
    end_ = Clock::now();
    if (recordFunctionEndCallback_ != nullptr) {
        recordFunctionEndCallback_();
        recordFunctionEndCallback_ = nullptr;
    }
    settled_.store(true, std::memory_order_release);
    lock.unlock(); // a hook may want the interpreter's lock, whose holder may want this one
    if (error_ == nullptr && info_.listeners->any())
        tell_listeners();
}

void Work::tell_listeners()
{
    try {
        info_.listeners->tell({ key_, getDuration() });
    } catch (const std::exception &e) {
        TORCH_WARN("tutti: a completion hook failed: ", e.what());
    }
}

static void set_future(Future &f, const std::exception_ptr &error, c10::IValue value)
{
    if (error != nullptr)
        f.setErrorIfNeeded(error);
    else
        f.markCompleted(std::move(value));
}

void Work::complete_later()
{
    std::unique_lock<std::mutex> lock(mu_);
    if (completing_ || (future_ == nullptr && result_ == nullptr))
        return;
    completing_ = true;
    lock.unlock();
    auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    run_later([self] { self->complete(); });
}

void Work::complete()
{
    std::unique_lock<std::mutex> lock(mu_);
    auto future = future_, result = result_;
    lock.unlock();
    if (future != nullptr)
        set_future(*future, error_, value());
    if (result != nullptr)
        set_future(*result, nullptr, c10::IValue((int64_t)outcome_));
}

// ---- asking -----------------------------------------------------------------------------------

bool Work::isCompleted()
{
    if (settled_.load(std::memory_order_acquire))
        return true;
    if (!parts_done())
        return false;
    settle();
    return true;
}

std::exception_ptr Work::exception() const
{
    return const_cast<Work *>(this)->isCompleted() ? error_ : nullptr;
}

bool Work::isSuccess() const
{
    return exception() == nullptr;
}

int Work::sourceRank() const
{
    return const_cast<Work *>(this)->isCompleted() ? source_ : -1;
}

std::vector<at::Tensor> Work::result()
{
    return info_.outputs;
}

float Work::getDuration() const
{
    TORCH_CHECK(settled_.load(std::memory_order_acquire), "tutti: the operation is not done yet");
    return std::chrono::duration<float, std::milli>(end_ - begin_).count();
}

// Who has waited finds the futures done, too. Not their callbacks, though: these may be what waits here.
void Work::finish_futures()
{
    std::unique_lock<std::mutex> lock(mu_);
    auto future = future_, result = result_;
    lock.unlock();
    if (future == nullptr && result == nullptr)
        return;
    complete_later();
    if (future != nullptr)
        future->wait();
    if (result != nullptr)
        result->wait();
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    if (!settled_.load(std::memory_order_acquire)) {
        timeout = std::min<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(INT_MAX));
        auto until = Clock::now() + timeout;

        for (tt_work *w : works_) {
            auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
            int ms = timeout.count() > 0 ? std::max(milliseconds(left), 1) : 0;
            tt_status st = tt_work_wait(w, ms);

            if (st != TT_OK && !tt_work_done(w))
                raise(st, tt_last_error(), timeout);
        }
        settle();
    }
    if (c10d::allow_inflight_collective_as_graph_input())
        c10d::unregister_work(c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this));
    finish_futures();
    if (error_ != nullptr)
        std::rethrow_exception(error_);
    return true;
}

// ---- futures ----------------------------------------------------------------------------------

c10::IValue Work::value() const
{
    return info_.lists.empty() ? c10::IValue(info_.outputs) : c10::IValue(info_.lists);
}

c10::intrusive_ptr<Future> Work::getFuture()
{
    c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
    auto f = c10::make_intrusive<Future>(info_.lists.empty() ? type : c10::ListType::create(type));
    std::unique_lock<std::mutex> lock(mu_);

    if (settled_.load(std::memory_order_relaxed)) {
        lock.unlock();
        set_future(*f, error_, value());
        return f;
    }
    if (future_ == nullptr) {
        future_ = f;
        watch();
    }
    return future_;
}

c10::intrusive_ptr<Future> Work::getFutureResult()
{
    auto f = c10::make_intrusive<Future>(c10::IntType::get());
    std::unique_lock<std::mutex> lock(mu_);

    if (settled_.load(std::memory_order_relaxed)) {
        lock.unlock();
        set_future(*f, nullptr, c10::IValue((int64_t)outcome_));
        return f;
    }
    if (result_ == nullptr) {
        result_ = f;
        watch();
    }
    return result_;
}

} // namespace tutti_torch
