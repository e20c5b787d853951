/* SPDX-License-Identifier: Apache-2.0 */
/* Float32 convolutions by oneDNN, which chooses the layouts of all operands. */
#include <string.h>

#include "base/settings.h"
#include "ops/cpu/dnnl_plan.h"
#include "ops/cpu/nn_conv.h"

#define MACS_PER_THREAD 1000000 /* some microseconds of work */

typedef enum kind { FORWARD, FORWARD_BIAS, GRAD_INPUT, GRAD_WEIGHT } kind;

/* Descriptors of the operands, as oneDNN wants them (any layout) and as they are (row-major). */
typedef struct operands {
    dnnl_memory_desc_t any[4], plain[4]; /* x, w, y, b */
    dnnl_dims_t stride, dilation, pad, pad_end;
} operands;

typedef struct job {
    kind what;
    const tti_conv *g;
} job;

static dnnl_status_t describe(operands *o, int i, int n_dims, const int64_t *dims)
{
    static const dnnl_format_tag_t row_major[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde
    };
    dnnl_dims_t sizes = { 0 };
    dnnl_status_t st;

    memcpy(sizes, dims, (size_t)n_dims * sizeof dims[0]);
    st = tti_dnnl.memory_desc_init_by_tag(&o->plain[i], n_dims, sizes, dnnl_f32, row_major[n_dims]);
    if (st != dnnl_success)
        return st;
    return tti_dnnl.memory_desc_init_by_tag(&o->any[i], n_dims, sizes, dnnl_f32,
                                            dnnl_format_tag_any);
}

static dnnl_status_t describe_all(operands *o, const tti_conv *g)
{
    const int64_t x[] = { g->n, g->c, g->h, g->w }, y[] = { g->n, g->oc, g->oh, g->ow };
    const int64_t w[] = { g->groups, g->oc / g->groups, g->c / g->groups, g->kh, g->kw };
    const int64_t in[] = { g->h, g->w }, out[] = { g->oh, g->ow }, kernel[] = { g->kh, g->kw };
    int grouped = g->groups > 1;
    dnnl_status_t st;

    for (int i = 0; i < 2; i++) {
        int64_t span = (kernel[i] - 1) * g->dilation[i] + 1;

        o->stride[i] = g->stride[i];
        o->dilation[i] = g->dilation[i] - 1;
        o->pad[i] = g->pad[i];
        /* only what is used: the last stride may leave some input over */
        o->pad_end[i] = (out[i] - 1) * g->stride[i] + span - in[i] - g->pad[i];
    }
    st = describe(o, 0, 4, x);
    if (st == dnnl_success)
        st = describe(o, 1, 4 + grouped, w + !grouped);
    if (st == dnnl_success)
        st = describe(o, 2, 4, y);
    if (st == dnnl_success)
        st = describe(o, 3, 1, &g->oc);
    return st;
}

static dnnl_status_t make_forward(const operands *o, bool bias, dnnl_engine_t engine,
                                  const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd_p)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t st = tti_dnnl.dilated_convolution_forward_desc_init(
        &d, dnnl_forward_training, dnnl_convolution_direct, &o->any[0], &o->any[1],
        bias ? &o->any[3] : NULL, &o->any[2], o->stride, o->dilation, o->pad, o->pad_end);

    return st == dnnl_success ? tti_dnnl.primitive_desc_create(pd_p, &d, attr, engine, NULL) : st;
}

static dnnl_status_t make_backward(const operands *o, kind what, dnnl_engine_t engine,
                                   const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd_p)
{
    dnnl_primitive_desc_t forward = NULL;
    dnnl_convolution_desc_t d;
    dnnl_status_t st = make_forward(o, false, engine, attr, &forward);

    if (st != dnnl_success)
        return st;
    if (what == GRAD_INPUT)
        st = tti_dnnl.dilated_convolution_backward_data_desc_init(
            &d, dnnl_convolution_direct, &o->any[0], &o->any[1], &o->any[2], o->stride, o->dilation,
            o->pad, o->pad_end);
    else
        st = tti_dnnl.dilated_convolution_backward_weights_desc_init(
            &d, dnnl_convolution_direct, &o->any[0], &o->any[1], NULL, &o->any[2], o->stride,
            o->dilation, o->pad, o->pad_end);
    if (st == dnnl_success)
        st = tti_dnnl.primitive_desc_create(pd_p, &d, attr, engine, forward);
    tti_dnnl.primitive_desc_destroy(forward);
    return st;
}

