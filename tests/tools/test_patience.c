/* The limit of a wait grows where the machine is slow, and only there. */
#include "tests/tools/patience.h"
#include "tests/tools/utest.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t took_ms(int64_t begin_ns) {
    return (patience_now_ns_() - begin_ns) / 1000000;
}

UTEST(patience, ends_at_once_when_the_condition_holds) {
    int asked = 0;
    ASSERT_TRUE(WAIT_FOR(60000, ++asked == 3));
    ASSERT_EQ(3, asked);
}

UTEST(patience, is_used_up_by_a_condition_that_never_holds) {
    int64_t begin = patience_now_ns_();
    ASSERT_FALSE(WAIT_FOR(50, false));
    ASSERT_GE(took_ms(begin), 50);
}

UTEST(patience, nothing_is_left_of_a_limit_of_zero) {
    patience p = patience_ms(0);
    ASSERT_FALSE(patience_left(&p));
}

UTEST(patience, measured_slowness_stretches_the_limit) {
    patience p = patience_ms(10);
    p.slow = 20.0;
    p.measured_ns = p.seen_ns;                  // just measured: twenty times slower
    p.seen_ns -= 100000000;                     // 100 ms ago: 5 of the 10 ms
    ASSERT_TRUE(patience_left(&p));
    ASSERT_LE(p.left_ns, 5000000.0);
    p.slow = 1.0;
    p.seen_ns -= 100000000;                     // 100 ms on a quiet machine
    ASSERT_FALSE(patience_left(&p));
}

/* Busy loops, eight times as many as there are processors. */
UTEST(patience, busy_loops_are_measured) {
    enum { LOOPS_MAX = 512 };
    pid_t loops[LOOPS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int count = processors * 8 < LOOPS_MAX ? (int)processors * 8 : LOOPS_MAX;
    for (int i = 0; i < count; i++) {
        loops[i] = fork();
        ASSERT_GE(loops[i], 0);
        if (loops[i] == 0) {
            alarm(60);
            for (;;) {
                patience_work_();
            }
        }
    }
    int64_t begin = patience_now_ns_();
    bool noticed = WAIT_FOR(30000, slowness() >= 4.0);
    bool stretched = WAIT_FOR(50, false) || took_ms(begin) >= 200;
    for (int i = 0; i < count; i++) {
        kill(loops[i], SIGKILL);
        waitpid(loops[i], NULL, 0);
    }
    ASSERT_TRUE(noticed);
    ASSERT_TRUE(stretched);
}

UTEST_MAIN()
