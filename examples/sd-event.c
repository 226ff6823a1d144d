/* The election in an sd-event loop: an io source for each descriptor, one time source, two signals.

       sd-event NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>
#include <time.h>

typedef struct watched {
    int fd;
    sd_event_source *source;  // NULL: a free place
} watched;

static leader_t me;
static sd_event *loop;
static sd_event_source *timer;
static watched watches[LEADER_FDS_MAX];

static void tick(void);

static int on_timer(sd_event_source *source, uint64_t usec, void *user) {
    (void)source;
    (void)usec;
    (void)user;
    tick();
    return 0;
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *user) {
    (void)source;
    (void)fd;
    (void)events;
    (void)user;
    tick();
    return 0;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *user) {
    (void)source;
    (void)info;
    (void)user;
    leader_stop(&me);
    tick();
    return 0;
}

static void again(int ms) {
    sd_event_source_set_time_relative(timer, (uint64_t)ms * 1000);
    sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

/* The place of this descriptor, or a free one. */
static watched *find(int fd) {
    watched *place = NULL;
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        if (watches[i].source && watches[i].fd == fd) {
            return &watches[i];
        }
        if (!watches[i].source) {
            place = &watches[i];
        }
    }
    return place;
}

static void on_fd(void *loop_user, intptr_t fd, int events) {
    watched *w = find((int)fd);
    (void)loop_user;
    w->source = sd_event_source_disable_unref(w->source);
    if (events == 0) {
        return;
    }
    uint32_t wanted = (uint32_t)leader_poll_events(events);    // EPOLLIN is POLLIN
    w->fd = (int)fd;
    if (sd_event_add_io(loop, &w->source, (int)fd, wanted, on_ready, NULL) < 0) {
        w->source = NULL;  // the timer alone is enough, only slower
    }
}

static void on_due(void *loop_user) {
    (void)loop_user;
    again(0);
}

static void on_new_leader(void *user, const char *identity) {
    (void)user;
    printf("leader: %s\n", identity[0] ? identity : "nobody");
}

static void tick(void) {
    int wait_ms = leader_tick(&me);
    if (!leader_is_stopped(&me)) {
        again(wait_ms);
        return;
    }
    leader_close(&me, 0);  // takes its descriptors back through on_fd
    sd_event_exit(loop, 0);
}

int main(int argc, char **argv) {
    static store where;
    leader_config cfg = {0};
    sigset_t handled;
    cfg.identity = argc > 1 ? argv[1] : "node-a";
    cfg.backend = store_of_argument(&where, argc > 2 ? argv[2] : "job.lease");
    cfg.on_new_leader = on_new_leader;
    cfg.on_fd = on_fd;
    cfg.on_due = on_due;
    if (leader_init(&me, &cfg) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(&me));
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigemptyset(&handled);  // sd-event reads signals, it does not catch them
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGTERM);
    sigprocmask(SIG_BLOCK, &handled, NULL);
    bool ready = sd_event_default(&loop) >= 0
                 && sd_event_add_time_relative(loop, &timer, CLOCK_BOOTTIME, 0, 1000, on_timer, NULL) >= 0
                 && sd_event_add_signal(loop, NULL, SIGINT, on_signal, NULL) >= 0
                 && sd_event_add_signal(loop, NULL, SIGTERM, on_signal, NULL) >= 0;
    if (!ready) {
        fprintf(stderr, "no event loop to be had\n");
        return 1;
    }
    tick();
    int result = sd_event_loop(loop);
    sd_event_source_unref(timer);
    sd_event_unref(loop);
    return result;
}
