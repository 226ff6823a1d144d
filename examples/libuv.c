/* The election in a libuv loop: a poll handle for each descriptor, one timer, one signal handle.

       libuv NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static leader_t me;
static uv_timer_t timer;
static uv_signal_t interrupt, terminate;
static uv_poll_t *watched[LEADER_FDS_MAX];

static void tick(void);
static void on_timer(uv_timer_t *t) {
    (void)t;
    tick();
}
static void on_ready(uv_poll_t *h, int status, int events) {
    (void)h;
    (void)status;
    (void)events;
    tick();
}
static void on_freed(uv_handle_t *h) {
    free(h);
}
static void on_signal(uv_signal_t *h, int sig) {
    (void)h;
    (void)sig;
    leader_stop(&me);
    tick();
}

/* A handle's data is the descriptor plus one; libuv frees a closed handle later, so a new one is made for
   each. */
static uv_poll_t **find(void *data) {
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        if ((watched[i] ? watched[i]->data : NULL) == data) {
            return &watched[i];
        }
    }
    return NULL;
}

static void on_fd(void *loop_user, intptr_t fd, int events) {
    uv_loop_t *loop = (uv_loop_t *)loop_user;
    void *data = (void *)(fd + 1);
    uv_poll_t **at = find(data);
    if (events == 0) {  // unwatch now: it is about to be closed
        if (!at) {
            return;
        }
        uv_poll_stop(*at);
        uv_close((uv_handle_t *)*at, on_freed);
        *at = NULL;
        return;
    }
    if (!at) {
        at = find(NULL);
        *at = (uv_poll_t *)calloc(1, sizeof **at);
        if (!*at || uv_poll_init(loop, *at, (int)fd) != 0) {
            abort();
        }
        (*at)->data = data;
    }
    uv_poll_start(*at, (events & LEADER_READ ? UV_READABLE : 0) | (events & LEADER_WRITE ? UV_WRITABLE : 0),
                  on_ready);
}

static void on_due(void *loop_user) {
    (void)loop_user;
    uv_timer_start(&timer, on_timer, 0, 0);
}
static void on_new_leader(void *user, const char *identity) {
    (void)user;
    printf("leader: %s\n", identity[0] ? identity : "nobody");
}

static void tick(void) {
    int wait_ms = leader_tick(&me);
    if (!leader_is_stopped(&me)) {
        uv_timer_start(&timer, on_timer, (uint64_t)wait_ms, 0);
        return;
    }
    leader_close(&me, 0);  // takes its descriptors back through on_fd
    uv_close((uv_handle_t *)&timer, NULL);
    uv_close((uv_handle_t *)&interrupt, NULL);
    uv_close((uv_handle_t *)&terminate, NULL);
}

int main(int argc, char **argv) {
    uv_loop_t *loop = uv_default_loop();
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
    uv_timer_init(loop, &timer);
    uv_signal_init(loop, &interrupt);
    uv_signal_init(loop, &terminate);
    uv_signal_start(&interrupt, on_signal, SIGINT);
    uv_signal_start(&terminate, on_signal, SIGTERM);
    tick();
    return uv_run(loop, UV_RUN_DEFAULT);
}
