/* A tiny HTTP server for health checks inside a poll loop, and the three answers of an election: /healthz,
   /readyz, /metrics.

   Nothing here blocks and nothing grows: a fixed number of connections, each with fixed buffers and a time
   limit; at most one read and one write for each of them per turn. When all places are taken, the oldest
   connection gives way to the new one, so that clients that send slowly, or nothing, neither delay a tick
   nor keep a probe out. One request per connection. Include leader.h first. */
#ifndef HTTP_H_INCLUDED
#define HTTP_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HTTP_CONNECTIONS_MAX = 64,
    HTTP_FDS_MAX = HTTP_CONNECTIONS_MAX + 1,
    HTTP_REQUEST_MAX = 2048,
    HTTP_BODY_MAX = 65536,
    HTTP_TIMEOUT_MS = 5000,
    HTTP_PAUSE_MS = 100,
    HTTP_BACKLOG = 1024,
    HTTP_ACCEPTS_MAX = 128
};

typedef struct http_body {
    char text[HTTP_BODY_MAX];
    size_t len;
    bool full;  // something did not fit
    const char *type;
    char location[512];    // with a 307: where to; "": none
    bool wants_json;       // the request accepts it by name
    const char *election;  // the label of every metric
} http_body;

typedef int http_answer(void *user, const char *path, http_body *body);  // the status: 200, 404, 503, ...

typedef struct http_connection {
    int fd;                 // -1: a free place
    int64_t until_ms;       // closed then, whatever its state
    size_t got, len, sent;  // of the request; of the reply, 0: not yet made; of it sent
    char request[HTTP_REQUEST_MAX], reply[HTTP_BODY_MAX + 1024];
} http_connection;

typedef struct http_server {
    int listener;            // -1: closed
    int64_t pause_until_ms;  // accept had no descriptor left: not before
    http_answer *answer;
    void *user;
    http_connection connections[HTTP_CONNECTIONS_MAX];
} http_server;

static inline int64_t http_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((format(printf, 2, 3))) static inline void http_print(http_body *b, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(b->text + b->len, sizeof b->text - b->len, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof b->text - b->len) {
        b->full = true;
    } else {
        b->len += (size_t)n;
    }
}

/* How many bytes of valid UTF-8 the text begins with, as one character; 0: none. Overlong forms,
   surrogates and what lies above U+10FFFF are not. */
static inline size_t http_utf8_length(const unsigned char *c) {
    static const struct {
        unsigned char mask, lead;
        size_t len;
    } forms[] = {
        {0x80, 0x00, 1},
        {0xe0, 0xc0, 2},
        {0xf0, 0xe0, 3},
        {0xf8, 0xf0, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if ((c[0] & forms[i].mask) != forms[i].lead) {
            continue;
        }
        for (size_t k = 1; k < forms[i].len; k++) {
            if ((c[k] & 0xc0) != 0x80) {
                return 0;
            }
        }
        bool overlong =
            c[0] == 0xc0 || c[0] == 0xc1 || (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
        bool surrogate = c[0] == 0xed && c[1] >= 0xa0;
        bool too_large = c[0] > 0xf4 || (c[0] == 0xf4 && c[1] >= 0x90);
        return overlong || surrogate || too_large ? 0 : forms[i].len;
    }
    return 0;
}

/* One character of the text; a byte that is not UTF-8 becomes U+FFFD. How many bytes were taken. */
static inline size_t http_print_utf8(http_body *b, const char *text) {
    size_t len = http_utf8_length((const unsigned char *)text);
    if (len == 0) {
        http_print(b, "\xef\xbf\xbd");
        return 1;
    }
    http_print(b, "%.*s", (int)len, text);
    return len;
}

/* A JSON string. */
static inline void http_print_json(http_body *b, const char *text) {
    http_print(b, "\"");
    while (*text) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            http_print(b, "\\%c", c);
            text++;
        } else if (c < 0x20) {
            http_print(b, "\\u%04x", (unsigned)c);
            text++;
        } else {
            text += http_print_utf8(b, text);
        }
    }
    http_print(b, "\"");
}

