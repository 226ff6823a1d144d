/* What the Redis backend costs, next to the least that does the same on the same server. bench.h says how
   to read the table. Needs redis-server, redis-benchmark and ip; root for the black hole. */
#define _GNU_SOURCE 1
#include "tests/redis/redis_harness.h"
#include "tests/bench/bench.h"

#include <malloc.h>
#include <sched.h>

/* ---- a clock that the bench moves -------------------------------------------------------------- */

static int64_t moved_ms;            // ahead of the real one
static int64_t moved_clock(void *user) { (void)user; return clock_ms() + moved_ms; }

/* ---- sequential renewals ----------------------------------------------------------------------- */

enum { LEASE_MS = 600000 };

/* The least that keeps an owner: not our own script, which does more. */
#define LEAST                                                                                                \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else "     \
    "return 0 end"

static void load_least(redisContext *c, char sha1[64]) {
    redisReply *reply = (redisReply *)redisCommand(c, "SCRIPT LOAD %s", LEAST);
    if (!reply || reply->type != REDIS_REPLY_STRING) {
        fprintf(stderr, "the least script cannot be loaded\n");
        exit(1);
    }
    snprintf(sha1, 64, "%s", reply->str);
    freeReplyObject(reply);
}

static double bare_renewals(redisContext *c, const char *sha1, int n) {
    double begin = (bench_now() * 1e6);
    for (int i = 0; i < n; i++) {
        const char *argv[] = { "EVALSHA", sha1, "1", "bare", "owner", "600000" };
        redisReply *reply = (redisReply *)redisCommandArgv(c, 6, argv, NULL);
        if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) {
            fprintf(stderr, "bare renewal failed\n");
            exit(1);
        }
        freeReplyObject(reply);
    }
    return n / ((bench_now() * 1e6) - begin) * 1e6;
}

static double ticked_renewals(leader_t *me, int64_t renew_ms, int n) {
    double begin = (bench_now() * 1e6);
    uint64_t until = me->counts.renewals + (uint64_t)n, seen = me->counts.renewals;
    while (seen < until) {
        leader_tick(me);
        if (me->counts.renewals != seen) { seen = me->counts.renewals; moved_ms += renew_ms; }
        else leader_sleep(me, 1000);
    }
    return n / ((bench_now() * 1e6) - begin) * 1e6;
}

static void bench_sequential(const server *s, const char *path) {
    int n = bench.quick ? 300 : 1000;
    bench_series rate = {0, {0}}, bare = {0, {0}};
    leader_redis_client client;
    leader_redis_election election;
    leader_redis_config how;
    leader_config cfg;
    leader_t me;
    memset(&how, 0, sizeof how);
    if (path) how.path = path; else how.port = s->port;
    leader_redis_client_init(&client, &how);
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = "ticked";
    cfg.lease_ms = LEASE_MS;
    cfg.clock_ms = moved_clock;
    cfg.backend = leader_redis_shared_backend(&election, &client, path ? "ticked-unix" : "ticked");
    if (leader_init(&me, &cfg) != LEADER_OK) { fprintf(stderr, "%s\n", leader_error(&me)); exit(1); }
    while (!leader_is_leader(&me)) { leader_tick(&me); leader_sleep(&me, 10); }
    // the first renewal is due, and from then on the next one as soon as the last has its answer
    moved_ms += LEASE_MS / 3;
    redisContext *c = path ? redisConnectUnix(path) : redisConnect("127.0.0.1", s->port);
    char sha1[64];
    load_least(c, sha1);
    freeReplyObject(redisCommand(c, "SET bare owner PX 600000"));
    for (int round = 0, rounds = bench_rounds(24); round < rounds; round++) {
        bench_add(&bare, bare_renewals(c, sha1, n));
        bench_add(&rate, ticked_renewals(&me, LEASE_MS / 3, n));
        bench_progress("sequential renewals", round, rounds);
    }
    bench_row row = {path ? "renewals by leader_tick, unix socket" : "renewals by leader_tick, TCP",
                     "1/s",
                     &rate,
                     "synchronous hiredis EVALSHA loop",
                     &bare,
                     false,
                     BENCH_AT_LEAST,
                     0.8};
    bench_print(row);
    redisFree(c);
    leader_close(&me, 1000);
}

