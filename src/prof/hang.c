/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps whom waiting. For each group: the first collective at which the ranks differ, or which some have
 * not reached; then messages whose partner is not there, or that wait for each other.
 *
 * A dump taken by signal from a job that runs shows ranks at slightly different places; waits shorter than
 * SHORT_S are therefore no findings there. */
#include "prof/hang.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "prof/dump.h"
#include "tutti/prof.h"

#define SHORT_S 1.0

/* The dumps of one group, by rank. */
typedef struct group {
    const tti_dumps *dumps;
    const tti_dump *first;     /* any of them: name, size, ranks */
    const tti_dump **of;       /* by rank; NULL: no dump */
    const tti_dump_entry **at; /* by rank: its entry of the collective looked at; NULL: none */
    int *cursors;              /* by rank: where in its entries the search is */
    int size;
    bool over; /* all ranks have ended */
} group;

typedef struct report {
    tti_text text; /* lines, or JSON */
    bool json;
    bool over; /* all ranks have ended: who left no dump had no time to */
    int n_found;
} report;

typedef bool (*picks)(const group *g, int rank, const void *ctx);

/* ---- words --------------------------------------------------------------------------------- */

/* "rank 2" or "ranks 0, 1, 3": global ranks of those that `pick` picks; gives how many. */
static int add_ranks(tti_text *t, const group *g, picks pick, const void *ctx)
{
    int n = 0, k = 0;

    for (int r = 0; r < g->size; r++)
        n += pick(g, r, ctx);
    tti_text_add(t, n == 1 ? "rank " : "ranks ");
    for (int r = 0; r < g->size; r++)
        if (pick(g, r, ctx))
            tti_text_addf(t, "%s%d", k++ != 0 ? ", " : "", g->first->global_ranks[r]);
    return n;
}

static uint64_t bytes_of(const tti_dump_entry *e)
{
    return e->in_bytes > e->out_bytes ? e->in_bytes : e->out_bytes;
}

static void add_op(tti_text *t, const tti_dump_entry *e)
{
    tti_text_addf(t, "%s #%llu", e->op, (unsigned long long)e->seq);
    if (bytes_of(e) > 0)
        tti_text_addf(t, " (%s, %llu bytes)", e->dtype, (unsigned long long)bytes_of(e));
}

static void add_json_ranks(tti_text *t, const char *key, const group *g, picks pick,
                           const void *ctx)
{
    int k = 0;

    tti_text_addf(t, ",\"%s\":[", key);
    for (int r = 0; pick != NULL && r < g->size; r++)
        if (pick(g, r, ctx))
            tti_text_addf(t, "%s%d", k++ != 0 ? "," : "", g->first->global_ranks[r]);
    tti_text_add(t, "]");
}

/* Who waits and who is to blame, and what kind of trouble it is. */
typedef struct blame {
    const char *kind;
    picks waits, blamed;
    const void *ctx; /* of both */
} blame;

/* One finding: the sentence, and for JSON its parts. */
static void add_finding(report *rep, const group *g, blame b, const tti_dump_entry *e,
                        tti_text *words)
{
    tti_text *t = &rep->text;

    if (!rep->json) {
        tti_text_addf(t, "%sgroup %s: %s", rep->n_found != 0 ? "\n" : "", g->first->group,
                      tti_text_str(words));
    } else {
        tti_text_addf(t, "%s{\"group\":", rep->n_found != 0 ? ",\n " : "");
        tti_text_add_json(t, g->first->group);
        tti_text_addf(t, ",\"kind\":\"%s\",\"op\":", b.kind);
        tti_text_add_json(t, e->op);
        tti_text_addf(t, ",\"seq\":%llu", (unsigned long long)e->seq);
        add_json_ranks(t, "waiting", g, b.waits, b.ctx);
        add_json_ranks(t, "blamed", g, b.blamed, b.ctx);
        tti_text_add(t, ",\"text\":");
        tti_text_add_json(t, tti_text_str(words));
        tti_text_add(t, "}");
    }
    if (words->status != TT_OK && t->status == TT_OK)
        t->status = words->status;
    tti_text_fini(words);
    rep->n_found++;
}

/* ---- asking -------------------------------------------------------------------------------- */

static bool is_done(const tti_dump_entry *e)
{
    return e != NULL && e->state == TTI_DUMP_COMPLETED;
}

static bool waits_here(const group *g, int r, const void *ctx)
{
    (void)ctx;
    return g->at[r] != NULL && !is_done(g->at[r]);
}