/* A label's value as Prometheus reads it: it knows three escapes and no others. */
static inline void http_print_label(http_body *b, const char *text) {
    http_print(b, "\"");
    while (*text) {
        if (*text == '"' || *text == '\\') {
            http_print(b, "\\%c", *text);
            text++;
        } else if (*text == '\n') {
            http_print(b, "\\n");
            text++;
        } else {
            text += http_print_utf8(b, text);
        }
    }
    http_print(b, "\"");
}

/* ---- the server -------------------------------------------------------------------------------- */

/* Listens on "127.0.0.1:8080", "[::1]:8080" or ":8080" (everywhere). NULL, or what is wrong; errno EINVAL:
   with the text. */
static inline const char *http_open(http_server *s, const char *address, http_answer *answer, void *user) {
    char host[80] = "";
    const char *colon = strrchr(address, ':');
    struct addrinfo hints;
    struct addrinfo *found = NULL;
    const int on = 1;
    memset(s, 0, sizeof *s);
    s->listener = -1;
    s->answer = answer;
    s->user = user;
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        s->connections[i].fd = -1;
    }
    size_t n = colon ? (size_t)(colon - address) : 0;
    bool brackets = n >= 2 && address[0] == '[' && address[n - 1] == ']';
    if (colon && n < sizeof host) {
        memcpy(host, address + brackets, n - 2 * brackets);
    }
    memset(&hints, 0, sizeof hints);
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    bool port = colon && strspn(colon + 1, "0123456789") == strlen(colon + 1) && strlen(colon + 1) <= 5
                && atoi(colon + 1) <= 65535;
    if (!port || n >= sizeof host || getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &found) != 0) {
        errno = EINVAL;
        return "the address is ADDRESS:PORT in numbers, such as 127.0.0.1:8080, [::1]:8080 or :8080";
    }
    const char *wrong = NULL;
    s->listener = socket(found->ai_family, SOCK_STREAM, 0);
    if (s->listener >= 0) {
        setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (s->listener < 0 || fcntl(s->listener, F_SETFD, FD_CLOEXEC) != 0
        || fcntl(s->listener, F_SETFL, O_NONBLOCK) != 0
        || bind(s->listener, found->ai_addr, found->ai_addrlen) != 0
        || listen(s->listener, HTTP_BACKLOG) != 0) {
        wrong = strerror(errno);
        if (s->listener >= 0) {
            close(s->listener);
        }
        s->listener = -1;
    }
    freeaddrinfo(found);
    return wrong;
}

static inline void http_drop(http_connection *c) {
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->fd = -1;
}

static inline void http_close(http_server *s) {
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        http_drop(&s->connections[i]);
    }
    if (s->listener >= 0) {
        close(s->listener);
    }
    s->listener = -1;
}

/* What to poll, at most HTTP_FDS_MAX; *wait_ms is shortened to the next time limit. */
static inline int http_fds(const http_server *s, struct pollfd *fds, int *wait_ms) {
    int64_t now = http_now_ms();
    int n = 0;
    if (s->listener < 0) {
        return 0;
    }
    if (now >= s->pause_until_ms) {
        fds[n].fd = s->listener;
        fds[n++].events = POLLIN;
    } else if (*wait_ms > HTTP_PAUSE_MS) {
        *wait_ms = HTTP_PAUSE_MS;
    }
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        const http_connection *c = &s->connections[i];
        if (c->fd < 0) {
            continue;
        }
        fds[n].fd = c->fd;
        fds[n++].events = c->sent < c->len ? POLLOUT : POLLIN;
        int64_t left = c->until_ms - now;
        if (left < *wait_ms) {
            *wait_ms = left > 0 ? (int)left : 0;
        }
    }
    return n;
}

/* Has the whole head of the request come? */
static inline bool http_complete(const http_connection *c) {
    for (size_t i = 0; i + 1 < c->got; i++) {
        if (c->request[i] != '\n') {
            continue;
        }
        if (c->request[i + 1] == '\n'
            || (c->request[i + 1] == '\r' && i + 2 < c->got && c->request[i + 2] == '\n')) {
            return true;
        }
    }
    return false;
}

static inline const char *http_reason(int status) {
    switch (status) {
    case 200: return "OK";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
    }
}

/* Probes say that anything will do: they get text. */
static inline bool http_accepts_json(const char *request) {
    for (const char *line = strchr(request, '\n'); line; line = strchr(line + 1, '\n')) {
        size_t len = strcspn(line + 1, "\r\n");
        const char *json = strstr(line + 1, "application/json");
        if (strncasecmp(line + 1, "accept:", 7) == 0 && json && json < line + 1 + len) {
            return true;
        }
    }
    return false;
}

