/* The shipped core and engine, explored exhaustively: every order of every step within stated bounds,
 * breadth first, so that the first violation found has the shortest story.
 *
 *     build/prove [--quick] [--list] [--hunt] [--jobs N] [NAME ...]     bounds of those names; all; or the
 *                                                                     quick ones
 *
 * --hunt is for broken code, in which states may be merged that are not the same: it looks for violations
 * only. --jobs: so many runs at a time, each a process of its own; unless said, one for each processor, but
 * two at most, because a run takes up to a gigabyte.
 *
 * Checked in every state: at most one leader_is_leader(), each by its own clock; tokens that rise;
 * callbacks in pairs; no release before the work is over; the assertions of leader.h. In a sample of the
 * states: once faults end, somebody leads. That states which were taken to be the same behave the same is
 * checked by compare_steps. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int prove_gettime(clockid_t id, struct timespec *t);
static uint64_t prove_random64(void);
static void prove_assert(const char *what);

#define clock_gettime prove_gettime
#define getpid() 1
#define LEADER_RANDOM64() prove_random64()
#define LEADER_ASSERT(x) ((x) ? (void)0 : prove_assert(#x))
#define LEADER_STATIC
#define LEADER_NO_FILE
#define LEADER_NO_STDERR
#include "leader.h"
#undef clock_gettime

#include "tests/prove/world.h"
#include "tests/prove/pack.h"

static void prove_assert(const char *what) {
    violate(what);
}

/* -- the states that were reached -- */

static struct {
    uint8_t  *arena;                // one text after the other
    size_t    arena_used, arena_max;
    size_t   *at;                   // where the n-th begins; at[count]: where the next will
    uint32_t *parent;
    action   *by;
    uint32_t *table;                // number + 1, open addressing
    size_t    table_mask, count;
    uint64_t  transitions, merged, compared, settled;
} S;

static uint64_t hash_of(const uint8_t *key, size_t size) {
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ size;
    while (size > 0) {
        uint64_t word = 0;
        size_t now = size < 8 ? size : 8;
        memcpy(&word, key, now);
        h = leader_mix_(h ^ word) * UINT64_C(0x9fb21c651e98df25);
        key += now;
        size -= now;
    }
    return h ^ (h >> 29);
}

static void *reserve(size_t bytes) {
    void *memory = malloc(bytes);               // touched only as far as it is needed
    if (!memory) {
        puts("out of memory");
        exit(2);
    }
    return memory;
}

static void states_begin(void) {
    size_t slots = 1024;
    while (slots < 2 * B.states_max) {
        slots *= 2;
    }
    memset(&S, 0, sizeof S);
    S.arena_max = B.states_max * 120;
    S.arena = (uint8_t *)reserve(S.arena_max);
    S.at = (size_t *)reserve((B.states_max + 2) * sizeof *S.at);
    S.parent = (uint32_t *)reserve((B.states_max + 1) * sizeof *S.parent);
    S.by = (action *)reserve((B.states_max + 1) * sizeof *S.by);
    S.table = (uint32_t *)calloc(slots, sizeof *S.table);
    S.table_mask = slots - 1;
    S.at[0] = 0;
    if (!S.table) {
        puts("out of memory");
        exit(2);
    }
}

static void states_end(void) {
    free(S.arena);
    free(S.at);
    free(S.parent);
    free(S.by);
    free(S.table);
}

/* True: it is new. */
static bool states_add(const uint8_t *key, size_t size, size_t parent, action by) {
    size_t slot = hash_of(key, size) & S.table_mask;
    while (S.table[slot] != 0) {
        size_t n = S.table[slot] - 1;
        if (S.at[n + 1] - S.at[n] == size && memcmp(S.arena + S.at[n], key, size) == 0) {
            return false;
        }
        slot = (slot + 1) & S.table_mask;
    }
    if (S.count >= B.states_max || S.arena_used + size > S.arena_max) {
        printf("%s: more than %zu states: the bounds were thought to be smaller\n", B.name, B.states_max);
        exit(1);
    }
    memcpy(S.arena + S.arena_used, key, size);
    S.arena_used += size;
    S.table[slot] = (uint32_t)S.count + 1;
    S.parent[S.count] = (uint32_t)parent;
    S.by[S.count] = by;
    S.count++;
    S.at[S.count] = S.arena_used;
    return true;
}

