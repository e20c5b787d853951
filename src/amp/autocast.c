/* SPDX-License-Identifier: Apache-2.0 */
/* The scope of autocast; ops/autocast.c does the casting. */
#include "ops/autocast.h"

#include "tutti/amp.h"

static bool is_kind(tt_device_kind kind)
{
    return (int)kind >= 0 && (int)kind < TTI_N_DEVICE_KINDS;
}

static tt_autocast_guard open_with(tt_device_kind kind, bool on, tt_dtype dtype)
{
    tti_autocast_modes m = tti_autocast_get();
    tt_autocast_guard g;

    for (int k = 0; k < TTI_N_DEVICE_KINDS; k++) {
        g.on[k] = m.on[k];
        g.dtype[k] = m.dtype[k];
    }
    if (!is_kind(kind))
        return g;
    m.on[kind] = on;
    m.dtype[kind] = (uint8_t)dtype;
    tti_autocast_set(&m);
    return g;
}

tt_autocast_guard tt_autocast_open(tt_device_kind kind, tt_dtype dtype)
{
    bool fits = is_kind(kind) && (dtype == TT_F16 || dtype == TT_BF16);

    if (!fits)
        tt_warn("amp", "autocast: expected float16 or bfloat16, got %s: it is off",
                (int)dtype >= 0 && dtype < TT_N_DTYPES ? tt_dtype_name(dtype) : "no type");
    return open_with(kind, fits, dtype);
}

tt_autocast_guard tt_autocast_open_off(tt_device_kind kind)
{
    return open_with(kind, false, TT_F32);
}

void tt_autocast_close(tt_autocast_guard *g)
{
    tti_autocast_modes m;

    for (int k = 0; k < TTI_N_DEVICE_KINDS; k++) {
        m.on[k] = g->on[k];
        m.dtype[k] = g->dtype[k];
    }
    tti_autocast_set(&m);
}

bool tt_autocast_is_on(tt_device_kind kind)
{
    return is_kind(kind) && tti_autocast_get().on[kind];
}

tt_dtype tt_autocast_dtype(tt_device_kind kind)
{
    return tt_autocast_is_on(kind) ? (tt_dtype)tti_autocast_get().dtype[kind] : TT_F32;
}
