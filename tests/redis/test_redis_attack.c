/* The Redis backend under attack: every finding that once survived the other tests has a test here that
   fails without its fix. */
#define LEADER_REDIS_TLS
#include "tests/redis/redis_harness.h"
#include "tests/tools/utest.h"

#include <sys/mman.h>

UTEST_STATE();

#define NEVER_TWO() do { ASSERT_EQ(0, (int)both_ms); ASSERT_FALSE(token_fell); } while (0)

static leader_redis_config on_port(int port) {
    leader_redis_config config;
    memset(&config, 0, sizeof config);
    config.port = port;
    return config;
}

/* A candidate by the way that most programs go: one store, one election. */
static leader_redis stores[4];

static candidate *join_store(int index, const leader_redis_config *config, const char *identity,
                             int64_t lease_ms) {
    candidate *c = &candidates[index];
    leader_config cfg = settings(c, identity, lease_ms);
    cfg.backend = leader_redis_backend(&stores[index], config);
    c->open = leader_init(&c->me, &cfg) == LEADER_OK;
    return c;
}

/* ---- fork ------------------------------------------------------------------------------------------ */

/* Reads, waits, writes: one direction of one connection. */
static void proxy_pipe(int from, int to, int delay_ms) {
    char bytes[8192];
    for (ssize_t n = read(from, bytes, sizeof bytes); n > 0; n = read(from, bytes, sizeof bytes)) {
        usleep((useconds_t)delay_ms * 1000);
        if (write(to, bytes, (size_t)n) != n) {
            break;
        }
    }
    _exit(0);
}

static int dial_port(int port) {
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        _exit(1);
    }
    return fd;
}

static pid_t die_with_parent(void) {
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return pid;
}

/* A process that hands bytes on to the server, late; its pid goes to *pid. */
static int slow_proxy(int port, int delay_ms, pid_t *pid) {
    fake f;
    fake_open(&f);
    *pid = die_with_parent();
    if (*pid != 0) {
        close(f.listener);
        return f.port;
    }
    fcntl(f.listener, F_SETFL, 0);
    for (;;) {
        int peer = accept(f.listener, NULL, NULL), server_fd = dial_port(port);
        if (die_with_parent() == 0) {
            proxy_pipe(peer, server_fd, delay_ms);
        }
        if (die_with_parent() == 0) {
            proxy_pipe(server_fd, peer, delay_ms);
        }
        close(peer);
        close(server_fd);
    }
}

typedef struct both { volatile int child_leads, parent_leads, overlaps, child_done; } both;

static leader_t job_of_parent, job_of_child;
static leader_redis_election parents_election, childs_election;

static void compete(leader_t *me, leader_redis_election *election, leader_redis_client *client,
                    const char *identity, both *shared, bool child) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = identity;
    cfg.lease_ms = 60000;
    cfg.backend = leader_redis_shared_backend(election, client, "job");
    if (leader_init(me, &cfg) != LEADER_OK) {
        abort();
    }
    for (int64_t end = clock_ms() + LIMIT_MS;
         clock_ms() < end && !(shared->child_leads || shared->parent_leads); usleep(1000)) {
        leader_tick(me);
        bool leading = leader_is_leader(me);
        *(child ? &shared->child_leads : &shared->parent_leads) = leading;
    }
    // a mistaken notice would have come by now
    for (int64_t end = clock_ms() + 700; clock_ms() < end; usleep(1000)) {
        leader_tick(me);
        bool leading = leader_is_leader(me);
        *(child ? &shared->child_leads : &shared->parent_leads) = leading;
        if (shared->child_leads && shared->parent_leads) {
            shared->overlaps++;
        }
    }
}

