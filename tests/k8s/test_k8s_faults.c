/* The Kubernetes backend while memory runs out and sockets fail: every allocation and every system call of
   a whole life, libcurl's own included, fails once. The server is part of this program, takes turns with
   the players, and speaks plain HTTP: what OpenSSL allocates is OpenSSL's business, and a run takes a few
   milliseconds. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE 1
#endif
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_K8S
#include "leader.h"
#include "tests/tools/utest.h"
#include "tests/tools/faulty_libc.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static void memory_failed(const char *call) { (void)call; }

/* ---- an API server with one Lease -------------------------------------------------------------- */

enum { PEERS = 32 };
typedef struct peer { int fd; bool watches; size_t len; char text[8192]; } peer;

static struct {
    int listener, port;
    pid_t owner;
    uint64_t version;
    leader_http_text_ lease;
    peer peers[PEERS];
} api;

static bool api_start(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    api.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    for (int i = 0; i < PEERS; i++) api.peers[i].fd = -1;
    if (api.listener < 0 || bind(api.listener, (struct sockaddr *)&at, sizeof at) != 0
        || listen(api.listener, 64) != 0)
        return false;
    if (getsockname(api.listener, (struct sockaddr *)&at, &len) != 0) return false;
    api.port = ntohs(at.sin_port);
    api.owner = getpid();
    return true;
}
static void api_hang_up(peer *p) {
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
}
static void api_send(peer *p, const char *format, ...) LEADER_PRINTF_(2, 3);
static void api_send(peer *p, const char *format, ...) {
    char text[8192];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text || send(p->fd, text, (size_t)n, MSG_NOSIGNAL) != (ssize_t)n)
        api_hang_up(p);
}
static void api_event(peer *p) {
    api_send(p, "%zx\r\n{\"type\":\"MODIFIED\",\"object\":%s}\n\r\n",
             api.lease.len + sizeof "{\"type\":\"MODIFIED\",\"object\":}\n" - 1, api.lease.at);
}
static void api_reply(peer *p, const char *status, const char *body) {
    api_send(p, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
             strlen(body), body);
}

/* The member at that path of a document; len 0: not there. */
static leader_json_ api_member(const char *text, size_t len, const char *outer, const char *inner) {
    leader_json_ root, value = {"", 0};
    size_t bad;
    if (!leader_json_parse_(text, len, &root, &bad) || !leader_json_member_(root, outer, &value)
        || !leader_json_member_(value, inner, &value))
        value.len = 0;
    return value;
}
static bool api_same(const char *body, size_t len, const char *name) {
    leader_json_ a = api_member(body, len, "metadata", name),
                 b = api_member(api.lease.at, api.lease.len, "metadata", name);
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}
static void api_store(const char *body, size_t len) {
    static const char *const version[] = {"metadata", "resourceVersion"}, *const uid[] = {"metadata", "uid"};
    char text[32];
    snprintf(text, sizeof text, "\"%llu\"", (unsigned long long)++api.version);
    if (!leader_http_copy_(&api.lease, body, len) || !leader_k8s_set_(&api.lease, version, 2, text)
        || !leader_k8s_set_(&api.lease, uid, 2, "\"5eed\""))
        abort();
    for (int i = 0; i < PEERS; i++)
        if (api.peers[i].fd >= 0 && api.peers[i].watches)
            api_event(&api.peers[i]);
}