/* ---- fail-over and hand-over: two processes, beside the least that does the same --------------- */

static int acted_port;              // of the server that the actors share
static char acted_key[80];          // of the lease that is about to end

static candidate *bench_join(const server *s, const char *identity, int64_t lease_ms, const char *name) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    return join_with(&how, identity, lease_ms, name);
}

/* Ticks when a tick is due or a socket is ready, as a program's loop does. */
static void loop_once(candidate **all, int n, int most_ms) {
    struct pollfd set[LEADER_FDS_MAX * CANDIDATES_MAX];
    int count = 0;
    int wait_ms = most_ms;
    for (int i = 0; i < n; i++) {
        leader_fd fds[LEADER_FDS_MAX];
        if (all[i]->frozen) {
            continue;
        }
        int ms = leader_tick(&all[i]->me);
        int mine = leader_fds(&all[i]->me, fds);
        wait_ms = ms < wait_ms ? ms : wait_ms;
        for (int j = 0; j < mine; j++) {
            set[count].fd = (int)fds[j].fd;
            set[count].events = leader_poll_events(fds[j].events);
            count++;
        }
    }
    poll(set, (nfds_t)count, wait_ms);
}

typedef leader_redis actor_store;

static leader_backend actor_backend(leader_redis *store, const char *election) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = acted_port;
    how.name = election;
    return leader_redis_backend(store, &how);
}

static bool actor_hears(const leader_redis *store) {
    return store->election.subscribed;
}

#include "tests/bench/actors.h"

static double remaining_us(redisContext *c, const char *key) {
    redisReply *reply = (redisReply *)redisCommand(c, "PTTL %s", key);
    double us = (double)reply->integer * 1e3;
    freeReplyObject(reply);
    return us;
}

static redisContext *acted_connection;

static double acted_left_s(void) {
    return remaining_us(acted_connection, acted_key) / 1e6;
}

static bool least_takes(redisContext *c) {
    redisReply *reply = (redisReply *)redisCommand(c, "SET floor b NX PX 60000");
    bool won = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return won;
}

static void least_leads(int in, int out) {
    redisContext *c = redisConnect("127.0.0.1", acted_port);
    freeReplyObject(redisCommand(c, "SET floor a PX %d", (int)actor_lease_ms));
    actor_say(out, ACTOR_LEADS, bench_now());
    while (!actor_is_told(in, 1000)) {
    }
    actor_say(out, ACTOR_STOPS, bench_now());
    freeReplyObject(redisCommand(c, "EVAL %s 1 floor",
                                 "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1], 'x') return 1"));
    pause();
}

/* Says a command, if there is one, and reads until the word has come. */
static void least_talks(int fd, const char *command, const char *word) {
    char text[4096];
    size_t len = 0;
    size_t length = strlen(command);
    if (write(fd, command, length) != (ssize_t)length) {
        _exit(1);
    }
    do {
        ssize_t n = read(fd, text + len, sizeof text - 1 - len);
        if (n <= 0) {
            _exit(1);
        }
        len += (size_t)n;
        text[len] = 0;
    } while (!strstr(text, word));
}

/* Hears of the release on the very connection on which it takes the lease. */
static void least_listens(int in, int out) {
    (void)in;
    redisContext *c = redisConnect("127.0.0.1", acted_port);
    least_talks(c->fd, "HELLO 3\r\n", "modules");
    least_talks(c->fd, "SUBSCRIBE floor\r\n", "subscribe");
    actor_say(out, ACTOR_HEARS, bench_now());
    least_talks(c->fd, "", "message");
    least_talks(c->fd, "SET floor b NX PX 60000\r\n", "+OK\r\n");
    actor_say(out, ACTOR_LEADS, bench_now());
    pause();
}

/* The next try is planned for the PTTL that the store named, but within a third of the lease. It waits in
   poll(), as a program with a loop does, which Linux lets be late by a thousandth of the time. */
