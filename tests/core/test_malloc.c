/* The core, the single node and the file backend live without a heap: a whole life while every allocation
   fails, and none is even tried. malloc and its kin are replaced for the whole program, the C library's
   own use of them included (opendir, fopen, strdup). */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"
#include <dirent.h>

/* ---- a heap that can be switched off ----------------------------------------------------------- */

static struct {
    size_t used;
    union {
        long double align;
        char bytes[4 << 20];
    } heap;
    bool fails;
    int tries;
} arena;

/* Hands out memory once and never takes it back: enough for a test program. The size stands before the
   block. */
static void *arena_take(size_t size, size_t align) {
    size_t at;
    if (arena.fails) {
        arena.tries++;
        errno = ENOMEM;
        return NULL;
    }
    if (align < 16) align = 16;
    at = (arena.used + 16 + align - 1) / align * align;
    if (size > sizeof arena.heap.bytes || at > sizeof arena.heap.bytes - size) return NULL;
    memcpy(arena.heap.bytes + at - sizeof size, &size, sizeof size);
    arena.used = at + size;
    return arena.heap.bytes + at;
}

void *malloc(size_t size) { return arena_take(size, 16); }
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) {        // fresh memory is zero already
    return size != 0 && count > SIZE_MAX / size ? NULL : arena_take(count * size, 16);
}
void *realloc(void *block, size_t size) {
    void *fresh = arena_take(size, 16);
    size_t old;
    if (fresh && block) {
        memcpy(&old, (char *)block - sizeof old, sizeof old);
        memcpy(fresh, block, old < size ? old : size);
    }
    return fresh;
}
int posix_memalign(void **block, size_t align, size_t size) {
    return (*block = arena_take(size, align)) ? 0 : ENOMEM;
}
void *aligned_alloc(size_t align, size_t size);
void *aligned_alloc(size_t align, size_t size) { return arena_take(size, align); }
void *memalign(size_t align, size_t size);
void *memalign(size_t align, size_t size) { return arena_take(size, align); }

UTEST(no_heap, the_switch_works_on_every_way_to_allocate) {
    void *(*volatile take)(size_t) = malloc;  // volatile: or the compiler knows better and allocates nothing
    void *(*volatile take_zeroed)(size_t, size_t) = calloc;
    void *(*volatile take_more)(void *, size_t) = realloc;
    char *(*volatile copy)(const char *) = strdup;
    void *none[5];
    arena.tries = 0;
    arena.fails = true;
    none[0] = take(1);
    none[1] = take_zeroed(1, 1);
    none[2] = take_more(NULL, 1);
    none[3] = copy("duck");
    none[4] = opendir("/");
    arena.fails = false;
    EXPECT_EQ(5, arena.tries);
    EXPECT_FALSE(none[0] || none[1] || none[2] || none[3] || none[4]);
    EXPECT_TRUE(take(1));
}

/* ---- lives without it -------------------------------------------------------------------------- */

static int64_t now_ms = 5000000;
static int64_t fake_clock(void *user) { (void)user; return now_ms; }

static int logged;
static void on_log(void *user, leader_level level, const char *text) {
    (void)user;
    (void)level;
    (void)text;
    logged++;
}

static leader_config config_of(const char *identity, leader_backend backend) {
    leader_config config;
    memset(&config, 0, sizeof config);
    config.identity = identity;
    config.backend = backend;
    config.clock_ms = fake_clock;
    config.on_log = on_log;
    return config;
}

/* Two elections tick in turn, `ms` long, as often as they ask for it. The second may be absent. */
static void pass(leader_t *one, leader_t *two, int64_t ms) {
    const int64_t end = now_ms + ms;
    for (;;) {
        int64_t wait = leader_tick(one), other = two ? leader_tick(two) : wait;
        if (now_ms >= end) return;
        if (other < wait) wait = other;
        now_ms += wait < end - now_ms ? wait : end - now_ms;
    }
}

/* Answers 0, or the line that went wrong: nothing may print while the heap is off. */
#define MUST(x) do { if (!(x)) return __LINE__; } while (0)

