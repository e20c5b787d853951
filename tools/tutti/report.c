/* SPDX-License-Identifier: Apache-2.0 */
/* tutti report: a page with pictures of what a training measured, complete in itself. */
#include "report.h"

#include <string.h>

#include "command.h"
#include "files.h"

static const char style[] =
    ":root{color-scheme:light dark;--page:#f9f9f7;--card:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;"
    "--mute:#7a7975;--line:#e1e0d9;--fwd:#2a78d6;--bwd:#4a3aa7;--exp:#eb6834;--oth:#b5b3ab;"
    "--hid:#1baf7a}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#0d0d0d;--card:#1a1a19;--ink:#fff;"
    "--soft:#c3c2b7;--mute:#97958d;--line:#2f2f2c;--fwd:#3987e5;--bwd:#9085e9;--exp:#d95926;"
    "--oth:#5f5e59;--hid:#199e70}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",sans-serif}\n"
    "main{max-width:980px;margin:0 auto;padding:40px 20px 64px}h1{font-size:28px;margin:0}\n"
    "h2{font-size:17px;margin:0 0 4px}header p,section>p{color:var(--soft);margin:4px 0 12px}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:20px 22px;margin-top:18px}\n"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:12px;"
    "margin-top:20px}\n"
    ".facts div{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:12px 16px}.facts b{display:block;font-size:24px;font-weight:600}\n"
    ".facts "
    "span{color:var(--soft);font-size:13px}svg{width:100%;min-width:640px;height:auto;display:"
    "block}\n"
    "svg text{font:12px system-ui,sans-serif;fill:var(--mute)}svg .label{fill:var(--ink)}\n"
    ".grid{stroke:var(--line)}.raw,.smooth{fill:none;stroke:var(--fwd);stroke-linejoin:round}\n"
    ".raw{opacity:.3}.smooth{stroke-width:2}.dot{fill:var(--fwd);stroke:var(--card);"
    "stroke-width:2}.hit{fill:transparent}.hit:hover{fill:var(--line);opacity:.6}\n"
    ".fwd{fill:var(--fwd);background:var(--fwd)}.bwd{fill:var(--bwd);background:var(--bwd)}\n"
    ".exp{fill:var(--exp);background:var(--exp)}.oth{fill:var(--oth);background:var(--oth)}\n"
    ".hid{fill:var(--hid);background:var(--hid)}rect:hover{opacity:.8}\n"
    "section>.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;margin:8px 0 10px}\n"
    ".legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}\n"
    "table{border-collapse:collapse;width:100%;margin-top:14px;font-size:13px;"
    "font-variant-numeric:tabular-nums}th{color:var(--soft);font-weight:500}\n"
    "th,td{text-align:right;padding:5px 8px;border-top:1px solid var(--line)}"
    "th:first-child,td:first-child{text-align:left}thead th{border-top:0}\n"
    "section{overflow-x:auto}footer{color:var(--mute);font-size:13px;margin-top:18px}\n";

static void put_fact(FILE *f, const char *value, const char *what)
{
    fprintf(f, "<div><b>%s</b><span>%s</span></div>\n", value, what);
}

static void put_facts(FILE *f, const tti_report *r)
{
    char text[64];
    double step = 0, comm = 0, hidden = 0;

    for (int i = 0; i < r->n_ranks; i++) {
        const double *part = r->ranks[i].part_us;

        step += r->ranks[i].step_us / r->n_ranks;
        comm += part[TTI_PART_HIDDEN] + part[TTI_PART_EXPOSED];
        hidden += part[TTI_PART_HIDDEN];
    }
    fprintf(f, "<div class=\"facts\">\n");
    snprintf(text, sizeof text, "%.1f %%", 100 * tti_report_number(r, "accuracy"));
    put_fact(f, text, "accuracy, held-out data");
    snprintf(text, sizeof text, "%d", r->n_ranks);
    put_fact(f, text, r->n_ranks == 1 ? "rank" : "ranks");
    snprintf(text, sizeof text, "%d", r->n_steps);
    put_fact(f, text, "steps");
    snprintf(text, sizeof text, "%.2f ms", step * 1e-3);
    put_fact(f, text, "a typical step");
    snprintf(text, sizeof text, "%.0f %%", comm > 0 ? 100 * hidden / comm : 0);
    put_fact(f, text, "of communication behind backward");
    snprintf(text, sizeof text, "%.0f", tti_report_number(r, "buckets"));
    put_fact(f, text, "buckets of gradients");
    fprintf(f, "</div>\n");
}