static void least_plans(int in, int out) {
    (void)in;
    redisContext *c = redisConnect("127.0.0.1", acted_port);
    struct pollfd readable = {c->fd, POLLIN, 0};
    actor_say(out, ACTOR_HEARS, bench_now());
    while (!least_takes(c)) {
        int rest_ms = (int)(remaining_us(c, "floor") / 1e3) + 1;
        int most_ms = (int)actor_lease_ms / 3;
        poll(&readable, 1, rest_ms < most_ms ? rest_ms : most_ms);
    }
    actor_say(out, ACTOR_LEADS, bench_now());
    pause();
}

static void bench_crashes(void) {
    static bench_series ours, least;
    for (int round = 0, rounds = bench_rounds(12); round < rounds; round++) {
        snprintf(acted_key, sizeof acted_key, "floor");
        freeReplyObject(redisCommand(acted_connection, "DEL floor"));
        // NOLINTNEXTLINE(readability-suspicious-call-argument): the names are alike by chance
        bench_add(&least, actor_crash(least_leads, least_plans, 0.7, acted_left_s));
        snprintf(acted_key, sizeof acted_key, "leader:acted-%d", 2 * round + 1);
        bench_add(&ours, actor_crash(actor_elects, actor_elects, 0.7, acted_left_s));
        bench_progress("crash failover", round, rounds);
    }
    bench_row row = {"crash failover: excess over a lease of 2 s",
                     "ms",
                     &ours,
                     "SET NX planned by PTTL, two processes",
                     &least,
                     false,
                     BENCH_AT_MOST,
                     2};
    bench_print(row);
}

static void bench_hand_overs(void) {
    static bench_series ours, least;
    for (int round = 0, rounds = bench_rounds(32); round < rounds; round++) {
        freeReplyObject(redisCommand(acted_connection, "DEL floor"));
        bench_add(&least, actor_hand_over(least_leads, least_listens));
        bench_add(&ours, actor_hand_over(actor_elects, actor_elects));
        bench_progress("graceful hand-over", round, rounds);
    }
    bench_row row = {"graceful hand-over",
                     "ms",
                     &ours,
                     "DEL, PUBLISH, SET NX, two processes",
                     &least,
                     false,
                     BENCH_AT_MOST,
                     2};
    bench_print(row);
}

static void bench_changes(const server *s) {
    acted_port = s->port;
    acted_connection = redisConnect("127.0.0.1", s->port);
    bench_crashes();
    bench_hand_overs();
    redisFree(acted_connection);
}

/* ---- the longest tick -------------------------------------------------------------------------- */

static double longest_tick(candidate *c, int64_t ms) {
    double longest = 0;
    for (int64_t end = clock_ms() + ms; clock_ms() < end; ) {
        double begin = (bench_now() * 1e6);
        leader_tick(&c->me);
        double took = (bench_now() * 1e6) - begin;
        if (took > longest) longest = took;
        usleep(500);
    }
    return longest / 1e3;
}

/* What the machine does to a loop that only reads the clock: the limit of what can be measured here. */
static double longest_nothing(int64_t ms) {
    double longest = 0;
    for (int64_t end = clock_ms() + ms; clock_ms() < end; ) {
        double begin = (bench_now() * 1e6);
        (void)clock_ms();
        double took = (bench_now() * 1e6) - begin;
        if (took > longest) longest = took;
        usleep(500);
    }
    return longest / 1e3;
}

static void wait_for_lead(candidate *c) {
    while (!leads(c)) {
        leader_tick(&c->me);
        usleep(500);
    }
}

static void bench_longest(const char *name, double longest_ms, double nothing_ms) {
    bench_series longest = {1, {longest_ms}};
    bench_series nothing = {1, {nothing_ms}};
    bench_print((bench_row){name, "ms", &longest, "reading the clock", &nothing, true, BENCH_AT_MOST, 5});
}

/* In a network of its own, where nobody answers. Negative: none can be made here. */
static double longest_in_a_hole(int64_t ms) {
    static const char make[] = "ip link add v0 type veth peer name v1 && ip addr add 10.78.0.1/24 dev v0 "
                               "&& ip link set v0 up && ip link set v1 up "
                               "&& ip neigh replace 10.78.0.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent";
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.host = "10.78.0.2";
    if (unshare(CLONE_NEWNET) != 0 || shell("%s", make) != 0) {
        return -1;
    }
    return longest_tick(join_with(&how, "hole", 3000, "tick"), ms);
}

