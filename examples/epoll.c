/* The election in an epoll loop: on_fd keeps the watch list, leader_tick's answer is the time-out, a
   signalfd ends it.

       epoll NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h
       Linux */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

/* The election tells which descriptors to watch and for what; 0 means that it closes the descriptor next. */
static void on_fd(void *loop_user, intptr_t fd, int events) {
    int epoll = *(int *)loop_user;
    struct epoll_event e;
    memset(&e, 0, sizeof e);
    e.events = (uint32_t)leader_poll_events(events);    // EPOLLIN is POLLIN
    e.data.fd = (int)fd;
    if (events == 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, (int)fd, &e);
    } else if (epoll_ctl(epoll, EPOLL_CTL_MOD, (int)fd, &e) != 0 && errno == ENOENT) {
        epoll_ctl(epoll, EPOLL_CTL_ADD, (int)fd, &e);
    }
}

static void on_started(void *user, uint64_t token) {
    (void)user;
    printf("leading with token %llu\n", (unsigned long long)token);
}
static void on_stopped(void *user, uint64_t token, leader_result why) {
    (void)user;
    printf("token %llu is over: %s\n", (unsigned long long)token, leader_strerror(why));
}

int main(int argc, char **argv) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    on_fd(&epoll, signals, LEADER_READ);

    static store where;
    leader_config cfg = {0};
    leader_t me;
    cfg.identity = argc > 1 ? argv[1] : "node-a";
    cfg.backend = store_of_argument(&where, argc > 2 ? argv[2] : "job.lease");
    cfg.on_fd = on_fd;
    cfg.loop_user = &epoll;
    cfg.on_started_leading = on_started;
    cfg.on_stopped_leading = on_stopped;
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    while (!leader_is_stopped(&me)) {
        struct epoll_event ready[8];
        // whatever wakes us, the next tick looks at it
        int n = epoll_wait(epoll, ready, 8, leader_tick(&me));
        for (int i = 0; i < n; i++) {
            if (ready[i].data.fd == signals) {
                leader_stop(&me);
            }
        }
    }
    return leader_close(&me, 1000) != LEADER_OK;
}