static inline void http_reply(http_server *s, http_connection *c, bool too_long) {
    char method[8] = "";
    char path[256] = "";
    char version[16] = "";
    http_body body;
    int status = too_long ? 431 : 400;
    body.len = 0;
    body.full = false;
    body.type = "text/plain; charset=utf-8";
    body.location[0] = 0;
    body.election = "";
    c->request[c->got < HTTP_REQUEST_MAX ? c->got : HTTP_REQUEST_MAX - 1] = 0;
    if (!too_long && sscanf(c->request, "%7[A-Z] %255[^ \r\n] %15[^ \r\n]", method, path, version) == 3
        && strncmp(version, "HTTP/1.", 7) == 0) {
        path[strcspn(path, "?#")] = 0;
        body.wants_json = http_accepts_json(c->request);
        bool known = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
        status = known ? s->answer(s->user, path, &body) : 405;
    }
    if (body.full) {
        status = 500;
        body.len = 0;
    }
    if (body.len == 0) {
        http_print(&body, "%d %s\n", status, http_reason(status));
    }
    char more[600] = "";
    if (status == 405) {
        snprintf(more, sizeof more, "Allow: GET, HEAD\r\n");
    }
    if (body.location[0]) {
        snprintf(more, sizeof more, "Location: %s\r\n", body.location);
    }
    int head = snprintf(c->reply, sizeof c->reply,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sCache-Control: "
                        "no-store\r\nConnection: close\r\n\r\n",
                        status, http_reason(status), body.type, body.len, more);
    bool bare = strcmp(method, "HEAD") == 0;
    if (!bare) {
        memcpy(c->reply + head, body.text, body.len);
    }
    c->len = (size_t)head + (bare ? 0 : body.len);
}

/* One turn for one connection: at most one read and one write. */
static inline void http_turn(http_server *s, http_connection *c, int64_t now) {
    char rest[512];
    if (now >= c->until_ms) {
        http_drop(c);
        return;
    }
    // once answered, what still comes is thrown away until the client closes:
    if (c->len == 0 || c->sent == c->len) {
        bool answered = c->len > 0;  // closing before that could take the reply away from it
        ssize_t n = answered ? recv(c->fd, rest, sizeof rest, 0)
                             : recv(c->fd, c->request + c->got, HTTP_REQUEST_MAX - c->got, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            http_drop(c);
            return;
        }
        if (n < 0 || answered) {
            return;
        }
        c->got += (size_t)n;
        bool too_long = c->got == HTTP_REQUEST_MAX;
        if (!too_long && !http_complete(c)) {
            return;
        }
        http_reply(s, c, too_long && !http_complete(c));
    }
    ssize_t n = send(c->fd, c->reply + c->sent, c->len - c->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        http_drop(c);
        return;
    }
    if (n > 0) {
        c->sent += (size_t)n;
    }
    if (c->sent == c->len) {
        shutdown(c->fd, SHUT_WR);
    }
}

/* A free place, or that of the oldest connection. */
static inline http_connection *http_place(http_server *s) {
    http_connection *place = &s->connections[0];
    for (int i = 1; i < HTTP_CONNECTIONS_MAX && place->fd >= 0; i++) {
        http_connection *c = &s->connections[i];
        if (c->fd < 0 || c->until_ms < place->until_ms) {
            place = c;
        }
    }
    return place;
}

/* False: nobody waits, or no descriptor is to be had. */
static inline bool http_accept(http_server *s, int64_t now) {
    int fd = accept(s->listener, NULL, NULL);
    if (fd < 0) {
        bool nobody = errno == EAGAIN || errno == EWOULDBLOCK;
        bool gone = errno == EINTR || errno == ECONNABORTED;
        if (!nobody && !gone) {
            s->pause_until_ms = now + HTTP_PAUSE_MS;
        }
        return gone;
    }
    http_connection *place = http_place(s);
    http_drop(place);
    place->got = 0;
    place->len = 0;
    place->sent = 0;
    place->until_ms = now + HTTP_TIMEOUT_MS;
    place->fd = fd;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        http_drop(place);
    } else {
        // most requests are here already: answered before the place is needed again
        http_turn(s, place, now);
    }
    return true;
}