static double longest_in_a_child(int64_t ms) {
    int result[2];
    double longest = -1;
    if (pipe(result) != 0) {
        return -1;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        longest = longest_in_a_hole(ms);
        _exit(write(result[1], &longest, sizeof longest) == (ssize_t)sizeof longest ? 0 : 1);
    }
    close(result[1]);
    if (read(result[0], &longest, sizeof longest) != (ssize_t)sizeof longest) {
        longest = -1;
    }
    close(result[0]);
    waitpid(pid, NULL, 0);
    return longest;
}

static void bench_ticks(server *s) {
    int64_t ms = bench.quick ? 1000 : 6000;
    double nothing = longest_nothing(ms);
    candidate *a = bench_join(s, "a", 3000, "tick");
    wait_for_lead(a);
    kill(s->pid, SIGSTOP);
    bench_longest("longest leader_tick, server stopped", longest_tick(a, ms), nothing);
    kill(s->pid, SIGCONT);
    leader_close(&a->me, 0);
    a->open = false;
    double holed = longest_in_a_child(ms);
    if (holed < 0) {
        fprintf(stderr, "bench_redis: no black hole is measured: no namespace can be made here\n");
        return;
    }
    bench_longest("longest leader_tick, server black-holed", holed, nothing);
}

/* ---- a partition: A's way to the server goes through a relay that falls silent ----------------- */

typedef struct pipe_ { int from, to; } pipe_;
static pipe_ pipes[16];
static int pipe_count;
static bool silent;

static void relay_step(fake *f, int port) {
    if (silent) return;
    int fd = accept(f->listener, NULL, NULL);
    if (fd >= 0 && pipe_count + 2 <= 16) {
        struct sockaddr_in at;
        memset(&at, 0, sizeof at);
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons((uint16_t)port);
        int to = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(to, (struct sockaddr *)&at, sizeof at) != 0) exit(1);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        fcntl(to, F_SETFL, O_NONBLOCK);
        pipes[pipe_count].from = fd; pipes[pipe_count++].to = to;
        pipes[pipe_count].from = to; pipes[pipe_count++].to = fd;
    }
    for (int i = 0; i < pipe_count; i++) {
        char bytes[4096];
        ssize_t n = recv(pipes[i].from, bytes, sizeof bytes, 0);
        if (n > 0 && send(pipes[i].to, bytes, (size_t)n, MSG_NOSIGNAL) < 0) continue;
    }
}

static void bench_partition(const server *s) {
    enum { LIMIT_S = 60 };
    fake f;
    leader_redis_config how;
    int both = 0;
    int gap = 0;
    fake_open(&f);
    memset(&how, 0, sizeof how);
    how.port = f.port;
    candidate *a = join_with(&how, "a", 2000, "partition");
    while (!leads(a)) {
        relay_step(&f, s->port);
        leader_tick(&a->me);
        usleep(200);
    }
    candidate *b = bench_join(s, "b", 2000, "partition");
    for (int64_t end = clock_ms() + 600; clock_ms() < end; usleep(200)) {
        relay_step(&f, s->port);
        leader_tick(&a->me);
        leader_tick(&b->me);
    }
    silent = true;
    double begin = bench_now();
    double least = bench.quick ? 3 : 6;
    while (bench_now() < begin + least || (!leads(b) && bench_now() < begin + LIMIT_S)) {
        leader_tick(&a->me);
        leader_tick(&b->me);
        both += leads(a) && leads(b);
        gap += !leads(a) && !leads(b);
        usleep(200);
    }
    if (!leads(b) || gap == 0) {
        fprintf(stderr, "bench_redis: the partition did not work\n");
    }
    bench_fact("two leaders at once after a partition", "times", both, BENCH_AT_MOST, 0);
    leader_close(&a->me, 0);
    a->open = false;
    leave(b);
    fake_close(&f);
}

/* ---- ten thousand ------------------------------------------------------------------------------ */

enum { MANY = 10000 };
static struct { leader_t me; leader_redis_election election; } *many;
static size_t in_use(void) { struct mallinfo2 m = mallinfo2(); return m.uordblks + m.hblkhd; }

