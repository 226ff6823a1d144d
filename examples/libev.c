/* The election in a libev loop: an ev_io for each descriptor, one timer, two signals.

       libev NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#if defined(__GNUC__)  // ev.h itself is not clean under -Wstrict-aliasing
#pragma GCC diagnostic ignored "-Wstrict-aliasing"
#endif
#include <ev.h>
#include <signal.h>
#include <stdio.h>

static leader_t me;
static ev_timer timer;
static ev_signal interrupt, terminate;
static ev_io watched[LEADER_FDS_MAX];  // free where it is not active

static void tick(struct ev_loop *loop);
static void on_timer(struct ev_loop *loop, ev_timer *w, int events) {
    (void)w;
    (void)events;
    tick(loop);
}
static void on_ready(struct ev_loop *loop, ev_io *w, int events) {
    (void)w;
    (void)events;
    tick(loop);
}
static void on_signal(struct ev_loop *loop, ev_signal *w, int events) {
    (void)w;
    (void)events;
    leader_stop(&me);
    tick(loop);
}

static void on_fd(void *loop_user, intptr_t fd, int events) {
    struct ev_loop *loop = (struct ev_loop *)loop_user;
    ev_io *at = NULL;
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        if (ev_is_active(&watched[i]) && watched[i].fd == (int)fd) {
            ev_io_stop(loop, &watched[i]);
        }
        if (!ev_is_active(&watched[i])) {
            at = &watched[i];
        }
    }
    if (events == 0 || !at) {
        return;  // stopped above: it is about to be closed
    }
    ev_io_init(at, on_ready, (int)fd,
               (events & LEADER_READ ? EV_READ : 0) | (events & LEADER_WRITE ? EV_WRITE : 0));
    ev_io_start(loop, at);
}

static void again(struct ev_loop *loop, int ms) {
    ev_timer_stop(loop, &timer);
    ev_timer_set(&timer, ms / 1000.0, 0.0);
    ev_timer_start(loop, &timer);
}

static void on_due(void *loop_user) {
    again((struct ev_loop *)loop_user, 0);
}
static void on_new_leader(void *user, const char *identity) {
    (void)user;
    printf("leader: %s\n", identity[0] ? identity : "nobody");
}

static void tick(struct ev_loop *loop) {
    ev_now_update(loop);  // timers count from the loop's own idea of now
    int wait_ms = leader_tick(&me);
    if (!leader_is_stopped(&me)) {
        again(loop, wait_ms);
        return;
    }
    leader_close(&me, 0);
    ev_break(loop, EVBREAK_ALL);
}

int main(int argc, char **argv) {
    struct ev_loop *loop = EV_DEFAULT;
    static store where;
    leader_config cfg = {0};
    cfg.identity = argc > 1 ? argv[1] : "node-a";
    cfg.backend = store_of_argument(&where, argc > 2 ? argv[2] : "job.lease");
    cfg.on_new_leader = on_new_leader;
    cfg.on_fd = on_fd;
    cfg.on_due = on_due;
    cfg.loop_user = loop;
    if (leader_init(&me, &cfg) != LEADER_OK) {
        return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    ev_init(&timer, on_timer);
    ev_signal_init(&interrupt, on_signal, SIGINT);
    ev_signal_init(&terminate, on_signal, SIGTERM);
    ev_signal_start(loop, &interrupt);
    ev_signal_start(loop, &terminate);
    tick(loop);
    ev_run(loop, 0);
    return 0;
}
