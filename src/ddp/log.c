/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a training: how it is set up, what it cost, what went wrong. */
#include <string.h>

#include "base/error.h"
#include "base/env.h"
#include "ddp/ddp.h"
#include "tutti/syncbn.h"

tt_status tti_ddp_note_error(tt_ddp *d, tt_status st)
{
    tti_error_copy error;

    if (st == TT_OK)
        return TT_OK;
    tti_error_save(&error);
    tti_mfree(d->error);
    d->error = tti_strdup(error.text);
    tti_error_restore(&error);
    return st;
}

/* The times of the iteration before, when it is its turn. */
void tti_ddp_note_times(tt_ddp *d)
{
    tti_ddp_times *t = &d->times;
    int64_t overlap = t->backward_end - t->comm_start;

    if (d->iteration == 0 || t->iteration == d->iteration ||
        (d->iteration >= 10 && d->iteration % d->sample_rate != 0))
        return;
    t->iteration = d->iteration;
    t->forward = t->backward_start - t->forward_start;
    t->backward = t->backward_end - t->backward_start;
    t->comm = t->comm_end - t->comm_start;
    t->overlap = overlap > 0 ? overlap : 0;
    t->n++;
    t->sum_forward += (double)t->forward;
    t->sum_backward += (double)t->backward;
    t->sum_comm += (double)t->comm;
    t->sum_overlap += (double)t->overlap;
}

/* ---- the record ------------------------------------------------------------------------------ */

/* A map being filled; the first failure is kept. */
typedef struct record {
    tt_value *map;
    tt_status st;
} record;

static void add(record *r, const char *name, tt_value *v)
{
    if (r->st == TT_OK)
        r->st = tt_value_map_give(r->map, name, v);
    else
        tt_value_free(v);
}

static void add_int(record *r, const char *name, int64_t i)
{
    add(r, name, tt_value_int_new(i));
}

static void add_words(record *r, const char *name, const char *words)
{
    add(r, name, tt_value_text_new(words != NULL ? words : "N/A"));
}

static void add_text(record *r, const char *name, tti_text *t)
{
    if (r->st == TT_OK)
        r->st = t->status;
    add(r, name, tt_value_text_new(tti_text_str(t)));
    tti_text_fini(t);
}

static const char *short_name(uint8_t dtype)
{
    return dtype == TT_F32 ? "float" : dtype == TT_F64 ? "double" : tt_dtype_name((tt_dtype)dtype);
}

/* The types of parameters, in the order of the alphabet. */
static void add_dtypes(record *r, const tt_ddp *d)
{
    tti_text t = { 0 };
    const char *last = "", *next;

    do {
        next = NULL;
        for (int i = 0; i < d->n_params; i++) {
            const char *name = short_name(d->params[i].t->dtype);

            if (strcmp(name, last) > 0 && (next == NULL || strcmp(name, next) < 0))
                next = name;
        }
        if (next != NULL)
            tti_text_addf(&t, "%s%s", t.n > 0 ? ", " : "", next);
        last = next;
    } while (next != NULL);
    add_text(r, "dtypes", &t);
}

static void write_sizes(const tt_ddp *d, tti_text *t)
{
    for (int b = 0; b < d->n_buckets; b++)
        tti_text_addf(t, "%s%zu", b > 0 ? ", " : "", d->buckets[b].bytes);
}

tt_status tti_ddp_note_sizes(tt_ddp *d)
{
    tti_text t = { 0 };

    write_sizes(d, &t);
    d->first_sizes = tti_text_take(&t);
    return d->first_sizes != NULL ? TT_OK : TT_ERR_NOMEM;
}

static void add_orders(record *r, const tt_ddp *d)
{
    tti_text order = { 0 }, places = { 0 }, sizes = { 0 };

    for (int i = 0; i < d->n_ready; i++)
        tti_text_addf(&order, "%s%d", i > 0 ? ", " : "", d->order[i]);
    add_text(r, "prev_iteration_grad_ready_order_indices", &order);
    if (!d->rebuilt)
        return;
    for (int b = 0; b < d->n_buckets; b++)
        for (int i = 0; i < d->buckets[b].n_params; i++)
            tti_text_addf(&places, "%s%d",
                          i > 0   ? " "
                          : b > 0 ? ", "
                                  : "",
                          d->buckets[b].params[i]);
    write_sizes(d, &sizes);
    add_text(r, "rebuilt_bucket_sizes", &sizes);
    add_text(r, "rebuilt_per_bucket_param_indices", &places);
}

static void add_device(record *r, const tt_ddp *d)
{
    bool one = d->device.kind != TT_DEVICE_CPU;
    char id[16] = "";

    if (one)
        snprintf(id, sizeof id, "%d", d->device.index);
    add_words(r, "device_ids", id);
    add_int(r, "output_device", one ? d->device.index : -1);
}