static void put_page(FILE *f, const tti_report *r)
{
    fprintf(f, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    tti_put_escaped(f, tti_report_text(r, "title"));
    fprintf(f, "</title>\n<style>\n%s</style></head><body><main>\n<header><h1>", style);
    tti_put_escaped(f, tti_report_text(r, "title"));
    fprintf(f, "</h1><p>%d ranks over the backend ", r->n_ranks);
    tti_put_escaped(f, tti_report_text(r, "backend"));
    fprintf(f, ", %.0f kB of parameters", tti_report_number(r, "parameter_bytes") * 1e-3);
    if (tti_report_number(r, "cores") > 0)
        fprintf(f, ", %.0f cores", tti_report_number(r, "cores"));
    fprintf(f, "</p></header>\n");
    put_facts(f, r);
    fprintf(f,
            "<section><h2>Loss</h2><p>Mean over all ranks; faint: every step, strong: its running "
            "mean.</p>\n");
    tti_put_loss(f, r);
    fprintf(f,
            "</section>\n<section><h2>Where a step goes</h2><p>Of each rank, the mean of all steps "
            "but the fastest and the slowest tenth. Communication behind backward costs nothing; "
            "waiting for gradients is what is left of it, for slower ranks and for a core "
            "included.</p>\n");
    tti_put_parts(f, r);
    fprintf(
        f, "</section>\n<section><h2>Buckets on their way</h2><p>Three steps of the end, all ranks "
           "on one clock. Under what a rank computes: its buckets, a lane each.</p>\n");
    tti_put_timeline(f, r);
    fprintf(f, "</section>\n<footer>Made by tutti report from the ranks' measurements and traces."
               "</footer>\n</main></body></html>\n");
}

static int print_help(void)
{
    printf("usage: tutti report %s\n\n"
           "Draws what the ranks of a training measured: the loss, where the time of a step goes, "
           "when\n"
           "buckets of gradients travel. DIR has rank-N.json (examples/09_ddp_digits.c writes "
           "them) and\n"
           "trace-N.json (tt_prof_export) of every rank; OUT is DIR/report.html if left out.\n\n"
           "  --help      print this\n",
           tti_command_report.arguments);
    return TTI_EXIT_OK;
}

/* A page beside the measurements is not written through a link that somebody put there. */
static int make(const char *dir, const char *out, bool follow)
{
    tti_report r = { 0 };
    int status = TTI_EXIT_FAILED;

    if (tti_report_load(&r, dir)) {
        FILE *f = tti_open_output(out, follow);

        if (f != NULL) {
            put_page(f, &r);
            status = ferror(f) ? TTI_EXIT_FAILED : TTI_EXIT_OK;
        }
        if (f == NULL || fclose(f) != 0)
            status = TTI_EXIT_FAILED;
        if (status != TTI_EXIT_OK)
            perror(out);
    }
    tti_report_fini(&r);
    return status;
}

static int run_words(int argc, char **argv)
{
    char out[4096];

    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
    if (argc < 1 || argc > 2 || argv[0][0] == '-') {
        fprintf(stderr, "tutti report: expected a directory\nusage: tutti report %s\n",
                tti_command_report.arguments);
        return TTI_EXIT_USAGE;
    }
    snprintf(out, sizeof out, "%s/report.html", argv[0]);
    return make(argv[0], argc > 1 ? argv[1] : out, argc > 1);
}

const tti_command tti_command_report = {
    .name = "report",
    .arguments = "DIR [OUT]",
    .summary = "draw a training that was measured, as a page",
    .run_words = run_words,
    .print_help = print_help,
};
