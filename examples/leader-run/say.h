/* Diagnostics that never block. Linux.

   A reader that has stopped reading must not keep leader-run from renewing its lease. The command shares
   standard error with us, so its descriptor is not made non-blocking: a pipe or a terminal is opened a
   second time, a socket is asked per call. What cannot be written is dropped and counted; the count is
   said as soon as there is room. */
#ifndef SAY_H_INCLUDED
#define SAY_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct say_output {
    int      fd;                                // where lines go; -1: not opened yet
    bool     is_socket;
    bool     may_block;                         // no second descriptor to be had: ask poll() first
    bool     times;                             // --verbose: each line begins with the time
    uint64_t dropped;
} say_output;

static say_output say_to = {-1, false, false, false, 0};

static void say_open(void) {
    struct stat what;
    say_to.fd = STDERR_FILENO;
    if (fstat(STDERR_FILENO, &what) != 0) {
        return;
    }
    say_to.is_socket = S_ISSOCK(what.st_mode);
    bool blocks = S_ISFIFO(what.st_mode) || S_ISCHR(what.st_mode);
    if (!blocks) {
        return;
    }
    int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    say_to.may_block = own < 0;
    if (own >= 0) {
        say_to.fd = own;
    }
}

/* False: there was no room. */
static bool say_write(const char *text, size_t len) {
    if (say_to.may_block) {
        struct pollfd room = {say_to.fd, POLLOUT, 0};
        bool has_room = poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0;
        if (!has_room) {
            return false;
        }
    }
    ssize_t n;
    if (say_to.is_socket) {
        n = send(say_to.fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
        n = write(say_to.fd, text, len);
    }
    // a closed or full device: nothing to be done about it later either
    return n >= 0 || errno != EAGAIN;
}

/* RFC 3339 in UTC, with milliseconds: "2026-11-16T19:20:00.123Z". */
static void say_time(char text[32]) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + len, 32 - len, ".%03dZ", (int)(now.tv_nsec / 1000000) % 1000);
}

/* Identities and texts of a store may hold anything: control characters do not reach a terminal. */
static void say_printable(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        bool control = *c < 0x20 || *c == 0x7f;
        if (control) {
            *c = '?';
        }
    }
}

/* One line: "leader-run: about: what". */
static void say(const char *about, const char *what) {
    char line[2048];
    char time[32] = "";
    if (say_to.fd < 0) {
        say_open();
    }
    if (say_to.times) {
        say_time(time);
    }
    if (say_to.dropped > 0) {
        snprintf(line, sizeof line,
                 "leader-run: %" PRIu64 " lines were dropped: nobody reads standard error\n", say_to.dropped);
        if (!say_write(line, strlen(line))) {
            say_to.dropped++;
            return;
        }
        say_to.dropped = 0;
    }
    snprintf(line, sizeof line - 1, "%s%sleader-run: %s%s%s", time, time[0] ? " " : "", about,
             about[0] ? ": " : "", what);
    say_printable(line);
    strcat(line, "\n");
    if (!say_write(line, strlen(line))) {
        say_to.dropped++;
    }
}

/* The same, with the status to end with. */
static int complain(int code, const char *about, const char *what) {
    say(about, what);
    return code;
}

#endif // SAY_H_INCLUDED