static unsigned *due, *due_next, due_count, due_next_count;  // who asked for a tick: what an event loop keeps
static bool *queued;
static struct pollfd many_set[4];
static int many_fds;

static void many_fd(void *user, intptr_t fd, int events) {
    int i = 0;
    (void)user;
    while (i < many_fds && many_set[i].fd != (int)fd) i++;
    if (i == many_fds) many_fds++;
    many_set[i].fd = (int)fd;
    many_set[i].events = leader_poll_events(events);
    if (!events) many_set[i] = many_set[--many_fds];
}
static void many_due(void *user) {
    unsigned i = (unsigned)(uintptr_t)user;
    if (!queued[i]) { queued[i] = true; due_next[due_next_count++] = i; }
}

static int reached;                 // all before it are where they should be

/* Everybody is due; ticks until all have their answers. */
static void many_round(bool (*all)(void)) {
    reached = 0;
    for (unsigned i = 0; i < MANY; i++) leader_tick(&many[i].me);
    while (!all()) {
        if (poll(many_set, (nfds_t)many_fds, 1000) > 0) leader_tick(&many[0].me);
        unsigned *swap = due;
        due = due_next;
        due_next = swap;
        due_count = due_next_count;
        due_next_count = 0;
        for (unsigned i = 0; i < due_count; i++) { queued[due[i]] = false; leader_tick(&many[due[i]].me); }
    }
}
static uint64_t wanted;
static bool all_leading(void) {
    while (reached < MANY && leader_is_leader(&many[reached].me))
        reached++;
    return reached == MANY;
}
static bool all_renewed(void) {
    while (reached < MANY && many[reached].me.counts.renewals >= wanted)
        reached++;
    return reached == MANY;
}

/* Requests a second of redis-benchmark with the least script, on one connection, at the depth that suits
   it best. */
static double benchmark(const server *s) {
    static const int depths[] = { 16, 100, 1000 };
    double best = 0;
    char sha1[64];
    redisContext *c = dial(s);
    load_least(c, sha1);
    freeReplyObject(redisCommand(c, "EVAL %s 0 %d",
                                 "for i = 0, ARGV[1] - 1 do redis.call('SET', "
                                 "'bare:'..string.format('%012d', i), 'node', 'PX', 600000) end",
                                 MANY));
    redisFree(c);
    for (int i = 0; i < 3; i++) {
        char line[600], text[200];
        snprintf(line, sizeof line,
                 "redis-benchmark -h 127.0.0.1 -p %d -c 1 -n %d -r %d -P %d --csv EVALSHA %s 1 "
                 "bare:__rand_int__ node 600000 2>/dev/null",
                 s->port, bench.quick ? 20000 : 100000, MANY, depths[i], sha1);
        FILE *f = popen(line, "r");
        while (f && fgets(text, sizeof text, f)) {
            char *comma = strstr(text, "\",\"");
            double rate = comma ? atof(comma + 3) : 0;
            if (rate > best) best = rate;
        }
        if (f) pclose(f);
    }
    return best;
}