static void api_answer(peer *p, const char *body, size_t len) {
    const bool get = strncmp(p->text, "GET ", 4) == 0, post = strncmp(p->text, "POST ", 5) == 0,
               there = api.lease.len > 0;
    if (!strstr(p->text, "Authorization: Bearer secret")) api_reply(p, "401 Unauthorized", "{}");
    else if (get && strstr(p->text, "?watch=1")) {
        const char *from = strstr(p->text, "resourceVersion=");
        api_send(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        p->watches = true;
        if (p->fd >= 0 && from && strtoull(from + 16, NULL, 10) < api.version) api_event(p);
    } else if (!there && !post)
        api_reply(p, "404 Not Found",
                  "{\"kind\":\"Status\",\"message\":\"not "
                  "found\",\"details\":{\"name\":\"job\",\"kind\":\"leases\"}}");
    else if (get) api_reply(p, "200 OK", api.lease.at);
    else if (post ? there : !api_same(body, len, "resourceVersion") || !api_same(body, len, "uid"))
        api_reply(p, "409 Conflict", "{\"message\":\"it has been changed\"}");
    else {
        api_store(body, len);
        api_reply(p, post ? "201 Created" : "200 OK", api.lease.at);
    }
}
/* Reads what there is and answers every request that is complete. */
static void api_turn(void) {
    int fd;
    while ((fd = accept4(api.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        peer *p = api.peers;
        while (p < api.peers + PEERS - 1 && p->fd >= 0) p++;
        api_hang_up(p);
        p->fd = fd;
        p->len = 0;
        p->watches = false;
    }
    for (peer *p = api.peers; p < api.peers + PEERS; p++) {
        while (p->fd >= 0) {
            ssize_t n = recv(p->fd, p->text + p->len, sizeof p->text - 1 - p->len, 0);
            if (n == 0 || (n < 0 && errno != EAGAIN)) api_hang_up(p);
            if (n <= 0) break;
            p->len += (size_t)n;
            p->text[p->len] = 0;
            char *end = strstr(p->text, "\r\n\r\n"), *length = strstr(p->text, "Content-Length: ");
            size_t head = end ? (size_t)(end - p->text) + 4 : 0,
                   body = length ? strtoul(length + 16, NULL, 10) : 0;
            if (!end || p->len < head + body) continue;
            api_answer(p, p->text + head, body);
            p->len = 0;
        }
    }
}

/* ---- runs -------------------------------------------------------------------------------------- */

static leader_k8s store_of[PLAYERS];
static char token_file[64];

/* The backend sends no token over http; once open, it goes wherever this says. */
static const char *(*open_engine)(void *, const leader_host *);
static const char *open_plainly(void *self, const leader_host *host) {
    const char *problem = open_engine(self, host);
    leader_k8s *store = (leader_k8s *)((leader_engine *)self)->store.self;
    if (!problem) snprintf(store->http.server, sizeof store->http.server, "http://127.0.0.1:%d", api.port);
    return problem;
}

static leader_backend backend_of(int i) {
    leader_k8s_config where;
    leader_backend b;
    memset(&where, 0, sizeof where);
    where.server = "https://127.0.0.1:1";
    where.lease_name = "job";
    where.lease_namespace = "default";
    where.leader_h_only = true;
    if (i == PLAYER_B) where.token_file = token_file;
    else where.token = "secret";
    b = leader_k8s_backend(&store_of[i], &where);
    open_engine = b.open;
    b.open = open_plainly;
    return b;
}

static void checked(void) {
    int who = leading();
    char mine[64];
    if (who < 0) return;
    leader_json_ holder = api_member(api.lease.at, api.lease.len, "spec", "holderIdentity");
    snprintf(mine, sizeof mine, "\"%s\"", S.p[who].cfg.identity);
    if (holder.len != strlen(mine) || memcmp(holder.at, mine, holder.len) != 0)
        wrong("FALSE LEADER: %s, and the Lease is %.*s's", mine, (int)holder.len, holder.at);
}

static void let_pass(int wait_ms) {
    struct pollfd fds[PLAYERS * LEADER_FDS_MAX];
    leader_fd mine[LEADER_FDS_MAX];
    nfds_t count = 0;
    api_turn();
    for (int i = 0; i < PLAYERS; i++) {
        for (int k = 0, n = S.p[i].open && !S.p[i].frozen ? leader_fds(&S.p[i].me, mine) : 0; k < n;
             k++, count++) {
            fds[count].fd = (int)mine[k].fd;
            fds[count].events = leader_poll_events(mine[k].events);
        }
    }
    S.now_ms += poll(fds, count, 0) > 0 ? 1 : wait_ms;
}

static void *do_nothing(void *with) { return with; }

static void prepare(void) {
    // the first thread of a process leaves some memory behind, for the next one: libcurl may look names up in
    // one
    pthread_t idle;
    if (api.owner != getpid()
        && (!api_start() || pthread_create(&idle, NULL, do_nothing, NULL) != 0
            || pthread_join(idle, NULL) != 0))
        wrong("no server");
    api.lease.len = 0;
    S.now_ms = S.led_ms = 1000000;
    S.gap_max_ms = 6000;
    S.expires = true;
    for (int i = 0; i < PLAYERS; i++) {
        S.p[i].cfg.lease_ms = 3000;
        S.p[i].cfg.renew_deadline_ms = 2700;
        S.p[i].cfg.retry_ms = i == WATCHER ? 2000 : 1000;
        S.p[i].cfg.retry_max_ms = 2000;
    }
}

static void run_once(void) {
    long before = blocks;
    play();
    api_turn();
    for (int i = 0; i < PEERS; i++) api_hang_up(&api.peers[i]);
    // a thread may be about to end
    for (int ms = 0; ms < 1000 && __atomic_load_n(&blocks, __ATOMIC_RELAXED) != before; ms++) usleep(1000);
    if (blocks != before) wrong("%ld blocks of memory are left over", blocks - before);
}

static bool set_up(void) {
    static bool done;
    if (done) return true;
    done = true;
    curl_global_init(CURL_GLOBAL_DEFAULT);          // what libcurl and OpenSSL keep for good is not counted
    char name[] = "/tmp/leader-faults-XXXXXX";
    int fd = mkstemp(name);         // it needs no name: nothing can be left behind
    snprintf(token_file, sizeof token_file, "/proc/self/fd/%d", fd);
    return fd >= 0 && unlink(name) == 0 && write(fd, "secret\n", 7) == 7
           && leader_http_reserve_(&api.lease, 8192);
}

UTEST(k8s_faults, one_leader_whichever_system_call_fails) {
    ASSERT_TRUE(set_up());
    memory_fails = false;
    EXPECT_EQ(0, sweep("kubernetes, system calls", 2));
}
UTEST(k8s_faults, one_leader_whichever_allocation_fails) {
    ASSERT_TRUE(set_up());
    memory_fails = true;
    EXPECT_EQ(0, sweep("kubernetes, allocations", 2));
}

UTEST_MAIN()
