/* SPDX-License-Identifier: Apache-2.0 */
/* Where a test was when it crashed or ran out of time: handlers in the child print return addresses,
 * the runner turns them into places in the source. */
#include <ctype.h>
#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "testing/testing.h"

enum { MAX_FRAMES = 48, ALT_STACK_SIZE = 64 << 10, MAX_RESOLVED = 200 };

static void put(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));

    (void)ignored;
}

/* One thread prints at a time; a thread that crashes while it prints must not wait for itself. */
static void print_stack(const char *title)
{
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    void *frames[MAX_FRAMES];
    char name[17] = "";
    int n;

    for (int i = 0; i < 1000 && atomic_flag_test_and_set(&busy); i++)
        usleep(100);
    prctl(PR_GET_NAME, name);
    put(title);
    put(name);
    put(":\n");
    n = backtrace(frames, MAX_FRAMES);
    backtrace_symbols_fd(frames + 2, n > 2 ? n - 2 : 0, STDERR_FILENO);
    atomic_flag_clear(&busy);
}

static void on_time_out(int sig)
{
    (void)sig;
    print_stack("stack of thread ");
    if (tti_test_current != NULL)
        atomic_fetch_add(&tti_test_current->n_stacks, 1);
}

/* The handler is gone by now (SA_RESETHAND): the same signal again ends the process. */
static void on_crash(int sig)
{
    print_stack("crashed in thread ");
    raise(sig);
}

void tti_test_stack_prepare(void)
{
    void *frames[4];

    backtrace(frames, 4); /* loads what it needs now, not inside a handler */
}

void tti_test_stack_install(bool crashes_too)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    static char alt_stack[ALT_STACK_SIZE];
    stack_t stack = { .ss_sp = alt_stack, .ss_size = sizeof alt_stack };
    struct sigaction quit = { .sa_handler = on_time_out, .sa_flags = SA_RESTART };
    struct sigaction crash = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_ONSTACK };

    sigaction(SIGQUIT, &quit, NULL);
    if (!crashes_too)
        return;
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &crash, NULL);
}

/* ---- In the runner ---- */

int tti_test_stack_request(pid_t pid)
{
    char path[64];
    const struct dirent *e;
    int n = 0;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    dir = opendir(path);
    if (dir == NULL)
        return 0;
    while ((e = readdir(dir)) != NULL) {
        if (isdigit((unsigned char)e->d_name[0]))
            n += syscall(SYS_tgkill, pid, atoi(e->d_name), SIGQUIT) == 0;
    }
    closedir(dir);
    return n;
}

/* A process that is stopped cannot answer. */
static bool is_stopped(pid_t pid)
{
    char path[64], state = '?';
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    f = fopen(path, "re");
    if (f == NULL)
        return true;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    fclose(f);
    return state == 'T' || state == 't' || state == 'Z';
}

bool tti_test_stack_collect(pid_t pid, tti_test_record *record, double seconds)
{
    int before = atomic_load(&record->n_stacks);
    int n_asked = is_stopped(pid) ? 0 : tti_test_stack_request(pid);
    double give_up = tti_test_now() + seconds;

    while (atomic_load(&record->n_stacks) - before < n_asked && tti_test_now() < give_up)
        usleep(1000);
    return n_asked > 0 && atomic_load(&record->n_stacks) - before >= n_asked;
}

/* A frame is printed as "program(name+0x12) [0xaddress]" or "program(+0x1234) [0xaddress]"; only the
 * second kind, in this program, needs help. */
static bool frame_offset(const char *line, const char *program, char *offset, size_t size)
{
    size_t n_program = strlen(program);
    const char *digits = line + n_program + 2;
    size_t n_digits;

    if (strncmp(line, program, n_program) != 0 || strncmp(line + n_program, "(+", 2) != 0)
        return false;
    n_digits = strspn(digits, "0123456789abcdefx");
    if (digits[n_digits] != ')' || n_digits >= size)
        return false;
    memcpy(offset, digits, n_digits);
    offset[n_digits] = '\0';
    return true;
}

/* Starts one addr2line for all frames in `text`; it answers with one line for each, in order. */
static FILE *ask_addr2line(const char *text, const char *program)
{
    char command[MAX_RESOLVED * 24];
    char offset[20];
    size_t used = (size_t)snprintf(
        command, sizeof command, "exec 2>/dev/null; addr2line -fpe /proc/%ld/exe", (long)getpid());
    int n_frames = 0;

    for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n') {
        if (!frame_offset(text, program, offset, sizeof offset))
            continue;
        if (used + sizeof offset + 2 > sizeof command)
            break;
        used += (size_t)snprintf(command + used, sizeof command - used, " %s", offset);
        n_frames++;
    }
    return n_frames > 0 ? popen(command, "r") : NULL;
}

/* What lies below the test function is the harness, the same every time. */
static bool is_harness(const char *place)
{
    return strncmp(place, "tti_test_body ", 14) == 0 ||
           strncmp(place, "tti_test_guarded ", 17) == 0;
}

/* Copies `text` to `f` with frames of this program replaced by function and line. */
static void put_resolved(FILE *f, const char *text, const char *program, FILE *places)
{
    bool below = false;

    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        bool is_frame = memmem(text, n, "[0x", 3) != NULL;
        char offset[20], place[512];

        below = below && is_frame;
        if (frame_offset(text, program, offset, sizeof offset) &&
            fgets(place, sizeof place, places) != NULL && strncmp(place, "??", 2) != 0) {
            below = below || is_harness(place);
            if (!below)
                fprintf(f, "    %.*s\n", (int)strcspn(place, "\n"), place);
        } else if (!below) {
            fprintf(f, "%.*s\n", (int)n, text);
        }
        text += n + (text[n] == '\n');
    }
}

char *tti_test_stack_resolve(char *text)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *resolved = NULL;
    size_t size;
    FILE *places, *f;

    if (text == NULL || n < 0)
        return text;
    program[n] = '\0';
    places = ask_addr2line(text, program);
    f = places != NULL ? open_memstream(&resolved, &size) : NULL;
    if (f != NULL) {
        put_resolved(f, text, program, places);
        fclose(f);
    }
    if (places != NULL)
        pclose(places);
    if (resolved == NULL)
        return text;
    free(text);
    return resolved;
}
