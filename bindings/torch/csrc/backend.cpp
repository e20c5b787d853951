// SPDX-License-Identifier: Apache-2.0
// The life of a group; the operations are in collectives.cpp.
#include "backend.hpp"

#include <Python.h>
#include <unistd.h>

#include <numeric>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "store.hpp"

namespace tutti_torch
{

namespace
{

// Gives up the interpreter's lock while it lives, if this thread has it.
class NoGil
{
  public:
    NoGil() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr)
    {
    }
    ~NoGil()
    {
        if (state_ != nullptr)
            PyEval_RestoreThread(state_);
    }

  private:
    PyThreadState *state_;
};

constexpr int N_TITLES = 32;
constexpr int SHRINK_ABORT = 1; // of torch.distributed, which has no header for it

const char *word(c10d::OpType type)
{
    using c10d::OpType;
    switch (type) {
    case OpType::BROADCAST:
        return "broadcast";
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
        return "all_reduce";
    case OpType::_ALLREDUCE_SPARSE:
        return "sparse_all_reduce";
    case OpType::REDUCE:
        return "reduce";
    case OpType::ALLGATHER:
    case OpType::ALLGATHER_COALESCED:
        return "all_gather";
    case OpType::_ALLGATHER_BASE:
    case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
        return "_all_gather_base";
    case OpType::GATHER:
        return "gather";
    case OpType::SCATTER:
        return "scatter";
    case OpType::REDUCE_SCATTER:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
        return "reduce_scatter";
    case OpType::_REDUCE_SCATTER_BASE:
        return "_reduce_scatter_base";
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
        return "all_to_all";
    case OpType::SEND:
        return "send";
    case OpType::RECV:
        return "recv";
    case OpType::RECVANYSOURCE:
        return "recvAnySource";
    case OpType::BARRIER:
        return "barrier";
    case OpType::COALESCED:
        return "coalesced";
    default:
        return "operation";
    }
}

// The profiler's titles for a backend of this name; never freed, works outlive backends.
const std::string *titles_for(const std::string &name)
{
    static std::mutex mu;
    static auto *known = new std::map<std::string, std::array<std::string, N_TITLES>>;
    std::lock_guard<std::mutex> lock(mu);
    auto [at, fresh] = known->try_emplace(name);

    for (int i = 0; fresh && i < N_TITLES; i++)
        at->second[i] = name + ":" + word((c10d::OpType)i);
    return at->second.data();
}

tt_pg *open_group(const StorePtr &store, int rank, int size, const GroupOptions &o)
{
    std::vector<int> globals(o.global_ranks_in_group.begin(), o.global_ranks_in_group.end());
    tt_pg_options opt{};
    tt_store *s = adapt_store(store);

    opt.timeout_ms = std::max(milliseconds(o.timeout), 1);
    opt.name = o.group_name.empty() ? nullptr : o.group_name.c_str();
    opt.desc = o.group_desc.empty() ? nullptr : o.group_desc.c_str();
    opt.staging_bytes = (size_t)o.staging_bytes;
    opt.no_cma = o.no_cma;
    opt.global_ranks = (int)globals.size() == size ? globals.data() : nullptr;
    tt_store_set_timeout(s, opt.timeout_ms);
    tt_pg *pg = tt_pg_new_store(s, rank, size, &opt);
    tt_store_free(s);
    if (pg == nullptr)
        check(tt_last_status());
    return pg;
}

} // namespace

// ---- life -------------------------------------------------------------------------------------

Backend::Backend(const StorePtr &store, int rank, int size,
                 c10::intrusive_ptr<GroupOptions> options, std::string name)
    : c10d::Backend(rank, size), options_(std::move(options)), name_(std::move(name)),
      titles_(titles_for(name_)), store_(store), pid_(getpid())
{
    NoGil released;
    pg_ = open_group(store, rank, size, *options_);
    init();
}

Backend::~Backend()
{
    NoGil released;
    for (auto &entry : coalescing_)
        for (tt_work *w : entry.second)
            tt_work_free(w);
    tt_pg_free(pg_);
}