static bool finished_here(const group *g, int r, const void *ctx)
{
    (void)ctx;
    return is_done(g->at[r]);
}

static bool no_dump(const group *g, int r, const void *ctx)
{
    (void)ctx;
    return g->of[r] == NULL;
}

static bool not_here(const group *g, int r, const void *ctx)
{
    (void)ctx;
    return g->of[r] != NULL && g->at[r] == NULL;
}

static bool missing(const group *g, int r, const void *ctx)
{
    return no_dump(g, r, ctx) || not_here(g, r, ctx);
}

static int how_many(const group *g, picks pick, const void *ctx)
{
    int n = 0;

    for (int r = 0; r < g->size; r++)
        n += pick(g, r, ctx);
    return n;
}

/* Sizes are the same on all ranks of these. */
static bool has_one_size(const char *op)
{
    return strcmp(op, "all_reduce") == 0 || strcmp(op, "broadcast") == 0;
}

static bool same_call(const tti_dump_entry *a, const tti_dump_entry *b)
{
    if (strcmp(a->op, b->op) != 0)
        return false;
    if (bytes_of(a) > 0 && bytes_of(b) > 0 && strcmp(a->dtype, b->dtype) != 0)
        return false;
    return !has_one_size(a->op) || bytes_of(a) == bytes_of(b);
}

static bool agrees(const group *g, int r, const void *call)
{
    return g->at[r] != NULL && same_call(g->at[r], call);
}

static bool differs(const group *g, int r, const void *call)
{
    return g->at[r] != NULL && !same_call(g->at[r], call);
}

/* The call that most ranks made, the lowest rank's among equals; NULL when nobody is there. */
static const tti_dump_entry *usual_call(const group *g)
{
    const tti_dump_entry *best = NULL;
    int most = 0;

    for (int r = 0; r < g->size; r++) {
        int n = g->at[r] != NULL ? how_many(g, agrees, g->at[r]) : 0;

        if (n > most) {
            most = n;
            best = g->at[r];
        }
        if (2 * most > g->size)
            break;
    }
    return best;
}

/* The last collective of a rank; NULL: none. */
static const tti_dump_entry *last_call(const tti_dump *d, bool p2p)
{
    const tti_dump_entry *last = NULL;

    for (int i = 0; i < d->n_entries; i++)
        if (d->entries[i].p2p == p2p && (last == NULL || d->entries[i].seq >= last->seq))
            last = &d->entries[i];
    return last;
}

