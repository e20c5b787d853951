/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of the schedules. As in PyTorch, most give the next rate from the present one, so that
 * several schedules on one optimizer multiply, and a rate set by hand is kept. */
#include "base/error.h"
#include "optim/schedule.h"

#include <math.h>

#define PI 3.14159265358979323846

static double wrong(const char *text, double got)
{
    (void)TT_FAIL(TT_ERR_INVALID, "%s, got %g", text, got);
    return NAN;
}

/* ---- step, multi-step, exponential ------------------------------------------------------------ */

static double step_rate(tt_schedule *s, tti_optim_group *g)
{
    bool now = s->step != 0 && s->step % s->whole[0] == 0;

    return now ? g->numbers[0] * s->numbers[0] : g->numbers[0];
}

tt_schedule *tt_step_lr_new(tt_optim *o, int64_t step_size, double gamma)
{
    static const tti_schedule_ops ops = { "step_lr", step_rate };

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (step_size < 1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "step_lr: expected a step size >= 1, got %lld",
                            (long long)step_size);
    return tti_schedule_start(&(tt_schedule){
        .ops = &ops, .optim = o, .whole = { step_size }, .numbers = { tti_optim_or(gamma, 0.1) } });
}

static double multi_step_rate(tt_schedule *s, tti_optim_group *g)
{
    double lr = g->numbers[0];

    for (int i = 0; i < s->n_milestones; i++)
        if (s->milestones[i] == s->step)
            lr *= s->numbers[0];
    return lr;
}

tt_schedule *tt_multi_step_lr_new(tt_optim *o, const int64_t *milestones, int n, double gamma)
{
    static const tti_schedule_ops ops = { "multi_step_lr", multi_step_rate };

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (n < 0 || (n > 0 && milestones == NULL))
        return TT_FAIL_NULL(TT_ERR_INVALID, "multi_step_lr: expected milestones, got %d", n);
    return tti_schedule_start(&(tt_schedule){ .ops = &ops,
                                              .optim = o,
                                              .milestones = (int64_t *)(uintptr_t)milestones,
                                              .n_milestones = n,
                                              .numbers = { tti_optim_or(gamma, 0.1) } });
}

static double exponential_rate(tt_schedule *s, tti_optim_group *g)
{
    return s->step == 0 ? g->numbers[0] : g->numbers[0] * s->numbers[0];
}

tt_schedule *tt_exponential_lr_new(tt_optim *o, double gamma)
{
    static const tti_schedule_ops ops = { "exponential_lr", exponential_rate };

    return tti_schedule_start(&(tt_schedule){ .ops = &ops, .optim = o, .numbers = { gamma } });
}

/* ---- cosine ----------------------------------------------------------------------------------- */

static double cosine_rate(tt_schedule *s, tti_optim_group *g)
{
    double lr = g->numbers[0], low = s->numbers[0], t_max = (double)s->whole[0];
    int64_t period = 2 * s->whole[0];

    if (s->step == 0)
        return lr;
    /* Where the recursion would divide by zero: the step after the bottom. */
    if ((s->step - 1 - s->whole[0]) % period == 0)
        return lr + (g->initial_lr - low) * (1 - cos(PI / t_max)) / 2;
    return (1 + cos(PI * (double)s->step / t_max)) / (1 + cos(PI * (double)(s->step - 1) / t_max)) *
               (lr - low) +
           low;
}

tt_schedule *tt_cosine_lr_new(tt_optim *o, int64_t t_max, double eta_min)
{
    static const tti_schedule_ops ops = { "cosine_lr", cosine_rate };

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (t_max < 1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "cosine_lr: expected t_max >= 1, got %lld",
                            (long long)t_max);
    return tti_schedule_start(
        &(tt_schedule){ .ops = &ops, .optim = o, .whole = { t_max }, .numbers = { eta_min } });
}

/* ---- constant, linear, warm-up ------------------------------------------------------------------ */

