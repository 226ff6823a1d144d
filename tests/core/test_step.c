/* What other threads see at every single instruction: one process is stepped like in a debugger (ptrace),
   another one looks at its election, which stands in memory that both share, after each step. No luck is
   needed, and no second processor. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE 1
#endif
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

UTEST_MAIN()

typedef struct shared {
    leader_t    me;
    leader_view view;               // what the stepped reader was told
    int64_t     now_ms;
    bool        renewal_comes;      // while the clock is being read
    int         stop_in;            // leader_stop at that reading of the clock or question; 0: none
} shared;

static shared *shared_make(void) {
    void *at = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : (shared *)at;
}

static void stop_at_last(shared *s) {
    if (s->stop_in > 0 && --s->stop_in == 0) {
        leader_stop(&s->me);
    }
}

static bool is_healthy(void *user) {
    stop_at_last((shared *)user);
    return true;
}

static int64_t read_clock(void *user) {
    shared *s = (shared *)user;
    if (s->renewal_comes) {
        s->now_ms += 60000;
        s->me.until_ms = s->now_ms + 10000;
    }
    stop_at_last(s);
    return s->now_ms;
}

static bool begin(shared *s) {
    leader_config config;
    memset(&config, 0, sizeof config);
    config.identity = "a";
    config.backend = leader_single_backend();
    config.clock_ms = read_clock;
    config.clock_user = s;
    config.is_healthy = is_healthy;
    config.user = s;
    s->now_ms = 1000000;
    return leader_init(&s->me, &config) == LEADER_OK;
}

/* ---- the child that is stepped ----------------------------------------------------------------- */

typedef void child_main(shared *s);

static pid_t child_start(shared *s, child_main *body) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        if (!begin(s)) {
            _exit(1);
        }
        body(s);
        _exit(0);
    }
    return pid;
}

