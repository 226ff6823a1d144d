/* The Kubernetes Lease under the kit, on the API server of tests/k8s. */
#define LEADER_WITH_K8S
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/k8s/k8s_world.h"
#include "tests/store/kit.h"

static leader_k8s        jobs[STORE_SLOTS];
static leader_k8s_client clients[3];

static bool start(void) {
    return world_start();
}

static void stop(void) {
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    curl_global_cleanup();
}

static leader_backend backend(int slot, const char *election) {
    leader_k8s_config config;
    memset(&config, 0, sizeof config);
    config.server = W.url;
    config.ca_file = W.ca;
    config.token = W.watcher;
    config.lease_namespace = W.space;
    config.lease_name = election;
    config.leader_h_only = true;
    config.client = &clients[slot % 10 < 2 && slot < 20 ? slot % 10 : 2];
    return leader_k8s_backend(&jobs[slot], &config);
}

static void wipe(const char *election) {
    lease_delete(election);
}

static void corrupt(const char *election) {
    lease_patch(election, "{\"metadata\":{\"annotations\":{\"leader-h/token\":\"garbage\"}}}");
}

static void silence(bool on) {
    kill(W.pid, on ? SIGSTOP : SIGCONT);
}

static const store_under_test store = {
    "Kubernetes Lease", STORE_LACKS_REPAIR, NULL, start, stop, backend, wipe, corrupt, silence, 100};
