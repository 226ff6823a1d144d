/* The quorum on real stores: three directories, and five redis-servers that are killed, stopped and
   emptied. */
#define LEADER_WITH_REDIS
#define LEADER_WITH_QUORUM
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/patience.h"
#include "tests/tools/utest.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

UTEST_MAIN()

enum { LEASE_MS = 3000, SERVERS = 5 };

static char root[64];

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int shell(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return system(line);
}

typedef struct candidate {
    leader_t      me;
    leader_quorum quorum;
    leader_file   files[3];
    leader_redis  redis[SERVERS];
    char          name[8];
    bool          open;
    int64_t       longest_tick_ms;
    uint64_t      last_token;
    bool          token_fell;
} candidate;

static candidate all[2];

static void on_started(void *user, uint64_t token) {
    candidate *c = (candidate *)user;
    uint64_t highest = all[0].last_token > all[1].last_token ? all[0].last_token : all[1].last_token;
    c->token_fell = c->token_fell || token <= highest;
    c->last_token = token;
}

static leader_result start_candidate(candidate *c, const char *name, const leader_backend *stores,
                                     int count) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    snprintf(c->name, sizeof c->name, "%s", name);
    cfg.identity = c->name;
    cfg.backend = leader_quorum_backend(&c->quorum, stores, count);
    cfg.lease_ms = LEASE_MS;
    cfg.renew_retries = -1;
    cfg.retry_max_ms = LEASE_MS;
    cfg.on_started_leading = on_started;
    cfg.user = c;
    leader_result result = leader_init(&c->me, &cfg);
    c->open = result == LEADER_OK;
    return result;
}

/* How late ticks were in this test: a machine that is too busy ends terms, whatever the stores do. */
static int64_t last_round_ms;
static int64_t longest_gap_ms;

static void note_gap(void) {
    int64_t now_ms = leader_clock_ms_();
    int64_t gap_ms = last_round_ms > 0 ? now_ms - last_round_ms : 0;
    longest_gap_ms = gap_ms > longest_gap_ms ? gap_ms : longest_gap_ms;
    last_round_ms = now_ms;
}

static bool was_too_busy(void) {
    return longest_gap_ms > LEASE_MS / 10 || slowness() > 4;
}

/* All candidates tick; true: never two leaders. */
static bool tick_all(void) {
    note_gap();
    for (int i = 0; i < 2; i++) {
        candidate *c = &all[i];
        if (!c->open) {
            continue;
        }
        int64_t before = leader_clock_ms_();
        leader_tick(&c->me);
        int64_t took = leader_clock_ms_() - before;
        c->longest_tick_ms = took > c->longest_tick_ms ? took : c->longest_tick_ms;
    }
    usleep(1000);
    return !(all[0].open && all[1].open && leader_is_leader(&all[0].me) && leader_is_leader(&all[1].me));
}

static bool leads(const candidate *c) {
    return c->open && leader_is_leader(&c->me);
}

static bool someone_leads(void) {
    return leads(&all[0]) || leads(&all[1]);
}

static uint64_t terms(void) {
    return (all[0].open ? leader_get_stats(&all[0].me).terms : 0)
           + (all[1].open ? leader_get_stats(&all[1].me).terms : 0);
}

static bool one_leader = true;

#define RUN_UNTIL(limit, condition)                                                     \
    do {                                                                                \
        patience p_ = patience_ms(limit);                                               \
        while (!(condition) && patience_left(&p_)) {                                    \
            one_leader = tick_all() && one_leader;                                      \
        }                                                                               \
        ASSERT_TRUE(condition);                                                         \
        ASSERT_TRUE(one_leader);                                                        \
    } while (0)

static void run_for(int64_t ms) {
    for (int64_t end = leader_clock_ms_() + ms; leader_clock_ms_() < end;) {
        one_leader = tick_all() && one_leader;
    }
}

static void begin(void) {
    memset(all, 0, sizeof all);
    one_leader = true;
    last_round_ms = 0;
    longest_gap_ms = 0;
    snprintf(root, sizeof root, "/tmp/quorum-XXXXXX");
    if (!mkdtemp(root)) {
        abort();
    }
}

static void end(void) {
    for (int i = 0; i < 2; i++) {
        if (all[i].open) {
            leader_close(&all[i].me, 1000);
        }
    }
    shell("rm -rf %s", root);
}

/* ---- three directories ------------------------------------------------------------------------- */

struct files {
    char paths[3][128];
};

