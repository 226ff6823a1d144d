/* The election in a GLib main loop: a source for each descriptor, a time-out source, two signal sources.

       glib NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>

typedef struct watched {
    int fd;
    guint source;  // 0: a free place
} watched;

static leader_t me;
static GMainLoop *loop;
static guint timer;  // 0: not set
static watched watches[LEADER_FDS_MAX];

static void tick(void);

static gboolean on_timer(gpointer user) {
    (void)user;
    timer = 0;  // a source that answers G_SOURCE_REMOVE is gone
    tick();
    return G_SOURCE_REMOVE;
}

static gboolean on_ready(gint fd, GIOCondition condition, gpointer user) {
    (void)fd;
    (void)condition;
    (void)user;
    tick();  // may unwatch this very source: GLib allows for that
    return G_SOURCE_CONTINUE;
}

static gboolean on_signal(gpointer user) {
    (void)user;
    leader_stop(&me);
    tick();
    return G_SOURCE_CONTINUE;
}

static void again(int ms) {
    if (timer != 0) {
        g_source_remove(timer);
    }
    timer = g_timeout_add((guint)ms, on_timer, NULL);
}

/* The place of this descriptor, or a free one. */
static watched *find(int fd) {
    watched *place = NULL;
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        if (watches[i].source != 0 && watches[i].fd == fd) {
            return &watches[i];
        }
        if (watches[i].source == 0) {
            place = &watches[i];
        }
    }
    return place;
}

static void on_fd(void *loop_user, intptr_t fd, int events) {
    watched *w = find((int)fd);
    (void)loop_user;
    if (w->source != 0) {
        g_source_remove(w->source);
        w->source = 0;
    }
    if (events == 0) {
        return;
    }
    unsigned wanted = (events & LEADER_READ ? (unsigned)G_IO_IN | G_IO_HUP | G_IO_ERR : 0)
                      | (events & LEADER_WRITE ? (unsigned)G_IO_OUT : 0);
    w->fd = (int)fd;
    w->source = g_unix_fd_add((gint)fd, (GIOCondition)wanted, on_ready, NULL);
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
    g_main_loop_quit(loop);
}

int main(int argc, char **argv) {
    static store where;
    leader_config cfg = {0};
    loop = g_main_loop_new(NULL, FALSE);
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
    g_unix_signal_add(SIGINT, on_signal, NULL);
    g_unix_signal_add(SIGTERM, on_signal, NULL);
    tick();
    g_main_loop_run(loop);
    g_main_loop_unref(loop);
    return 0;
}
