/* SPDX-License-Identifier: Apache-2.0 */
/* The group of a tt_ddp, and going on with another one. */
#include "base/error.h"
#include "ddp/ddp.h"

tt_pg *tti_ddp_choose_group(tt_pg *pg, const tt_mesh *mesh)
{
    if (mesh != NULL && pg != NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp: expected a group or a mesh, got both");
    if (mesh != NULL && tt_mesh_dims(mesh) != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "ddp: only a mesh of one dimension is supported, this one has %d",
                            tt_mesh_dims(mesh));
    pg = mesh != NULL ? tt_mesh_group(mesh, 0) : pg;
    if (pg == NULL)
        return TT_NULL_GIVEN("ddp", "a group");
    if (!tt_pg_is_member(pg))
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp: this process is no member of group %s",
                            tt_pg_name(pg));
    return pg;
}

/* As if nothing had been reduced yet; what was measured stays. */
static void forget_course(tt_ddp *d)
{
    d->rebuilt = d->may_rebuild = d->learned = d->changed = d->have_used = false;
    d->n_ready = 0;
    d->state = TTI_DDP_IDLE;
}

static void drop_maps(tt_ddp *d)
{
    tt_tensor_free(d->used);
    tt_tensor_free(d->reduced);
    tt_tensor_free(d->early);
    d->used = d->reduced = d->early = NULL;
}

static tt_status begin_anew(tt_ddp *d)
{
    bool maps = d->used != NULL;

    TT_TRY(tti_ddp_verify(d));
    TT_TRY(tti_ddp_agree_overlap(d));
    drop_maps(d);
    if (maps)
        TT_TRY(tti_ddp_make_maps(d));
    TT_TRY(tti_ddp_build(d));
    tti_mfree(d->first_sizes);
    d->first_sizes = NULL;
    return tti_ddp_note_sizes(d);
}

tt_status tt_ddp_set_group(tt_ddp *d, tt_pg *pg)
{
    tt_pg *old;

    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    if (d->join != NULL)
        return tti_ddp_note_error(
            d, TT_FAIL(TT_ERR_INVALID,
                       "ddp: the group cannot change inside of a scope for uneven inputs"));
    pg = tti_ddp_choose_group(pg, NULL);
    if (pg == NULL)
        return tti_ddp_note_error(d, tt_last_status());
    (void)tti_ddp_reset(d); /* whatever became of it in the old group */
    (void)tti_ddp_wait_buffers(d);
    tti_ddp_unhook_outputs(d);
    forget_course(d);
    old = d->pg;
    d->pg = tt_pg_retain(pg);
    tt_pg_free(old);
    return tti_ddp_note_error(d, begin_anew(d));
}