/* The arguments x, w, y and b of each kind. */
static const tti_dnnl_arg arguments[][TTI_DNNL_ARGS] = {
    [FORWARD] = { { .id = DNNL_ARG_SRC, .md = dnnl_query_src_md },
                  { .id = DNNL_ARG_WEIGHTS, .md = dnnl_query_weights_md },
                  { .id = DNNL_ARG_DST, .md = dnnl_query_dst_md, .is_result = true } },
    [FORWARD_BIAS] = { { .id = DNNL_ARG_SRC, .md = dnnl_query_src_md },
                       { .id = DNNL_ARG_WEIGHTS, .md = dnnl_query_weights_md },
                       { .id = DNNL_ARG_DST, .md = dnnl_query_dst_md, .is_result = true },
                       { .id = DNNL_ARG_BIAS, .md = dnnl_query_weights_md, .md_index = 1 } },
    [GRAD_INPUT] = { { .id = DNNL_ARG_DIFF_SRC, .md = dnnl_query_diff_src_md, .is_result = true },
                     { .id = DNNL_ARG_WEIGHTS, .md = dnnl_query_weights_md },
                     { .id = DNNL_ARG_DIFF_DST, .md = dnnl_query_diff_dst_md } },
    [GRAD_WEIGHT] = { { .id = DNNL_ARG_SRC, .md = dnnl_query_src_md },
                      { .id = DNNL_ARG_DIFF_WEIGHTS,
                        .md = dnnl_query_diff_weights_md,
                        .is_result = true },
                      { .id = DNNL_ARG_DIFF_DST, .md = dnnl_query_diff_dst_md } },
};

static dnnl_status_t make(const void *ctx, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                          tti_dnnl_spec *spec)
{
    const job *j = ctx;
    operands o;
    dnnl_status_t st = describe_all(&o, j->g);

    if (st != dnnl_success)
        return st;
    spec->n_args = j->what == FORWARD_BIAS ? 4 : 3;
    for (int i = 0; i < spec->n_args; i++) {
        spec->args[i] = arguments[j->what][i];
        spec->args[i].plain = o.plain[i];
    }
    if (j->what == FORWARD || j->what == FORWARD_BIAS)
        return make_forward(&o, j->what == FORWARD_BIAS, engine, attr, &spec->pd);
    return make_backward(&o, j->what, engine, attr, &spec->pd);
}

tt_status tti_conv_dnnl(const tti_conv_job *c, bool *done_p)
{
    static const kind forward[] = { FORWARD, FORWARD_BIAS };
    const tti_conv *g = &c->g;
    int64_t macs = g->n * g->oc * g->oh * g->ow * (g->c / g->groups) * g->kh * g->kw;
    kind what = c->kind == TTI_CONV_FORWARD      ? forward[c->b != NULL]
                : c->kind == TTI_CONV_GRAD_INPUT ? GRAD_INPUT
                                                 : GRAD_WEIGHT;
    tti_dnnl_key key = { .op = (int)what, .threads = tti_threads_for(macs, MACS_PER_THREAD) };
    void *data[] = { c->x, c->w, c->y, (void *)c->b };
    job j = { what, g };

    *done_p = false;
    if (macs == 0)
        return TT_OK;
    static_assert(sizeof key.sizes >= sizeof *g, "a convolution's sizes must fit a key");
    memcpy(key.sizes, g, sizeof *g);
    return tti_dnnl_run(&key, make, &j, data, done_p);
}