static int life_alone(leader_backend backend) {
    char name[LEADER_IDENTITY_MAX + 1], leader[LEADER_IDENTITY_MAX + 1];
    leader_config config = config_of(leader_make_identity(name, sizeof name, "alone"), backend);
    uint64_t token;
    leader_t me;
    MUST(leader_init(&me, &config) == LEADER_OK);
    pass(&me, NULL, 100);
    MUST(leader_is_leader(&me));
    pass(&me, NULL, 60000);
    MUST(leader_is_leader(&me) && leader_get_stats(&me).renewals >= 10);
    MUST(leader_get_leader(&me, leader, sizeof leader) > 0 && strcmp(leader, name) == 0);
    MUST(leader_get_view(&me).leading && leader_is_healthy(&me, 1000));
    token = leader_token(&me);
    leader_resign(&me, 1000);
    pass(&me, NULL, 500);
    MUST(!leader_is_leader(&me) && leader_get_stats(&me).releases == 1);
    pass(&me, NULL, 30000);
    MUST(leader_is_leader(&me) && leader_token(&me) > token);
    MUST(leader_get_stats(&me).failures == 0);
    MUST(leader_close(&me, 0) == LEADER_OK);
    MUST(!leader_is_leader(&me));
    return 0;
}

static int life_with_a_rival(leader_backend first, leader_backend second) {
    leader_config config_a = config_of("a", first), config_b = config_of("b", second);
    leader_t a, b;
    MUST(leader_init(&a, &config_a) == LEADER_OK);
    MUST(leader_init(&b, &config_b) == LEADER_OK);
    pass(&a, &b, 100);
    MUST(leader_is_leader(&a) && !leader_is_leader(&b));
    pass(&a, &b, 60000);
    MUST(leader_is_leader(&a) && !leader_is_leader(&b));
    leader_resign(&a, 60000);
    pass(&a, &b, 10000);
    MUST(!leader_is_leader(&a) && leader_is_leader(&b));
    leader_stop(&b);
    pass(&a, &b, 100);
    MUST(leader_is_stopped(&b));
    MUST(leader_close(&b, 0) == LEADER_OK);
    pass(&a, NULL, 120000);
    MUST(leader_is_leader(&a));
    MUST(leader_get_stats(&a).failures == 0);
    MUST(leader_close(&a, 0) == LEADER_OK);
    return 0;
}

/* With the heap off: a refusal and a mistake in use say what they have to say. */
static int life_refused(void) {
    leader_config config = config_of("a", leader_single_backend());
    leader_t me;
    config.lease_ms = -1;
    MUST(leader_init(&me, &config) == LEADER_E_CONFIG);
    MUST(strstr(leader_error(&me), "lease_ms"));
    return 0;
}

struct heapless { char dir[64], path[96]; leader_file one, two; int wrong; };
UTEST_F_SETUP(heapless) {
    snprintf(utest_fixture->dir, sizeof utest_fixture->dir, "/tmp/leader-malloc-XXXXXX");
    ASSERT_TRUE(mkdtemp(utest_fixture->dir));
    snprintf(utest_fixture->path, sizeof utest_fixture->path, "%s/lease", utest_fixture->dir);
    logged = 0;
    arena.tries = 0;
    arena.fails = true;
}
UTEST_F_TEARDOWN(heapless) {
    char command[96];
    arena.fails = false;
    EXPECT_EQ_MSG(0, utest_fixture->wrong, "the line that went wrong");
    EXPECT_EQ(0, arena.tries);
    snprintf(command, sizeof command, "rm -rf '%s'", utest_fixture->dir);
    EXPECT_EQ(0, system(command));
}
UTEST_F(heapless, a_single_node_lives_a_whole_life) {
    utest_fixture->wrong = life_alone(leader_single_backend());
}
UTEST_F(heapless, a_forgotten_backend_lives_a_whole_life_and_warns) {
    leader_backend none;
    memset(&none, 0, sizeof none);
    utest_fixture->wrong = life_alone(none);
    EXPECT_GT(logged, 0);
}
UTEST_F(heapless, a_file_alone_lives_a_whole_life) {
    utest_fixture->wrong = life_alone(leader_file_backend(&utest_fixture->one, utest_fixture->path));
}
UTEST_F(heapless, a_file_with_a_rival_is_held_handed_over_and_taken_back) {
    utest_fixture->wrong = life_with_a_rival(leader_file_backend(&utest_fixture->one, utest_fixture->path),
                                             leader_file_backend(&utest_fixture->two, utest_fixture->path));
}
UTEST_F(heapless, a_refusal_says_what_is_wrong) {
    utest_fixture->wrong = life_refused();
}

UTEST_MAIN()