static void states_load(size_t n) {
    unpack(S.arena + S.at[n], S.at[n + 1] - S.at[n]);
}

/* -- steps -- */

enum { LOOKS_MAX = 14, ACTIONS_MAX = NODES_MAX * (ACT_KINDS + LOOKS_MAX) + ORPHANS_MAX + 2 };

static int list_actions(action *list) {
    int count = 0;
    static const uint8_t own[] = {ACT_TICK,   ACT_EXECUTE, ACT_LOSE, ACT_RESET,     ACT_CRASH,
                                  ACT_RESIGN, ACT_STOP,    ACT_TELL, ACT_WORK_ENDS};
    list[count++] = (action){ACT_TIME, 0, 0};
    list[count++] = (action){ACT_FORGET, 0, 0};
    for (int i = 0; i < B.orphans; i++) {
        list[count++] = (action){ACT_LATE, 0, (uint8_t)i};
    }
    for (int node = 0; node < B.nodes; node++) {
        for (size_t i = 0; i < sizeof own; i++) {
            list[count++] = (action){own[i], (uint8_t)node, 0};
        }
        for (int look = 1; look <= LOOKS_MAX && B.stalls > 0; look++) {
            list[count++] = (action){ACT_TICK, (uint8_t)node, (uint8_t)look};
        }
    }
    return count;
}

static void start(void);

/* -- the story of a violation -- */

static const char *who(const int *person, int node) {
    return names[person[node]];
}

static void tell_candidate(const candidate *c, const char *name) {
    printf("  %s %s", name, leader_state_name(c->core.state));
    if (leader_is_leader(&c->core)) {
        int left_ms = (int)(c->core.until_ms - c->clock_ms);
        printf(" (token %" PRIu64 ", %d ms left)", c->core.lease.token, left_ms);
    }
    static const char *const op[] = {"", ", acquiring", ", renewing", ", releasing", ", looking"};
    static const char *const call[] = {"", " under way", " answered", " lost"};
    printf("%s", op[c->core.request.op]);
    if (c->call.state != CALL_NONE) {
        printf(": %s%s", c->call.is_write ? "write" : "read", call[c->call.state]);
    }
    printf(";");
}

static void tell_action(action a, const int *person) {
    static const char *const what[ACT_KINDS] = {
        "time passes", "ticks", "is served: the store carries out its request", "loses the answer",
        "loses its connection", "", "crashes and starts again", "is asked to resign", "is asked to stop",
        "the store forgets its record", "has finished the work of its last term", "is told of the record"};
    if (a.kind == ACT_LATE) {
        printf("an abandoned write is carried out late");
    } else if (a.kind == ACT_TIME || a.kind == ACT_FORGET) {
        printf("%s", what[a.kind]);
    } else {
        printf("%s %s", who(person, a.node), what[a.kind]);
    }
    if (a.kind == ACT_TICK && a.stall > 0) {
        printf(", stopped for more than a lease before its look no. %d at the clock", a.stall);
    }
}

static void tell_world(const int *person) {
    for (int i = 0; i < B.nodes; i++) {
        tell_candidate(&w.c[i], who(person, i));
    }
    if (!w.store.present) {
        printf("  no record\n");
        return;
    }
    int holder = node_of_nonce(w.store.nonce);
    const char *name = w.store.holder ? who(person, holder) : "released";
    printf("  record: %s, token %" PRIu64 "\n", name, w.store.token);
}