static leader_result join_files(struct files *f, candidate *c, const char *name) {
    leader_backend stores[3];
    for (int i = 0; i < 3; i++) {
        stores[i] = leader_file_backend(&c->files[i], f->paths[i]);
    }
    return start_candidate(c, name, stores, 3);
}

UTEST_F_SETUP(files) {
    begin();
    for (int i = 0; i < 3; i++) {
        shell("mkdir %s/%d", root, i);
        snprintf(utest_fixture->paths[i], sizeof utest_fixture->paths[i], "%s/%d/job.lease", root, i);
    }
    ASSERT_EQ(LEADER_OK, join_files(utest_fixture, &all[0], "ann"));
    ASSERT_EQ(LEADER_OK, join_files(utest_fixture, &all[1], "bob"));
}

UTEST_F_TEARDOWN(files) {
    end();
    EXPECT_TRUE(one_leader);
    EXPECT_FALSE(all[0].token_fell || all[1].token_fell);
    EXPECT_EQ(3, (int)(sizeof utest_fixture->paths / sizeof utest_fixture->paths[0]));
}

UTEST_F(files, new_directories_have_a_leader_after_a_lease) {
    int64_t start = leader_clock_ms_();
    RUN_UNTIL(20000, someone_leads());
    ASSERT_GE(leader_clock_ms_() - start, LEASE_MS);
}

UTEST_F(files, a_release_hands_over_without_a_lease) {
    RUN_UNTIL(20000, someone_leads());
    candidate *first = leads(&all[0]) ? &all[0] : &all[1];
    candidate *second = leads(&all[0]) ? &all[1] : &all[0];
    run_for(100);
    ASSERT_EQ(LEADER_OK, leader_close(&first->me, 5000));
    first->open = false;
    int64_t start = leader_clock_ms_();
    RUN_UNTIL(20000, leads(second));
    ASSERT_LT(leader_clock_ms_() - start, (int64_t)(LEASE_MS * slowness()));
}

UTEST_F(files, a_directory_that_is_lost_or_gone_costs_nothing) {
    RUN_UNTIL(20000, someone_leads());
    uint64_t before = terms();
    for (int i = 0; i < 3; i++) {
        shell("rm -rf %s/%d/job.lease*", root, i);
        run_for(LEASE_MS * 2);
        RUN_UNTIL(LEASE_MS * 4, someone_leads());
    }
    shell("mv %s/1 %s/away", root, root);
    run_for(LEASE_MS);
    RUN_UNTIL(LEASE_MS * 4, someone_leads());
    shell("mv %s/away %s/1", root, root);
    run_for(LEASE_MS);
    RUN_UNTIL(LEASE_MS * 4, someone_leads());
    ASSERT_TRUE(before == terms() || was_too_busy());
}

UTEST_F(files, without_two_directories_nobody_leads) {
    RUN_UNTIL(20000, someone_leads());
    shell("mv %s/0 %s/away0 && mv %s/2 %s/away2", root, root, root, root);
    RUN_UNTIL(LEASE_MS * 2, !someone_leads());
    run_for(LEASE_MS);
    ASSERT_FALSE(someone_leads());
    shell("mv %s/away0 %s/0 && mv %s/away2 %s/2", root, root, root, root);
    RUN_UNTIL(LEASE_MS * 6, someone_leads());
}

/* ---- five servers ------------------------------------------------------------------------------ */

struct servers {
    int   port[SERVERS];
    pid_t pid[SERVERS];
};

static int free_port(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0
        || getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        abort();
    }
    close(fd);
    return ntohs(at.sin_port);
}

static void start_server(struct servers *s, int at) {
    char port[16];
    snprintf(port, sizeof port, "%d", s->port[at]);
    pid_t parent = getpid();
    s->pid[at] = fork();
    if (s->pid[at] != 0) {
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !freopen("/dev/null", "w", stdout)) {
        _exit(1);
    }
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
           "--appendonly", "no", "--dir", root, (char *)NULL);
    _exit(127);
}

static void kill_server(struct servers *s, int at) {
    if (s->pid[at] > 0) {
        kill(s->pid[at], SIGKILL);
        waitpid(s->pid[at], NULL, 0);
        s->pid[at] = 0;
    }
}

static leader_result join_servers(struct servers *s, candidate *c, const char *name) {
    leader_backend stores[SERVERS];
    char host[] = "127.0.0.1";
    for (int i = 0; i < SERVERS; i++) {
        leader_redis_config config;
        memset(&config, 0, sizeof config);
        config.host = host;
        config.port = s->port[i];
        config.name = "job";
        stores[i] = leader_redis_backend(&c->redis[i], &config);
    }
    return start_candidate(c, name, stores, SERVERS);
}

