/* The Kubernetes backend, used: for tests/compile/test_backend_builds.sh, which compiles it in every form. */
#include "leader.h"
#ifdef DIRECTLY
#include "backends/leader_k8s.h"
#endif
#if defined(LEADER_IMPLEMENTATION) && !defined(LEADER_K8S_IMPLEMENTATION_DONE)
#error "the implementation was asked for and not compiled"
#endif
#include <stdio.h>
#include <string.h>
static leader_t me;
static leader_k8s store;
static leader_k8s_client shared;
int main(void) {
    static char name[LEADER_IDENTITY_MAX + 1];
    leader_k8s_config where;
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    leader_k8s_from_env(&where, "builds");
    where.server = "https://127.0.0.1:1";
    where.lease_namespace = "default";
    where.token = "t";
    where.client = &shared;
    cfg.identity = leader_k8s_identity(name, sizeof name);
    cfg.backend = leader_k8s_backend(&store, &where);
    if (leader_init(&me, &cfg) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(&me));
        return 1;
    }
    leader_tick(&me);
    leader_close(&me, 0);
    return leader_is_leader(&me);
}
