/* What the Redis tests need: real servers on free ports, elections that are ticked together, a server
   that says whatever the test wants, namespaces. Everything that is started is stopped, even when an
   assertion left a test early: `fresh()` begins each test, servers die with this process
   (PR_SET_PDEATHSIG), and the process that started this one removes the files. */
#ifndef REDIS_HARNESS_H
#define REDIS_HARNESS_H

// the resolver's world: a test can put its own in the place of the machine's
static int dns_port = 53;
static char resolv_conf[200] = "/etc/resolv.conf", hosts_file[200] = "/etc/hosts";
#define LEADER_REDIS_DNS_PORT dns_port
#define LEADER_REDIS_RESOLV_CONF resolv_conf
#define LEADER_REDIS_HOSTS hosts_file

#define LEADER_WITH_REDIS
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/patience.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define HELPER static __attribute__((unused))    // not every program needs every one

#ifndef LIMIT_MS
#  define LIMIT_MS patient_ms(30000)    // how long a condition may take before the test fails
#endif

static char root[128];              // all files of this run

HELPER int64_t clock_ms(void) { return leader_clock_ms_(); }

/* ---- processes ------------------------------------------------------------------------------------- */

HELPER pid_t spawn(const char *log, char *const argv[]) {
    pid_t parent = getpid(), pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    int fd = open(log ? log : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execvp(argv[0], argv);
    _exit(127);
}

HELPER void reap(pid_t *pid, int signal) {
    if (*pid <= 0) return;
    kill(*pid, signal);
    kill(*pid, SIGCONT);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

HELPER int shell(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

HELPER int free_port(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0
        || getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        abort();
    close(fd);
    return ntohs(at.sin_port);
}

/* ---- servers --------------------------------------------------------------------------------------- */

enum { SERVERS_MAX = 8 };
typedef struct server { pid_t pid; int port; char dir[160], args[1024], password[32]; } server;
static server servers[SERVERS_MAX];

static redisContext *dial(const server *s) {
    struct timeval limit = {5, 0};
    redisContext *c = redisConnectWithTimeout("127.0.0.1", s->port, limit);
    if (c && !c->err) redisSetTimeout(c, limit);
    if (c && !c->err && s->password[0]) freeReplyObject(redisCommand(c, "AUTH %s", s->password));
    return c;
}

/* One command on a connection of its own; the reply as one line of text, which stays until the next call. */
static char said[4096];

HELPER void flatten(const redisReply *reply, size_t *n) {
    const char *gap = *n ? " " : "";
    size_t left = sizeof said - *n;
    if (reply->type == REDIS_REPLY_INTEGER)
        *n += (size_t)snprintf(said + *n, left, "%s%lld", gap, reply->integer);
    else if (reply->type == REDIS_REPLY_NIL) *n += (size_t)snprintf(said + *n, left, "%snil", gap);
    else if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < reply->elements; i++)
            flatten(reply->element[i], n);
    else *n += (size_t)snprintf(said + *n, left, "%s%s", gap, reply->str);
    if (*n >= sizeof said) *n = sizeof said - 1;
}

HELPER const char *say_argv(const server *s, int argc, const char **argv) {
    redisContext *c = dial(s);
    redisReply *reply = c && !c->err ? (redisReply *)redisCommandArgv(c, argc, argv, NULL) : NULL;
    size_t n = 0;
    snprintf(said, sizeof said, "no reply: %s", c ? c->errstr : "?");
    if (reply) { said[0] = 0; flatten(reply, &n); freeReplyObject(reply); }
    if (c) redisFree(c);
    return said;
}

HELPER const char *say(const server *s, const char *line) {
    char copy[1024], *save = NULL;
    const char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &save); word && argc < 32; word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "''") ? word : "";
    return say_argv(s, argc, argv);
}

HELPER bool server_answers(const server *s) {
    const char *text = say(s, "PING");
    return strstr(text, "PONG") || strstr(text, "NOAUTH");
}

/* Starts it again where it was: same port, same directory. */
HELPER void server_run(server *s) {
    char line[1400], *save = NULL, *argv[64], log[200];
    int argc = 0;
    snprintf(line, sizeof line, "%s", s->args);
    snprintf(log, sizeof log, "%s/log", s->dir);
    for (char *word = strtok_r(line, " ", &save); word && argc < 63; word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "''") ? word : word + 2;
    argv[argc] = NULL;
    s->pid = spawn(log, argv);
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && !server_answers(s); usleep(5000))
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            break;
        }
}

HELPER server *server_place(void) {
    server *s = servers;
    while (s->port) s++;
    memset(s, 0, sizeof *s);
    s->port = free_port();
    snprintf(s->dir, sizeof s->dir, "%s/redis-%d", root, s->port);
    mkdir(s->dir, 0700);
    return s;
}