UTEST(fork, a_child_on_the_inherited_client_makes_no_second_leader) {
    fresh();
    server *s = server_start("");
    pid_t proxy = 0;
    int port = slow_proxy(s->port, 100, &proxy);
    both *shared =
        (both *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int trial = 0; trial < 3; trial++) {
        say(s, "FLUSHALL");
        memset((void *)shared, 0, sizeof *shared);
        leader_redis_config config = on_port(port);
        config.connect_timeout_ms = 5000;
        // so that there is a connection to inherit
        candidate *warm = join_with(&config, "warm", 60000, "other");
        ASSERT_TRUE(UNTIL(leads(warm)));
        pid_t child = die_with_parent();
        if (child == 0) {
            compete(&job_of_child, &childs_election, &warm->client, "child", shared, true);
            shared->child_done = 1;
            _exit(0);
        }
        compete(&job_of_parent, &parents_election, &warm->client, "parent", shared, false);
        waitpid(child, NULL, 0);
        EXPECT_EQ(0, shared->overlaps);
        EXPECT_EQ(1, shared->child_done);
        EXPECT_EQ(1, shared->child_leads + shared->parent_leads);
        leader_close(&job_of_parent, 0);
        leave(warm);
    }
    munmap((void *)shared, sizeof *shared);
    reap(&proxy, SIGKILL);
}

static ino_t socket_of(const leader_redis_client *client) {
    struct stat st;
    return fstat(client->main.fd, &st) == 0 ? st.st_ino : 0;
}

static int fds_told;
static void count_fd(void *user, intptr_t fd, int events) {
    (void)user;
    (void)fd;
    (void)events;
    fds_told++;
}

UTEST(fork, the_parents_connection_goes_on_and_its_loop_hears_nothing) {
    fresh();
    server *s = server_start("");
    candidate *a = &candidates[0];
    leader_redis_config config = on_port(s->port);
    leader_config cfg = settings(a, "a", 3000);
    leader_redis_client_init(&a->client, &config);
    cfg.backend = leader_redis_shared_backend(&a->election, &a->client, "job");
    cfg.on_fd = count_fd;
    a->open = leader_init(&a->me, &cfg) == LEADER_OK;
    ASSERT_TRUE(UNTIL(leads(a)));
    ino_t inherited = socket_of(&a->client);
    fds_told = 0;
    pid_t child = die_with_parent();
    if (child == 0) {
        leader_config other = settings(&candidates[1], "child", 3000);
        other.backend = leader_redis_shared_backend(&candidates[1].election, &a->client, "other");
        bool opened = leader_init(&candidates[1].me, &other) == LEADER_OK;
        for (int64_t end = clock_ms() + LIMIT_MS; opened && clock_ms() < end && !leads(&candidates[1]);
             usleep(1000)) {
            leader_tick(&candidates[1].me);
        }
        bool apart = leads(&candidates[1]) && socket_of(&a->client) != inherited && fds_told == 0;
        leader_close(&candidates[1].me, 1000);
        _exit(apart ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(0, status);
    uint64_t renewals = leader_get_stats(&a->me).renewals;
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals > renewals + 1));
    ASSERT_EQ(inherited, socket_of(&a->client));
    ASSERT_EQ(0, (int)leader_get_stats(&a->me).failures);
}

/* ---- a server that misbehaves ---------------------------------------------------------------------- */

UTEST(attack, a_renewal_that_speaks_of_another_token_is_none) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = join_fake(&f, 15000);
    char text[1000], record[400];
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    fake_send(&f, text, yes_to(c, text));
    ASSERT_TRUE(UNTIL(leads(c)));
    uint64_t seq = c->election.seq;
    f.got = 0;
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0 && c->election.seq != seq)));       // the renewal
    snprintf(record, sizeof record, "1763262000124 %020llu %016llx 15000 a",
             (unsigned long long)c->election.term_seq, (unsigned long long)c->election.nonce);
    fake_send(&f, text, answer_to(c, "OK", 0, 15000, record, text));
    ASSERT_TRUE(UNTIL(leader_get_stats(&c->me).failures > 0));
    ASSERT_EQ(0, (int)leader_get_stats(&c->me).renewals);
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

UTEST(attack, the_leftovers_of_a_dead_connection_are_thrown_away) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = join_fake(&f, 1500);
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    int peer = f.peer;
    char bytes[8192];
    ssize_t n = 0;
    int error = EAGAIN;
    ASSERT_TRUE(
        UNTIL((n = recv(peer, bytes, sizeof bytes, 0), error = errno, n == 0 || (n < 0 && error != EAGAIN))));
    // an orderly end would have delivered what is still on its way
    ASSERT_EQ(-1, (int)n);
    ASSERT_EQ(ECONNRESET, error);
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

