/* Redis under the kit: one real server, whose wall clock the kit moves along with its own. */
#define LEADER_WITH_REDIS
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/store/kit.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char                  directory[64];
static int                   port;
static pid_t                 server;
static int                   clock_fd;      // how far the server's clock is ahead, in microseconds
static int64_t               ahead_us;
static char                  url[64];
static leader_redis_client   clients[3];
static leader_redis_election jobs[STORE_SLOTS];

static int free_port(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool bound = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (!bound || getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        abort();
    }
    close(fd);
    return ntohs(at.sin_port);
}

static bool say(const char *format, const char *key) {
    redisContext *context = redisConnect("127.0.0.1", port);
    redisReply *reply = context && !context->err ? (redisReply *)redisCommand(context, format, key) : NULL;
    bool answered = reply && reply->type != REDIS_REPLY_ERROR;
    if (reply) {
        freeReplyObject(reply);
    }
    if (context) {
        redisFree(context);
    }
    return answered;
}

static void move_clock(int64_t ms) {
    ahead_us += ms * 1000;
    if (pwrite(clock_fd, &ahead_us, sizeof ahead_us, 0) != (ssize_t)sizeof ahead_us) {
        abort();
    }
}

static void run_server(void) {
    char line[600];
    snprintf(line, sizeof line,
             "cd %s && exec env LD_PRELOAD=%s/clock.so CHAOS_CLOCK=%s/clock redis-server --port %d --bind "
             "127.0.0.1"
             " --save '' --appendonly no >log 2>&1",
             directory, directory, directory, port);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
}

static bool start(void) {
    char line[200];
    char path[100];
    leader_redis_config config;
    snprintf(directory, sizeof directory, "/tmp/leader-kit-XXXXXX");
    if (!mkdtemp(directory)) {
        return false;
    }
    snprintf(path, sizeof path, "%s/clock", directory);
    clock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    move_clock(0);
    snprintf(line, sizeof line, "cc -O1 -shared -fPIC tests/chaos/clock.c -o %s/clock.so", directory);
    if (system(line) != 0) {
        return false;
    }
    port = free_port();
    run_server();
    bool ready = false;
    for (int i = 0; i < 600 && !ready; i++) {
        usleep(20000);
        ready = say("PING", NULL);
    }
    memset(&config, 0, sizeof config);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    config.url = url;
    for (int i = 0; i < 3; i++) {
        leader_redis_client_init(&clients[i], &config);
    }
    return ready;
}

static void stop(void) {
    char line[100];
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    snprintf(line, sizeof line, "rm -rf '%s'", directory);
    if (system(line) != 0) {
        printf("%s is left behind\n", directory);
    }
}

static leader_backend backend(int slot, const char *election) {
    int client = slot % 10 < 2 && slot < 20 ? slot % 10 : 2;
    return leader_redis_shared_backend(&jobs[slot], &clients[client], election);
}

static void wipe(const char *election) {
    (void)election;
    say("FLUSHALL", NULL);
}

static void corrupt(const char *election) {
    char key[100];
    snprintf(key, sizeof key, "leader:%s", election);
    say("SET %s garbage KEEPTTL", key);
}

static void silence(bool on) {
    kill(server, on ? SIGSTOP : SIGCONT);
}

static const store_under_test store = {
    "Redis", STORE_LACKS_CORRUPT, move_clock,
    start, stop, backend, wipe, corrupt, silence, 0};