/* Call after every poll. All that wait are accepted, up to a limit: a loop of clients that connect must
   not keep a probe waiting, nor a tick. */
static inline void http_serve(http_server *s) {
    int64_t now = http_now_ms();
    if (s->listener < 0) {
        return;
    }
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        if (s->connections[i].fd >= 0) {
            http_turn(s, &s->connections[i], now);
        }
    }
    for (int i = 0; i < HTTP_ACCEPTS_MAX && now >= s->pause_until_ms; i++) {
        if (!http_accept(s, now)) {
            break;
        }
    }
}

/* The descriptors of the election, for the same poll; at most LEADER_FDS_MAX. */
static inline int http_leader_fds(const leader_t *l, struct pollfd *fds) {
    leader_fd theirs[LEADER_FDS_MAX];
    int n = leader_fds(l, theirs);
    for (int i = 0; i < n; i++) {
        fds[i].fd = (int)theirs[i].fd;
        fds[i].events = leader_poll_events(theirs[i].events);
    }
    return n;
}

/* ---- what an election has to say --------------------------------------------------------------- */

typedef struct http_election {
    leader_t *leader;
    const char *election, *identity;
    int64_t tolerance_ms;  // how late a tick or a renewal may be before /healthz says 503
    int64_t silence_ms;    // how long the store may be silent before /readyz says 503; 0: for ever
} http_election;

static inline int http_healthz(const http_election *e, http_body *b) {
    bool healthy = leader_is_healthy(e->leader, e->tolerance_ms);
    if (b->wants_json) {
        leader_view v = leader_get_view(e->leader);
        b->type = "application/json";
        http_print(b, "{\"status\":\"%s\",\"role\":\"%s\",\"leader\":", healthy ? "ok" : "late",
                   v.leading ? "leader" : "standby");
        if (v.leader[0]) {
            http_print_json(b, v.leader);
        } else {
            http_print(b, "null");
        }
        http_print(b, ",\"token\":%" PRIu64 ",\"election\":", v.token);
        http_print_json(b, e->election);
        http_print(b, "}\n");
        return healthy ? 200 : 503;
    }
    http_print(b, healthy ? "ok\n" : "late: no renewal within the tolerance of %" PRId64 " ms\n",
               e->tolerance_ms);
    return healthy ? 200 : 503;
}

/* Ready: the store has answered at least once, and we lead or stand by. */
static inline int http_readyz(const http_election *e, http_body *b) {
    leader_view v = leader_get_view(e->leader);
    bool silent = e->silence_ms > 0 && !leader_is_in_touch(e->leader, e->silence_ms);
    bool ready =
        v.age_ms >= 0 && !silent && (v.state == LEADER_STATE_LEADER || v.state == LEADER_STATE_FOLLOWER);
    b->type = "application/json";
    http_print(b, "{\"ready\":%s,\"role\":\"%s\",\"state\":\"%s\",\"election\":", ready ? "true" : "false",
               v.leading ? "leader" : "standby", leader_state_name(v.state));
    http_print_json(b, e->election);
    http_print(b, ",\"identity\":");
    http_print_json(b, e->identity);
    http_print(b, ",\"leader\":");
    if (v.leader[0]) {
        http_print_json(b, v.leader);
    } else {
        http_print(b, "null");
    }
    if (v.value[0]) {
        http_print(b, ",\"value\":");
        http_print_json(b, v.value);
    }
    http_print(b,
               ",\"token\":%" PRIu64 ",\"age_ms\":%" PRId64 ",\"since_ms\":%" PRId64
               ",\"remaining_ms\":%" PRId64 ",\"error\":",
               v.token, v.age_ms, v.since_ms, v.remaining_ms);
    http_print_json(b, leader_error(e->leader));
    http_print(b, "}\n");
    return ready ? 200 : 503;
}

static inline void http_metric(http_body *b, const char *name, const char *type, const char *help) {
    http_print(b, "# HELP leader_%s %s\n# TYPE leader_%s %s\n", name, help, name, type);
}

/* A sample up to its value, which the caller prints. more: further labels, or "". */
static inline void http_sample(http_body *b, const char *name, const char *more) {
    http_print(b, "leader_%s{election=", name);
    http_print_label(b, b->election);
    http_print(b, "%s} ", more);
}

