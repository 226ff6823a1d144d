/* The etcd store's figures on one real member, and beside them `etcdctl lock`, which stands on an etcd
   lease. bench.h says how to read the table. */
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_ETCD
#include "leader.h"
#include "tests/etcd/etcd_server.h"

static etcd_cluster cluster;

typedef leader_etcd store_kind;

static leader_backend store_make(leader_etcd *store, const char *election, bool listens) {
    leader_etcd_config where;
    memset(&where, 0, sizeof where);
    where.endpoints = cluster.endpoints;
    where.name = election;
    where.no_watch = !listens;
    return leader_etcd_backend(store, &where);
}

static void store_change(void);
#include "tests/bench/bench_store.h"

/* ---- the bare write ------------------------------------------------------------------------------------ */

static CURL *bare;
static char bare_reply[4100];

static void bare_post(const char *path, const char *body) {
    char url[100];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", cluster.members[0].client_port, path);
    bare_reply[0] = 0;
    curl_easy_setopt(bare, CURLOPT_URL, url);
    curl_easy_setopt(bare, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(bare, CURLOPT_WRITEFUNCTION, etcd_collect);
    curl_easy_setopt(bare, CURLOPT_WRITEDATA, (void *)bare_reply);
    if (curl_easy_perform(bare) != CURLE_OK) {
        die("the bare write fails");
    }
}

/* A transaction as ours, about a record of the same size. */
static void store_change(void) {
    static char value[600];
    static char body[1600];
    static unsigned long long revision;
    if (!bare) {
        bare = curl_easy_init();
        memset(value, 'Q', sizeof value - 4);
        snprintf(body, sizeof body, "{\"key\":\"YmFyZQ==\",\"value\":\"%s\"}", value);
        bare_post("/v3/kv/put", body);
        revision = strtoull(strstr(bare_reply, "\"revision\":\"") + 12, NULL, 10);
    }
    snprintf(body, sizeof body,
             "{\"compare\":[{\"key\":\"YmFyZQ==\",\"target\":\"MOD\",\"mod_revision\":\"%llu\"}],"
             "\"success\":[{\"request_put\":{\"key\":\"YmFyZQ==\",\"value\":\"%s\"}}]}",
             revision, value);
    bare_post("/v3/kv/txn", body);
    if (!strstr(bare_reply, "\"succeeded\":true")) {
        die("the bare write is refused");
    }
    revision = strtoull(strstr(bare_reply, "\"revision\":\"") + 12, NULL, 10);
}

/* ---- etcdctl lock -------------------------------------------------------------------------------------- */

typedef struct lock_holder {
    pid_t pid;
    int out;
} lock_holder;

static lock_holder lock_start(const char *name) {
    int ends[2];
    lock_holder holder;
    if (pipe(ends) != 0) {
        die("pipe");
    }
    fflush(stdout);
    holder.pid = fork();
    if (holder.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        execlp("etcdctl", "etcdctl", "--endpoints", cluster.endpoints, "lock", "--ttl", "2", name,
               (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    holder.out = ends[0];
    return holder;
}

/* It prints its key when it has the lock. */
static void lock_wait(lock_holder holder) {
    char c;
    if (read(holder.out, &c, 1) != 1) {
        die("etcdctl lock ended");
    }
}

static void lock_end(lock_holder holder) {
    kill(holder.pid, SIGKILL);
    waitpid(holder.pid, NULL, 0);
    close(holder.out);
}

static double lock_passes(int number) {
    static int count;
    char name[40];
    snprintf(name, sizeof name, "lock-%d", count++);
    setenv("ETCDCTL_API", "3", 1);
    lock_holder first = lock_start(name);
    lock_wait(first);
    lock_holder second = lock_start(name);
    usleep(300000); // it queues up
    double from = bench_now();
    kill(first.pid, number);
    lock_wait(second);
    double took = (bench_now() - from) * 1e3;
    lock_end(first);
    lock_end(second);
    return took;
}

static double lock_hand_over(void) {
    return lock_passes(SIGTERM);
}

static double lock_crash(void) {
    return lock_passes(SIGKILL);
}

int main(int argc, char **argv) {
    bench_begin(argc, argv, "etcd: ");
    curl_global_init(CURL_GLOBAL_ALL);
    if (system("command -v etcdctl >/dev/null") != 0) {
        die("etcdctl is missing: tests/deps bench");
    }
    if (!etcd_start(&cluster, 1, false)) {
        die("etcd does not start");
    }
    bench_requests();
    bench_renewals();
    bench_hand_overs(lock_hand_over, "etcdctl lock, SIGTERM");
    bench_crashes(lock_crash, "etcdctl lock --ttl 2, SIGKILL");
    bench_memory();
    curl_easy_cleanup(bare);
    etcd_stop(&cluster);
    return bench_end();
}