UTEST(attack, the_servers_words_are_plain_in_logs) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = join_fake(&f, 15000);
    static const char rude[] = "-ERR \x1b[31mred\x07 \xff\r\n";
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    fake_send(&f, rude, sizeof rude - 1);
    ASSERT_TRUE(UNTIL(leader_get_stats(&c->me).failures > 0));
    ASSERT_TRUE(strstr(c->log, "?[31mred? ?") != NULL);
    for (const char *p = c->log; *p; p++) {
        ASSERT_TRUE(*p == '\n' || (*p >= ' ' && *p <= '~'));
    }
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

UTEST(attack, the_reason_of_an_old_servers_error_is_not_cut) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = join_fake(&f, 15000);
    static const char old[] =
        "-ERR Error running script (call to f_44df3b72f0402ea9c0baec2d285d0a61476f2d1d): @user_script:112: "
        "@user_script: 112: "
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    fake_send(&f, old, sizeof old - 1);
    ASSERT_TRUE(UNTIL(leader_get_stats(&c->me).failures > 0));
    ASSERT_TRUE(strstr(c->log, "says: OOM command not allowed when used memory > 'maxmemory'.") != NULL);
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

UTEST(attack, moved_is_followed_once) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = join_fake(&f, 60000);
    char moved[100];
    int answered = 0, length = snprintf(moved, sizeof moved, "-MOVED 1 127.0.0.1:%d\r\n", f.port);
    for (int64_t end = clock_ms() + LIMIT_MS;
         clock_ms() < end && leader_get_stats(&c->me).failures == 0 && answered < 10; usleep(1000)) {
        tick_all();
        fake_step(&f);
        if (f.peer >= 0 && f.got > 0) {
            fake_send(&f, moved, (size_t)length);
            f.got = 0;
            answered++;
        }
    }
    ASSERT_EQ(2, answered);
    ASSERT_TRUE(strstr(c->log, "MOVED 1") != NULL);
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

UTEST(attack, ask_is_followed_once_and_announced) {
    fresh();
    fake f, g;
    fake_open(&f);
    fake_open(&g);
    candidate *c = join_fake(&f, 60000);
    char ask[100], text[1000];
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    fake_send(&f, ask, (size_t)snprintf(ask, sizeof ask, "-ASK 1 127.0.0.1:%d\r\n", g.port));
    ASSERT_TRUE(UNTIL((fake_step(&g), strstr(g.heard, "EVAL") != NULL)));
    ASSERT_TRUE(strstr(g.heard, "ASKING") != NULL && strstr(g.heard, "ASKING") < strstr(g.heard, "EVAL"));
    fake_send(&g, "+OK\r\n", 5);
    fake_send(&g, text, yes_to(c, text));
    ASSERT_TRUE(UNTIL(leads(c)));
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
    fake_close(&g);
}

/* The server has lost the script; the WAIT behind the first attempt is answered all the same, and is not
   the second's. */
UTEST(attack, the_wait_behind_a_lost_script_is_not_the_next_ones) {
    fresh();
    fake f;
    fake_open(&f);
    leader_redis_config config = on_port(f.port);
    config.wait_replicas = 1;
    candidate *c = join_with(&config, "a", 60000, "job");
    char text[1000];
    ASSERT_TRUE(UNTIL((fake_step(&f), strstr(f.heard, "WAIT") != NULL)));
    f.got = 0;
    fake_send(&f, "-NOSCRIPT No matching script.\r\n", 31);
    ASSERT_TRUE(UNTIL((fake_step(&f), strstr(f.heard, "WAIT") != NULL && f.got > 0)));
    fake_send(&f, ":5\r\n", 4);
    for (int i = 0; i < 20; i++) {
        tick_all();
        usleep(1000);
    }
    ASSERT_FALSE(leads(c));
    fake_send(&f, text, yes_to(c, text));
    fake_send(&f, ":0\r\n", 4);
    ASSERT_TRUE(UNTIL(leader_get_stats(&c->me).failures > 0 || leads(c)));
    ASSERT_FALSE(leads(c));
    ASSERT_TRUE(strstr(c->log, "0 of wait_replicas (1)") != NULL);
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

/* After a look that was given up, what the look before it saw is no answer to the next one. */
UTEST(attack, a_look_that_was_given_up_is_not_remembered) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 60000);
    ASSERT_TRUE(UNTIL(leads(a)));
    candidate *b = join(s, "b", 1500);
    ASSERT_TRUE(UNTIL(b->election.subscribed && b->election.held_until_ms > 0));
    kill(s->pid, SIGSTOP);
    ASSERT_TRUE(UNTIL(leader_get_stats(&b->me).failures > 0));
    ASSERT_EQ(0, (int)b->election.held_until_ms);
    kill(s->pid, SIGCONT);
    ASSERT_TRUE(UNTIL(b->election.held_until_ms > 0));
    NEVER_TWO();
}