/* From the beginning to the state n, then one step more. Candidates change places on the way: person[]
   knows whom. */
static void tell_story(size_t n, action last) {
    uint8_t key[KEY_MAX];
    int order[NODES_MAX], person[NODES_MAX] = {0, 1, 2};
    size_t *path = (size_t *)reserve((n + 2) * sizeof *path);
    size_t length = 0;
    for (size_t at = n; at != 0; at = S.parent[at]) {
        path[length++] = at;
    }
    start();
    for (size_t i = length + 1; i-- > 0;) {
        action a = i == 0 ? last : S.by[path[i - 1]];
        size_t size = pack(key, order);
        int before[NODES_MAX];
        memcpy(before, person, sizeof person);
        for (int k = 0; k < B.nodes; k++) {
            person[k] = before[order[k]];
        }
        unpack(key, size);
        act(a);
        printf("%4zu. ", length + 1 - i);
        tell_action(a, person);
        printf("\n     ");
        tell_world(person);
    }
    free(path);
}

/* -- checks of the checker -- */

/* Do two worlds with the same text behave the same? `raw` is as its steps left it; the other one is made
 * from the text. Every step of one must be a step of the other, to the same text, with the same verdict.
 * False: no. */
static bool compare_steps(const world *raw) {
    uint8_t key[KEY_MAX], one[KEY_MAX], other[KEY_MAX];
    int order[NODES_MAX], ignored[NODES_MAX];
    action list[ACTIONS_MAX];
    int count = list_actions(list);
    w = *raw;
    size_t size = pack(key, order);
    for (int i = 0; i < count; i++) {
        action there = list[i];
        action here = there;
        here.node = (uint8_t)order[there.node];
        w = *raw;
        violation = NULL;
        bool one_done = act(here);
        bool one_bad = violation != NULL;
        size_t one_size = one_done ? pack(one, ignored) : 0;
        unpack(key, size);
        bool other_done = act(there);
        bool other_bad = violation != NULL;
        size_t other_size = other_done ? pack(other, ignored) : 0;
        bool same = one_done == other_done && one_bad == other_bad && one_size == other_size;
        if (!same || memcmp(one, other, one_size) != 0) {
            printf("%s: two worlds that were taken for one differ after: ", B.name);
            tell_action(there, orders[0]);
            printf("\n");
            return false;
        }
        S.compared++;
    }
    violation = NULL;
    return true;
}

static bool hunting;                // --hunt

static uint64_t dice_state;
static uint64_t dice(uint64_t sides) {
    dice_state = leader_mix_(dice_state + UINT64_C(0x9e3779b97f4a7c15));
    return dice_state % sides;
}

/* Long histories that are never packed: clocks, tokens and numbers grow as they do in life. */
static bool compare_walks(int steps) {
    static world raw;
    action list[ACTIONS_MAX];
    int count = list_actions(list);
    dice_state = 1;
    for (int i = 0; i < steps; i++) {
        if (i % 400 == 0) {
            start();
        }
        action a = list[dice((uint64_t)count)];
        bool rare = a.kind == ACT_CRASH || a.kind == ACT_FORGET || a.kind == ACT_STOP || a.stall > 0;
        if (rare && dice(20) != 0) {
            continue;
        }
        raw = w;
        if (!act(a)) {
            w = raw;
            continue;
        }
        raw = w;
        if (dice(8) == 0 && !compare_steps(&raw)) {
            return false;
        }
        w = raw;
        violation = NULL;
    }
    return true;
}

