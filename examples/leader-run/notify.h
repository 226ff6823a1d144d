/* What the service manager wants to hear (systemd, Type=notify), without its library: datagrams to
   $NOTIFY_SOCKET.

   READY=1 once the store has answered, STATUS= when something changes, WATCHDOG=1 from the loop that
   ticks, STOPPING=1 at the end. The command does not inherit the socket's name: what it says about itself
   is not about leader-run. */
#ifndef NOTIFY_H_INCLUDED
#define NOTIFY_H_INCLUDED

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct notify {
    int                fd;                      // -1: nobody listens
    struct sockaddr_un to;
    socklen_t          to_len;
    int64_t            every_ms;                // WATCHDOG=1; 0: not wanted
    int64_t            next_ms;
    char               status[512];             // as last said
    bool               ready, stopping;
} notify;

/* The watchdog's time is for the process that $WATCHDOG_PID names, if it names one. */
static int64_t notify_watchdog_ms(void) {
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    bool for_us = usec && (!pid || strtol(pid, NULL, 10) == (long)getpid());
    if (!for_us) {
        return 0;
    }
    int64_t half = strtoll(usec, NULL, 10) / 1000 / 2;
    return half > 0 ? half : 0;
}

static void notify_open(notify *n) {
    const char *name = getenv("NOTIFY_SOCKET");
    memset(n, 0, sizeof *n);
    n->fd = -1;
    size_t len = name ? strlen(name) : 0;
    bool usable = len > 1 && len < sizeof n->to.sun_path && (name[0] == '/' || name[0] == '@');
    if (usable) {
        n->to.sun_family = AF_UNIX;
        memcpy(n->to.sun_path, name, len);
        n->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
        if (name[0] == '@') {
            n->to.sun_path[0] = 0;              // the abstract name space
        }
        n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        n->every_ms = notify_watchdog_ms();
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void notify_send(const notify *n, const char *text) {
    if (n->fd < 0) {
        return;
    }
    if (sendto(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&n->to,
               n->to_len)
        < 0) {
        return;                                 // the manager does not listen now: nothing depends on it
    }
}

static void notify_status(notify *n, const char *status) {
    char text[600];
    if (strcmp(n->status, status) == 0) {
        return;
    }
    snprintf(n->status, sizeof n->status, "%s", status);
    snprintf(text, sizeof text, "STATUS=%s", n->status);
    notify_send(n, text);
}

static void notify_ready(notify *n) {
    if (!n->ready) {
        notify_send(n, "READY=1");
    }
    n->ready = true;
}

static void notify_stopping(notify *n) {
    if (!n->stopping) {
        notify_send(n, "STOPPING=1");
    }
    n->stopping = true;
}

/* From every turn of the loop; *wait_ms is shortened to the next time. */
static void notify_alive(notify *n, int64_t now_ms, int *wait_ms) {
    if (n->fd < 0 || n->every_ms == 0) {
        return;
    }
    if (now_ms >= n->next_ms) {
        notify_send(n, "WATCHDOG=1");
        n->next_ms = now_ms + n->every_ms;
    }
    int64_t left = n->next_ms - now_ms;
    if (left < *wait_ms) {
        *wait_ms = (int)left;
    }
}

#endif // NOTIFY_H_INCLUDED