static double constant_rate(tt_schedule *s, tti_optim_group *g)
{
    if (s->step == 0)
        return g->numbers[0] * s->numbers[0];
    return s->step == s->whole[0] ? g->numbers[0] * (1.0 / s->numbers[0]) : g->numbers[0];
}

tt_schedule *tt_constant_lr_new(tt_optim *o, double factor, int64_t total)
{
    static const tti_schedule_ops ops = { "constant_lr", constant_rate };
    double f = tti_optim_or(factor, 1.0 / 3);

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (!(f > 0 && f <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID, "constant_lr: expected 0 < factor <= 1, got %g", f);
    return tti_schedule_start(&(tt_schedule){
        .ops = &ops, .optim = o, .whole = { total != 0 ? total : 5 }, .numbers = { f } });
}

static double linear_rate(tt_schedule *s, tti_optim_group *g)
{
    double start = s->numbers[0], rise = s->numbers[1] - start;

    if (s->step == 0)
        return g->numbers[0] * start;
    if (s->step > s->whole[0])
        return g->numbers[0];
    return g->numbers[0] *
           (1.0 + rise / ((double)s->whole[0] * start + (double)(s->step - 1) * rise));
}

tt_schedule *tt_linear_lr_new(tt_optim *o, const tt_linear_lr_options *opt)
{
    static const tti_schedule_ops ops = { "linear_lr", linear_rate };
    tt_linear_lr_options in = opt != NULL ? *opt : (tt_linear_lr_options){ 0 };
    double start = tti_optim_or(in.start_factor, 1.0 / 3), end = tti_optim_or(in.end_factor, 1);

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (!(start > 0 && start <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID, "linear_lr: expected 0 < start_factor <= 1, got %g",
                            start);
    if (!(end >= 0 && end <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID, "linear_lr: expected 0 <= end_factor <= 1, got %g",
                            end);
    return tti_schedule_start(&(tt_schedule){ .ops = &ops,
                                              .optim = o,
                                              .whole = { in.total != 0 ? in.total : 5 },
                                              .numbers = { start, end } });
}

static double warmup_cosine_rate(tt_schedule *s, tti_optim_group *g)
{
    int64_t warmup = s->whole[0], total = s->whole[1];
    double low = s->numbers[0], share;

    if (s->step < warmup)
        return g->initial_lr * ((double)(s->step + 1) / (double)warmup);
    if (s->step >= total)
        return g->initial_lr * low;
    share = (double)(s->step - warmup) / (double)(total - warmup);
    return g->initial_lr * (low + (1 - low) * (1 + cos(PI * share)) / 2);
}

tt_schedule *tt_warmup_cosine_lr_new(tt_optim *o, int64_t warmup, int64_t total,
                                     const tt_warmup_cosine_options *opt)
{
    static const tti_schedule_ops ops = { "warmup_cosine_lr", warmup_cosine_rate };

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (warmup < 0 || total <= warmup)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "warmup_cosine_lr: expected 0 <= warmup < total, got %lld and %lld",
                            (long long)warmup, (long long)total);
    return tti_schedule_start(&(tt_schedule){ .ops = &ops,
                                              .optim = o,
                                              .whole = { warmup, total },
                                              .numbers = { opt != NULL ? opt->floor : 0 } });
}

/* ---- one cycle ---------------------------------------------------------------------------------- */

enum { MAX_LR, PCT, LOW_M, HIGH_M, DIV, FINAL_DIV }; /* of numbers */
enum { LINEAR, THREE };                              /* of flags */

typedef struct phase {
    double end_step, lr[2], momentum[2];
} phase;

static int phases_of(const tt_schedule *s, phase *ph)
{
    double first = s->numbers[MAX_LR] / s->numbers[DIV], top = s->numbers[MAX_LR];
    double last = first / s->numbers[FINAL_DIV], low = s->numbers[LOW_M], high = s->numbers[HIGH_M];
    double up = s->numbers[PCT] * (double)s->whole[0], end = (double)(s->whole[0] - 1);

    ph[0] = (phase){ up - 1, { first, top }, { high, low } };
    ph[1] = (phase){ end, { top, last }, { low, high } };
    if (!s->flags[THREE])
        return 2;
    ph[1] = (phase){ 2 * up - 2, { top, first }, { low, high } };
    ph[2] = (phase){ end, { first, last }, { high, high } };
    return 3;
}

static double between(const tt_schedule *s, const double *ends, double share)
{
    if (s->flags[LINEAR])
        return (ends[1] - ends[0]) * share + ends[0];
    return ends[1] + (ends[0] - ends[1]) / 2.0 * (cos(PI * share) + 1);
}

static double one_cycle_rate(tt_schedule *s, tti_optim_group *g)
{
    phase ph[3];
    int n = phases_of(s, ph), at = 0;
    double start = 0, share;

    if (s->step > s->whole[0])
        return wrong("one_cycle_lr: stepped beyond its total steps", (double)s->step);
    while (at < n - 1 && (double)s->step > ph[at].end_step)
        start = ph[at++].end_step;
    share = ((double)s->step - start) / (ph[at].end_step - start);
    if (s->momentum >= 0)
        g->numbers[s->momentum] = between(s, ph[at].momentum, share);
    return between(s, ph[at].lr, share);
}

tt_schedule *tt_one_cycle_lr_new(tt_optim *o, double max_lr, int64_t total,
                                 const tt_one_cycle_options *opt)
{
    static const tti_schedule_ops ops = { "one_cycle_lr", one_cycle_rate };
    tt_one_cycle_options in = opt != NULL ? *opt : (tt_one_cycle_options){ 0 };
    tt_schedule s = {
        .ops = &ops,
        .optim = o,
        .whole = { total },
        .numbers = { [MAX_LR] = max_lr,
                     [PCT] = tti_optim_or(in.pct_start, 0.3),
                     [LOW_M] = tti_optim_or(in.base_momentum, 0.85),
                     [HIGH_M] = tti_optim_or(in.max_momentum, 0.95),
                     [DIV] = tti_optim_or(in.div_factor, 25),
                     [FINAL_DIV] = tti_optim_or(in.final_div_factor, 1e4) },
        .flags = { [LINEAR] = in.linear, [THREE] = in.three_phase },
        .momentum = -1,
    };

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (total < 1 || !(s.numbers[PCT] >= 0 && s.numbers[PCT] <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "one_cycle_lr: expected total >= 1 and 0 <= pct_start <= 1, got %lld "
                            "and %g",
                            (long long)total, s.numbers[PCT]);
    if (!in.keep_momentum) {
        s.momentum = tti_optim_find(o->ops->numbers, "momentum");
        if (s.momentum < 0)
            s.momentum = tti_optim_find(o->ops->numbers, "beta1");
        if (s.momentum < 0)
            return TT_FAIL_NULL(TT_ERR_INVALID,
                                "one_cycle_lr: %s has no momentum to cycle; set keep_momentum",
                                o->ops->name);
    }
    return tti_schedule_start(&s);
}

/* ---- a function of yours -------------------------------------------------------------------------- */

static double lambda_rate(tt_schedule *s, tti_optim_group *g)
{
    double factor = s->fn(s->ctx, s->step);

    return isnan(factor) ? wrong("lambda_lr: expected a number", factor) : g->initial_lr * factor;
}

tt_schedule *tt_lambda_lr_new(tt_optim *o, tt_lr_fn fn, void *ctx)
{
    static const tti_schedule_ops ops = { "lambda_lr", lambda_rate };

    if (o == NULL)
        return TT_NULL_GIVEN(ops.name, "an optimizer");
    if (fn == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "lambda_lr: expected a function, got NULL");
    return tti_schedule_start(&(tt_schedule){ .ops = &ops, .optim = o, .fn = fn, .ctx = ctx });
}
