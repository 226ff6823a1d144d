/* What the Kubernetes tests and figures share: an API server (our test server, or a live one), requests to
   it that go round the library, and candidates that run side by side in this process. Include leader.h,
   implementation and all, with LEADER_WITH_K8S first. */
#ifndef K8S_WORLD_H_INCLUDED
#define K8S_WORLD_H_INCLUDED

#include "tests/tools/patience.h"
#include <curl/curl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORLD LEADER_UNUSED_ static          // not every program needs every function

/* ---- the server -------------------------------------------------------------------------------- */

typedef struct world {
    bool live;  // a real API server, from KUBE_URL and so on: no control port, no faults
    char url[256], ca[512], other_ca[512], control[128], account[512], cert[512], key[512];
    char admin[4096], elector[64], watcher[64], nobody[64], space[64], prefix[64];
    pid_t pid;
    int stdin_fd;
} world;

static world W;

typedef struct reply { long status; size_t len; char *text; } reply;

WORLD size_t reply_take(char *data, size_t size, size_t count, void *user) {
    reply *r = (reply *)user;
    char *grown = (char *)realloc(r->text, r->len + size * count + 1);
    if (!grown) return 0;
    memcpy(grown + r->len, data, size * count);
    r->text = grown;
    r->len += size * count;
    r->text[r->len] = 0;
    return size * count;
}

/* One blocking request, past the library. Free reply.text. Status 0: no answer. No url: closes the
   connections. */
WORLD reply ask(const char *method, const char *url, const char *token, const char *type, const char *body) {
    static CURL *easy;
    struct curl_slist *headers = NULL;
    char line[4200];
    reply r = {0, 0, NULL};
    if (!url) {
        curl_easy_cleanup(easy);
        easy = NULL;
        return r;
    }
    if (!easy) easy = curl_easy_init();
    curl_easy_reset(easy);
    if (token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", token);
        headers = curl_slist_append(headers, line);
    }
    snprintf(line, sizeof line, "Content-Type: %s", type ? type : "application/json");
    headers = curl_slist_append(headers, line);
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "test");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 30L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    if (W.ca[0]) curl_easy_setopt(easy, CURLOPT_CAINFO, W.ca);
    if (body) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, reply_take);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &r);
    if (curl_easy_perform(easy) == CURLE_OK) curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &r.status);
    curl_slist_free_all(headers);
    return r;
}

