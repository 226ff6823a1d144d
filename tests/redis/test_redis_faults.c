/* The Redis backend while memory runs out and sockets fail: every allocation and every system call of a
   whole life, hiredis' own included, fails once. The server is a real one. Functions of the C library
   that can fail are replaced for the whole program, so that hiredis gets ours. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE 1
#endif
#include "tests/redis/redis_harness.h"
#include "tests/tools/utest.h"
#include "tests/tools/faulty_libc.h"

#include <execinfo.h>

UTEST_STATE();

/* ---- what hiredis does not survive ----------------------------------------------------------------- */

/* hiredis 0.14 does not survive every failure, whatever its caller does; version 1.0 reports them. It
   calls abort() where it copies an address or makes a dictionary, and does not look at what it got: */
#define LOSES "hiredis 0.14: loses a command"       // not a crash: one block is lost
typedef struct excuse { const char *call, *inside, *outside, *why; } excuse;
static const excuse excuses[] = {
#if HIREDIS_MAJOR < 1
    {"calloc", "sdsnewlen", "redisBufferWrite",      "hiredis 0.14: buffer in redisBufferWrite"},
    {"malloc", "sdsnewlen", "redisBufferWrite",      "hiredis 0.14: buffer in redisBufferWrite"},
    {"calloc", "sdsempty",  "redisBufferWrite",      "hiredis 0.14: buffer in redisBufferWrite"},
    {"calloc", "sdsnewlen", "redisProcessCallbacks", "hiredis 0.14: channel of a notice"},
    {"calloc", "sdsnewlen", "redisAsyncCommandArgv", "hiredis 0.14: channel in SUBSCRIBE"},
    {"calloc", "",          "redisAsyncCommandArgv", "hiredis 0.14: dictionary in SUBSCRIBE"},
    {"malloc", "sdsMakeRoomFor", "redisFormatSdsCommandArgv", LOSES},
    {"realloc", "sdsMakeRoomFor", "redisFormatSdsCommandArgv", LOSES},
#endif
    {NULL, NULL, NULL, NULL}};

/* Who asked for it: the functions of hiredis on the stack, from the inside; "" has no name. */
static void memory_failed(const char *call) {
    void *frames[40];
    const char *names[40];
    int count = 0;
    bool was = fault_armed;
    fault_armed = false;
    for (int i = 2, n = backtrace(frames, 40); i < n; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || !strstr(info.dli_fname, "hiredis")) continue;
        names[count++] = info.dli_sname ? info.dli_sname : "";
        size_t len = strlen(board->where);
        snprintf(board->where + len, sizeof board->where - len, ", %.60s",
                 info.dli_sname ? info.dli_sname : "(static)");
    }
    for (const excuse *x = excuses; x->call && count > 0; x++) {
        bool outside = false;
        for (int i = 1; i < count; i++) outside = outside || !strcmp(names[i], x->outside);
        if (!board->excuse[0] && outside && !strcmp(x->call, call) && !strcmp(x->inside, names[0]))
            snprintf(board->excuse, sizeof board->excuse, "%s", x->why);
    }
    fault_armed = was;
}
#if HIREDIS_MAJOR < 1
void abort(void) {
    Dl_info info;
    if (fault.hit && memory_fails && dladdr(__builtin_return_address(0), &info)
        && strstr(info.dli_fname, "libhiredis"))
        snprintf(board->excuse, sizeof board->excuse, "hiredis 0.14 calls abort()");
    raise(SIGABRT);
    _exit(1);
}
#endif

/* ---- a name server --------------------------------------------------------------------------------- */

static int dns = -1;