static void bench_many(const server *s) {
    static leader_redis_client client;
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    how.prefix = "";
    leader_redis_client_init(&client, &how);
    size_t heap = in_use();
    many = calloc(MANY, sizeof *many);
    due = calloc(MANY, sizeof *due);
    due_next = calloc(MANY, sizeof *due_next);
    queued = calloc(MANY, sizeof *queued);
    if (!many || !due || !due_next || !queued) exit(1);
    size_t lists = (size_t)MANY * (2 * sizeof *due + sizeof *queued);
    for (unsigned i = 0; i < MANY; i++) {
        char name[32];
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        snprintf(name, sizeof name, "job-%012u", i);
        cfg.identity = "node";
        cfg.lease_ms = LEASE_MS;
        cfg.clock_ms = moved_clock;
        cfg.on_fd = many_fd;
        cfg.on_due = many_due;
        cfg.loop_user = (void *)(uintptr_t)i;
        cfg.backend = leader_redis_shared_backend(&many[i].election, &client, name);
        if (leader_init(&many[i].me, &cfg) != LEADER_OK) exit(1);
    }
    many_round(all_leading);
    double kept = (double)(in_use() - heap - lists) / MANY;
    bench_series rate = {0, {0}}, limit = {0, {0}}, cpu = {0, {0}};
    for (int round = 0, rounds = bench_rounds(8); round < rounds; round++) {
        moved_ms += LEASE_MS / 3;
        wanted++;
        double begin = bench_now(), cpu_begin = bench_cpu();
        many_round(all_renewed);
        bench_add(&rate, MANY / (bench_now() - begin));
        bench_add(&cpu, (bench_cpu() - cpu_begin) / MANY * 1e6);
        bench_add(&limit, benchmark(s));
        bench_progress("10,000 elections", round, rounds);
    }
    bench_row row = {"10,000 elections, one connection: renewals",
                     "1/s",
                     &rate,
                     "redis-benchmark, pipelined",
                     &limit,
                     false,
                     BENCH_AT_LEAST,
                     0.5};
    bench_print(row);
    bench_row own = {
        "10,000 elections: our own CPU in a renewal", "us", &cpu, NULL, NULL, true, BENCH_NO_GOAL, 0};
    bench_print(own);
    bench_fact("10,000 elections: memory of each", "B", kept, BENCH_AT_MOST, 4096);
    for (unsigned i = MANY; i-- > 0; ) leader_close(&many[i].me, 0);
    free(many); free(due); free(due_next); free(queued);
}

/* ---- what a script costs in the server, by the server's own count ------------------------------ */

/* Microseconds of a call since the last reset; "evalsha", "get". */
static double server_us(const server *s, const char *command) {
    char name[40];
    unsigned long long calls = 0;
    unsigned long long us = 0;
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(say(s, "INFO commandstats"), name);
    if (!at || sscanf(at + strlen(name), "%llu,usec=%llu", &calls, &us) != 2 || calls == 0) {
        fprintf(stderr, "bench_redis: the server counts no %s\n", command);
        exit(1);
    }
    say(s, "CONFIG RESETSTAT");
    return (double)us / (double)calls;
}

static int64_t standby_moved_ms;        // its clock goes ahead by itself: the leader's must not
static int64_t standby_clock(void *user) {
    (void)user;
    return clock_ms() + standby_moved_ms;
}

static void bench_init(leader_t *me, leader_redis *store, const server *s, const char *identity,
                       int64_t (*clock)(void *)) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    how.name = "script";
    how.no_notice = true;               // a standby that hears of releases need not look
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = identity;
    cfg.lease_ms = LEASE_MS;
    cfg.clock_ms = clock;
    cfg.backend = leader_redis_backend(store, &how);
    if (leader_init(me, &cfg) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(me));
        exit(1);
    }
}

/* As soon as one has its answer, the next one is due. */
static void ticked_looks(leader_t *me, const leader_redis *store, int n) {
    uint64_t until = leader_get_stats(me).acquires + (uint64_t)n;
    while (leader_get_stats(me).acquires < until) {
        leader_tick(me);
        if (store->election.phase == LEADER_REDIS_IDLE_) {
            standby_moved_ms += leader_due_ms(me);
        } else {
            leader_sleep(me, 10);
        }
    }
}

static void bare_looks(redisContext *c, int n) {
    for (int i = 0; i < n; i++) {
        freeReplyObject(redisCommand(c, "GET bare"));
    }
}

static void bench_scripts(const server *s) {
    static leader_redis stores[2];
    static leader_t leading, standing_by;
    int n = bench.quick ? 500 : 3000;
    bench_series renewal = {0, {0}}, least = {0, {0}}, look = {0, {0}}, get = {0, {0}};
    redisContext *c = dial(s);
    char sha1[64];
    load_least(c, sha1);
    freeReplyObject(redisCommand(c, "SET bare owner PX 600000"));
    bench_init(&leading, &stores[0], s, "a", moved_clock);
    while (!leader_is_leader(&leading)) {
        leader_tick(&leading);
        leader_sleep(&leading, 10);
    }
    bench_init(&standing_by, &stores[1], s, "b", standby_clock);
    ticked_looks(&standing_by, &stores[1], 10);
    moved_ms += LEASE_MS / 3;
    ticked_renewals(&leading, LEASE_MS / 3, 10);
    for (int round = 0, rounds = bench_rounds(12); round < rounds; round++) {
        say(s, "CONFIG RESETSTAT");
        bare_renewals(c, sha1, n);
        bench_add(&least, server_us(s, "evalsha"));
        ticked_renewals(&leading, LEASE_MS / 3, n);
        bench_add(&renewal, server_us(s, "evalsha"));
        bare_looks(c, n);
        bench_add(&get, server_us(s, "get"));
        ticked_looks(&standing_by, &stores[1], n);
        bench_add(&look, server_us(s, "evalsha"));
        bench_progress("scripts", round, rounds);
    }
    bench_row renewals = {"a renewal in the server",
                          "us",
                          &renewal,
                          "the least script that keeps an owner",
                          &least,
                          false,
                          BENCH_AT_MOST,
                          4};
    bench_print(renewals);
    bench_row looks = {"a standby's look in the server", "us", &look, "GET", &get, false, BENCH_NO_GOAL, 0};
    bench_print(looks);
    redisFree(c);
    leader_close(&leading, 1000);
    leader_close(&standing_by, 1000);
}

