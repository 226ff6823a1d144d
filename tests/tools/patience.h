/* Waiting with a limit that grows with the slowness of the machine.

       ASSERT_TRUE(WAIT_FOR(5000, state_of(&a) == LEADER_STATE_LEADER));

       for (patience p = patience_ms(5000); patience_left(&p);) { ... }

   The limit is in milliseconds of a quiet machine. How slow the machine is gets measured again and again
   during the wait: a piece of work of known length (valgrind, an emulator, a throttled processor) and the
   tasks that want to run (busy loops beside us). Where things take ten times as long, ten milliseconds use
   up one of the limit. A test that passes returns as soon as its condition holds: limits cost time only
   where something is broken.

   Whatever a test cannot wait for, but has to give time to ("nothing happens in 200 ms"), it multiplies by
   slowness(). */
#ifndef TESTS_PATIENCE_H_INCLUDED
#define TESTS_PATIENCE_H_INCLUDED

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(__GNUC__)
#define PATIENCE_UNUSED_ __attribute__((unused))
#else
#define PATIENCE_UNUSED_
#endif

#define PATIENCE_UNIT_ROUNDS_ 100000
#define PATIENCE_UNIT_NS_ 500000        // of the machine that counts as quiet; a fast one needs half of it
#define PATIENCE_PAUSE_MS_ 2
#define PATIENCE_SLOWEST_ 1000.0

static PATIENCE_UNUSED_ int64_t patience_now_ns_(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

/* The work: volatile, so that it takes about as long whatever the compiler's options. */
static PATIENCE_UNUSED_ void patience_work_(void) {
    volatile uint32_t mix = 1;
    for (int i = 0; i < PATIENCE_UNIT_ROUNDS_; i++) {
        mix = mix * 1664525u + 1013904223u;
    }
}

/* How many tasks want each processor at this moment, as /proc/loadavg says ("0.30 0.20 0.10 5/120 4711":
   five); at least 1. The work alone does not show it: a task that has slept goes before the busy ones. */
static PATIENCE_UNUSED_ double patience_crowd_(void) {
    char text[128] = "";
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 1.0;
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    int running = 0;
    if (length <= 0 || sscanf(text, "%*s %*s %*s %d/", &running) != 1) {
        return 1.0;
    }
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    double each = (double)running / (double)(processors > 0 ? processors : 1);
    return each < 1.0 ? 1.0 : each;
}

/* How many times longer things take now than on a quiet machine; at least 1. */
static PATIENCE_UNUSED_ double slowness_now(void) {
    double crowd = patience_crowd_();
    int64_t begin = patience_now_ns_();
    patience_work_();
    double slow = (double)(patience_now_ns_() - begin) / PATIENCE_UNIT_NS_;
    if (slow < 1.0) {
        slow = 1.0;
    }
    slow *= crowd;
    return slow < PATIENCE_SLOWEST_ ? slow : PATIENCE_SLOWEST_;
}

/* The slowest of a few measurements, each after a pause: what is busy beside us comes and goes. */
static PATIENCE_UNUSED_ double slowness(void) {
    double worst = 1.0;
    struct timespec pause = {0, PATIENCE_PAUSE_MS_ * 1000000};
    for (int i = 0; i < 8; i++) {
        double slow = slowness_now();
        if (slow > worst) {
            worst = slow;
        }
        nanosleep(&pause, NULL);
    }
    return worst;
}

/* The same for code that takes a number of milliseconds: what takes so long on a quiet machine takes so long
   now. Measured at most once a second, so that it may stand in a loop's condition. */
static PATIENCE_UNUSED_ int patient_ms(int limit_ms) {
    static double slow = 1.0;
    static int64_t measured_ns = 0;
    int64_t now = patience_now_ns_();
    if (measured_ns == 0 || now - measured_ns > 1000000000) {
        slow = slowness();
        measured_ns = patience_now_ns_();
    }
    double scaled_ms = slow * limit_ms;
    return scaled_ms < 3600000 ? (int)scaled_ms : 3600000;
}

typedef struct {
    double left_ns;             // of a quiet machine
    int64_t seen_ns;            // when it was last looked at
    int64_t measured_ns;        // when the machine was last measured
    double slow;
} patience;

static PATIENCE_UNUSED_ patience patience_ms(int64_t limit_ms) {
    patience p;
    p.left_ns = (double)limit_ms * 1e6;
    p.seen_ns = patience_now_ns_();
    p.measured_ns = 0;
    p.slow = 1.0;
    return p;
}

/* False once the limit is used up. Meant to be asked in a loop that pauses a little; measures at most
   every 50 ms. */
static PATIENCE_UNUSED_ bool patience_left(patience *p) {
    int64_t now = patience_now_ns_();
    if (p->measured_ns == 0 || now - p->measured_ns > 50000000) {
        double slow = slowness_now();
        bool rose = slow > p->slow;
        p->slow = rose ? slow : (p->slow * 7 + slow) / 8;        // up at once, down slowly
        now = patience_now_ns_();
        p->measured_ns = now;
    }
    p->left_ns -= (double)(now - p->seen_ns) / p->slow;
    p->seen_ns = now;
    return p->left_ns > 0;
}

static PATIENCE_UNUSED_ void patience_pause(void) {
    struct timespec pause = {0, PATIENCE_PAUSE_MS_ * 1000000};
    nanosleep(&pause, NULL);
}

/* True as soon as the condition holds; false if it does not within the limit. */
#define WAIT_FOR(limit_ms, condition)                           \
    __extension__({                                             \
        patience patience_ = patience_ms(limit_ms);             \
        bool holds_ = (condition);                              \
        while (!holds_ && patience_left(&patience_)) {          \
            patience_pause();                                   \
            holds_ = (condition);                               \
        }                                                       \
        holds_;                                                 \
    })

#endif // TESTS_PATIENCE_H_INCLUDED