HELPER server *server_start(const char *extra) {
    server *s = server_place();
    const char *password = strstr(extra, "--requirepass ");
    if (password) sscanf(password, "--requirepass %31s", s->password);
    snprintf(s->args, sizeof s->args,
             "redis-server --port %d --bind 127.0.0.1 --dir %s --save '' --appendonly no --daemonize no "
             "--enable-debug-command yes --hz 100 --repl-diskless-sync-delay 0 %s",
             s->port, s->dir, extra);
    server_run(s);
    return s;
}

HELPER server *sentinel_start(int master_port, int quorum) {
    server *s = server_place();
    char path[200];
    snprintf(path, sizeof path, "%s/sentinel.conf", s->dir);
    FILE *f = fopen(path, "w");
    fprintf(f,
            "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %d %d\nsentinel "
            "down-after-milliseconds main 600\n"
            "sentinel failover-timeout main 3000\nsentinel parallel-syncs main 1\n",
            s->port, s->dir, master_port, quorum);
    fclose(f);
    snprintf(s->args, sizeof s->args, "redis-sentinel %s", path);
    server_run(s);
    return s;
}

HELPER void server_stop(server *s) { reap(&s->pid, SIGKILL); }

/* ---- elections ------------------------------------------------------------------------------------- */

enum { CANDIDATES_MAX = 64 };
typedef struct candidate {
    leader_t me;
    leader_redis_client client;
    leader_redis_election election;
    bool open, frozen;
    int started, stopped;
    leader_result why;
    uint64_t token;
    char log[4000];                 // all that was logged: no password may show up in it
} candidate;
static candidate candidates[CANDIDATES_MAX];
static int64_t both_ms;             // how often two of one group were seen leading: must stay 0
static uint64_t highest_token;      // each term's must be above
static bool token_fell;

HELPER void on_started(void *user, uint64_t token) {
    candidate *c = (candidate *)user;
    c->started++;
    c->token = token;
    if (token <= highest_token) token_fell = true;
    highest_token = token;
}
HELPER void on_stopped(void *user, uint64_t token, leader_result why) {
    candidate *c = (candidate *)user;
    (void)token;
    c->stopped++;
    c->why = why;
}
HELPER void on_log(void *user, leader_level level, const char *text) {
    candidate *c = (candidate *)user;
    size_t n = strlen(c->log);
    (void)level;
    snprintf(c->log + n, sizeof c->log - n, "%s\n", text);
}

HELPER void quiet(void *user, leader_level level, const char *text) {
    (void)user;
    (void)level;
    (void)text;
}

HELPER leader_config settings(candidate *c, const char *identity, int64_t lease_ms) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    memset(c, 0, sizeof *c);
    cfg.identity = identity;
    cfg.lease_ms = lease_ms;
    cfg.renew_retries = -1;
    // servers come back soon here: so do the candidates
    cfg.retry_max_ms = lease_ms > 500 ? lease_ms : 500;
    cfg.on_started_leading = on_started;
    cfg.on_stopped_leading = on_stopped;
    cfg.on_log = on_log;
    cfg.user = c;
    return cfg;
}

HELPER candidate *join_with(const leader_redis_config *how, const char *identity, int64_t lease_ms,
                            const char *name) {
    candidate *c = candidates;
    while (c->open) c++;
    leader_config cfg = settings(c, identity, lease_ms);
    leader_redis_client_init(&c->client, how);
    cfg.backend = leader_redis_shared_backend(&c->election, &c->client, name);
    c->open = leader_init(&c->me, &cfg) == LEADER_OK;
    return c;
}

HELPER candidate *join(const server *s, const char *identity, int64_t lease_ms) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    how.password = s->password[0] ? s->password : NULL;
    return join_with(&how, identity, lease_ms, "job");
}

HELPER bool leads(const candidate *c) { return leader_is_leader(&c->me); }

HELPER int leaders(void) {
    int n = 0;
    for (int i = 0; i < CANDIDATES_MAX; i++) n += candidates[i].open && leads(&candidates[i]);
    return n;
}

HELPER candidate *the_leader(void) {
    for (int i = 0; i < CANDIDATES_MAX; i++)
        if (candidates[i].open && leads(&candidates[i]))
            return &candidates[i];
    return NULL;
}

HELPER void tick_all(void) {
    for (int i = 0; i < CANDIDATES_MAX; i++) {
        if (candidates[i].open && !candidates[i].frozen) leader_tick(&candidates[i].me);
        if (leaders() > 1) both_ms++;
    }
}

/* Ticks everybody until the condition holds; false: it never did. */
#define UNTIL(condition) __extension__({ \
    bool ok_ = false; \
    for (int64_t end_ = clock_ms() + LIMIT_MS; clock_ms() < end_ && !ok_; ) { \
        tick_all(); \
        ok_ = (condition); \
        if (!ok_) { \
            usleep(1000); \
        } \
    } \
    ok_; })

HELPER void pass_ms(int64_t ms) {
    for (int64_t end = clock_ms() + ms; clock_ms() < end; usleep(1000)) tick_all();
}