/* ---- a server that falls silent -------------------------------------------------------------------- */

/* EVAL and EVALSHA, whoever sent them. */
static long long scripts_run(const server *s) {
    static const char *const names[] = {"cmdstat_eval:calls=", "cmdstat_evalsha:calls="};
    const char *stats = say(s, "INFO commandstats");
    long long calls = 0;
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(stats, names[i]);
        calls += at ? atoll(at + strlen(names[i])) : 0;
    }
    return calls;
}

enum { STANDBYS = 4 };
static candidate *standbys[STANDBYS];

static void standbys_join(const server *s) {
    for (int i = 0; i < STANDBYS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        candidate *c = candidates;
        while (c->open) {
            c++;
        }
        leader_redis_config how;
        memset(&how, 0, sizeof how);
        how.port = s->port;
        how.connect_timeout_ms = 300;
        leader_config cfg = settings(c, name, 600000);
        cfg.retry_ms = 200;
        cfg.request_timeout_ms = 300;
        leader_redis_client_init(&c->client, &how);
        cfg.backend = leader_redis_shared_backend(&c->election, &c->client, "job");
        c->open = leader_init(&c->me, &cfg) == LEADER_OK;
        standbys[i] = c;
    }
}

static bool standbys_have_seen(void) {
    bool all = true;
    for (int i = 0; i < STANDBYS; i++) {
        const leader_redis_election *e = &standbys[i]->election;
        all = all && e->phase == LEADER_REDIS_IDLE_ && e->held_until_ms > 0 && e->subscribed;
    }
    return all;
}

static bool standbys_have_failed(uint64_t times) {
    bool all = true;
    for (int i = 0; i < STANDBYS; i++) {
        all = all && leader_get_stats(&standbys[i]->me).failures >= times;
    }
    return all;
}

/* One of them has sent something and waits for the reply. */
static bool a_standby_awaits(void) {
    bool any = false;
    for (int i = 0; i < STANDBYS; i++) {
        any = any || standbys[i]->client.main.due_count > 0;
    }
    return any;
}

/* A stopped server carries out later what it was sent, whoever gave up: on the connection that it knew, and
   on those that its kernel made meanwhile. */
UTEST(silence, standbys_ask_for_nothing_into_it) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 600000);
    ASSERT_TRUE(UNTIL(leads(a)));
    standbys_join(s);
    ASSERT_TRUE(UNTIL(standbys_have_seen()));
    long long before = scripts_run(s);
    kill(s->pid, SIGSTOP);
    bool failed = UNTIL(standbys_have_failed(4) && a_standby_awaits());
    kill(s->pid, SIGCONT);
    ASSERT_TRUE(failed);
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && !server_answers(s);) {
        usleep(5000);                   // nobody ticks: what is carried out now was sent into the silence
    }
    ASSERT_EQ(before, scripts_run(s));
    ASSERT_TRUE(UNTIL(standbys_have_seen()));           // and on they go
    NEVER_TWO();
}

static bool begins_with(const fake *f, const char *command) {
    const char *at = strchr(f->heard, '$');
    const char *word = at ? strchr(at, '\n') : NULL;
    return word && strncmp(word + 1, command, strlen(command)) == 0;
}

UTEST(silence, a_renewal_is_not_held_up) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = join_fake(&f, 3000);
    char text[1000];
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    fake_send(&f, text, yes_to(c, text));
    ASSERT_TRUE(UNTIL(leads(c)));
    f.got = 0;
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    ASSERT_TRUE(begins_with(&f, "EVALSHA"));
    ASSERT_TRUE(UNTIL(c->client.silent));
    fake_hang_up(&f);
    f.got = 0;
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    ASSERT_TRUE(begins_with(&f, "EVAL"));               // on a connection that has said nothing yet
    leader_close(&c->me, 0);
    c->open = false;
    fake_close(&f);
}