static inline void http_number(http_body *b, const char *name, const char *type, const char *help,
                               uint64_t value) {
    http_metric(b, name, type, help);
    http_sample(b, name, "");
    http_print(b, "%" PRIu64 "\n", value);
}

static inline void http_counter(http_body *b, const char *name, const char *help, uint64_t value) {
    http_number(b, name, "counter", help, value);
}

static inline void http_seconds(http_body *b, const char *name, const char *help, int64_t ms) {
    if (ms < 0) {
        return;  // nothing measured yet: an absent series, not a made-up number
    }
    http_metric(b, name, "gauge", help);
    http_sample(b, name, "");
    http_print(b, "%" PRId64 ".%03d\n", ms / 1000, (int)(ms % 1000));
}

static inline int http_metrics(const http_election *e, http_body *b) {
    leader_view v = leader_get_view(e->leader);
    leader_stats s = leader_get_stats(e->leader);
    uint64_t named =
        s.failures_io + s.failures_timeout + s.failures_auth + s.failures_corrupt + s.failures_duplicate;
    const struct {
        const char *kind;
        uint64_t count;
    } failures[] = {
        {"io", s.failures_io},           {"timeout", s.failures_timeout},     {"auth", s.failures_auth},
        {"corrupt", s.failures_corrupt}, {"duplicate", s.failures_duplicate}, {"other", s.failures - named}};
    b->type = "text/plain; version=0.0.4; charset=utf-8";
    b->election = e->election;
    http_metric(
        b, "info", "gauge",
        "Which election this is, under which name we take part, who leads, and the version of leader.h.");
    http_print(b, "leader_info{election=");
    http_print_label(b, e->election);
    http_print(b, ",identity=");
    http_print_label(b, e->identity);
    http_print(b, ",leader=");
    http_print_label(b, v.leader);
    http_print(b, ",version=\"%s\"} 1\n", LEADER_VERSION);
    http_number(b, "is_leader", "gauge", "1 while this process leads.", v.leading);
    http_number(b, "token", "gauge", "Fencing token of the leader, as last seen; 0: nobody.", v.token);
    http_counter(b, "terms_total", "Times that this process became leader.", s.terms);
    http_counter(b, "transitions_total", "Changes of leader that were seen.", s.transitions);
    http_counter(b, "acquires_total", "Attempts to get the lease.", s.acquires);
    http_counter(b, "renewals_total", "Renewals that succeeded.", s.renewals);
    http_counter(b, "releases_total", "Leases given back.", s.releases);
    http_metric(b, "failures_total", "counter", "Requests to the store that failed.");
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        char kind[32];
        snprintf(kind, sizeof kind, ",kind=\"%s\"", failures[i].kind);
        http_sample(b, "failures_total", kind);
        http_print(b, "%" PRIu64 "\n", failures[i].count);
    }
    http_seconds(b, "knowledge_age_seconds", "Time since the store last confirmed who leads.", v.age_ms);
    http_seconds(b, "success_age_seconds", "Time since the last request that succeeded.", s.since_success_ms);
    http_seconds(b, "remaining_seconds", "Time left to finish work under the lease; 0: not ours.",
                 v.remaining_ms);
    http_seconds(b, "latency_seconds", "Duration of the last request to the store.", s.latency_ms_last);
    http_seconds(b, "latency_max_seconds", "Duration of the slowest request.", s.latency_ms_max);
    http_seconds(b, "margin_min_seconds",
                 "Least time that was left before the deadline when a renewal succeeded.", s.margin_ms_min);
    http_seconds(b, "tick_late_max_seconds", "Greatest delay of a tick.", s.tick_late_ms_max);
    return 200;
}

/* For http_open, with an http_election as its user. */
static inline int http_election_answer(void *user, const char *path, http_body *body) {
    const http_election *e = (const http_election *)user;
    if (strcmp(path, "/healthz") == 0) {
        return http_healthz(e, body);
    }
    if (strcmp(path, "/readyz") == 0) {
        return http_readyz(e, body);
    }
    if (strcmp(path, "/metrics") == 0) {
        return http_metrics(e, body);
    }
    return 404;
}

#endif  // HTTP_H_INCLUDED