/* Without faults, and with time, somebody leads: unless all were stopped. */
static bool settles(void) {
    bool competing = false;
    for (int i = 0; i < B.nodes; i++) {
        competing = competing || !w.c[i].core.stop_asked;
    }
    for (int round = 0; round < 8 * B.lease_units; round++) {
        for (int i = 0; i < B.nodes; i++) {
            for (int k = 0; k < 4; k++) {
                act((action){ACT_TICK, (uint8_t)i, 0});
                act((action){ACT_EXECUTE, (uint8_t)i, 0});
                act((action){ACT_WORK_ENDS, (uint8_t)i, 0});
            }
            if (leader_is_leader(&w.c[i].core)) {
                return true;
            }
        }
        pass_time(1);               // whatever the bounds say of delays: the answers come after all
    }
    return !competing;
}

/* -- the exploration -- */

enum { FINE, FOUND, VIOLATED, CHECKER_WRONG };

static int complain(const char *what, size_t n, action a) {
    printf("%s: %s, after %" PRIu64 " steps in %zu states:\n", B.name, what, S.transitions, S.count);
    tell_story(n, a);
    return VIOLATED;
}

static int explore_step(size_t n, action a, bool *dirty) {
    static world raw;
    uint8_t key[KEY_MAX];
    int order[NODES_MAX];
    if (*dirty) {
        states_load(n);
    }
    *dirty = true;
    if (!act(a)) {
        *dirty = a.kind == ACT_TICK || a.kind == ACT_LATE;
        return FINE;
    }
    S.transitions++;
    if (violation) {
        bool wanted = B.must_find && strcmp(violation, B.must_find) == 0;
        return wanted ? FOUND : complain(violation, n, a);
    }
    bool sampled = S.transitions % 512 == 0 && !hunting;
    if (sampled) {
        raw = w;
    }
    size_t size = pack(key, order);
    if (states_add(key, size, n, a)) {
        return FINE;
    }
    S.merged++;
    return sampled && !compare_steps(&raw) ? CHECKER_WRONG : FINE;
}

static int explore_state(size_t n) {
    action list[ACTIONS_MAX];
    int count = list_actions(list);
    bool dirty = false;
    states_load(n);
    for (int i = 0; i < count; i++) {
        int verdict = explore_step(n, list[i], &dirty);
        if (verdict != FINE) {
            return verdict;
        }
    }
    if (n % 64 == 0) {
        states_load(n);
        S.settled++;
        if (!settles()) {
            return complain("nobody leads although there are no more faults", n, (action){ACT_TIME, 0, 0});
        }
    }
    return FINE;
}

static void serve(int node, int times) {
    for (int k = 0; k < times; k++) {
        act((action){ACT_TICK, (uint8_t)node, 0});
        act((action){ACT_EXECUTE, (uint8_t)node, 0});
    }
    act((action){ACT_TICK, (uint8_t)node, 0});
}

/* One candidate leads, after having held off if it is cautious, and everyone has seen it. It has just
   renewed, and the others are about to look again: the most that can happen at one moment. */
static void lead_first(void) {
    settles();
    for (int i = 0; i < B.nodes; i++) {
        serve(i, 2);
    }
    pass_time(1);
    for (int i = 0; i < B.nodes; i++) {
        if (leader_is_leader(&w.c[i].core)) {
            serve(i, 1);
        }
    }
}

static void start(void) {
    begin();
    if (B.led) {
        lead_first();
    }
}

static void report(bool good, size_t depth, double seconds) {
    const char *extent = B.steps > 0 ? "all histories of" : "all histories, new states up to";
    printf("%-4s %-8s %8zu states, %9" PRIu64 " steps, %s %zu steps, %.1f s: %s", good ? "ok" : "FAIL",
           B.name, S.count, S.transitions, extent, depth, seconds, B.about);
    if (B.delays > 0) {
        printf("; delays: %d", B.delays);
    }
    printf("\n");
    printf("              %" PRIu64 " steps of merged states compared, %" PRIu64
           " states left to settle, %zu bytes each\n", S.compared, S.settled, S.arena_used / S.count);
}

