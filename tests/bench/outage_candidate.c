/* One candidate of outages.py, at default settings: it says when it begins to lead and when it ends.

       outage_candidate ELECTION STORE          STORE: the options of examples/options.h

   Each line is "ELECTION IDENTITY lead|lost AT", in microseconds of the monotonic clock. */
#define _GNU_SOURCE 1
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "examples/options.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

static const char *election;
static char identity[LEADER_IDENTITY_MAX + 1];

/* One write for each line: all candidates share a pipe. */
static void say(const char *what) {
    char line[400];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long at_us = (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
    int n = snprintf(line, sizeof line, "%s %s %s %lld\n", election, identity, what, at_us);
    if (write(STDOUT_FILENO, line, (size_t)n) != n) {
        _exit(1);
    }
}

static void on_started(void *user, uint64_t token) {
    (void)user;
    (void)token;
    say("lead");
}

static void on_stopped(void *user, uint64_t token, leader_result why) {
    (void)user;
    (void)token;
    (void)why;
    say("lost");
}

/* With OUTAGE_VERBOSE in the environment all is told, to find out why somebody is late. */
static void on_log(void *user, leader_level level, const char *text) {
    struct timespec t;
    (void)user;
    if (!getenv("OUTAGE_VERBOSE")) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    fprintf(stderr, "%lld.%03ld %s %d %s\n", (long long)t.tv_sec, t.tv_nsec / 1000000, identity, (int)level,
            text);
}

static int refuse(const char *what) {
    fprintf(stderr, "outage_candidate: %s\n", what);
    return 2;
}

/* A plain poll loop, which wakes only for a reason: hundreds of these run side by side. */
static void run(leader_t *me) {
    for (;;) {
        leader_fd fds[LEADER_FDS_MAX];
        struct pollfd set[LEADER_FDS_MAX];
        int wait_ms = leader_tick(me);
        int count = leader_fds(me, fds);
        for (int i = 0; i < count; i++) {
            set[i].fd = (int)fds[i].fd;
            set[i].events = leader_poll_events(fds[i].events);
        }
        poll(set, (nfds_t)count, wait_ms);
    }
}

int main(int argc, char **argv) {
    static store where;
    static leader_t me;
    leader_config config;
    prctl(PR_SET_PDEATHSIG, SIGKILL);           // nobody outlives the driver
    if (argc < 2) {
        return refuse("outage_candidate ELECTION STORE");
    }
    election = argv[1];
    for (int i = 2; i < argc; i++) {
        const char *value = "";
        bool known = store_option(&where, argv, &i, &value);
        if (!known || !value) {
            return refuse(argv[i]);
        }
    }
    const char *mistake = store_mistake(&where);
    if (mistake) {
        return refuse(mistake);
    }
    memset(&config, 0, sizeof config);
    config.identity = leader_make_identity(identity, sizeof identity, NULL);
    config.backend = store_backend(&where);
    config.on_started_leading = on_started;
    config.on_stopped_leading = on_stopped;
    config.on_log = on_log;
    if (leader_init(&me, &config) != LEADER_OK) {
        return refuse(leader_error(&me));
    }
    run(&me);
}
