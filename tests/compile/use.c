/* Uses every public function once, so that a build that lacks one, or declares one that it does not
   define, does not link; and runs, so that a build that links is also seen to work. Compiled by
   tests/compile/matrix in every language standard, as C and as C++, in three ways: with the implementation
   in this file, with it in impl.c, and with LEADER_STATIC in here and in other.c. Its argument: where the
   lease file goes. */
#include "leader.h"

#if defined(LEADER_IMPLEMENTATION) && !defined(LEADER_IMPLEMENTATION_DONE)
#  error "LEADER_IMPLEMENTATION was asked for, and leader.h did not compile it"
#endif

#include <stdio.h>
#include <string.h>

#ifdef OTHER_UNIT
#  ifdef __cplusplus
extern "C"
#  endif
bool other_unit_agrees(const leader_t *me);
#else
static bool other_unit_agrees(const leader_t *me) { return leader_is_leader(me); }
#endif

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);                                  \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int starts, stops;
static void started(void *user, uint64_t token) { (void)user; if (token != 0) starts++; }
static void stopped(void *user, uint64_t token, leader_result why) {
    (void)user;
    (void)why;
    if (token != 0)
        stops++;
}

/* One complete life: stand, lead, be asked everything, resign, lead again, stop. */
static int live(leader_backend backend, bool has_rivals) {
    char identity[LEADER_IDENTITY_MAX + 1], leader[LEADER_IDENTITY_MAX + 1];
    leader_fd fds[LEADER_FDS_MAX];
    leader_config config;
    leader_view view;
    leader_stats stats;
    leader_t me;
    int count, i;

    memset(&config, 0, sizeof config);
    config.identity = leader_make_identity(identity, sizeof identity, "matrix");
    config.backend = backend;
    config.on_started_leading = started;
    config.on_stopped_leading = stopped;
    starts = stops = 0;
    if (leader_init(&me, &config) != LEADER_OK) return fprintf(stderr, "%s\n", leader_error(&me)), 1;
    CHECK(leader_get_state(&me) == LEADER_STATE_FOLLOWER);
    CHECK(!leader_is_leader(&me) && leader_token(&me) == 0);
    CHECK(leader_wait(&me, 60000) == LEADER_OK);
    CHECK(leader_is_leader(&me) && leader_token(&me) != 0 && leader_remaining_ms(&me) > 0);
    CHECK(other_unit_agrees(&me));
    CHECK(leader_get_leader(&me, leader, sizeof leader) == (int)strlen(identity)
          && strcmp(leader, identity) == 0);
    view = leader_get_view(&me);
    CHECK(view.leading && view.state == LEADER_STATE_LEADER && strcmp(view.leader, identity) == 0);
    stats = leader_get_stats(&me);
    CHECK(stats.terms == 1 && stats.acquires >= 1);
    CHECK(leader_is_healthy(&me, 60000) && !leader_is_stopped(&me));

    i = leader_tick(&me);
    CHECK(i >= 1 && i <= LEADER_WAIT_MAX_MS);
    CHECK(leader_due_ms(&me) >= 0);
    count = leader_fds(&me, fds);
    CHECK(count >= 0 && count <= LEADER_FDS_MAX);
    leader_sleep(&me, 1);

    leader_resign(&me, 1);
    for (i = 0; i < 10000 && stops == 0; i++) { leader_tick(&me); leader_sleep(&me, 10); }
    CHECK(stops == 1);
    CHECK(leader_wait(&me, 60000) == LEADER_OK);
    CHECK(starts == 2);
    CHECK(!has_rivals || leader_token(&me) > view.token);

    leader_stop(&me);
    CHECK(leader_close(&me, 60000) == LEADER_OK);
    CHECK(starts == 2 && stops == 2);
    CHECK(leader_is_stopped(&me) && !leader_is_leader(&me) && leader_get_state(&me) == LEADER_STATE_NONE);
    CHECK(*leader_strerror(LEADER_E_TIMEOUT) != '\0' && *leader_state_name(LEADER_STATE_LEADER) != '\0');
    return 0;
}

int main(int argc, char **argv) {
    if (live(leader_single_backend(), false) != 0) return 1;
#ifndef LEADER_NO_FILE
    static leader_file file;
    if (argc < 2) return fprintf(stderr, "usage: %s LEASE-FILE\n", argv[0]), 2;
    if (live(leader_file_backend(&file, argv[1]), true) != 0) return 1;
#endif
    (void)argc;
    (void)argv;
    puts("works");
    return 0;
}
