// SPDX-License-Identifier: Apache-2.0
// The life of a group; the operations are in collectives.cpp.
#include "backend.hpp"

#include <Python.h>
#include <unistd.h>

#include <numeric>
#include <random>
#include <set>

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

std::string random_word()
{
    std::random_device source;
    return c10::str(std::hex, source(), source());
}

// The handles in the order of the new ranks: as given, or sorted if they are a set.
std::vector<c10d::ReconfigureHandle> in_order(const c10d::ReconfigureOptions &opts)
{
    auto copy = [](const auto &given) {
        return std::vector<c10d::ReconfigureHandle>(given.begin(), given.end());
    };
    auto handles = std::visit(copy, opts.handles);

    if (std::holds_alternative<std::unordered_set<c10d::ReconfigureHandle>>(opts.handles))
        std::sort(handles.begin(), handles.end());
    TORCH_CHECK(!handles.empty(), "tutti: reconfigure: requires at least one handle");
    std::set<c10d::ReconfigureHandle> once(handles.begin(), handles.end());
    TORCH_CHECK(once.size() == handles.size(), "tutti: reconfigure: handles must be unique");
    return handles;
}

constexpr const char *HANDLE_START = "tutti:";

// Handles are "tutti:GLOBAL RANK:INSTANCE:ID OF THE LAST RECONFIGURATION".
uint64_t global_rank_of(const c10d::ReconfigureHandle &handle)
{
    size_t at = strlen(HANDLE_START);
    char *end = nullptr;
    uint64_t rank =
        handle.rfind(HANDLE_START, 0) == 0 ? strtoull(handle.c_str() + at, &end, 10) : 0;

    TORCH_CHECK(end != nullptr && end != handle.c_str() + at && *end == ':',
                "tutti: reconfigure: expected handles of get_reconfigure_handle(), got \"", handle,
                "\"");
    return rank;
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
      titles_(titles_for(name_)), store_(store), instance_(random_word()), pid_(getpid())
{
    NoGil released;
    if (!options_->enable_reconfigure)
        pg_ = open_group(store, rank, size, *options_);
    init();
}

Backend::~Backend()
{
    NoGil released;
    for (auto &entry : coalescing_)
        for (tt_work *w : entry.second.works)
            tt_work_free(w);
    tt_pg_free(pg_);
}

tt_pg *Backend::group() const
{
    TORCH_CHECK_WITH(DistBackendError, pg_ != nullptr, "tutti: group ", options_->group_name,
                     " is not initialized: call reconfigure() first");
    return pg_;
}

void Backend::setTimeout(std::chrono::milliseconds timeout)
{
    options_->timeout = timeout;
    if (pg_ != nullptr)
        check(tt_pg_set_timeout(pg_, milliseconds(timeout)));
}

uint64_t Backend::getSequenceNumberForGroup()
{
    return pg_ != nullptr ? tt_pg_seq(pg_) : 0;
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
    if (pg_ != nullptr)
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
        TORCH_CHECK(r >= 0 && r < getSize(), "tutti: split: rank ", r, " is not among ", getSize());
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
    TORCH_CHECK(rank >= 0, "tutti: shrink: rank ", getRank(), " is to be excluded itself");
    if ((flags & SHRINK_ABORT) != 0)
        tt_pg_abort(group(),
                    "PyTorch shrinks the process group"); // no failure: hooks are not called
    auto store =
        c10::make_intrusive<c10d::PrefixStore>("shrunk" + std::to_string(++n_shrunk_), store_);
    return child(store, rank, globals, opts);
}

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const
{
    const auto &globals = options_->global_ranks_in_group;
    auto rank = (size_t)getRank();

    return c10::str(HANDLE_START, rank < globals.size() ? globals[rank] : rank, ":", instance_, ":",
                    ids_used_.empty() ? -1 : ids_used_.back());
}

// Operations of the old group end with an error; the new one meets under the id, which all members have.
WorkPtr Backend::reconfigure(const c10d::ReconfigureOptions &opts)
{
    auto handles = in_order(opts);
    auto mine = std::find(handles.begin(), handles.end(), get_reconfigure_handle());
    std::vector<uint64_t> globals;

    for (const auto &handle : handles)
        globals.push_back(global_rank_of(handle));
    TORCH_CHECK(mine != handles.end(),
                "tutti: reconfigure: the handle of this rank is not part of the new group");
    TORCH_CHECK(std::count(ids_used_.begin(), ids_used_.end(), opts.uuid) == 0,
                "tutti: reconfigure: expected a uuid that was not used before, got ", opts.uuid);
    NoGil released;
    if (pg_ != nullptr)
        tt_pg_abort(pg_, "PyTorch reconfigures the process group");
    tt_pg_free(pg_);
    pg_ = nullptr;
    ids_used_.push_back(opts.uuid);
    rank_ = (int)(mine - handles.begin());
    size_ = (int)handles.size();
    options_->global_ranks_in_group = globals;
    auto store =
        c10::make_intrusive<c10d::PrefixStore>("reconfigured" + std::to_string(opts.uuid), store_);
    auto limited = c10::make_intrusive<GroupOptions>(*options_);
    limited->timeout = opts.timeout.value_or(options_->timeout);
    pg_ = open_group(store, rank_, size_, *limited);
    setTimeout(options_->timeout);
    auto work = c10::make_intrusive<Work>(info(c10d::OpType::UNKNOWN, {}, {}, kNoTimeout));
    work->done();
    return work;
}

// ---- operations under way ------------------------------------------------------------------------

Info Backend::info(c10d::OpType type, const TensorList &ins, const TensorList &outs,
                   std::chrono::milliseconds timeout)
{
    const char *title = (int)type < N_TITLES ? titles_[(int)type].c_str() : nullptr;

    return { type,
             title,
             getRank(),
             tt_pg_seq(group()) + 1, /* throws before the first reconfiguration */
             timeout.count() > 0 ? timeout : options_->timeout,
             ins,
             outs,
             listeners_ };
}

bool Backend::is_async(bool async_op)
{
    return async_op || n_coalescing_.load(std::memory_order_relaxed) > 0;
}

// The same function, which does something when it is first called only.
static std::function<void()> once(std::function<void()> f)
{
    struct State {
        std::mutex mu;
        std::function<void()> f;
    };
    auto state = std::make_shared<State>();

    state->f = std::move(f);
    return [state] {
        std::lock_guard<std::mutex> lock(state->mu);
        if (state->f != nullptr)
            std::exchange(state->f, nullptr)();
    };
}

WorkPtr Backend::started(const c10::intrusive_ptr<Work> &work, tt_work *w,
                         std::function<void()> last)
{
    if (n_coalescing_.load(std::memory_order_relaxed) > 0) {
        std::lock_guard<std::mutex> lock(mu_);
        auto mine = coalescing_.find(std::this_thread::get_id());

        if (mine != coalescing_.end()) {
            mine->second.works.push_back(tt_work_retain(w));
            auto outs = work->result();
            mine->second.outputs.insert(mine->second.outputs.end(), outs.begin(), outs.end());
            if (last != nullptr) {
                last =
                    once(std::move(last)); // this work is waited for, or the coalesced one, or both
                mine->second.lasts.push_back(last);
            }
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
    for (tt_work *w : at->second.works)
        tt_work_free(w);
    at->second = Coalesced();
}

WorkPtr Backend::endCoalescing()
{
    std::unique_lock<std::mutex> lock(mu_);
    auto found = coalescing_.extract(std::this_thread::get_id());

    TORCH_CHECK(!found.empty(), "tutti: coalescing has not begun on this thread");
    n_coalescing_--;
    lock.unlock();
    Coalesced &all = found.mapped();
    auto work =
        c10::make_intrusive<Work>(info(c10d::OpType::COALESCED, {}, all.outputs, kNoTimeout));
    std::function<void()> last;
    if (!all.lasts.empty())
        last = [lasts = std::move(all.lasts)] {
            for (auto &f : lasts)
                f();
        };
    work->start(std::move(all.works), std::move(last));
    return work;
}

} // namespace tutti_torch
