/* The election in a libevent loop: an event for each descriptor, one timer, two signals.

       libevent NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>

typedef struct watched {
    int fd;
    struct event *event;  // NULL: a free place
} watched;

static leader_t me;
static struct event_base *base;
static struct event *timer;
static watched watches[LEADER_FDS_MAX];

static void tick(void);

static void on_ready(evutil_socket_t fd, short events, void *user) {
    (void)fd;
    (void)events;
    (void)user;
    tick();
}

static void on_signal(evutil_socket_t number, short events, void *user) {
    leader_stop(&me);
    on_ready(number, events, user);
}

static void again(int ms) {
    struct timeval wait = {ms / 1000, ms % 1000 * 1000};
    evtimer_add(timer, &wait);
}

/* The place of this descriptor, or a free one. */
static watched *find(int fd) {
    watched *place = NULL;
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        if (watches[i].event && watches[i].fd == fd) {
            return &watches[i];
        }
        if (!watches[i].event) {
            place = &watches[i];
        }
    }
    return place;
}

static void on_fd(void *loop_user, intptr_t fd, int events) {
    watched *w = find((int)fd);
    (void)loop_user;
    if (w->event) {
        event_free(w->event);  // also the way to change what is watched
        w->event = NULL;
    }
    if (events == 0) {
        return;
    }
    short wanted =
        (short)(EV_PERSIST | (events & LEADER_READ ? EV_READ : 0) | (events & LEADER_WRITE ? EV_WRITE : 0));
    w->fd = (int)fd;
    w->event = event_new(base, (evutil_socket_t)fd, wanted, on_ready, NULL);
    event_add(w->event, NULL);
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
    event_base_loopbreak(base);
}

int main(int argc, char **argv) {
    static store where;
    leader_config cfg = {0};
    base = event_base_new();
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
    struct event *interrupt = evsignal_new(base, SIGINT, on_signal, NULL);
    struct event *terminate = evsignal_new(base, SIGTERM, on_signal, NULL);
    timer = evtimer_new(base, on_ready, NULL);
    event_add(interrupt, NULL);
    event_add(terminate, NULL);
    tick();
    event_base_dispatch(base);
    event_free(interrupt);
    event_free(terminate);
    event_free(timer);
    event_base_free(base);
    return 0;
}
