/* The bytes of a hostile Redis server, through a real socket, hiredis and a whole election. Whatever it
   sends, in whatever pieces: nobody leads who was not told OK, memory stays bounded, and nothing is left
   open. */
#ifndef LEADER_WITH_REDIS
#  define LEADER_WITH_REDIS
#endif
#include "fuzz.h"
#include <sys/un.h>

enum { STREAM_PEERS = 4, STREAM_KEPT = 4096, STREAM_MEMORY_MAX = 1 << 20 };
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

// what it was sent, while that is not much
typedef struct stream_peer { int fd; size_t last, sent; char kept[STREAM_KEPT]; } stream_peer;
typedef struct stream_world {
    fuzz_input in;
    leader_t l;
    leader_redis_election *job;
    stream_peer peer[STREAM_PEERS];
    int peers;
    bool told_ok;
    size_t memory;
} stream_world;

static int stream_listener = -1;
static struct sockaddr_un stream_address;
static void stream_clean(void) { (void)unlink(stream_address.sun_path); }

static void stream_listen(void) {
    const char *place = getenv("TMPDIR");
    stream_address.sun_family = AF_UNIX;
    snprintf(stream_address.sun_path, sizeof stream_address.sun_path, "%.60s/leader-fuzz-%ld",
             place && place[0] ? place : "/tmp", (long)getpid());
    (void)unlink(stream_address.sun_path);
    stream_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    MUST(bind(stream_listener, (struct sockaddr *)&stream_address, sizeof stream_address) == 0
         && listen(stream_listener, 8) == 0);
    atexit(stream_clean);
}

static int stream_free_fd(void) {
    int fd = dup(stream_listener);
    close(fd);
    return fd;
}