HELPER void leave(candidate *c) {
    if (c->open) leader_close(&c->me, LIMIT_MS);
    c->open = false;
}

HELPER void fresh(void) {
    for (int i = 0; i < CANDIDATES_MAX; i++) {
        if (candidates[i].open) leader_close(&candidates[i].me, 0);
        candidates[i].open = false;
    }
    for (int i = 0; i < SERVERS_MAX; i++) {
        server_stop(&servers[i]);
        memset(&servers[i], 0, sizeof servers[i]);
    }
    both_ms = 0;
    highest_token = 0;
    token_fell = false;
}

/* ---- a server that says what the test wants -------------------------------------------------------- */

typedef struct fake { int listener, peer, port, accepted; size_t got; char heard[8192]; } fake;

HELPER void fake_open(fake *f) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(f, 0, sizeof *f);
    memset(&at, 0, sizeof at);
    f->peer = -1;
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(f->listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(f->listener, 64) != 0
        || getsockname(f->listener, (struct sockaddr *)&at, &len) != 0)
        abort();
    f->port = ntohs(at.sin_port);
}

HELPER void fake_hang_up(fake *f) {
    if (f->peer >= 0) close(f->peer);
    f->peer = -1;
}

/* Takes a connection if one comes and reads what there is. */
HELPER void fake_step(fake *f) {
    if (f->peer < 0) {
        f->peer = accept(f->listener, NULL, NULL);
        if (f->peer < 0) return;
        fcntl(f->peer, F_SETFL, O_NONBLOCK);
        fcntl(f->peer, F_SETFD, FD_CLOEXEC);
        f->accepted++;
        f->got = 0;
    }
    ssize_t n = recv(f->peer, f->heard + f->got, sizeof f->heard - 1 - f->got, 0);
    if (n > 0) f->got += (size_t)n;
    if (n == 0 && f->got < sizeof f->heard - 1) fake_hang_up(f);    // it went away
    f->heard[f->got] = 0;
}

HELPER void fake_send(fake *f, const void *bytes, size_t n) {
    const char *at = (const char *)bytes;
    while (n > 0) {
        ssize_t sent = send(f->peer, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) { tick_all(); continue; }
        if (sent < 0) return;
        at += sent;
        n -= (size_t)sent;
    }
}

HELPER void fake_close(fake *f) {
    fake_hang_up(f);
    close(f->listener);
}

/* The script's answer to the present request of c. */
HELPER size_t answer_to(const candidate *c, const char *word, long long token, long long ms,
                        const char *record, char out[1000]) {
    return (size_t)snprintf(out, 1000,
                            "*9\r\n$%d\r\n%s\r\n:%lld\r\n:%lld\r\n:%lld\r\n$%d\r\n%s\r\n$10\r\nleader:"
                            "job\r\n$16\r\n%016llx\r\n$20\r\n%020llu\r\n$0\r\n\r\n",
                            (int)strlen(word), word, token, ms, ms, (int)strlen(record), record,
                            (unsigned long long)c->election.nonce, (unsigned long long)c->election.seq);
}

HELPER size_t yes_to(const candidate *c, char out[1000]) {
    char record[400];
    snprintf(record, sizeof record, "1763262000123 %020llu %016llx 15000 a",
             (unsigned long long)c->election.seq, (unsigned long long)c->election.nonce);
    return answer_to(c, "OK", 0, 15000, record, out);
}

HELPER size_t held_to(const candidate *c, char out[1000]) {
    return answer_to(c, "HELD", 0, 60000, "1763262000123 00000000000000000001 00000000000000ff 60000 b", out);
}

HELPER candidate *join_fake(const fake *f, int64_t lease_ms) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = f->port;
    how.connect_timeout_ms = 300;
    return join_with(&how, "a", lease_ms, "job");
}

/* ---- one run --------------------------------------------------------------------------------------- */

static pid_t running;
HELPER void interrupted(int number) { (void)number; kill(running, SIGKILL); }

/* Runs body in a child with a directory of its own, so that the directory goes even if it crashes or is
   interrupted; what it started dies with it. Then `after`, with the child's pid. Answers body's exit
   status. */
HELPER int supervise(int (*body)(int, char **), int argc, char **argv, void (*after)(pid_t)) {
    snprintf(root, sizeof root, "%s/leader-redis-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root)) { perror("mkdtemp"); return 1; }
    pid_t parent = getpid();
    int status = 1;
    running = fork();
    if (running == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        exit(body(argc, argv));
    }
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    signal(SIGHUP, interrupted);
    while (waitpid(running, &status, 0) < 0 && errno == EINTR) { }
    usleep(100000);                 // what died with it is dead by now
    if (after) after(running);
    (void)shell("rm -rf '%s'", root);
    if (WIFSIGNALED(status)) fprintf(stderr, "%s: ended by signal %d\n", argv[0], WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

#endif