static void add_set_up(record *r, const tt_ddp *d)
{
    static const char *const levels[] = { "OFF", "OFF", "INFO", "DETAIL" };
    int64_t bytes = 0;

    for (int i = 0; i < d->n_params; i++)
        bytes += d->params[i].t->numel * (int64_t)tti_esize(d->params[i].t);
    add_int(r, "world_size", tt_pg_size(d->pg));
    add_int(r, "rank", tt_pg_rank(d->pg));
    add_words(r, "module_name", tt_module_class_of(d->module)->name);
    add_int(r, "has_sync_bn", tt_module_has_sync_batch_norm(d->module));
    add_device(r, d);
    add_int(r, "broadcast_buffers", d->buffer_sync);
    add_words(r, "overlap", tti_overlap_name(d->overlap));
    add_int(r, "bucket_cap_bytes", (int64_t)d->caps.cap);
    add_int(r, "find_unused_parameters", d->find_unused);
    add_int(r, "static_graph", d->static_graph);
    add_int(r, "join_uneven_inputs", d->has_joined);
    add_int(r, "gradient_as_bucket_view", d->views);
    add_words(r, "backend_name", tt_pg_backend(d->pg));
    add_dtypes(r, d);
    add_int(r, "total_parameter_size_bytes", bytes);
    add_int(r, "num_parameter_tensors", d->n_params);
    add_words(r, "master_addr", tti_foreign_get(TTI_FOREIGN_MASTER_ADDR));
    add_words(r, "master_port", tti_foreign_get(TTI_FOREIGN_MASTER_PORT));
    if (d->hook != NULL)
        add_words(r, "comm_hook", d->hook->name);
    add_words(r, "torch_distributed_debug", levels[tt_get_debug_level()]);
    add_words(r, "cuda_visible_devices", tti_foreign_get(TTI_FOREIGN_CUDA_VISIBLE_DEVICES));
    add_words(r, "gloo_socket_ifname", tti_foreign_get(TTI_FOREIGN_GLOO_SOCKET_IFNAME));
    add_words(r, "gloo_device_transport", tti_foreign_get(TTI_FOREIGN_GLOO_DEVICE_TRANSPORT));
    add_int(r, "gloo_num_threads", 2); /* the caller's and that of the group */
}

static void add_course(record *r, const tt_ddp *d)
{
    int64_t unused = 0;

    for (int i = 0; d->have_used && i < d->n_params; i++)
        if (tt_ddp_n_users(d, i) == 0)
            unused += d->params[i].t->numel * (int64_t)tti_esize(d->params[i].t);
    add_int(r, "iteration", d->times.iteration);
    add_words(r, "bucket_sizes", d->first_sizes);
    add_int(r, "has_rebuilt_buckets", d->rebuilt);
    add_orders(r, d);
    add_int(r, "unused_parameter_size", unused);
    add_int(r, "num_buckets_reduced", d->n_buckets_reduced);
    add_int(r, "has_error", d->error != NULL);
    add_words(r, "error", d->error != NULL ? d->error : "");
}

static void add_times(record *r, const tt_ddp *d)
{
    const tti_ddp_times *t = &d->times;
    double n = t->n > 0 ? (double)t->n : 1;

    add_int(r, "forward_compute_time", t->forward);
    add_int(r, "backward_compute_time", t->backward);
    add_int(r, "backward_comm_time", t->comm);
    add_int(r, "backward_compute_comm_overlap_time", t->overlap);
    add_int(r, "avg_forward_compute_time", (int64_t)(t->sum_forward / n));
    add_int(r, "avg_backward_compute_time", (int64_t)(t->sum_backward / n));
    add_int(r, "avg_backward_comm_time", (int64_t)(t->sum_comm / n));
    add_int(r, "avg_backward_compute_comm_overlap_time", (int64_t)(t->sum_overlap / n));
    add_int(r, "forward_compute_time_start", t->forward_start);
    add_int(r, "backward_compute_time_start", t->backward_start);
    add_int(r, "backward_compute_time_end", t->backward_end);
    add_int(r, "backward_comm_time_start", t->comm_start);
    add_int(r, "backward_comm_time_end", t->comm_end);
}

tt_value *tt_ddp_log_value(const tt_ddp *d)
{
    record r = { .st = TT_OK };

    if (d == NULL)
        return TT_NULL_GIVEN("ddp log", "a tt_ddp");
    r.map = tt_value_map_new();
    if (r.map == NULL)
        return NULL;
    add_set_up(&r, d);
    add_course(&r, d);
    add_times(&r, d);
    if (r.st == TT_OK)
        return r.map;
    tt_value_free(r.map);
    return NULL;
}

char *tt_ddp_log(const tt_ddp *d)
{
    tt_value *v = tt_ddp_log_value(d);
    tti_text text = { 0 };

    if (v == NULL)
        return NULL;
    for (size_t i = 0; i < tt_value_count(v); i++) {
        const tt_value *at = tt_value_at(v, i);

        tti_text_addf(&text, "%-40s ", tt_value_name_at(v, i));
        if (tt_value_kind_of(at) == TT_VALUE_INT)
            tti_text_addf(&text, "%lld\n", (long long)tt_value_as_int(at));
        else
            tti_text_addf(&text, "%s\n", tt_value_as_text(at));
    }
    tt_value_free(v);
    return tti_text_take(&text);
}