UTEST(silence, the_attempt_at_the_end_of_a_lease_is_not_held_up) {
    static const struct { int ms; const char *command; } looks[] = {{60000, "TIME"}, {1500, "EVALSHA"}};
    for (int i = 0; i < 2; i++) {
        fresh();
        fake f;
        fake_open(&f);
        candidate *c = join_fake(&f, 15000);            // it looks every two seconds
        c->client.no_notice = true;
        char text[1000];
        ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
        fake_send(&f, text,
                  answer_to(c, "HELD", 0, looks[i].ms,
                            "1763262000123 00000000000000000001 00000000000000ff 60000 b", text));
        ASSERT_TRUE(UNTIL(c->election.held_until_ms > 0));
        f.got = 0;
        ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
        ASSERT_TRUE(begins_with(&f, looks[i].command));
        leader_close(&c->me, 0);
        c->open = false;
        fake_close(&f);
    }
}

/* ---- sentinels ------------------------------------------------------------------------------------- */

/* Answers each question with the port of the present master. */
static void sentinel_step(fake *f, const server *master) {
    char text[100], port[16];
    fake_step(f);
    if (f->peer >= 0 && strstr(f->heard, "get-master-addr-by-name") && f->got > 0) {
        snprintf(port, sizeof port, "%d", master->port);
        fake_send(f, text,
                  (size_t)snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n",
                                   (int)strlen(port), port));
        f->got = 0;
        f->heard[0] = 0;
    }
}

UTEST(sentinels, are_asked_again_every_lease_and_believed) {
    fresh();
    server *isolated = server_start(""), *promoted = server_start("");
    fake f;
    fake_open(&f);
    char list[40];
    snprintf(list, sizeof list, "127.0.0.1:%d", f.port);
    leader_redis_config config = on_port(0);
    config.sentinels = list;
    config.sentinel_name = "main";
    candidate *a = join_with(&config, "a", 1500, "job");
    ASSERT_TRUE(UNTIL((sentinel_step(&f, isolated), leads(a))));
    ASSERT_EQ(isolated->port, a->client.target.port);
    int asked = f.accepted;
    ASSERT_TRUE(UNTIL((sentinel_step(&f, isolated), f.accepted > asked)));
    ASSERT_TRUE(leads(a));                              // the same master: nothing happens
    ASSERT_TRUE(UNTIL((sentinel_step(&f, promoted), a->client.target.port == promoted->port)));
    ASSERT_TRUE(UNTIL((sentinel_step(&f, promoted), a->stopped == 1 && leads(a))));
    NEVER_TWO();
    leave(a);
    fake_close(&f);
}

/* ---- keys, rights, databases ----------------------------------------------------------------------- */

UTEST(keys, a_whole_key_and_rights_for_its_prefix_alone) {
    fresh();
    server *s = server_start("");
    say(s, "ACL SETUSER app on >secret ~stargate:* &stargate:* +eval +evalsha +get +set +pttl +pexpire +del "
           "+hget +hmget +hset +hdel +time +publish +subscribe +unsubscribe");
    leader_redis_config config = on_port(s->port);
    config.key = "stargate:leader";
    config.username = "app";
    config.password = "secret";
    candidate *a = join_store(0, &config, "a", 60000);
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_STREQ("2", say(s, "EXISTS stargate:leader stargate:leader:witness:{stargate:leader}"));
    candidate *b = join_store(1, &config, "b", 60000);
    ASSERT_TRUE(UNTIL(stores[1].election.subscribed));
    leader_stop(&a->me);
    ASSERT_TRUE(UNTIL(leads(b)));                       // by the notice: the lease is longer than the test
    ASSERT_TRUE(strstr(b->log, "polling") == NULL);
    NEVER_TWO();
}