static bool explore(void) {
    uint8_t key[KEY_MAX];
    int order[NODES_MAX];
    int verdict = FINE;
    size_t depth = 0;
    size_t level_end = 1;
    clock_t began = clock();
    states_begin();
    if (!hunting && !compare_walks(20000)) {
        return false;
    }
    start();
    size_t size = pack(key, order);
    states_add(key, size, 0, (action){ACT_TIME, 0, 0});
    for (size_t n = 0; n < S.count && verdict == FINE; n++) {
        if (n == level_end) {
            depth++;
            level_end = S.count;
        }
        if (B.steps > 0 && depth == (size_t)B.steps) {
            break;
        }
        verdict = explore_state(n);
    }
    bool good = verdict == (B.must_find ? FOUND : FINE);
    report(good, depth, (double)(clock() - began) / CLOCKS_PER_SEC);
    states_end();
    return good;
}

#define MILLION 1000000
/* Three units of 11 ms are a lease of 32 ms, two units of 16 ms one of 31: the shortest that leader_init
   accepts is 30. Deadlines are one millisecond shorter, where the clocks go alike. */
#define SHORT .unit_ms = 16, .lease_units = 2, .deadline_ms = 30, .retries = 1
#define LONG  .unit_ms = 11, .lease_units = 3, .deadline_ms = 31, .retries = 1
#define MOST  .states_max = 30 * MILLION
/* Without .steps a run ends when there is no new state left: it has seen everything that can ever happen.
   Those that would not come to an end within minutes have a limit on delays instead; and again, without
   that limit, as far as so many steps lead. */
static const bounds all[] = {
    {.name = "small", .about = "two; answers lost and late; a resignation",
     SHORT, MOST, .nodes = 2, .resigns = 1, .quick = true},
    {.name = "beyond", .about = "two; clock rates 17:10, past 32:21: two leaders must be found",
     MOST, .nodes = 2,
     .unit_ms = 11, .lease_units = 3, .deadline_ms = 21, .fast_ms = 17, .slow_ms = 10, .retries = 1,
     .must_find = "two leaders at once", .quick = true},
    {.name = "forget1", .about = "as witness; a crash that the store sees, a resignation",
     SHORT, MOST, .nodes = 2, .forgets = 1, .crashes = 1, .resigns = 1, .lock = true, .witnessed = true,
     .led = true, .delays = 1},
    {.name = "three2", .about = "three; writes carried out late",
     SHORT, MOST, .nodes = 3, .orphans = 1, .led = true, .delays = 2},
    {.name = "witness", .about = "two that have seen the record; the store forgets it",
     SHORT, MOST, .nodes = 2, .forgets = 1, .witnessed = true, .led = true},
    {.name = "crash", .about = "two; a crash, writes carried out late",
     SHORT, MOST, .nodes = 2, .crashes = 1, .orphans = 1},
    {.name = "stop", .about = "two; a stop, work that goes on after the term",
     SHORT, MOST, .nodes = 2, .stops = 1, .drains = true},
    {.name = "pair", .about = "two; writes carried out late; a resignation",
     SHORT, MOST, .nodes = 2, .resigns = 1, .orphans = 1},
    {.name = "long", .about = "two; three units a lease, writes carried out late",
     LONG, MOST, .nodes = 2, .orphans = 1},
    {.name = "rates", .about = "two; clock rates 3:2, the limit is 32:21",
     MOST, .nodes = 2, .unit_ms = 11,
     .lease_units = 3, .deadline_ms = 21, .fast_ms = 15, .slow_ms = 10, .retries = 1},
    {.name = "locked", .about = "two; a crash that the store sees",
     SHORT, MOST, .nodes = 2, .crashes = 1, .lock = true},
    {.name = "stamped", .about = "two; a store that knows how old a record is",
     SHORT, MOST, .nodes = 2, .stamps = true, .orphans = 1},
    {.name = "counted", .about = "two; a store that counts its changes",
     SHORT, MOST, .nodes = 2, .revisions = true, .orphans = 1},
    {.name = "reset", .about = "two; a broken connection, writes carried out late",
     SHORT, MOST, .nodes = 2, .resets = 1, .orphans = 1},
    {.name = "stall", .about = "two; stopped for more than a lease within a tick",
     SHORT, MOST, .nodes = 2, .stalls = 1},
    {.name = "twins", .about = "two of one name; a crash",
     SHORT, MOST, .nodes = 2, .twins = true, .crashes = 1},
    {.name = "news2", .about = "two; news of the record that come late",
     SHORT, MOST, .nodes = 2, .notices = true, .led = true, .delays = 2},
    {.name = "late3", .about = "as witness; writes carried out late",
     SHORT, MOST, .nodes = 2, .forgets = 1, .orphans = 1, .witnessed = true, .led = true, .delays = 3},
    {.name = "late", .about = "as witness; writes carried out late",
     SHORT, MOST, .nodes = 2, .forgets = 1, .orphans = 1, .witnessed = true, .led = true, .steps = 22},
    {.name = "forget", .about = "as witness; a crash that the store sees, a resignation",
     SHORT, MOST, .nodes = 2, .forgets = 1, .crashes = 1, .resigns = 1, .lock = true, .witnessed = true,
     .led = true, .steps = 18},
    {.name = "twice", .about = "two, cautious; the store forgets, and once more",
     SHORT, MOST, .nodes = 2, .forgets = 2, .cautious = true, .led = true, .steps = 20},
    {.name = "twice1", .about = "two, cautious; the store forgets, and once more",
     SHORT, MOST, .nodes = 2, .forgets = 2, .cautious = true, .led = true, .delays = 1},
    {.name = "news", .about = "two; news of the record that come late",
     SHORT, MOST, .nodes = 2, .notices = true, .led = true, .steps = 20},
    {.name = "three", .about = "three; writes carried out late",
     SHORT, MOST, .nodes = 3, .orphans = 1, .led = true, .steps = 16},
};

