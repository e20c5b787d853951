/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for what PyTorch wants to happen when an operation is done: completing futures, whose callbacks
 * may be Python and may wait for other operations. They must not run on the thread that moves data. */
#pragma once

#include <functional>

namespace tutti_torch
{

/* Runs `f` on a thread of its own soon, even if all tasks before it wait for ever: idle threads are
 * used again, else there is a new one. Never waits. Falls back on the calling thread when no thread
 * can be started. */
void run_later(std::function<void()> f);

} /* namespace tutti_torch */