UTEST(keys, a_plain_set_nx_px_and_we_exclude_each_other) {
    fresh();
    server *s = server_start("");
    leader_redis_config config = on_port(s->port);
    config.key = "stargate:leader";
    ASSERT_STREQ("OK", say(s, "SET stargate:leader pod-7 NX PX 600000"));
    candidate *a = join_store(0, &config, "a", 1500);
    ASSERT_TRUE(UNTIL(strcmp(leader_get_view(&a->me).leader, "pod-7") == 0));
    ASSERT_TRUE(strstr(a->log, "held by another program") != NULL);
    uint64_t looks = leader_get_stats(&a->me).acquires;
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).acquires > looks + 2));
    // longer than any lease of ours, and not cut
    ASSERT_TRUE(atoll(say(s, "PTTL stargate:leader")) > 500000);
    ASSERT_EQ(0, (int)leader_get_stats(&a->me).failures);
    looks = leader_get_stats(&a->me).acquires;
    say(s, "DEL stargate:leader");
    ASSERT_TRUE(leader_due_ms(&a->me) <= 500);          // retry_ms: no back-off
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_TRUE(leader_get_stats(&a->me).acquires <= looks + 2);        // one may have been under way
    ASSERT_STREQ("nil", say(s, "SET stargate:leader pod-7 NX PX 600000"));
    leave(a);
    ASSERT_STREQ("OK", say(s, "SET stargate:leader pod-7 NX PX 600000"));
}

UTEST(keys, one_name_in_two_databases) {
    fresh();
    server *s = server_start("");
    leader_redis_config zero = on_port(s->port), three = on_port(s->port);
    three.db = 3;
    candidate *a = join_with(&zero, "a", 60000, "job"), *b = join_with(&three, "b", 60000, "job");
    ASSERT_TRUE(UNTIL(leads(a) && leads(b)));
    candidate *c = join_with(&zero, "c", 60000, "job"), *d = join_with(&three, "d", 60000, "job");
    ASSERT_TRUE(UNTIL(c->election.subscribed && d->election.subscribed));
    uint64_t undisturbed = leader_get_stats(&c->me).acquires;
    leader_stop(&b->me);                                // its token is higher than that of a
    ASSERT_TRUE(UNTIL(leads(d)));
    ASSERT_TRUE(leader_get_stats(&c->me).acquires <= undisturbed + 1);
    leader_stop(&a->me);
    ASSERT_TRUE(UNTIL(leads(c)));
}

UTEST(keys, the_witness_lives_much_longer_than_the_lease) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 3000);
    ASSERT_TRUE(UNTIL(leads(a)));
    long long life = atoll(say(s, "PTTL leader:job:witness:{leader:job}"));
    ASSERT_TRUE(life > 86300000 && life <= 86400000);   // a day
    say(s, "PEXPIRE leader:job:witness:{leader:job} 5000");
    uint64_t renewals = leader_get_stats(&a->me).renewals;
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals > renewals));
    ASSERT_TRUE(atoll(say(s, "PTTL leader:job:witness:{leader:job}")) > 86300000);
    leader_redis_config config = on_port(s->port);
    candidate *b = join_with(&config, "b", 3600000, "long");
    ASSERT_TRUE(UNTIL(leads(b)));
    life = atoll(say(s, "PTTL leader:long:witness:{leader:long}"));
    ASSERT_TRUE(life > 359000000 && life <= 360000000); // a hundred leases
}

/* ---- what is said ---------------------------------------------------------------------------------- */

UTEST(says, that_a_password_is_wanted_and_where_it_goes) {
    fresh();
    server *s = server_start("--requirepass Sesame77");
    leader_redis_config config = on_port(s->port);
    candidate *a = join_with(&config, "a", 1500, "job");
    char refusal[64];
    snprintf(refusal, sizeof refusal, "Redis 127.0.0.1:%d: the server wants a password: set password",
             s->port);
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).failures_auth > 0));
    ASSERT_TRUE(strstr(a->log, refusal) != NULL);
}

UTEST(says, the_first_line_of_a_password_file_counts) {
    fresh();
    server *s = server_start("--requirepass Sesame77");
    char path[200];
    snprintf(path, sizeof path, "%s/password", root);
    leader_redis_config config = on_port(s->port);
    config.password_file = path;
    candidate *a = join_with(&config, "a", 1500, "job");
    ASSERT_TRUE(UNTIL(strstr(a->log, "password_file") && strstr(a->log, "No such file")));
    ASSERT_EQ(0, shell("printf 'Wrong77\\nmore\\n' > %s", path));
    ASSERT_TRUE(UNTIL(strstr(a->log, "WRONGPASS") != NULL));
    ASSERT_TRUE(strstr(a->log, "Wrong77") == NULL);
    ASSERT_EQ(0, shell("printf 'Sesame77\\nmore\\n' > %s", path));
    ASSERT_TRUE(UNTIL(leads(a)));                       // read again for each connection
}

