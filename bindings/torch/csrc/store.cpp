// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <chrono>
#include <thread>

#include <c10/util/Exception.h>

#include "convert.hpp"

namespace tutti_torch
{

using Bytes = std::vector<uint8_t>;

namespace
{

struct Adapter {
    c10::intrusive_ptr<c10d::Store> store;
};

c10d::Store &of(void *ctx)
{
    return *static_cast<Adapter *>(ctx)->store;
}

Bytes bytes(const void *data, size_t size)
{
    auto *p = static_cast<const uint8_t *>(data);
    return size > 0 ? Bytes(p, p + size) : Bytes();
}

std::vector<std::string> strings(const char *const *keys, int n)
{
    return std::vector<std::string>(keys, keys + n);
}

// PyTorch's stores throw: here it becomes a status. A request that failed after the store's time-out timed out: the
// exceptions have the same types for other failures, and their words change from version to version.
template <class F> tt_status guarded(void *ctx, const char *what, F f)
{
    using std::chrono::steady_clock;
    auto begin = steady_clock::now();
    auto status = [&] {
        return steady_clock::now() - begin >= of(ctx).getTimeout() ? TT_ERR_TIMEOUT : TT_ERR_IO;
    };

    try {
        f();
        return TT_OK;
    } catch (const c10::Error &e) {
        std::string words = e.what_without_backtrace();
        return tt_fail(status(), "PyTorch's store: %s: %s", what, words.c_str());
    } catch (const std::exception &e) {
        return tt_fail(status(), "PyTorch's store: %s: %s", what, e.what());
    } catch (...) {
        return tt_fail(TT_ERR_IO, "PyTorch's store: %s: unknown exception", what);
    }
}

tt_status set(void *ctx, const char *key, const void *data, size_t size)
{
    return guarded(ctx, "set", [&] { of(ctx).set(key, bytes(data, size)); });
}

// PyTorch's TCP store says something on standard error when a wait runs out, and Tutti waits in short turns
// to see who has died meanwhile. So this asks again and again, ever less often.
tt_status wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    using std::chrono::microseconds, std::chrono::steady_clock;
    auto until = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    auto names = strings(keys, n);
    bool present = false;
    auto pause = microseconds(100);

    TT_TRY(guarded(ctx, "check", [&] { present = of(ctx).check(names); }));
    while (!present) {
        if (steady_clock::now() + pause > until)
            return tt_fail(TT_ERR_TIMEOUT, "PyTorch's store: no \"%s\" after %d ms", keys[0],
                           timeout_ms);
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, microseconds(5000));
        TT_TRY(guarded(ctx, "check", [&] { present = of(ctx).check(names); }));
    }
    return TT_OK;
}

tt_status get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    Bytes value;

    TT_TRY(wait(ctx, &key, 1, timeout_ms));
    TT_TRY(guarded(ctx, "get", [&] { value = of(ctx).get(key); }));
    return tt_blob_copy(value.data(), value.size(), blob_p);
}

tt_status add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    return guarded(ctx, "add", [&] { *value_p = of(ctx).add(key, delta); });
}

tt_status check_keys(void *ctx, const char *const *keys, int n, bool *present_p)
{
    return guarded(ctx, "check", [&] { *present_p = of(ctx).check(strings(keys, n)); });
}

tt_status remove_key(void *ctx, const char *key, bool *removed_p)
{
    return guarded(ctx, "delete", [&] { *removed_p = of(ctx).deleteKey(key); });
}

tt_status compare_set(void *ctx, const char *key, const void *expected, size_t expected_size,
                      const void *desired, size_t desired_size, tt_blob *blob_p)
{
    Bytes value;

    TT_TRY(guarded(ctx, "compare_set", [&] {
        value =
            of(ctx).compareSet(key, bytes(expected, expected_size), bytes(desired, desired_size));
    }));
    return tt_blob_copy(value.data(), value.size(), blob_p);
}

tt_status multi_get(void *ctx, const char *const *keys, int n, int timeout_ms, tt_blob *blobs)
{
    std::vector<Bytes> values;

    TT_TRY(wait(ctx, keys, n, timeout_ms));
    TT_TRY(guarded(ctx, "get", [&] {
        if (of(ctx).hasExtendedApi())
            values = of(ctx).multiGet(strings(keys, n));
        else
            for (int i = 0; i < n; i++)
                values.push_back(of(ctx).get(keys[i]));
    }));
    for (int i = 0; i < n; i++) {
        tt_status st = tt_blob_copy(values[i].data(), values[i].size(), &blobs[i]);

        if (st != TT_OK) {
            for (int k = 0; k < i; k++)
                tt_blob_free(&blobs[k]);
            return st;
        }
    }
    return TT_OK;
}

tt_status append(void *ctx, const char *key, const void *data, size_t size)
{
    return guarded(ctx, "append", [&] { of(ctx).append(key, bytes(data, size)); });
}

void free_adapter(void *ctx)
{
    delete static_cast<Adapter *>(ctx);
}

tt_store_ops table()
{
    tt_store_ops ops{};

    ops.abi = TT_STORE_ABI;
    ops.name = "pytorch";
    ops.set = set;
    ops.get = get;
    ops.add = add;
    ops.wait = wait;
    ops.check = check_keys;
    ops.compare_set = compare_set;
    ops.append = append;
    ops.remove = remove_key;
    ops.multi_get = multi_get;
    ops.free = free_adapter;
    return ops;
}

} // namespace

tt_store *adapt_store(const c10::intrusive_ptr<c10d::Store> &store)
{
    static const tt_store_ops ops = table();
    // Not a clone(): a new connection to PyTorch's TCP store now and then waits 5 s for its first answer, and
    // nothing here keeps the shared one busy, see wait().
    auto *adapter = new Adapter{ store };
    tt_store *s = tt_store_user_new(&ops, adapter); // takes the adapter over, also when it fails

    if (s == nullptr)
        check(tt_last_status());
    return s;
}

} // namespace tutti_torch