typedef struct wish {               // what the command line asks for
    bool quick, list, named;
    int  jobs;
} wish;

static wish read_wish(int argc, char **argv) {
    wish given = {.jobs = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1};
    for (int i = 1; i < argc; i++) {
        given.quick = given.quick || strcmp(argv[i], "--quick") == 0;
        given.list = given.list || strcmp(argv[i], "--list") == 0;
        hunting = hunting || strcmp(argv[i], "--hunt") == 0;
        if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc) {
            given.jobs = atoi(argv[++i]);
        } else if (argv[i][0] != '-') {
            given.named = true;
        }
    }
    return given;
}

static bool is_wanted(const bounds *b, const wish *given, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], b->name) == 0) {
            return true;
        }
    }
    return !given->named && (b->quick || !given->quick);
}

/* In a process of its own. What it says is written at its end, so that two do not mix. */
static void begin_run(const bounds *b) {
    static char text[1 << 20];
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        puts("cannot fork");
        exit(2);
    }
    if (child == 0) {
        setvbuf(stdout, text, _IOFBF, sizeof text);
        B = *b;
        exit(explore() ? 0 : 1);
    }
}

/* Waits for one of them. True: it was good. */
static bool end_run(void) {
    int status = 0;
    pid_t child = wait(&status);
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    int passed = 0;
    int wanted = 0;
    int running = 0;
    wish given = read_wish(argc, argv);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (given.list) {
            printf("%-8s %s\n", all[i].name, all[i].about);
        }
        if (given.list || !is_wanted(&all[i], &given, argc, argv)) {
            continue;
        }
        if (running == given.jobs) {
            passed += end_run();
            running--;
        }
        begin_run(&all[i]);
        running++;
        wanted++;
    }
    for (; running > 0; running--) {
        passed += end_run();
    }
    if (!given.list) {
        printf("%d passed, %d failed\n", passed, wanted - passed);
    }
    return !given.list && (passed < wanted || wanted == 0);
}
