/* SPDX-License-Identifier: Apache-2.0 */
/* Which CPUs ranks get: equal shares of those this process may use, neighbours together, as hwloc sees
 * them. Only when there is a CPU for everyone. */
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <limits.h>

#include "launch/job.h"

/* CPUs and their cores, nothing else: looking for caches and devices takes milliseconds. */
static bool load(hwloc_topology_t *topology_p)
{
    if (hwloc_topology_init(topology_p) != 0)
        return false;
    hwloc_topology_set_all_types_filter(*topology_p, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(*topology_p, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(*topology_p, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_flags(*topology_p, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
    if (hwloc_topology_load(*topology_p) == 0)
        return true;
    hwloc_topology_destroy(*topology_p);
    return false;
}

static tt_status share(hwloc_topology_t topology, int n, tti_cpu_plan *plan)
{
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    hwloc_bitmap_t *sets = tti_calloc((size_t)n, sizeof *sets);
    cpu_set_t *cpus = tti_calloc((size_t)n, sizeof *cpus);
    bool ok;

    if (sets == NULL || cpus == NULL) {
        tti_mfree(sets);
        tti_mfree(cpus);
        return TT_ERR_NOMEM;
    }
    ok = hwloc_distrib(topology, &root, 1, sets, (unsigned)n, INT_MAX, 0) == 0;
    for (int i = 0; ok && i < n; i++) {
        ok = hwloc_cpuset_to_glibc_sched_affinity(topology, sets[i], &cpus[i], sizeof cpus[i]) ==
                 0 &&
             CPU_COUNT(&cpus[i]) > 0;
        hwloc_bitmap_free(sets[i]);
    }
    tti_mfree(sets);
    if (ok)
        plan->sets = cpus;
    else
        tti_mfree(cpus);
    return TT_OK;
}

tt_status tti_cpu_plan_make(int n_ranks, bool no_bind, tti_cpu_plan *plan_p)
{
    tti_cpu_plan plan = { .n_cpus = 1, .threads = 1 };
    hwloc_topology_t topology;
    tt_status st = TT_OK;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        plan.n_cpus = CPU_COUNT(&set);
    if (n_ranks <= plan.n_cpus && load(&topology)) {
        int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);

        plan.threads = cores / n_ranks;
        if (!no_bind && n_ranks > 1)
            st = share(topology, n_ranks, &plan);
        hwloc_topology_destroy(topology);
    }
    if (plan.threads < 1)
        plan.threads = 1;
    if (st == TT_OK)
        *plan_p = plan;
    return st;
}

void tti_cpu_plan_fini(tti_cpu_plan *plan)
{
    tti_mfree(plan->sets);
    *plan = (tti_cpu_plan){ 0 };
}