/* Steers the test server; true if it did as told. */
WORLD bool control(const char *method, const char *path, const char *format, ...) LEADER_PRINTF_(3, 4);
WORLD bool control(const char *method, const char *path, const char *format, ...) {
    char url[512], body[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(body, sizeof body, format, args);
    va_end(args);
    snprintf(url, sizeof url, "%s%s", W.control, path);
    reply r = ask(method, url, NULL, NULL, body[0] ? body : NULL);
    if (r.status != 200)
        fprintf(stderr, "control %s %s: %ld %s\n", method, path, r.status, r.text ? r.text : "");
    free(r.text);
    return r.status == 200;
}

#define FAULT(...) control("POST", "/faults", __VA_ARGS__)

/* How many requests match, by the test server's count; "" matches any. */
WORLD int counted(const char *verb, int code) {
    char url[512], text[64];
    int sum = 0;
    snprintf(url, sizeof url, "%s/requests", W.control);
    reply r = ask("GET", url, NULL, NULL, NULL);
    for (const char *p = r.text; p && (p = strstr(p, "{\"user\"")) != NULL; p++) {
        leader_json_ row = {p, (size_t)(strchr(p, '}') - p) + 1}, value;
        uint64_t n = 0, status = 0;
        if (!leader_json_member_(row, "client", &value) || !leader_json_string_(value, text, sizeof text)
            || strcmp(text, "leader.h") != 0)
            continue;
        if (!leader_json_member_(row, "verb", &value) || !leader_json_string_(value, text, sizeof text))
            continue;
        if (verb[0] && strcmp(verb, text) != 0) continue;
        if (leader_json_member_(row, "code", &value)) leader_json_u64_(value, &status);
        if (code >= 0 && status != (uint64_t)code) continue;
        if (leader_json_member_(row, "count", &value) && leader_json_u64_(value, &n)) sum += (int)n;
    }
    free(r.text);
    return sum;
}

WORLD int connections_made(void) {
    char url[512];
    uint64_t n = 0;
    leader_json_ root, value;
    size_t bad;
    snprintf(url, sizeof url, "%s/requests", W.control);
    reply r = ask("GET", url, NULL, NULL, NULL);
    if (r.text && leader_json_parse_(r.text, r.len, &root, &bad)
        && leader_json_member_(root, "connections", &value))
        leader_json_u64_(value, &n);
    free(r.text);
    return (int)n;
}

WORLD void ready_text(leader_json_ root, const char *name, char *buf, size_t cap) {
    leader_json_ value;
    if (!leader_json_member_(root, name, &value) || !leader_json_string_(value, buf, cap)) buf[0] = 0;
}

/* Starts tests/k8s/k8s_server.py with one option more; it ends when its standard input does, so also when
   we are killed. */
WORLD bool server_start(world *w, const char *option, const char *value) {
    int in[2], out[2];
    char line[4096], dir[] = "/tmp/k8s-test-XXXXXX";
    size_t len = 0, bad;
    ssize_t n;
    leader_json_ root, tokens;
    if (pipe(in) != 0 || pipe(out) != 0 || !mkdtemp(dir)) return false;
    w->pid = fork();
    if (w->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 256; fd++) close(fd);
        execlp("python3", "python3", "tests/k8s/k8s_server.py", "--dir", dir, "--rm", option, value,
               (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    w->stdin_fd = in[1];
    while (len < sizeof line - 1 && (n = read(out[0], line + len, sizeof line - 1 - len)) > 0) {
        len += (size_t)n;
        if (memchr(line, '\n', len)) break;
    }
    close(out[0]);
    line[len] = 0;
    if (!leader_json_parse_(line, len, &root, &bad)) return false;
    ready_text(root, "url", w->url, sizeof w->url);
    ready_text(root, "ca", w->ca, sizeof w->ca);
    ready_text(root, "other_ca", w->other_ca, sizeof w->other_ca);
    ready_text(root, "control", w->control, sizeof w->control);
    ready_text(root, "service_account", w->account, sizeof w->account);
    ready_text(root, "client_cert", w->cert, sizeof w->cert);
    ready_text(root, "client_key", w->key, sizeof w->key);
    ready_text(root, "namespace", w->space, sizeof w->space);
    if (!leader_json_member_(root, "tokens", &tokens)) return false;
    ready_text(tokens, "admin", w->admin, sizeof w->admin);
    ready_text(tokens, "elector", w->elector, sizeof w->elector);
    ready_text(tokens, "watcher", w->watcher, sizeof w->watcher);
    ready_text(tokens, "nobody", w->nobody, sizeof w->nobody);
    return w->url[0] != 0;
}

WORLD void server_stop(world *w) {
    if (w->pid <= 0) return;
    close(w->stdin_fd);
    waitpid(w->pid, NULL, 0);
    w->pid = 0;
}

WORLD bool world_start(void) {
    const char *url = getenv("KUBE_URL"), *token = getenv("KUBE_TOKEN"), *ca = getenv("KUBE_CA"),
               *space = getenv("KUBE_NAMESPACE");
    signal(SIGPIPE, SIG_DFL);           // the library must never raise it
    curl_global_init(CURL_GLOBAL_DEFAULT);
    snprintf(W.prefix, sizeof W.prefix, "leader-h-test-%lx%lx", (unsigned long)getpid(),
             (unsigned long)(LEADER_RANDOM64() & 0xffffff));
    if (!url || !url[0]) return server_start(&W, NULL, NULL);
    if (!token || !token[0]) return fprintf(stderr, "KUBE_TOKEN is missing\n"), false;
    W.live = true;
    snprintf(W.url, sizeof W.url, "%s", url);
    snprintf(W.ca, sizeof W.ca, "%s", ca ? ca : "");
    snprintf(W.admin, sizeof W.admin, "%s", token);
    snprintf(W.space, sizeof W.space, "%s", space && space[0] ? space : "default");
    return true;
}

/* ---- the stored Lease -------------------------------------------------------------------------- */

WORLD reply lease_request(const char *method, const char *name, const char *type, const char *body) {
    char url[1024];
    bool create = strcmp(method, "POST") == 0;
    snprintf(url, sizeof url, "%s/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", W.url, W.space,
             create ? "" : "/", create ? "" : name);
    return ask(method, url, W.admin, type, body);
}

WORLD bool lease_patch(const char *name, const char *format, ...) LEADER_PRINTF_(2, 3);
WORLD bool lease_patch(const char *name, const char *format, ...) {
    char body[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(body, sizeof body, format, args);
    va_end(args);
    reply r = lease_request("PATCH", name, "application/merge-patch+json", body);
    if (r.status != 200) fprintf(stderr, "patch %s: %ld %s\n", name, r.status, r.text ? r.text : "");
    free(r.text);
    return r.status == 200;
}

WORLD bool lease_delete(const char *name) {
    reply r = lease_request("DELETE", name, NULL, NULL);
    free(r.text);
    return r.status == 200;
}

/* As another candidate would: spec is the inside of the spec object. */
WORLD bool lease_create(const char *name, const char *spec) {
    char body[2048];
    snprintf(body, sizeof body,
             "{\"apiVersion\":\"coordination.k8s.io/"
             "v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\"},\"spec\":{%s}}",
             name, W.space, spec);
    reply r = lease_request("POST", name, NULL, body);
    if (r.status != 201) fprintf(stderr, "create %s: %ld %s\n", name, r.status, r.text ? r.text : "");
    free(r.text);
    return r.status == 201;
}

/* "spec/holderIdentity" and the like; len 0: not there. Keys that hold a slash:
   "metadata/annotations/leader-h|token". */
WORLD leader_json_ json_find(leader_json_ at, const char *path) {
    char name[128];
    while (*path) {
        size_t len = strcspn(path, "/");
        snprintf(name, sizeof name, "%.*s", (int)len, path);
        for (char *p = name; *p; p++) if (*p == '|') *p = '/';
        if (!leader_json_member_(at, name, &at)) {
            at.at = "";
            at.len = 0;
            return at;
        }
        path += len + (path[len] == '/');
    }
    return at;
}

/* The text of a field of the stored Lease: decoded if it is a string, as it stands otherwise; "(none)" if
   it is not there. */
WORLD const char *stored(const char *name, const char *path) {
    static char text[4][1024];
    static int turn;
    char *buf = text[turn++ % 4];
    leader_json_ root, value;
    size_t bad;
    reply r = lease_request("GET", name, NULL, NULL);
    snprintf(buf, 1024, "(none)");
    if (r.status == 200 && leader_json_parse_(r.text, r.len, &root, &bad)) {
        value = json_find(root, path);
        if (value.len && !leader_json_string_(value, buf, 1024))
            snprintf(buf, 1024, "%.*s", (int)value.len, value.at);
    }
    free(r.text);
    return buf;
}

/* ---- candidates -------------------------------------------------------------------------------- */

typedef struct candidate {
    leader_t          me;
    leader_k8s        store;
    leader_k8s_config where;
    leader_config     cfg;
    char     name[300];
    bool     open, frozen;              // frozen: no ticks, as if the process were stopped
    int      started, stopped;
    int64_t  started_ms;                // when it last began to lead, by the candidates' clock
    uint64_t token;
    leader_result why;
    int64_t  slowest_tick_us;
    char     log[8192];
} candidate;

enum { CANDIDATES_MAX = 64 };
static candidate *candidates[CANDIDATES_MAX];
static int64_t skipped_ms;              // the clock of all candidates is the real one plus this
static int two_leaders;  // moments at which two candidates of one Lease both said that they lead
static uint64_t token_order_bad;        // terms that did not have a greater token than every term before
static uint64_t token_top;              // of all candidates of one Lease
static bool tokens_compared;

WORLD int64_t real_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
WORLD int64_t world_clock_ms(void *user) { (void)user; return real_us() / 1000 + skipped_ms; }

WORLD void on_started(void *user, uint64_t token) {
    candidate *c = (candidate *)user;
    if (token <= c->token || (tokens_compared && token <= token_top)) token_order_bad++;
    if (token > token_top) token_top = token;
    c->started++;
    c->started_ms = world_clock_ms(NULL);
    c->token = token;
}
WORLD void on_stopped(void *user, uint64_t token, leader_result why) {
    candidate *c = (candidate *)user;
    (void)token;
    c->stopped++;
    c->why = why;
}
WORLD void on_log(void *user, leader_level level, const char *text) {
    candidate *c = (candidate *)user;
    size_t len = strlen(c->log);
    if (getenv("K8S_LOG"))
        fprintf(stderr, "%8ld %s [%d] %s\n", (long)(world_clock_ms(NULL) % 10000000), c->name, (int)level,
                text);
    if (len < sizeof c->log - 1) snprintf(c->log + len, sizeof c->log - len, "%s\n", text);
}

/* A candidate for lease, ready to be changed and then opened. The caller's memory; zeroed here. */
WORLD void candidate_make(candidate *c, const char *lease, const char *identity) {
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", identity);
    c->where.server = W.url;
    c->where.ca_file = W.ca[0] ? W.ca : NULL;
    c->where.token = W.live ? W.admin : W.watcher;
    c->where.lease_name = lease;
    c->where.lease_namespace = W.space;
    c->cfg.identity = c->name;
    c->cfg.clock_ms = world_clock_ms;
    c->cfg.on_started_leading = on_started;
    c->cfg.on_stopped_leading = on_stopped;
    c->cfg.on_log = on_log;
    c->cfg.user = c;
}

WORLD bool candidate_open(candidate *c) {
    c->cfg.backend = leader_k8s_backend(&c->store, &c->where);
    if (leader_init(&c->me, &c->cfg) != LEADER_OK) return false;
    c->open = true;
    for (int i = 0; i < CANDIDATES_MAX; i++)
        if (!candidates[i]) { candidates[i] = c; return true; }
    return false;
}

/* Closes it; gone: as if killed, the Lease stays as it is. */
WORLD void candidate_close(candidate *c, bool gone) {
    if (!c->open) return;
    if (gone) c->me.cfg.keep_lease_on_stop = true;
    leader_close(&c->me, gone ? 0 : 5000);
    c->open = false;
    for (int i = 0; i < CANDIDATES_MAX; i++)
        if (candidates[i] == c) candidates[i] = NULL;
}

WORLD bool leads(const candidate *c) { return c->open && leader_is_leader(&c->me); }

WORLD void check_one_leader(void) {
    for (int i = 0; i < CANDIDATES_MAX; i++)
        for (int k = i + 1; k < CANDIDATES_MAX; k++)
            if (candidates[i] && candidates[k]
                && strcmp(candidates[i]->store.name, candidates[k]->store.name) == 0 && leads(candidates[i])
                && leads(candidates[k]))
                two_leaders++;
}

WORLD void tick(candidate *c) {
    int64_t start = real_us();
    leader_tick(&c->me);
    start = real_us() - start;
    if (start > c->slowest_tick_us) c->slowest_tick_us = start;
}

WORLD void tick_all(void) {
    for (int i = 0; i < CANDIDATES_MAX; i++) {
        if (!candidates[i] || candidates[i]->frozen) continue;
        tick(candidates[i]);
        check_one_leader();
    }
}

/* Until somebody's socket is ready or somebody is due, at most so long. */
WORLD void wait_all(int max_ms) {
    struct pollfd fds[CANDIDATES_MAX * 4];
    leader_fd mine[LEADER_FDS_MAX];
    nfds_t count = 0;
    for (int i = 0; i < CANDIDATES_MAX; i++) {
        candidate *c = candidates[i];
        if (!c || c->frozen) continue;
        int due = leader_due_ms(&c->me);
        if (due < max_ms) max_ms = due;
        int n = leader_fds(&c->me, mine);
        for (int k = 0; k < n && count < sizeof fds / sizeof fds[0]; k++, count++) {
            fds[count].fd = (int)mine[k].fd;
            fds[count].events = leader_poll_events(mine[k].events);
        }
    }
    poll(fds, count, max_ms < 0 ? 0 : max_ms);
}

WORLD void pump_for(int max_ms) { tick_all(); wait_all(max_ms); }
WORLD void pump(void) { pump_for(5); }

#ifndef LIMIT_MS
#define LIMIT_MS patient_ms(30000)      // of waiting for a condition; only a failure takes so long
#endif
#define UNTIL(condition) do { int64_t until_ = real_us() + (int64_t)LIMIT_MS * 1000; \
    while (!(condition) && real_us() < until_) { tick_all(); if (condition) break; wait_all(5); } } while (0)

WORLD void pump_ms(int64_t ms) { for (int64_t end = real_us() + ms * 1000; real_us() < end;) pump(); }

/* Time passes for everybody: in steps, with ticks, or at a stroke. */
WORLD void skip_ms(int64_t ms) { skipped_ms += ms; }

WORLD bool idle(const candidate *c) { return c->me.request.op == LEADER_OP_NONE_; }
// until no request is under way, so that a skip of time does not look like a time-out
WORLD void settle(void) {
    for (int64_t end = real_us() + (int64_t)LIMIT_MS * 1000; real_us() < end;) {
        bool quiet = true;
        tick_all();
        for (int i = 0; i < CANDIDATES_MAX; i++)
            if (candidates[i] && !candidates[i]->frozen && !idle(candidates[i]))
                quiet = false;
        if (quiet) return;
        wait_all(5);
    }
}
WORLD void pass_ms(int64_t ms) {       // as a second-by-second film
    while (ms > 0) {
        int64_t step = ms < 500 ? ms : 500;
        settle();
        skip_ms(step);
        ms -= step;
    }
    settle();
}

#endif