UTEST_F_SETUP(servers) {
    begin();
    for (int i = 0; i < SERVERS; i++) {
        utest_fixture->port[i] = free_port();
        start_server(utest_fixture, i);
    }
    ASSERT_EQ(LEADER_OK, join_servers(utest_fixture, &all[0], "ann"));
    ASSERT_EQ(LEADER_OK, join_servers(utest_fixture, &all[1], "bob"));
    RUN_UNTIL(30000, someone_leads());
}

UTEST_F_TEARDOWN(servers) {
    end();
    for (int i = 0; i < SERVERS; i++) {
        kill_server(utest_fixture, i);
    }
    EXPECT_TRUE(one_leader);
    EXPECT_FALSE(all[0].token_fell || all[1].token_fell);
}

UTEST_F(servers, the_connections_of_all_are_watched) {
    leader_fd fds[LEADER_FDS_MAX];
    candidate *standby = leads(&all[0]) ? &all[1] : &all[0];
    RUN_UNTIL(20000, leader_fds(&standby->me, fds) == 2 * SERVERS);     // it asks, and listens
    ASSERT_TRUE(someone_leads());
    ASSERT_GT(utest_fixture->pid[0], 0);
}

UTEST_F(servers, two_killed_and_come_back_empty_cost_nothing) {
    uint64_t before = terms();
    for (int i = 0; i < SERVERS; i += 2) {
        kill_server(utest_fixture, i);
        kill_server(utest_fixture, (i + 1) % SERVERS);
        run_for(LEASE_MS);
        RUN_UNTIL(LEASE_MS * 4, someone_leads());
        start_server(utest_fixture, i);
        start_server(utest_fixture, (i + 1) % SERVERS);
        run_for(LEASE_MS * 3);
        RUN_UNTIL(LEASE_MS * 4, someone_leads());
    }
    ASSERT_TRUE(before == terms() || was_too_busy());
}

UTEST_F(servers, two_stopped_delay_nobody) {
    uint64_t before = terms();
    all[0].longest_tick_ms = all[1].longest_tick_ms = 0;
    kill(utest_fixture->pid[1], SIGSTOP);
    kill(utest_fixture->pid[3], SIGSTOP);
    run_for(LEASE_MS * 2);
    RUN_UNTIL(LEASE_MS * 4, someone_leads());
    ASSERT_TRUE(before == terms() || was_too_busy());
    ASSERT_LT(all[0].longest_tick_ms, (int64_t)(200 * slowness()));
    candidate *first = leads(&all[0]) ? &all[0] : &all[1];
    candidate *second = leads(&all[0]) ? &all[1] : &all[0];
    ASSERT_EQ(LEADER_OK, leader_close(&first->me, 5000));
    first->open = false;
    RUN_UNTIL(LEASE_MS * 4, leads(second));
    kill(utest_fixture->pid[1], SIGCONT);
    kill(utest_fixture->pid[3], SIGCONT);
}

UTEST_F(servers, emptied_one_after_another_they_cost_nothing) {
    uint64_t before = terms();
    for (int i = 0; i < SERVERS; i++) {
        ASSERT_EQ(0, shell("redis-cli -p %d flushall >/dev/null", utest_fixture->port[i]));
        run_for(LEASE_MS * 2);
        RUN_UNTIL(LEASE_MS * 4, someone_leads());
    }
    ASSERT_TRUE(before == terms() || was_too_busy());
}

UTEST_F(servers, three_killed_end_the_term_and_their_return_begins_another) {
    uint64_t before = terms();
    for (int i = 0; i < 3; i++) {
        kill_server(utest_fixture, i);
    }
    RUN_UNTIL(LEASE_MS * 3, !someone_leads());
    run_for(LEASE_MS);
    ASSERT_FALSE(someone_leads());
    for (int i = 0; i < 3; i++) {
        start_server(utest_fixture, i);
    }
    RUN_UNTIL(LEASE_MS * 8, someone_leads());
    ASSERT_GT(terms(), before);
}

UTEST_F(servers, a_leader_that_vanishes_is_followed_after_its_lease) {
    candidate *first = leads(&all[0]) ? &all[0] : &all[1];
    candidate *second = leads(&all[0]) ? &all[1] : &all[0];
    ASSERT_GT(utest_fixture->pid[0], 0);
    first->open = false;            // no tick, no release
    RUN_UNTIL(LEASE_MS * 6, leads(second));
    ASSERT_FALSE(leader_is_leader(&first->me));
    leader_close(&first->me, 0);
}
