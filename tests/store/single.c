/* The single node under the kit: what applies when there is only one. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/store/kit.h"

static bool start(void) {
    return true;
}

static void stop(void) {
}

static leader_backend backend(int slot, const char *election) {
    (void)slot;
    (void)election;
    return leader_single_backend();
}

static const store_under_test store = {
    "single node", STORE_LACKS_RIVALS | STORE_LACKS_NOTICE | STORE_LACKS_NETWORK, NULL,
    start, stop, backend, NULL, NULL, NULL, 0};
