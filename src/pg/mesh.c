/* SPDX-License-Identifier: Apache-2.0 */
/* Meshes: the ranks of a group as a line or a grid, with a group along each dimension. */
#include <string.h>

#include "base/error.h"
#include "base/refcount.h"
#include "pg/pg.h"

enum { MAX_MESH_DIMS = 2 };

struct tt_mesh {
    atomic_int refs;
    int n_dims;
    int dims[MAX_MESH_DIMS];
    int coords[MAX_MESH_DIMS];
    char *names[MAX_MESH_DIMS]; /* NULL: none */
    tt_pg *groups[MAX_MESH_DIMS];
};

static tt_status check(const tt_pg *pg, const int *dims, int n_dims)
{
    if (pg == NULL)
        return tti_null_given("mesh", "a group");
    if (pg->rank < 0 || dims == NULL)
        return TT_FAIL(TT_ERR_INVALID, "mesh: expected a group that this process is in, and sizes");
    if (n_dims < 1 || n_dims > MAX_MESH_DIMS)
        return TT_FAIL(TT_ERR_INVALID, "mesh: expected 1 or 2 dimensions, got %d", n_dims);
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++) {
        if (dims[d] < 1)
            return TT_FAIL(TT_ERR_INVALID, "mesh: dimension %d has size %d", d, dims[d]);
        n *= dims[d];
    }
    if (n != pg->size)
        return TT_FAIL(TT_ERR_INVALID, "mesh: the sizes multiply to %lld, the group has %d ranks",
                       (long long)n, pg->size);
    return TT_OK;
}

/* The group of the ranks that differ from this one in dimension d only. */
static tt_pg *line(const tt_mesh *m, tt_pg *pg, int d)
{
    int stride = d == m->n_dims - 1 ? 1 : m->dims[m->n_dims - 1];
    int first = pg->rank - m->coords[d] * stride;
    int *ranks = tti_malloc((size_t)m->dims[d] * sizeof *ranks);
    if (ranks == NULL)
        return NULL;
    for (int i = 0; i < m->dims[d]; i++)
        ranks[i] = first + i * stride;
    tt_pg *group = tt_pg_subgroup(pg, ranks, m->dims[d], &(tt_pg_options){ .desc = m->names[d] });
    tti_mfree(ranks);
    return group;
}

tt_mesh *tt_mesh_new(tt_pg *pg, const int *dims, int n_dims, const char *const *names)
{
    if (check(pg, dims, n_dims) != TT_OK)
        return NULL;
    tt_mesh *m = tti_calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    atomic_init(&m->refs, 1);
    m->n_dims = n_dims;
    bool ok = true;
    for (int d = 0; d < n_dims && ok; d++) {
        m->dims[d] = dims[d];
        if (names != NULL && names[d] != NULL)
            ok = (m->names[d] = tti_strdup(names[d])) != NULL;
    }
    m->coords[n_dims - 1] = pg->rank % dims[n_dims - 1];
    if (n_dims == 2)
        m->coords[0] = pg->rank / dims[1];
    for (int d = 0; d < n_dims && ok; d++)
        ok = (m->groups[d] = line(m, pg, d)) != NULL;
    if (ok)
        return m;
    tti_error_copy cause;
    tti_error_save(&cause);
    tt_mesh_free(m);
    tti_error_restore(&cause);
    return NULL;
}

static bool has_dim(const tt_mesh *m, int dim)
{
    if (m == NULL)
        return tti_null_given("mesh", "a mesh") == TT_OK;
    if (dim >= 0 && dim < m->n_dims)
        return true;
    TT_FAIL(TT_ERR_INVALID, "mesh: there is no dimension %d", dim);
    return false;
}

int tt_mesh_dims(const tt_mesh *m)
{
    return m != NULL ? m->n_dims : 0;
}

int tt_mesh_size(const tt_mesh *m, int dim)
{
    return has_dim(m, dim) ? m->dims[dim] : -1;
}

int tt_mesh_coord(const tt_mesh *m, int dim)
{
    return has_dim(m, dim) ? m->coords[dim] : -1;
}

int tt_mesh_dim(const tt_mesh *m, const char *name)
{
    for (int d = 0; m != NULL && name != NULL && d < m->n_dims; d++)
        if (m->names[d] != NULL && strcmp(m->names[d], name) == 0)
            return d;
    TT_FAIL(TT_ERR_NOT_FOUND, "mesh: no dimension is called \"%s\"", name != NULL ? name : "");
    return -1;
}

tt_pg *tt_mesh_group(const tt_mesh *m, int dim)
{
    return has_dim(m, dim) ? m->groups[dim] : NULL;
}

tt_mesh *tt_mesh_retain(tt_mesh *m)
{
    if (m != NULL)
        tti_ref(&m->refs);
    return m;
}

void tt_mesh_free(tt_mesh *m)
{
    if (m == NULL || !tti_unref(&m->refs))
        return;
    for (int d = 0; d < m->n_dims; d++) {
        tt_pg_free(m->groups[d]);
        tti_mfree(m->names[d]);
    }
    tti_mfree(m);
}