UTEST(says, who_refused_and_nothing_of_a_lease_that_never_was) {
    fresh();
    leader_redis_config config = on_port(free_port());
    candidate *a = join_with(&config, "a", 1500, "job");
    char refusal[64];
    snprintf(refusal, sizeof refusal, "Redis 127.0.0.1:%d: Connection refused", config.port);
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).failures_io > 1));
    uint64_t failures = leader_get_stats(&a->me).failures_io;
    leader_stop(&a->me);
    ASSERT_TRUE(UNTIL(leader_get_state(&a->me) == LEADER_STATE_STOPPED));
    // nothing was asked for, so nothing is released
    ASSERT_EQ(failures, leader_get_stats(&a->me).failures_io);
    leave(a);
    ASSERT_TRUE(strstr(a->log, refusal) != NULL);
    ASSERT_TRUE(strstr(a->log, "no connection within") == NULL);
    ASSERT_TRUE(strstr(a->log, "could not be released") == NULL);
}

/* ---- many elections of one client ------------------------------------------------------------------ */

enum { CROWD = 100 };
static struct { leader_t me; leader_redis_election election; } crowd[2][CROWD];
static leader_redis_client crowd_clients[2];
static int watched_fds[8], watched_count;

static void watch_fd(void *user, intptr_t fd, int events) {
    (void)user;
    int at = 0;
    while (at < watched_count && watched_fds[at] != (int)fd) {
        at++;
    }
    if (events == 0) {
        watched_fds[at] = watched_fds[--watched_count];
    } else if (at == watched_count) {
        watched_fds[watched_count++] = (int)fd;
    }
}

static bool crowd_open(const server *s, int side, const char *identity, int64_t lease_ms) {
    leader_redis_config config = on_port(s->port);
    leader_redis_client_init(&crowd_clients[side], &config);
    for (int i = 0; i < CROWD; i++) {
        char name[32];
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        snprintf(name, sizeof name, "crowd-%d", i);
        cfg.identity = identity;
        cfg.lease_ms = lease_ms;
        cfg.on_fd = watch_fd;
        cfg.on_log = quiet;
        cfg.backend = leader_redis_shared_backend(&crowd[side][i].election, &crowd_clients[side], name);
        if (leader_init(&crowd[side][i].me, &cfg) != LEADER_OK) {
            return false;
        }
    }
    return true;
}

static int crowd_leads(int side) {
    int n = 0;
    for (int i = 0; i < CROWD; i++) {
        n += leader_is_leader(&crowd[side][i].me);
    }
    return n;
}

static int crowd_subscribed(int side) {
    int n = 0;
    for (int i = 0; i < CROWD; i++) {
        n += crowd[side][i].election.subscribed;
    }
    return n;
}

static void crowd_tick(int side) {
    for (int i = 0; i < CROWD; i++) {
        leader_tick(&crowd[side][i].me);
    }
}

#define CROWD_UNTIL(condition) __extension__({ \
    bool ok_ = false; \
    for (int64_t end_ = clock_ms() + LIMIT_MS; clock_ms() < end_ && !ok_; usleep(1000)) { \
        crowd_tick(0); \
        crowd_tick(1); \
        ok_ = (condition); \
    } \
    ok_; })