static void child_end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Lets it run to its next raise(SIGSTOP). */
static bool child_goes_on(pid_t pid) {
    int status;
    if (ptrace(PTRACE_CONT, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid) {
        return false;
    }
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
}

static bool child_is_ready(pid_t pid) {
    int status;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
}

/* One instruction. False: it has come to its next raise(SIGSTOP), or to its end. */
static bool child_steps(pid_t pid) {
    int status;
    if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid) {
        return false;
    }
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

/* ---- the order of a question ------------------------------------------------------------------- */

UTEST(step, the_deadline_is_loaded_before_the_clock_is_read) {
    shared *s = shared_make();
    ASSERT_TRUE(s != NULL);
    ASSERT_TRUE(begin(s));
    leader_tick(&s->me);
    ASSERT_TRUE(leader_is_leader(&s->me));
    s->renewal_comes = true;  // a minute passes, and the deadline that comes then is another one's
    EXPECT_FALSE(leader_is_leader(&s->me));
    s->renewal_comes = false;
    EXPECT_TRUE(leader_is_leader(&s->me));
    leader_close(&s->me, 0);
    munmap(s, sizeof *s);
}

UTEST(step, a_stop_at_any_callback_of_a_tick_is_obeyed) {
    enum { READINGS = 20 };
    shared *s = shared_make();
    ASSERT_TRUE(s != NULL);
    int within = 0;
    for (int n = 1; n <= READINGS; n++) {
        ASSERT_TRUE(begin(s));
        leader_tick(&s->me);
        s->now_ms += 6000;
        s->stop_in = n;
        leader_tick(&s->me);                // a renewal
        within += s->stop_in == 0;
        s->stop_in = 0;
        if (within == n) {
            leader_tick(&s->me);
            EXPECT_TRUE(leader_is_stopped(&s->me));
        }
        leader_close(&s->me, 0);
    }
    EXPECT_GE(within, 2);
    munmap(s, sizeof *s);
}

/* ---- the writer, stepped ----------------------------------------------------------------------- */

static void lead_and_resign(shared *s) {
    raise(SIGSTOP);
    leader_tick(&s->me);                    // a term begins
    s->now_ms += 6000;
    leader_tick(&s->me);                    // a renewal
    leader_resign(&s->me, 1000);
    leader_tick(&s->me);                    // the term ends
    raise(SIGSTOP);
}

/* True and its token, or neither; and what is shown is of one piece. */
static bool is_whole(const leader_t *l) {
    leader_shown_ shown = leader_shown_now_(l);
    const leader_numbers_ *numbers = &shown.numbers;
    bool leading = numbers->state == LEADER_STATE_LEADER;
    bool reads_true = l->until_ms != LEADER_NEVER_;
    bool agrees = leading == (numbers->token != 0) && leading == (numbers->until_ms != LEADER_NEVER_);
    bool named = (shown.leader[0] != 0) == (numbers->seen_token != 0);
    return agrees && named && (!reads_true || numbers->token != 0);
}

UTEST(step, at_every_instruction_of_a_tick_true_comes_with_its_token) {
    shared *s = shared_make();
    ASSERT_TRUE(s != NULL);
    pid_t pid = child_start(s, lead_and_resign);
    ASSERT_TRUE(child_is_ready(pid));
    long steps = 0;
    long leading = 0;
    long torn = 0;
    while (child_steps(pid)) {
        steps++;
        torn += !is_whole(&s->me);
        leading += s->me.until_ms != LEADER_NEVER_;
    }
    child_end(pid);
    EXPECT_EQ(0, torn);
    EXPECT_GT(leading, 100);                // or nothing was looked at
    EXPECT_GT(steps, leading + 100);
    munmap(s, sizeof *s);
}

/* ---- the reader, stepped ----------------------------------------------------------------------- */

static void ask_again_and_again(shared *s) {
    leader_tick(&s->me);
    for (;;) {
        raise(SIGSTOP);
        s->view = leader_get_view(&s->me);
    }
}

static void show(shared *s, uint64_t number) {
    leader_shown_ shown = leader_shown_now_(&s->me);
    shown.numbers.seen_token = number;
    shown.numbers.acquired_us = (int64_t)number;
    shown.numbers.renewed_us = (int64_t)number;
    snprintf(shown.leader, sizeof shown.leader, "%llu", (unsigned long long)number);
    snprintf(shown.value, sizeof shown.value, "%llu", (unsigned long long)number);
    leader_show_(&s->me, &shown);
}

static bool is_of_one_piece(const leader_view *view) {
    bool numbers = view->token == (uint64_t)view->acquired_us && view->acquired_us == view->renewed_us;
    return numbers && strtoull(view->leader, NULL, 10) == view->token
           && strcmp(view->leader, view->value) == 0;
}

/* The reader goes that many steps; then what is shown changes twice, which fills the very copy that it is
   reading. */
static bool read_torn_at(shared *s, pid_t pid, long steps, uint64_t *number) {
    show(s, ++*number);
    for (long i = 0; i < steps; i++) {
        if (!child_steps(pid)) {
            return true;
        }
    }
    show(s, ++*number);
    show(s, ++*number);
    return child_goes_on(pid) && is_of_one_piece(&s->view);
}

UTEST(step, a_snapshot_changed_while_it_is_read_is_whole) {
    enum { READINGS = 25 };
    shared *s = shared_make();
    ASSERT_TRUE(s != NULL);
    pid_t pid = child_start(s, ask_again_and_again);
    ASSERT_TRUE(child_is_ready(pid));
    uint64_t number = 1000;
    long length = 0;
    show(s, ++number);
    while (child_steps(pid)) {
        length++;
    }
    ASSERT_GT(length, 100);
    long torn = 0;
    for (long i = 0; i < READINGS; i++) {
        torn += !read_torn_at(s, pid, length * i / READINGS, &number);
    }
    child_end(pid);
    EXPECT_EQ(0, torn);
    munmap(s, sizeof *s);
}