static void stream_send(stream_world *w, stream_peer *p, const void *bytes, size_t size) {
    if (p->fd < 0 || size == 0 || send(p->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size)
        return;
    if (p->sent + size > sizeof p->kept) { w->told_ok = true; return; }
    p->last = p->sent;
    memcpy(p->kept + p->sent, bytes, size);
    p->sent += size;
    for (size_t i = 0; i + 4 <= p->sent; i++) if (memcmp(p->kept + i, "OK\r\n", 4) == 0) w->told_ok = true;
}

/* An answer as the scripts give it, of words and numbers that the input chooses. */
static void stream_answer(stream_world *w, stream_peer *p) {
    static const char *const words[10] = {"OK",      "HELD", "WAIT", "LOST", "DUPLICATE",
                                          "CORRUPT", "FREE", "OK",   "SAME", "FOREIGN"};
    const char *word = words[fuzz_byte(&w->in) % 10];
    char text[700], record[200];
    unsigned long long token = (unsigned long long)fuzz_number(&w->in), nonce = w->job->nonce,
                       seq = w->job->seq;
    long long left = (long long)fuzz_number(&w->in);
    unsigned wrong = fuzz_byte(&w->in);                         // mostly an answer to the present request
    bool ours = strcmp(word, "OK") == 0;
    snprintf(record, sizeof record, "%llu %020llu %016llx 15000 %s", token, ours ? seq : 1,
             ours ? nonce : 255, ours ? "me" : "xy");
    if (strcmp(word, "SAME") == 0 || strcmp(word, "WAIT") == 0) record[0] = 0;
    nonce ^= wrong == 1;
    seq += wrong == 2;
    int n = snprintf(text, sizeof text,
                     "*9\r\n$%d\r\n%s\r\n:%lld\r\n:%lld\r\n:15000\r\n$%d\r\n%s\r\n$10\r\nleader:%s\r\n$"
                     "16\r\n%016llx\r\n$20\r\n%020llu\r\n$0\r\n\r\n",
                     (int)strlen(word), word, (long long)token, left, (int)strlen(record), record,
                     wrong == 3 ? "jot" : "job", nonce, seq);
    stream_send(w, p, text, (size_t)n);
}

static void stream_canned(stream_world *w, stream_peer *p) {
    static const char *const canned[] = {"-NOSCRIPT No matching script\r\n",
                                         "-MOVED 5 127.0.0.1:1\r\n",
                                         "-READONLY x\r\n",
                                         "+PONG\r\n",
                                         "$-1\r\n",
                                         "*-1\r\n",
                                         ":1\r\n",
                                         "*1024\r\n",
                                         "*1000000\r\n",
                                         "*3\r\n$9\r\nsubscribe\r\n$12\r\nleader:job@0\r\n:1\r\n",
                                         "*3\r\n$7\r\nmessage\r\n$12\r\nleader:job@0\r\n$3\r\n",
                                         "*3\r\n$11\r\nunsubscribe\r\n$12\r\nleader:job@0\r\n:0\r\n",
                                         "$65536\r\n",
                                         "$65537\r\n",
                                         "OK\r\n"};
    const char *text = canned[fuzz_byte(&w->in) % (sizeof canned / sizeof canned[0])];
    stream_send(w, p, text, strlen(text));
}

static void stream_tick(stream_world *w) {
    char sink[4096];
    fuzz_now_ms++;
    int wait = leader_tick(&w->l);
    MUST(wait >= 1 && wait <= LEADER_WAIT_MAX_MS);
    for (int fd; (fd = accept(stream_listener, NULL, NULL)) >= 0;) {
        stream_peer *p = &w->peer[w->peers++ % STREAM_PEERS];
        if (p->fd >= 0) close(p->fd);
        p->fd = fd;
        p->sent = p->last = 0;
    }
    for (int i = 0; i < STREAM_PEERS; i++)
        while (w->peer[i].fd >= 0 && recv(w->peer[i].fd, sink, sizeof sink, MSG_DONTWAIT) > 0) {
        }
    if (leader_is_leader(&w->l)) MUST(w->told_ok && leader_token(&w->l) < UINT64_C(1) << 53);
    MUST(fuzz_is_utf8(leader_error(&w->l), strlen(leader_error(&w->l)))
         && fuzz_is_utf8(leader_get_view(&w->l).leader, strlen(leader_get_view(&w->l).leader)));
    MUST(!__sanitizer_get_current_allocated_bytes
         || __sanitizer_get_current_allocated_bytes() < w->memory + STREAM_MEMORY_MAX);
}

static void stream_step(stream_world *w) {
    unsigned what = fuzz_byte(&w->in);
    stream_peer *p = &w->peer[what >> 3 & 3];
    size_t n;
    switch (what & 7) {
    case 0:  break;
    case 1:  fuzz_now_ms += (int64_t)fuzz_bytes(&w->in, 2); break;
    case 2:  n = (size_t)fuzz_bytes(&w->in, 2) & (STREAM_KEPT - 1);
             if (n > (size_t)(w->in.end - w->in.at)) n = (size_t)(w->in.end - w->in.at);
             stream_send(w, p, w->in.at, n);
             w->in.at += n;
             break;
    case 3:  stream_answer(w, p); break;
    case 4:  stream_canned(w, p); break;
    case 5:  if (p->fd >= 0) close(p->fd);
             p->fd = -1;
             break;
    case 6:  n = 4u * fuzz_byte(&w->in);  // the last again and again: memory must not grow without end
             for (size_t i = 0; i < n && p->fd >= 0 && p->sent > p->last; i++) {
                 (void)send(p->fd, p->kept + p->last, p->sent - p->last, MSG_DONTWAIT | MSG_NOSIGNAL);
                 if (i % 16 == 15) stream_tick(w);
             }
             break;
    default: leader_resign(&w->l, 100); break;
    }
    stream_tick(w);
    if (what & 128) stream_tick(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static stream_world w;
    static leader_redis_client client;
    static leader_redis_election job;
    leader_redis_config s;
    leader_config cfg;
    fuzz_reset();
    if (stream_listener < 0) stream_listen();
    int free_fd = stream_free_fd();
    memset(&w, 0, sizeof w);
    memset(&s, 0, sizeof s);
    memset(&cfg, 0, sizeof cfg);
    for (int i = 0; i < STREAM_PEERS; i++) w.peer[i].fd = -1;
    w.in = fuzz_open(data, size);
    w.job = &job;
    if (__sanitizer_get_current_allocated_bytes) w.memory = __sanitizer_get_current_allocated_bytes();
    unsigned flags = fuzz_byte(&w.in);
    s.path = stream_address.sun_path;
    s.password = flags & 1 ? "sesame" : NULL;
    s.db = flags & 2 ? 3 : 0;
    s.wait_replicas = flags & 4 ? 1 : 0;
    s.no_notice = flags & 8;
    leader_redis_client_init(&client, &s);
    cfg.identity = "me";
    cfg.backend = leader_redis_shared_backend(&job, &client, "job");
    cfg.clock_ms = fuzz_clock_ms;
    cfg.observe_only = flags & 16;
    MUST(leader_init(&w.l, &cfg) == LEADER_OK);
    stream_tick(&w);
    stream_tick(&w);
    for (int step = 0; step < 60 && w.in.at < w.in.end; step++) stream_step(&w);
    (void)leader_close(&w.l, 0);
    for (int i = 0; i < STREAM_PEERS; i++) if (w.peer[i].fd >= 0) close(w.peer[i].fd);
    for (int fd; (fd = accept(stream_listener, NULL, NULL)) >= 0;) close(fd);
    MUST(stream_free_fd() == free_fd);                          // none was left open
    return 0;
}