/* Answers every question for an address with 127.0.0.1. */
static void dns_serve(void) {
    unsigned char q[512];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    static const unsigned char answer[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1};
    ssize_t n;
    while ((n = recvfrom(dns, q, sizeof q - sizeof answer, MSG_DONTWAIT, (struct sockaddr *)&from, &len))
           > 12) {
        q[2] = 0x81; q[3] = 0x80; q[7] = 1;
        memcpy(q + n, answer, sizeof answer);
        (void)sendto(dns, q, (size_t)n + sizeof answer, 0, (struct sockaddr *)&from, len);
        len = sizeof from;
    }
}
static bool dns_start(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    dns = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (dns < 0 || bind(dns, (struct sockaddr *)&at, sizeof at) != 0
        || getsockname(dns, (struct sockaddr *)&at, &len) != 0)
        return false;
    dns_port = ntohs(at.sin_port);
    return true;
}
static bool text_file(char *name, size_t cap, const char *base, const char *text) {
    snprintf(name, cap, "%s/%s", root, base);
    FILE *f = fopen(name, "w");
    return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

/* ---- runs ------------------------------------------------------------------------------------------ */

static server *redis;
static redisContext *witness;       // a connection of the test's own
static char job[32], taken[32];     // what the players contest; what a stranger has, for good
static bool shared;                 // two elections on one connection: a for the job, b for what is taken
static leader_redis_client client_of[PLAYERS];
static leader_redis_election election_of[PLAYERS];
static int64_t skipped_ms;

static leader_backend backend_of(int i) {
    // a number, from the file, from DNS
    static const char *const hosts[PLAYERS] = {"127.0.0.1", "local.faults", "remote.faults"};
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.host = hosts[i];
    how.port = redis->port;
    how.db = 1;
    if (shared && i == PLAYER_B)
        return leader_redis_shared_backend(&election_of[i], &client_of[PLAYER_A], taken);
    leader_redis_client_init(&client_of[i], &how);
    return leader_redis_shared_backend(&election_of[i], &client_of[i], job);
}

static const char *witnessed(const char *command, const char *key, const char *more) {
    static char text[300];
    redisReply *reply = (redisReply *)redisCommand(witness, more ? "%s %s %s" : "%s %s", command, key, more);
    snprintf(text, sizeof text, "%s",
             reply && reply->type == REDIS_REPLY_STRING ? reply->str
             : reply                                    ? ""
                                                        : "no reply");
    freeReplyObject(reply);
    return text;
}

static void take_for_a_stranger(void) {
    char key[64], other[120];
    snprintf(key, sizeof key, "leader:%s", taken);
    snprintf(other, sizeof other, "leader:%s:witness:{leader:%s}", taken, taken);
    const char *argv[] = {"EVAL",
                          leader_redis_script_text_,
                          "2",
                          key,
                          other,
                          "acquire",
                          "stranger",
                          "00000000000000aa",
                          "00000000000000000001",
                          "600000",
                          "",
                          "0",
                          "00000000000000000000",
                          "0",
                          "1",
                          "0",
                          "0",
                          "none",
                          "",
                          ""};
    freeReplyObject(redisCommandArgv(witness, 20, argv, NULL));
}

static void checked(void) {
    static uint64_t last;
    int who = leading();
    if (who < 0 || !fault.hit || (S.p[who].token == last && S.beats % 8)) return;
    char key[64], begin[40];
    snprintf(key, sizeof key, "leader:%s", job);
    snprintf(begin, sizeof begin, "%llu ", (unsigned long long)S.p[who].token);
    last = S.p[who].token;
    const char *record = witnessed("GET", key, NULL);
    if (leading() == who && strncmp(record, begin, strlen(begin)) != 0)
        wrong("FALSE LEADER: %s with token %s, and the record is '%s'", S.p[who].cfg.identity, begin, record);
}

/* While a request is under way the sockets decide, for a while: an answer that never comes must not cost
   real time. */
static void let_pass(int wait_ms) {
    struct pollfd fds[PLAYERS * LEADER_FDS_MAX];
    leader_fd mine[LEADER_FDS_MAX];
    nfds_t count = 0;
    bool busy = false;
    dns_serve();
    for (int i = 0; i < PLAYERS; i++) {
        if (!S.p[i].open) continue;
        busy = busy || S.p[i].me.request.op != LEADER_OP_NONE_;
        for (int k = 0, n = leader_fds(&S.p[i].me, mine); k < n; k++, count++) {
            fds[count].fd = (int)mine[k].fd;
            fds[count].events = leader_poll_events(mine[k].events);
        }
    }
    if (poll(fds, count, busy ? 5 : 0) == 0) skipped_ms += wait_ms;
    S.now_ms = clock_ms() + skipped_ms;
}

static void prepare(void) {
    char key[120];
    snprintf(job, sizeof job, "job-%ld", (long)getpid());
    snprintf(taken, sizeof taken, "taken-%ld", (long)getpid());
    snprintf(key, sizeof key, "leader:%s", job);
    if (!witness) {
        witness = dial(redis);
        freeReplyObject(redisCommand(witness, "SELECT 1"));
    }
    witnessed("DEL", key, NULL);
    snprintf(key, sizeof key, "leader:%s:witness:{leader:%s}", job, job);
    witnessed("DEL", key, NULL);
    if (shared) take_for_a_stranger();
    S.now_ms = S.led_ms = clock_ms() + skipped_ms;
    S.gap_max_ms = 600000;
    for (int i = 0; i < PLAYERS; i++) {
        S.p[i].cfg.lease_ms = 600;
        S.p[i].cfg.renew_retries = -1;
        S.p[i].cfg.retry_ms = 200;
        S.p[i].cfg.retry_max_ms = 400;
        S.p[i].cfg.value = "first";
    }
}

/* Both ask at the same moment, again and again: no answer to one may reach the other. */
static void play_shared(void) {
    enter_stage(PLAYER_A);
    enter_stage(PLAYER_B);
    for (int rounds = 0; rounds < 4; rounds++) {
        until_led(0);
        while (S.p[PLAYER_A].me.request.op != LEADER_OP_NONE_
               || S.p[PLAYER_B].me.request.op != LEADER_OP_NONE_)
            beat();
        leader_set_value(&S.p[PLAYER_A].me, rounds % 2 ? "odd" : "even");
        S.p[PLAYER_A].me.plan.next_ms = S.p[PLAYER_B].me.plan.next_ms = S.now_ms;
        beat();
    }
    until_led(0);
    for (int i = PLAYER_B; i >= PLAYER_A; i--) {
        leader_stop(&S.p[i].me);
        until_stopped(i);
        exit_stage(i);
    }
    if (S.p[PLAYER_B].started) wrong("FALSE LEADER: b, of what is a stranger's");
}

static void run_once(void) {
    long before = blocks;
    if (shared) play_shared();
    else play();
    if (blocks == before + 1 && !strcmp(board->excuse, LOSES)) { fault_tally("excused:", LOSES); blocks--; }
    if (blocks != before) wrong("%ld blocks of memory are left over", blocks - before);
}

static bool set_up(void) {
    char ports[64];
    void *frame;
    if (redis) return true;
    backtrace(&frame, 1);           // it loads a library the first time
    snprintf(ports, sizeof ports, "nameserver 127.0.0.1\n");
    redis = server_start("");
    return redis->pid > 0 && dns_start()
           && text_file(hosts_file, sizeof hosts_file, "hosts",
                        "# here\n127.0.0.1 elsewhere.faults local.faults\n")
           && text_file(resolv_conf, sizeof resolv_conf, "resolv.conf", ports);
}

UTEST(redis_faults, one_leader_whichever_system_call_fails) {
    ASSERT_TRUE(set_up());
    memory_fails = false;
    EXPECT_EQ(0, sweep("redis, system calls", 4));
}
UTEST(redis_faults, one_leader_whichever_allocation_fails) {
    ASSERT_TRUE(set_up());
    memory_fails = true;
    EXPECT_EQ(0, sweep("redis, allocations", 4));
}

UTEST(redis_faults, no_answer_goes_astray_whichever_allocation_fails) {
    ASSERT_TRUE(set_up());
    shared = memory_fails = true;
    EXPECT_EQ(0, sweep("redis, allocations, one connection for two elections", 4));
    shared = false;
}

static int body(int argc, char **argv) { return utest_main(argc, (const char *const *)argv); }
int main(int argc, char **argv) { return supervise(body, argc, argv, NULL); }