static uint64_t evalsha_calls(const server *s) {
    const char *at = strstr(say(s, "INFO commandstats"), "cmdstat_evalsha:calls=");
    return at ? strtoull(at + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
}

static void bench_standby(const server *s) {
    enum { STANDBYS = 20, RETRY_MS = 1000 };
    candidate *a = bench_join(s, "a", 30000, "idle"), *all[STANDBYS + 1];
    char name[16];
    while (!leads(a)) { leader_tick(&a->me); usleep(500); }
    all[0] = a;
    a->frozen = true;
    for (int i = 1; i <= STANDBYS; i++) {
        leader_redis_config how;
        memset(&how, 0, sizeof how);
        how.port = s->port;
        candidate *c = candidates;
        while (c->open) c++;
        snprintf(name, sizeof name, "s%d", i);
        leader_config cfg = settings(c, name, 30000);
        cfg.retry_ms = RETRY_MS;
        leader_redis_client_init(&c->client, &how);
        cfg.backend = leader_redis_shared_backend(&c->election, &c->client, "idle");
        c->open = leader_init(&c->me, &cfg) == LEADER_OK;
        all[i] = c;
    }
    int periods = bench.quick ? 2 : 6;
    for (int64_t end = clock_ms() + RETRY_MS; clock_ms() < end; ) loop_once(all, STANDBYS + 1, 20);
    uint64_t before = evalsha_calls(s);
    for (int64_t end = clock_ms() + (int64_t)periods * RETRY_MS; clock_ms() < end;)
        loop_once(all, STANDBYS + 1, 20);
    double each = (double)(evalsha_calls(s) - before) / (STANDBYS * periods);
    bench_fact("scripts of a standby in a retry period", "", each, BENCH_AT_MOST, 1);
    for (int i = 0; i <= STANDBYS; i++) { leader_close(&all[i]->me, 0); all[i]->open = false; }
}

/* ---- crowds: elections of two clients, one of which stands by ---------------------------------- */

typedef struct member { leader_t me; leader_redis_election election; } member;

static member *crowd_of(const server *s, leader_redis_client *client, const char *identity, int count,
                        int64_t retry_ms) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    leader_redis_client_init(client, &how);
    member *all = (member *)calloc((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "crowd-%d", i);
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        cfg.identity = identity;
        cfg.lease_ms = LEASE_MS;
        cfg.retry_ms = retry_ms;
        cfg.on_log = quiet;
        cfg.backend = leader_redis_shared_backend(&all[i].election, client, name);
        if (leader_init(&all[i].me, &cfg) != LEADER_OK) {
            fprintf(stderr, "%s\n", leader_error(&all[i].me));
            exit(1);
        }
    }
    return all;
}

static int crowd_ticks(member *all, int count) {
    int leading = 0;
    for (int i = 0; i < count; i++) {
        leader_tick(&all[i].me);
        leading += leader_is_leader(&all[i].me);
    }
    return leading;
}

static int crowd_hears(const member *all, int count) {
    int n = 0;
    for (int i = 0; i < count; i++) {
        n += all[i].election.subscribed;
    }
    return n;
}

static void crowd_close(member *all, int count) {
    for (int i = 0; i < count; i++) {
        leader_close(&all[i].me, 0);
    }
    free(all);
}