tt_pg *Backend::group() const
{
    TORCH_CHECK_WITH(DistBackendError, pg_ != nullptr, "tutti: group ", options_->group_name,
                     " has been shut down");
    return pg_;
}

void Backend::setTimeout(std::chrono::milliseconds timeout)
{
    options_->timeout = timeout;
    check(tt_pg_set_timeout(group(), milliseconds(timeout)));
}

uint64_t Backend::getSequenceNumberForGroup()
{
    return tt_pg_seq(group());
}

c10d::ErrorType Backend::getError()
{
    std::vector<int> ranks((size_t)getSize());

    return pg_ != nullptr && tt_pg_dead_ranks(pg_, ranks.data()) > 0 ? c10d::ErrorType::REMOTE_ERROR
                                                                     : c10d::ErrorType::SUCCESS;
}

void Backend::abort()
{
    if (getpid() != pid_)
        return; // forked: the group is the parent's, and so are the threads that hooks rely on
    std::vector<std::shared_ptr<c10d::AbortHook>> hooks; // called without mu_: they may be Python
    {
        std::lock_guard<std::mutex> lock(mu_);
        for (auto &entry : abort_hooks_)
            hooks.push_back(entry.second);
    }
    for (auto &hook : hooks)
        (*hook)();
    tt_pg_abort(pg_, "PyTorch aborted the process group");
}

// The group itself ends with the backend; until then works may still be asked.
void Backend::shutdown()
{
}

void Backend::registerAbortHook(int64_t id, c10d::AbortHook hook)
{
    auto shared = std::make_shared<c10d::AbortHook>(std::move(hook));
    std::lock_guard<std::mutex> lock(mu_);
    abort_hooks_[id].swap(shared);
}

void Backend::unregisterAbortHook(int64_t id)
{
    std::unique_lock<std::mutex> lock(mu_);
    auto gone = abort_hooks_.extract(id); // destroyed without mu_
    lock.unlock();
}

void Backend::registerCompletionHook(int64_t id, c10d::CompletionHook hook)
{
    listeners_->add(id, std::move(hook));
}

void Backend::unregisterCompletionHook(int64_t id)
{
    listeners_->remove(id);
}

// ---- groups made from this one -------------------------------------------------------------------

std::vector<int64_t> Backend::global_ranks() const
{
    std::vector<int64_t> ranks((size_t)getSize());

    for (int i = 0; i < getSize(); i++)
        ranks[(size_t)i] = tt_pg_global_rank(group(), i);
    return ranks;
}

c10::intrusive_ptr<Backend> Backend::child(const StorePtr &store, int rank,
                                           const std::vector<int64_t> &globals,
                                           const c10::intrusive_ptr<c10d::Backend::Options> &opts)
{
    auto own = c10::make_intrusive<GroupOptions>(*options_);

    if (opts != nullptr) {
        auto *ours = dynamic_cast<GroupOptions *>(opts.get());
        if (ours != nullptr)
            own = c10::make_intrusive<GroupOptions>(*ours);
        own->timeout = opts->timeout;
        own->group_name = opts->group_name;
        own->group_desc = opts->group_desc;
    }
    own->global_ranks_in_group.assign(globals.begin(), globals.end());
    return c10::make_intrusive<Backend>(store, rank, (int)globals.size(), own, name_);
}