/* Nothing to speak of: signals came while operations had hardly begun. */
static bool is_short(const group *g)
{
    for (int r = 0; r < g->size; r++) {
        const tti_dump_entry *e = g->at[r];

        if (e == NULL || is_done(e))
            continue;
        if (e->state == TTI_DUMP_FAILED || strcmp(g->of[r]->cause, "signal") != 0 ||
            g->of[r]->now_s - e->begin_s >= SHORT_S)
            return false;
    }
    return true;
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Where a rank that is missing in this group waits instead: "; it waits in ..." */
static void add_elsewhere(tti_text *t, const group *g, int r)
{
    int global = g->first->global_ranks[r];

    for (int i = 0; i < g->dumps->n; i++) {
        const tti_dump *d = &g->dumps->all[i];

        if (d->global_rank != global)
            continue;
        for (int k = 0; k < d->n_entries; k++) {
            const tti_dump_entry *e = &d->entries[k];

            if (is_done(e) || (d == g->of[r] && !e->p2p))
                continue;
            tti_text_addf(t, "; it waits in ");
            add_op(t, e);
            if (d != g->of[r])
                tti_text_addf(t, " of group %s", d->group);
            if (e->p2p && e->peer >= 0 && e->peer < d->size)
                tti_text_addf(t, " for rank %d", d->global_ranks[e->peer]);
            return;
        }
    }
}

/* "its last operation was broadcast #16, finished 12.3 s before" */
static void add_last(tti_text *t, const group *g, int r, const tti_dump *waiter)
{
    const tti_dump *d = g->of[r];
    const tti_dump_entry *last = last_call(d, false);

    if (last == NULL) {
        tti_text_add(t, "it has called no collective");
    } else {
        tti_text_addf(t, "its last operation was %s #%llu", last->op,
                      (unsigned long long)last->seq);
        if (!is_done(last))
            tti_text_add(t, last->state == TTI_DUMP_FAILED ? ", which failed" : ", not finished");
        else if (strcmp(d->host, waiter->host) == 0 && waiter->now_s >= last->end_s)
            tti_text_addf(t, ", finished %.1f s before", waiter->now_s - last->end_s);
        else
            tti_text_add(t, ", finished");
    }
    add_elsewhere(t, g, r);
}

/* Those who are missing, each with its last words; after a dozen, only how many. */
static void add_missing(tti_text *t, const group *g, const tti_dump *waiter)
{
    int told = 0, n = how_many(g, not_here, NULL);

    for (int r = 0; r < g->size && told < 12; r++)
        if (not_here(g, r, NULL)) {
            tti_text_addf(t, "; rank %d is not there: ", g->first->global_ranks[r]);
            add_last(t, g, r, waiter);
            told++;
        }
    if (n > told)
        tti_text_addf(t, "; %d more are not there", n - told);
    if (how_many(g, no_dump, NULL) > 0) {
        tti_text_add(t, "; ");
        n = add_ranks(t, g, no_dump, NULL);
        if (g->over)
            tti_text_add(t, " left no dump before the end");
        else
            tti_text_addf(t, " left no dump: %s dead?", n == 1 ? "is it" : "are they");
    }
}

/* "rank 2 called broadcast #17 (...) instead" */
static void add_different(tti_text *t, const group *g, const tti_dump_entry *usual)
{
    int told = 0;

    for (int r = 0; r < g->size && told < 12; r++) {
        const tti_dump_entry *e = g->at[r];

        if (!differs(g, r, usual))
            continue;
        tti_text_addf(t, "; rank %d called ", g->first->global_ranks[r]);
        if (strcmp(e->op, usual->op) != 0)
            add_op(t, e);
        else
            tti_text_addf(t, "it with %s, %llu bytes", e->dtype, (unsigned long long)bytes_of(e));
        tti_text_add(t, " instead");
        told++;
    }
}

static const tti_dump *any_waiter(const group *g)
{
    for (int r = 0; r < g->size; r++)
        if (waits_here(g, r, NULL))
            return g->of[r];
    return g->first;
}

static void tell_different(report *rep, const group *g, const tti_dump_entry *usual)
{
    tti_text t = { 0 };

    add_ranks(&t, g, agrees, usual);
    tti_text_add(&t, " called ");
    add_op(&t, usual);
    add_different(&t, g, usual);
    if (how_many(g, missing, NULL) > 0)
        add_missing(&t, g, any_waiter(g));
    add_finding(rep, g, (blame){ "different", agrees, differs, usual }, usual, &t);
}

static void tell_missing(report *rep, const group *g, const tti_dump_entry *usual)
{
    tti_text t = { 0 };
    int n = add_ranks(&t, g, waits_here, NULL);

    tti_text_add(&t, n == 1 ? " waits in " : " wait in ");
    add_op(&t, usual);
    add_missing(&t, g, any_waiter(g));
    add_finding(rep, g, (blame){ "missing", waits_here, missing, NULL }, usual, &t);
}

static void tell_unfinished(report *rep, const group *g, const tti_dump_entry *usual)
{
    tti_text t = { 0 };
    const char *status = "";
    int n;

    for (int r = 0; r < g->size; r++)
        if (waits_here(g, r, NULL) && g->at[r]->state == TTI_DUMP_FAILED)
            status = g->at[r]->status;
    n = add_ranks(&t, g, waits_here, NULL);
    if (status[0] != '\0')
        tti_text_add(&t, " failed in ");
    else
        tti_text_add(&t, n == 1 ? " is still in " : " are still in ");
    add_op(&t, usual);
    if (status[0] != '\0')
        tti_text_addf(&t, " with %s", status);
    if (how_many(g, finished_here, NULL) > 0) {
        tti_text_add(&t, ", which ");
        n = add_ranks(&t, g, finished_here, NULL);
        tti_text_add(&t, n == 1 ? " has finished" : " have finished");
    } else {
        tti_text_add(&t, "; nobody is missing");
    }
    add_finding(rep, g, (blame){ "unfinished", waits_here, waits_here, NULL }, usual, &t);
}

/* True when there is something to say about the collective that g->at holds. */
static bool judge(report *rep, const group *g)
{
    const tti_dump_entry *usual = usual_call(g);
    bool waiting = how_many(g, waits_here, NULL) > 0;

    if (usual == NULL)
        return false;
    if (how_many(g, differs, usual) > 0)
        tell_different(rep, g, usual);
    else if (!waiting)
        return false;
    else if (is_short(g))
        return true;
    else if (how_many(g, missing, NULL) > 0)
        tell_missing(rep, g, usual);
    else
        tell_unfinished(rep, g, usual);
    return true;
}

/* Rings forget: comparing begins where all ranks that have a dump still remember. */
static uint64_t first_known(const group *g)
{
    uint64_t first = 0;

    for (int r = 0; r < g->size; r++) {
        const tti_dump *d = g->of[r];

        if (d != NULL && d->n_entries > 0 && !d->entries[0].p2p && d->entries[0].seq > first)
            first = d->entries[0].seq;
    }
    return first;
}

/* The first collective of rank r from `seq` on; NULL: none. */
static const tti_dump_entry *seek(group *g, int r, uint64_t seq)
{
    const tti_dump *d = g->of[r];
    int *i = &g->cursors[r];

    while (d != NULL && *i < d->n_entries && !d->entries[*i].p2p && d->entries[*i].seq < seq)
        ++*i;
    return d != NULL && *i < d->n_entries && !d->entries[*i].p2p ? &d->entries[*i] : NULL;
}

/* The entries of the next collective from `seq` on that anybody has; false when there are no more. */
static bool step_to(group *g, uint64_t *seq)
{
    uint64_t next = UINT64_MAX;

    for (int r = 0; r < g->size; r++) {
        g->at[r] = seek(g, r, *seq);
        if (g->at[r] != NULL && g->at[r]->seq < next)
            next = g->at[r]->seq;
    }
    for (int r = 0; r < g->size; r++)
        if (g->at[r] != NULL && g->at[r]->seq != next)
            g->at[r] = NULL;
    *seq = next;
    return next != UINT64_MAX;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool sends(const tti_dump_entry *e)
{
    return strstr(e->op, "send") != NULL;
}

/* The first message that rank r waits for; NULL: none. */
static const tti_dump_entry *message(const group *g, int r)
{
    const tti_dump *d = g->of[r];

    for (int i = 0; d != NULL && i < d->n_entries; i++)
        if (d->entries[i].p2p && !is_done(&d->entries[i]) &&
            (d->entries[i].state == TTI_DUMP_FAILED || strcmp(d->cause, "signal") != 0 ||
             d->now_s - d->entries[i].begin_s >= SHORT_S))
            return &d->entries[i];
    return NULL;
}

/* Whether `peer` waits in the other half of this message: then it is on its way. */
static bool has_partner(const group *g, int r, const tti_dump_entry *e)
{
    const tti_dump *d = e->peer >= 0 && e->peer < g->size ? g->of[e->peer] : NULL;

    for (int i = 0; d != NULL && i < d->n_entries; i++) {
        const tti_dump_entry *other = &d->entries[i];

        if (other->p2p && !is_done(other) && sends(other) != sends(e) &&
            (other->peer == r || other->peer < 0))
            return true;
    }
    return false;
}

/* Whom rank r waits for in vain; -1: nobody. */
static int awaited(const group *g, int r)
{
    const tti_dump_entry *e = message(g, r);

    return e != NULL && e->peer >= 0 && e->peer < g->size && !has_partner(g, r, e) ? e->peer : -1;
}

/* Whether r is on a circle of waiting ranks; `least` its lowest member. */
static bool on_circle(const group *g, int r, int *least)
{
    int at = r;

    *least = r;
    for (int i = 0; i < g->size; i++) {
        at = awaited(g, at);
        if (at < 0)
            return false;
        if (at == r)
            return true;
        if (at < *least)
            *least = at;
    }
    return false;
}

static bool is_the_one(const group *g, int r, const void *ctx)
{
    (void)g;
    return r == *(const int *)ctx;
}

static bool is_awaited_by(const group *g, int r, const void *ctx)
{
    return r == awaited(g, *(const int *)ctx);
}

static bool on_circle_of(const group *g, int r, const void *ctx)
{
    int at = *(const int *)ctx;

    for (int i = 0; i < g->size; i++) {
        if (at == r)
            return true;
        at = awaited(g, at);
        if (at < 0)
            return false;
    }
    return false;
}

static void tell_circle(report *rep, const group *g, int r)
{
    tti_text t = { 0 };
    int at = r;

    tti_text_add(&t, "ranks wait for each other: ");
    do {
        const tti_dump_entry *e = message(g, at);

        tti_text_addf(&t, "%s%d waits for %d in %s #%llu", at != r ? ", " : "",
                      g->first->global_ranks[at], g->first->global_ranks[e->peer], e->op,
                      (unsigned long long)e->seq);
        at = e->peer;
    } while (at != r);
    add_finding(rep, g, (blame){ "circle", on_circle_of, on_circle_of, &r }, message(g, r), &t);
}

static void tell_message(report *rep, const group *g, int r)
{
    const tti_dump_entry *e = message(g, r), *last;
    int peer = e->peer;
    tti_text t = { 0 };

    tti_text_addf(&t, "rank %d waits in ", g->first->global_ranks[r]);
    add_op(&t, e);
    tti_text_addf(&t, " for rank %d, which ", g->first->global_ranks[peer]);
    if (g->of[peer] == NULL) {
        tti_text_add(&t, g->over ? "left no dump before the end" : "left no dump: is it dead?");
    } else {
        tti_text_add(&t, sends(e) ? "does not receive" : "does not send");
        last = last_call(g->of[peer], true);
        if (last != NULL)
            tti_text_addf(&t, ": its last message was %s #%llu", last->op,
                          (unsigned long long)last->seq);
        else
            tti_text_add(&t, ": it has sent and received nothing");
        add_elsewhere(&t, g, peer);
    }
    add_finding(rep, g, (blame){ "message", is_the_one, is_awaited_by, &r }, e, &t);
}

static void judge_messages(report *rep, const group *g)
{
    for (int r = 0; r < g->size; r++) {
        int least;

        if (awaited(g, r) < 0)
            continue;
        if (!on_circle(g, r, &least))
            tell_message(rep, g, r);
        else if (least == r)
            tell_circle(rep, g, r);
    }
}

/* ---- all groups -------------------------------------------------------------------------------- */

static bool same_group(const tti_dump *a, const tti_dump *b)
{
    return a->size == b->size && strcmp(a->group, b->group) == 0 &&
           memcmp(a->global_ranks, b->global_ranks, (size_t)a->size * sizeof(int)) == 0;
}

static void group_fini(group *g)
{
    tti_mfree(g->of);
    tti_mfree(g->at);
    tti_mfree(g->cursors);
}

/* The group whose dumps begin at index i; gives the index after them. */
static tt_status judge_group(report *rep, const tti_dumps *dumps, int i, int *next_p)
{
    group g = {
        .dumps = dumps, .first = &dumps->all[i], .size = dumps->all[i].size, .over = rep->over
    };
    uint64_t seq;

    g.of = tti_calloc((size_t)g.size, sizeof *g.of);
    g.at = tti_calloc((size_t)g.size, sizeof *g.at);
    g.cursors = tti_calloc((size_t)g.size, sizeof *g.cursors);
    if (g.of == NULL || g.at == NULL || g.cursors == NULL) {
        group_fini(&g);
        return TT_ERR_NOMEM;
    }
    for (; i < dumps->n && same_group(g.first, &dumps->all[i]); i++)
        g.of[dumps->all[i].rank] = &dumps->all[i];
    *next_p = i;
    for (seq = first_known(&g); step_to(&g, &seq); seq++)
        if (judge(rep, &g))
            break;
    judge_messages(rep, &g);
    group_fini(&g);
    return rep->text.status;
}

static char *explain(const char *dir, report rep, int *n_found_p)
{
    bool json = rep.json;
    tti_dumps dumps;
    tt_status st = TT_OK;

    if (dir == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "hang: expected a directory, got NULL");
    if (tti_dumps_load(dir, &dumps) != TT_OK)
        return NULL;
    tti_text_add(&rep.text, json ? "[" : "");
    for (int i = 0; i < dumps.n && st == TT_OK;)
        st = judge_group(&rep, &dumps, i, &i);
    tti_text_add(&rep.text, json ? "]" : "");
    tti_dumps_fini(&dumps);
    if (st != TT_OK || rep.text.status != TT_OK) {
        tti_text_fini(&rep.text);
        return NULL;
    }
    if (n_found_p != NULL)
        *n_found_p = rep.n_found;
    return tti_text_take(&rep.text);
}

char *tt_flight_explain(const char *dir, bool json, int *n_found_p)
{
    return explain(dir, (report){ .json = json }, n_found_p);
}

tt_status tti_hang_explain(const char *dir, char *text, size_t size)
{
    char *words = explain(dir, (report){ .over = true }, NULL);

    if (words == NULL)
        return tt_last_status();
    snprintf(text, size, "%s", words);
    tt_text_free(words);
    return TT_OK;
}
