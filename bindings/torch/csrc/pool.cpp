// SPDX-License-Identifier: Apache-2.0
#include "pool.hpp"

#include <cxxabi.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include <pthread.h>

#include <c10/util/Exception.h>

namespace tutti_torch
{

namespace
{

constexpr auto IDLE_TIME = std::chrono::seconds(5);

struct Pool {
    std::mutex mu;
    std::condition_variable cv;
    std::deque<std::function<void()>> tasks; // mu
    size_t n_idle = 0;                       // mu
};

// Never destroyed: threads may still use it while the process ends. A forked child starts afresh.
Pool *the_pool = new Pool;

[[maybe_unused]] const int at_fork = pthread_atfork(nullptr, nullptr, [] { the_pool = new Pool; });

// Nothing thrown may end the process, except what ends the thread when the interpreter is gone.
void guarded(const std::function<void()> &f)
{
    try {
        f();
    } catch (const abi::__forced_unwind &) {
        throw;
    } catch (const std::exception &e) {
        TORCH_WARN("tutti: a callback failed: ", e.what());
    } catch (...) {
        TORCH_WARN("tutti: a callback failed");
    }
}

void serve(Pool *pool)
{
    std::unique_lock<std::mutex> lock(pool->mu);

    for (;;) {
        while (!pool->tasks.empty()) {
            auto f = std::move(pool->tasks.front());
            pool->tasks.pop_front();
            lock.unlock();
            guarded(f);
            f = nullptr;
            lock.lock();
        }
        pool->n_idle++;
        bool woken = pool->cv.wait_for(lock, IDLE_TIME, [&] { return !pool->tasks.empty(); });
        pool->n_idle--;
        if (!woken)
            return;
    }
}

} // namespace

void run_later(std::function<void()> f)
{
    Pool *pool = the_pool;
    bool enough;

    {
        std::lock_guard<std::mutex> lock(pool->mu);
        pool->tasks.push_back(std::move(f));
        enough = pool->n_idle >= pool->tasks.size();
    }
    if (enough) {
        pool->cv.notify_one();
        return;
    }
    try {
        std::thread(serve, pool).detach();
    } catch (const std::system_error &) {
        std::function<void()> task;
        {
            std::lock_guard<std::mutex> lock(pool->mu);
            if (pool->tasks.empty())
                return; // a busy thread was faster
            task = std::move(pool->tasks.back());
            pool->tasks.pop_back();
        }
        guarded(task);
    }
}

} // namespace tutti_torch