// ranks: of this group, in the new group's order; those not in there get none.
c10::intrusive_ptr<c10d::Backend> Backend::split(
    const StorePtr &store, const std::vector<int> &ranks,
    const c10::intrusive_ptr<c10d::Backend::Options> &opts)
{
    auto mine = std::find(ranks.begin(), ranks.end(), getRank());
    std::vector<int64_t> all = global_ranks(), globals;

    if (mine == ranks.end())
        return nullptr;
    for (int r : ranks) {
        TORCH_CHECK_VALUE(r >= 0 && r < getSize(), "tutti: split: rank ", r, " is not among ",
                          getSize());
        globals.push_back(all[(size_t)r]);
    }
    return child(store, (int)(mine - ranks.begin()), globals, opts);
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(
    const StorePtr &store, const c10::intrusive_ptr<c10d::Backend::Options> &opts, const int &rank,
    const int &size)
{
    std::vector<int64_t> globals((size_t)size);

    std::iota(globals.begin(), globals.end(), 0);
    return child(store, rank, globals, opts);
}

c10::intrusive_ptr<c10d::Backend> Backend::shrink(
    const std::vector<int64_t> &ranks_to_exclude, int flags,
    const c10::intrusive_ptr<c10d::Backend::Options> &opts)
{
    std::vector<int64_t> all = global_ranks(), globals;
    int rank = -1;

    for (int i = 0; i < getSize(); i++) {
        if (std::count(ranks_to_exclude.begin(), ranks_to_exclude.end(), i) > 0)
            continue;
        if (i == getRank())
            rank = (int)globals.size();
        globals.push_back(all[(size_t)i]);
    }
    TORCH_CHECK_VALUE(rank >= 0, "tutti: shrink: rank ", getRank(), " is to be excluded itself");
    if ((flags & SHRINK_ABORT) != 0)
        tt_pg_abort(group(),
                    "PyTorch shrinks the process group"); // no failure: hooks are not called
    auto store =
        c10::make_intrusive<c10d::PrefixStore>("shrunk" + std::to_string(++n_shrunk_), store_);
    return child(store, rank, globals, opts);
}

// ---- operations under way ------------------------------------------------------------------------

Info Backend::info(c10d::OpType type, const TensorList &ins, const TensorList &outs,
                   std::chrono::milliseconds timeout)
{
    const char *title = (int)type < N_TITLES ? titles_[(int)type].c_str() : nullptr;

    return { type,
             title,
             getRank(),
             tt_pg_seq(group()) + 1,
             timeout.count() > 0 ? timeout : options_->timeout,
             ins,
             outs,
             listeners_ };
}

bool Backend::is_async(bool async_op)
{
    return async_op || n_coalescing_.load(std::memory_order_relaxed) > 0;
}

WorkPtr Backend::started(const c10::intrusive_ptr<Work> &work, tt_work *w,
                         std::function<void()> last)
{
    if (n_coalescing_.load(std::memory_order_relaxed) > 0) {
        std::lock_guard<std::mutex> lock(mu_);
        auto mine = coalescing_.find(std::this_thread::get_id());

        if (mine != coalescing_.end()) {
            mine->second.push_back(tt_work_retain(w));
            auto outs = work->result();
            auto &all = coalesced_tensors_[std::this_thread::get_id()];
            all.insert(all.end(), outs.begin(), outs.end());
        }
    }
    work->start({ w }, std::move(last));
    return work;
}

void Backend::startCoalescing()
{
    std::lock_guard<std::mutex> lock(mu_);
    auto [at, fresh] = coalescing_.try_emplace(std::this_thread::get_id());

    if (fresh) {
        n_coalescing_++;
        return;
    }
    // PyTorch does not end it when an exception leaves its block: those operations are on their own.
    for (tt_work *w : at->second)
        tt_work_free(w);
    at->second.clear();
    coalesced_tensors_.erase(at->first);
}

WorkPtr Backend::endCoalescing()
{
    std::unique_lock<std::mutex> lock(mu_);
    auto works = coalescing_.extract(std::this_thread::get_id());
    auto tensors = coalesced_tensors_.extract(std::this_thread::get_id());

    TORCH_CHECK(!works.empty(), "tutti: coalescing has not begun on this thread");
    n_coalescing_--;
    lock.unlock();
    TensorList outs = tensors.empty() ? TensorList() : std::move(tensors.mapped());
    auto work = c10::make_intrusive<Work>(info(c10d::OpType::COALESCED, {}, outs, kNoTimeout));
    work->start(std::move(works.mapped()));
    return work;
}

} // namespace tutti_torch