UTEST(crowd, idle_standbys_ask_once_per_client) {
    fresh();
    server *s = server_start("");
    watched_count = 0;
    ASSERT_TRUE(crowd_open(s, 0, "a", 600000));
    ASSERT_TRUE(crowd_open(s, 1, "b", 600000));         // retry_ms is 2000
    ASSERT_TRUE(CROWD_UNTIL(crowd_leads(0) + crowd_leads(1) == CROWD
                            && crowd_subscribed(0) + crowd_subscribed(1) == CROWD));
    // every standby has looked again since it is subscribed
    int64_t settled = clock_ms() + 2500;
    ASSERT_TRUE(CROWD_UNTIL(clock_ms() > settled));
    long long before = scripts_run(s);
    int64_t begin = clock_ms();
    ASSERT_TRUE(CROWD_UNTIL(clock_ms() > begin + 4200));
    long long asked = scripts_run(s) - before;
    long long spells = (clock_ms() - begin) / 2000 + 2;
    ASSERT_TRUE(asked >= 2 && asked <= 2 * spells);     // two clients, every 2 s
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < CROWD; i++) {
            leader_stop(&crowd[side][i].me);
        }
    }
    ASSERT_TRUE(CROWD_UNTIL(crowd_leads(0) + crowd_leads(1) == 0));
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < CROWD; i++) {
            leader_close(&crowd[side][i].me, 1000);
        }
    }
    ASSERT_EQ(0, watched_count);
}

static int crowd_lines;

static void count_lines(void *user, leader_level level, const char *text) {
    (void)user;
    (void)level;
    crowd_lines += strstr(text, "Connection refused") != NULL;
}

/* A server that is down is one line for all elections of the client, and the error of each. */
UTEST(crowd, a_dead_server_is_one_line_for_all) {
    fresh();
    leader_redis_config config = on_port(free_port());
    leader_redis_client_init(&crowd_clients[0], &config);
    for (int i = 0; i < CROWD; i++) {
        char name[32];
        snprintf(name, sizeof name, "crowd-%d", i);
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        cfg.identity = "a";
        cfg.retry_max_ms = 600000;
        cfg.on_log = count_lines;
        cfg.backend = leader_redis_shared_backend(&crowd[0][i].election, &crowd_clients[0], name);
        ASSERT_EQ(LEADER_OK, leader_init(&crowd[0][i].me, &cfg));
    }
    crowd_lines = 0;
    int failed = 0;
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && failed < CROWD; usleep(1000)) {
        crowd_tick(0);
        failed = 0;
        for (int i = 0; i < CROWD; i++) {
            failed += leader_get_stats(&crowd[0][i].me).failures_io >= 2;
        }
    }
    ASSERT_EQ(CROWD, failed);
    uint64_t most = 0;
    for (int i = 0; i < CROWD; i++) {
        most = (uint64_t)leader_max_((int64_t)most, (int64_t)leader_get_stats(&crowd[0][i].me).failures_io);
        ASSERT_TRUE(strstr(leader_error(&crowd[0][i].me), "Connection refused") != NULL);
    }
    ASSERT_TRUE(crowd_lines >= 1);
    ASSERT_TRUE((uint64_t)crowd_lines <= most);         // of one election, not of a hundred
    for (int i = 0; i < CROWD; i++) {
        leader_close(&crowd[0][i].me, 0);
    }
}

/* With a loop of its own: what waits for an election that does not carry the sockets must not sleep
   through the answer. */
UTEST(crowd, closing_one_by_one_and_waiting_are_quick) {
    fresh();
    server *s = server_start("");
    watched_count = 0;
    ASSERT_TRUE(crowd_open(s, 0, "a", 60000));
    int64_t begin = clock_ms();
    ASSERT_EQ(LEADER_OK, leader_wait(&crowd[0][CROWD - 1].me, LIMIT_MS));
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && crowd_leads(0) < CROWD; usleep(1000)) {
        crowd_tick(0);
    }
    ASSERT_EQ(CROWD, crowd_leads(0));
    for (int i = CROWD - 1; i >= 0; i--) {
        ASSERT_EQ(LEADER_OK, leader_close(&crowd[0][i].me, LIMIT_MS));
    }
    // 100 elections; each slept through up to a second before
    ASSERT_TRUE(clock_ms() - begin < 15000);
    ASSERT_EQ(0, watched_count);
    ASSERT_STREQ("0", say(s, "EXISTS leader:crowd-0 leader:crowd-50 leader:crowd-99"));
}

/* ---------------------------------------------------------------------------------------------------- */

static int tests(int argc, char **argv) {
    int failed = utest_main(argc, (const char *const *)argv);
    fresh();
    return failed;
}

int main(int argc, char **argv) { return supervise(tests, argc, argv, NULL); }