/* Requests a second of elections that stand by and hear of releases. Without notices each asks every
   retry_ms. */
static void bench_idle(const server *s) {
    enum { IDLE = 10000, RETRY_MS = 2000, WATCHED_MS = 8000 };
    static leader_redis_client clients[2];
    member *a = crowd_of(s, &clients[0], "a", IDLE, RETRY_MS);
    while (crowd_ticks(a, IDLE) < IDLE) {
        usleep(1000);
    }
    member *b = crowd_of(s, &clients[1], "b", IDLE, RETRY_MS);
    while (crowd_hears(b, IDLE) < IDLE) {
        crowd_ticks(b, IDLE);
        usleep(1000);
    }
    for (int64_t end = clock_ms() + 3 * RETRY_MS; clock_ms() < end; usleep(1000)) {
        crowd_ticks(b, IDLE);           // everybody has looked again since then
    }
    uint64_t before = evalsha_calls(s);
    int64_t begin = clock_ms();
    while (clock_ms() < begin + WATCHED_MS) {
        crowd_ticks(b, IDLE);
        usleep(1000);
    }
    double rate = (double)(evalsha_calls(s) - before) * 1000 / (double)(clock_ms() - begin);
    bench_fact("10,000 idle standbys of one client: requests", "1/s", rate, BENCH_AT_MOST, 10);
    crowd_close(b, IDLE);
    crowd_close(a, IDLE);
    say(s, "FLUSHALL");
}

/* All elections of a client are stopped: how long until the other client leads them all, and what it
   costs. */
static void bench_stop(const server *s) {
    enum { STOPPED = 100 };
    static leader_redis_client clients[2];
    bench_series took = {0, {0}}, cpu = {0, {0}};
    for (int round = 0, rounds = bench_rounds(12); round < rounds; round++) {
        member *a = crowd_of(s, &clients[0], "a", STOPPED, 2000);
        while (crowd_ticks(a, STOPPED) < STOPPED) {
            usleep(1000);
        }
        member *b = crowd_of(s, &clients[1], "b", STOPPED, 2000);
        while (crowd_hears(b, STOPPED) < STOPPED) {
            crowd_ticks(a, STOPPED);
            crowd_ticks(b, STOPPED);
            usleep(1000);
        }
        for (int i = 0; i < STOPPED; i++) {
            leader_stop(&a[i].me);
        }
        double begin = bench_now();
        double cpu_begin = bench_cpu();
        int leading = 0;
        while (leading < STOPPED) {
            crowd_ticks(a, STOPPED);
            leading = crowd_ticks(b, STOPPED);
        }
        bench_add(&took, (bench_now() - begin) * 1e3);
        bench_add(&cpu, (bench_cpu() - cpu_begin) * 1e3);
        crowd_close(a, STOPPED);
        crowd_close(b, STOPPED);
        say(s, "FLUSHALL");
        bench_progress("100 elections stopped", round, rounds);
    }
    bench_row all = {"100 elections stopped: the other client leads them",
                     "ms",
                     &took,
                     NULL,
                     NULL,
                     true,
                     BENCH_AT_MOST,
                     100};
    bench_print(all);
    bench_row own = {"100 elections stopped: CPU of both", "ms", &cpu, NULL, NULL, true, BENCH_AT_MOST, 100};
    bench_print(own);
}

static int figures(int argc, char **argv) {
    bench_begin(argc, argv, "Redis: ");
    char extra[300];
    char path[160];
    snprintf(path, sizeof path, "%s/sock", root);
    snprintf(extra, sizeof extra, "--unixsocket %s --loglevel warning", path);
    server *s = server_start(extra);
    if (!s->pid) {
        fprintf(stderr, "bench_redis: redis-server did not start\n");
        return 1;
    }
    bench_sequential(s, NULL);
    bench_sequential(s, path);
    bench_changes(s);
    bench_ticks(s);
    bench_partition(s);
    bench_many(s);
    bench_standby(s);
    bench_scripts(s);
    bench_stop(s);
    bench_idle(s);
    fresh();
    return bench_end();
}

int main(int argc, char **argv) { return supervise(figures, argc, argv, NULL); }
