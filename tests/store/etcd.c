/* etcd under the kit: one real member. */
#define LEADER_WITH_ETCD
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/etcd/etcd_server.h"
#include "tests/store/kit.h"

static etcd_cluster       cluster;
static leader_http_client clients[3];
static leader_etcd        jobs[STORE_SLOTS];

static bool start(void) {
    return etcd_start(&cluster, 1, false);
}

static void stop(void) {
    etcd_stop(&cluster);
    curl_global_cleanup();
}

static leader_backend backend(int slot, const char *election) {
    leader_etcd_config config;
    memset(&config, 0, sizeof config);
    config.endpoints = cluster.endpoints;
    config.name = election;
    config.client = &clients[slot % 10 < 2 && slot < 20 ? slot % 10 : 2];
    return leader_etcd_backend(&jobs[slot], &config);
}

static void key_of(const char *election, char *text, size_t cap) {
    char key[100];
    snprintf(key, sizeof key, "/leader/%s", election);
    leader_etcd_encode_(text, cap, key, strlen(key));
}

static void wipe(const char *election) {
    char key[200];
    char body[260];
    key_of(election, key, sizeof key);
    snprintf(body, sizeof body, "{\"key\":\"%s\"}", key);
    etcd_post(&cluster, 0, "/v3/kv/deleterange", body);
}

static void corrupt(const char *election) {
    char key[200];
    char body[260];
    key_of(election, key, sizeof key);
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"value\":\"Z2FyYmFnZQ==\"}", key);
    etcd_post(&cluster, 0, "/v3/kv/put", body);
}

static void silence(bool on) {
    etcd_signal(&cluster, 0, on ? SIGSTOP : SIGCONT);
}

static const store_under_test store = {
    "etcd", 0, NULL, start, stop, backend, wipe, corrupt, silence, 100};
