/* SPDX-License-Identifier: Apache-2.0 */
/* A training step of a small model makes no system call once memory is there. The steps run in a process that the
 * kernel stops at each system call (a seccomp filter); the handler counts it and lets the caller believe it was done. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

#define WARM_UP 300 /* steps until every list of free memory is filled */
#define STEPS 300
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static volatile sig_atomic_t n_calls, first_call;

static void count_call(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if (n_calls++ == 0)
        first_call = info->si_syscall;
}

#define ALLOW(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From here on, calls of this thread other than those that end the test are counted instead of made. */
static bool trap_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    struct sigaction action = { .sa_sigaction = count_call, .sa_flags = SA_SIGINFO };

    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* ---- the models ---------------------------------------------------------------------------------- */

typedef struct model {
    tt_module *net;
    tt_optim *opt;
    tt_status (*step)(struct model *m);
} model;

static tt_status learn(model *m, tt_tensor *loss)
{
    TT_TRY(tt_backward(loss));
    TT_TRY(tt_optim_step(m->opt));
    TT_TRY(tt_optim_zero_grad(m->opt, false));
    return tt_item(loss) < 1e6 ? TT_OK : TT_ERR_INVALID;
}

/* The first program of README.md. */
static tt_status xor_step(model *m)
{
    static float points[] = { 0, 0, 0, 1, 1, 0, 1, 1 }, xor[] = { 0, 1, 1, 0 };
    tt_tensor *x = tt_wrap(points, TT_SHAPE(4, 2), NULL, TT_F32, NULL, NULL);
    tt_tensor *y = tt_wrap(xor, TT_SHAPE(4, 1), NULL, TT_F32, NULL, NULL);

    return learn(m, tt_mse_loss(tt_module_forward(m->net, x), y));
}

static model xor_model(void)
{
    model m = { .net = TT_MLP(TT_ACT_TANH, 2, 16, 1), .step = xor_step };

    m.opt = tt_adam_for(m.net, &(tt_adam_options){ .lr = 0.05 });
    return m;
}

/* The kernels that small networks use, beside those of the layers. */
static tt_status classifier_step(model *m)
{
    static int64_t words[32], classes[32];
    tt_tensor *index = tt_wrap(words, TT_SHAPE(32), NULL, TT_I64, NULL, NULL);
    tt_tensor *target = tt_wrap(classes, TT_SHAPE(32), NULL, TT_I64, NULL, NULL);
    tt_tensor *scores, *order, *loss;
    bool made = false;

    for (int64_t i = 0; i < 32; i++) {
        words[i] = i * 7 % 16;
        classes[i] = i % 5;
    }
    scores = tt_module_forward(m->net, index);
    loss = tt_cross_entropy(scores, target);
    TT_NO_GRAD
    {
        tt_tensor *chances = tt_softmax(scores, 1);

        made = tt_argmax_dim(chances, 1, false) != NULL && tt_cumsum(chances, 1) != NULL &&
               tt_sort(chances, 1, true, &order) != NULL;
    }
    return made ? learn(m, loss) : tt_last_status();
}

static model classifier_model(void)
{
    model m = { .net = TT_SEQUENTIAL(
                    tt_embedding_new(16, 24, NULL), tt_layer_norm_new(TT_SHAPE(24), NULL),
                    tt_linear_new(24, 32, NULL), tt_batch_norm1d_new(32, NULL), tt_relu_new(),
                    tt_dropout_new(0.1), tt_linear_new(32, 5, NULL)),
                .step = classifier_step };

    m.opt = tt_sgd_for(m.net, &(tt_sgd_options){ .lr = 0.01, .momentum = 0.9 });
    return m;
}

/* ---- the steps ----------------------------------------------------------------------------------- */

static bool run_steps(model *m, int n)
{
    tt_status st = TT_OK;

    for (int i = 0; i < n && st == TT_OK; i++)
        TT_SCOPE
            st = m->step(m);
    return st == TT_OK;
}

enum { QUIET, SYSTEM_CALLS, NO_FILTER, FAILED };

static int child_main(model (*make)(void), int threads)
{
    model m;
    char text[128];

    if (tt_set_num_threads(threads) != TT_OK)
        return FAILED;
    m = make();
    if (!run_steps(&m, WARM_UP))
        return printf("%s\n", tt_last_error()), fflush(stdout), FAILED;
    if (!trap_calls())
        return NO_FILTER;
    n_calls = 0;
    if (!run_steps(&m, STEPS))
        return FAILED;
    if (n_calls == 0)
        return QUIET;
    snprintf(text, sizeof text,
             "%d system calls in %d steps on %d threads, the first is number %d\n", (int)n_calls,
             STEPS, threads, (int)first_call);
    return write(1, text, strlen(text)) > 0 ? SYSTEM_CALLS : FAILED;
}

static void check_quiet(model (*make)(void))
{
    if (SANITIZED)
        TT_SKIP("sanitizers make system calls of their own");
    for (int threads = 1; threads <= 2; threads++) {
        pid_t pid = fork();
        int status = -1;

        TT_REQUIRE(pid >= 0);
        if (pid == 0)
            _exit(child_main(make, threads));
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        TT_REQUIRE(WIFEXITED(status));
        if (WEXITSTATUS(status) == NO_FILTER)
            TT_SKIP("the kernel takes no seccomp filter here");
        TT_CHECK_EQ(WEXITSTATUS(status), QUIET);
    }
}

TT_TEST(system_calls, the_readmes_training_makes_none)
{
    check_quiet(xor_model);
}

TT_TEST(system_calls, a_small_classifier_makes_none)
{
    check_quiet(classifier_model);
}
