/* --status: who leads, since when and with which token; with --watch a line at each change. */
#ifndef STATUS_H_INCLUDED
#define STATUS_H_INCLUDED

#include "../http.h"
#include "../options.h"
#include "guard.h"

enum { STATUS_TIMEOUT_MS = 10000, STATUS_NOBODY = 1 };

/* Only what a time is made of: the text comes from a store. */
static bool status_is_time(const char *text) {
    return text[0] && strspn(text, "0123456789-:.TZ+") == strlen(text);
}

/* What follows `key` in a small JSON text, into `to`; "" if it is not there. Good enough for times and
   numbers, which hold no escapes. */
static void status_find(const char *text, const char *key, char *to, size_t cap) {
    const char *at = strstr(text, key);
    to[0] = 0;
    if (!at) {
        return;
    }
    at += strlen(key);
    at += strspn(at, " \t\r\n:\"");
    size_t len = strcspn(at, "\",} \t\r\n");
    if (len < cap) {
        memcpy(to, at, len);
        to[len] = 0;
    }
}

/* The readable copy beside a file's records. Whatever lies there is neither waited for nor followed. */
static void status_read_copy(const char *path, char *text, size_t cap) {
    struct stat what;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &what) == 0 && S_ISREG(what.st_mode)) {
        n = read(fd, text, cap - 1);
    }
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = 0;
}

/* From the copy, if it is of this term: it may lag. */
static void status_since_copy(const char *path, uint64_t token, char since[40]) {
    char text[8192];
    char of_token[24];
    status_read_copy(path, text, sizeof text);
    status_find(text, "\"token\"", of_token, sizeof of_token);
    status_find(text, "\"acquireTime\"", since, 40);
    bool of_this_term = strtoull(of_token, NULL, 10) == token && status_is_time(since);
    if (!of_this_term) {
        since[0] = 0;
    }
}

/* When the present term began, as the store tells people, in RFC 3339; "": it does not. */
static void status_since(const store *s, const leader_view *v, char since[40]) {
    struct tm utc;
    time_t seconds = (time_t)(v->acquired_us / 1000000);
    since[0] = 0;
    if (!v->leader[0]) {
        return;
    }
    bool known = v->acquired_us > 0 && gmtime_r(&seconds, &utc) != NULL;
    if (known) {
        size_t len = strftime(since, 40, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(since + len, 40 - len, ".%06dZ", (int)(v->acquired_us % 1000000));
    } else if (s->file) {
        status_since_copy(s->file, v->token, since);
    }
}

/* A name from the store, for a terminal: control characters as \xNN. */
static void status_print_name(http_body *b, const char *name) {
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        bool control = *c < 0x20 || *c == 0x7f;
        if (control) {
            http_print(b, "\\x%02x", (unsigned)*c);
        } else {
            http_print(b, "%c", *c);
        }
    }
}

static void status_print_json(http_body *b, const char *election, const leader_view *v, const char *since) {
    http_print(b, "{\"election\":");
    http_print_json(b, election);
    http_print(b, ",\"leader\":");
    if (v->leader[0]) {
        http_print_json(b, v->leader);
    } else {
        http_print(b, "null");
    }
    http_print(b, ",\"token\":%" PRIu64 ",\"since\":", v->token);
    if (since[0]) {
        http_print_json(b, since);
    } else {
        http_print(b, "null");
    }
    if (v->value[0]) {
        http_print(b, ",\"value\":");
        http_print_json(b, v->value);
    }
    http_print(b, "}\n");
}

static void status_print_text(http_body *b, const char *election, const leader_view *v, const char *since) {
    if (!v->leader[0]) {
        http_print(b, "nobody leads %s\n", election);
        return;
    }
    http_print(b, "leader  ");
    status_print_name(b, v->leader);
    http_print(b, "\ntoken   %" PRIu64 "\nsince   %s\n", v->token,
               since[0] ? since : "unknown: this store does not tell");
}

/* With --watch: one line, with the time at which it was seen. */
static void status_print_line(http_body *b, const char *election, const leader_view *v) {
    char time[32];
    say_time(time);
    http_print(b, "%s ", time);
    if (!v->leader[0]) {
        http_print(b, "nobody leads %s\n", election);
        return;
    }
    status_print_name(b, v->leader);
    http_print(b, " leads %s with token %" PRIu64 "\n", election, v->token);
}

static void status_print(const store *s, const leader_view *v, bool json, bool line) {
    static http_body out;
    char since[40] = "";
    memset(&out, 0, sizeof out);
    status_since(s, v, since);
    if (json) {
        status_print_json(&out, store_election(s), v, since);
    } else if (line) {
        status_print_line(&out, store_election(s), v);
    } else {
        status_print_text(&out, store_election(s), v, since);
    }
    fputs(out.text, stdout);
    fflush(stdout);
}

/* The first answer of the store. LEADER_OK, or what went wrong. */
static leader_result status_ask(leader_t *me, leader_view *v) {
    int64_t until = guard_clock_ms() + STATUS_TIMEOUT_MS;
    while (guard_clock_ms() < until) {
        leader_tick(me);
        *v = leader_get_view(me);
        if (v->age_ms >= 0) {
            return LEADER_OK;
        }
        leader_stats s = leader_get_stats(me);
        if (s.failures > 0) {
            return s.last_error;
        }
        leader_sleep(me, 100);
    }
    return LEADER_E_TIMEOUT;
}

/* Until standard output is closed or a signal ends the program. */
static void status_watch(leader_t *me, const store *s, leader_view last, bool json) {
    status_print(s, &last, json, true);
    while (!ferror(stdout)) {
        leader_tick(me);
        leader_view now = leader_get_view(me);
        bool changed = strcmp(now.leader, last.leader) != 0 || (now.leader[0] && now.token != last.token);
        if (changed) {
            status_print(s, &now, json, true);
            last = now;
        }
        leader_sleep(me, 1000);
    }
}

#endif // STATUS_H_INCLUDED
