/* A child is nobody: after fork() every question says no and nothing of the parent's is touched; a child
   of bare clone(), which runs no fork handler, never calls the store. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

UTEST_MAIN()

/* What a child found wrong is its exit status: the number of the line. 0: nothing. */
#define CHECK(x) do { if (!(x)) _exit(__LINE__ % 250 + 1); } while (0)

static int status_of(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

/* ---- a store that knows who may call it: shared with all children, so nothing they do goes unseen ---- */

typedef struct counted {
    pid_t owner;
    int   foreign;                  // calls from any other process
    int   acquires, renews, releases, polls, cancels, closes, callbacks;
    int   pending;                  // answer PENDING
} counted;

static int64_t clock_ms = 1000000;  // each process turns its own copy
static int64_t fake_clock(void *user) { (void)user; return clock_ms; }

static void call(counted *c, int *which) {
    if (getpid() != c->owner) c->foreign++;
    ++*which;
}
static leader_result c_acquire(void *self, const leader_request *r, leader_record *seen) {
    counted *c = (counted *)self;
    call(c, &c->acquires);
    seen->token = r->min_token;
    return c->pending ? LEADER_PENDING : LEADER_OK;
}
static leader_result c_renew(void *self, const leader_request *r, leader_record *seen) {
    counted *c = (counted *)self;
    (void)r; (void)seen;
    call(c, &c->renews);
    return c->pending ? LEADER_PENDING : LEADER_OK;
}
static leader_result c_release(void *self, const leader_request *r, leader_record *seen) {
    counted *c = (counted *)self;
    (void)r; (void)seen;
    call(c, &c->releases);
    return LEADER_OK;
}
static bool c_poll(void *self) { call((counted *)self, &((counted *)self)->polls); return false; }
static void c_cancel(void *self) { call((counted *)self, &((counted *)self)->cancels); }
static void c_close(void *self) { call((counted *)self, &((counted *)self)->closes); }
static void c_started(void *user, uint64_t token) {
    (void)token;
    call((counted *)user, &((counted *)user)->callbacks);
}
static void c_stopped(void *user, uint64_t token, leader_result why) {
    (void)token;
    (void)why;
    call((counted *)user, &((counted *)user)->callbacks);
}
static void c_new(void *user, const char *leader) {
    (void)leader;
    call((counted *)user, &((counted *)user)->callbacks);
}

struct child { leader_t me; leader_config cfg; counted *store; };
UTEST_F_SETUP(child) {
    struct child *f = utest_fixture;
    f->store =
        (counted *)mmap(NULL, sizeof *f->store, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(f->store != MAP_FAILED);
    f->store->owner = getpid();
    f->cfg.identity = "a";
    f->cfg.backend.self = f->store;
    f->cfg.backend.acquire = c_acquire;
    f->cfg.backend.renew = c_renew;
    f->cfg.backend.release = c_release;
    f->cfg.backend.poll = c_poll;
    f->cfg.backend.cancel = c_cancel;
    f->cfg.backend.close = c_close;
    f->cfg.on_started_leading = c_started;
    f->cfg.on_stopped_leading = c_stopped;
    f->cfg.on_new_leader = c_new;
    f->cfg.user = f->store;
    f->cfg.clock_ms = fake_clock;
    clock_ms = 1000000;
    ASSERT_EQ(LEADER_OK, leader_init(&f->me, &f->cfg));
    leader_tick(&f->me);
    ASSERT_TRUE(leader_is_leader(&f->me));
}
UTEST_F_TEARDOWN(child) {
    struct child *f = utest_fixture;
    leader_close(&f->me, 0);
    EXPECT_EQ(1, f->store->closes);
    EXPECT_EQ(0, f->store->foreign);
    munmap(f->store, sizeof *f->store);
}

static void all_questions_say_no(const leader_t *l) {
    char leader[8] = "x";
    leader_fd fds[LEADER_FDS_MAX];
    CHECK(!leader_is_leader(l));
    CHECK(leader_token(l) == 0);
    CHECK(leader_remaining_ms(l) == 0);
    CHECK(leader_due_ms(l) == 0);
    CHECK(leader_is_stopped(l));
    CHECK(!leader_is_healthy(l, INT64_MAX));
    CHECK(leader_get_state(l) == LEADER_STATE_NONE);
    CHECK(leader_get_leader(l, leader, sizeof leader) == 0 && leader[0] == 0);
    CHECK(leader_fds(l, fds) == 0);
    CHECK(strstr(leader_error(l), "a child of the process that called leader_init") != NULL);
    leader_view v = leader_get_view(l);
    CHECK(v.state == LEADER_STATE_NONE && !v.leading && !v.token && !v.remaining_ms && v.age_ms == -1
          && v.since_ms == -1 && !v.leader[0]);
    leader_stats s = leader_get_stats(l);
    CHECK(!s.terms && !s.acquires && s.since_success_ms == -1);
}
static void all_acts_do_nothing(leader_t *l) {
    for (int i = 0; i < 5; i++) {
        CHECK(leader_tick(l) == 100);
        clock_ms += 4000;                       // past the renewal, past the deadline
    }
    leader_resign(l, 1);
    leader_stop(l);
    leader_sleep(l, 1);
    CHECK(leader_tick(l) == 100);
    CHECK(leader_wait(l, -1) == LEADER_E_STATE);
    CHECK(leader_close(l, -1) == LEADER_OK);
    CHECK(leader_close(l, -1) == LEADER_OK);
}
static void still_leads(int *utest_result, struct child *f) {
    int renews = f->store->renews;
    EXPECT_TRUE(leader_is_leader(&f->me));
    EXPECT_EQ(1u, leader_token(&f->me));
    clock_ms += 5000;
    leader_tick(&f->me);
    EXPECT_TRUE(leader_is_leader(&f->me));
    EXPECT_EQ(renews + 1, f->store->renews);
    EXPECT_EQ(0, f->store->foreign);
}

/* ---- fork() ------------------------------------------------------------------------------------ */

UTEST_F(child, of_fork_hears_no_from_every_question) {
    pid_t pid = fork();
    if (pid == 0) { all_questions_say_no(&utest_fixture->me); _exit(0); }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, utest_fixture);
}

UTEST_F(child, of_fork_touches_neither_store_nor_callbacks) {
    pid_t pid = fork();
    if (pid == 0) {
        all_acts_do_nothing(&utest_fixture->me);
        all_questions_say_no(&utest_fixture->me);
        _exit(0);
    }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, utest_fixture);
}

UTEST_F(child, of_fork_with_a_request_under_way_does_not_go_on_with_it) {
    utest_fixture->store->pending = 1;
    clock_ms += 5000;
    leader_tick(&utest_fixture->me);
    ASSERT_EQ(1, utest_fixture->store->renews);
    pid_t pid = fork();
    if (pid == 0) { all_acts_do_nothing(&utest_fixture->me); _exit(0); }
    ASSERT_EQ(0, status_of(pid));
    utest_fixture->store->pending = 0;
    leader_tick(&utest_fixture->me);
    ASSERT_EQ(2, utest_fixture->store->renews);
    ASSERT_EQ(10000, leader_remaining_ms(&utest_fixture->me));
}

UTEST_F(child, of_a_child_is_nobody_too) {
    pid_t pid = fork();
    if (pid == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            all_questions_say_no(&utest_fixture->me);
            all_acts_do_nothing(&utest_fixture->me);
            _exit(0);
        }
        _exit(status_of(grandchild));
    }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, utest_fixture);
}

UTEST_F(child, of_fork_can_open_an_election_of_its_own) {
    pid_t pid = fork();
    if (pid == 0) {
        static leader_t mine;
        leader_config cfg = utest_fixture->cfg;
        cfg.backend = leader_single_backend();
        cfg.on_started_leading = NULL;
        cfg.on_stopped_leading = NULL;
        cfg.on_new_leader = NULL;
        CHECK(leader_init(&mine, &cfg) == LEADER_OK);
        leader_tick(&mine);
        CHECK(leader_is_leader(&mine) && !leader_is_leader(&utest_fixture->me));
        CHECK(leader_close(&utest_fixture->me, -1) == LEADER_OK);
        CHECK(leader_init(&utest_fixture->me, &cfg) == LEADER_OK);
        leader_tick(&utest_fixture->me);
        CHECK(leader_is_leader(&mine) && leader_is_leader(&utest_fixture->me));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            all_questions_say_no(&mine);
            all_questions_say_no(&utest_fixture->me);
            _exit(0);
        }
        CHECK(status_of(grandchild) == 0);
        CHECK(leader_is_leader(&mine));
        CHECK(leader_close(&mine, 0) == LEADER_OK && leader_close(&utest_fixture->me, 0) == LEADER_OK);
        _exit(0);
    }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, utest_fixture);
}

static leader_t *forking;
static pid_t forked = -1;
static void fork_in_the_callback(void *user, const char *leader) {
    (void)user; (void)leader;
    if (forked >= 0) return;
    forked = fork();
    if (forked) return;
    all_questions_say_no(forking);
    all_acts_do_nothing(forking);
    _exit(0);
}

UTEST_F(child, of_fork_inside_a_callback_is_nobody_and_the_parent_goes_on) {
    struct child *f = utest_fixture;
    leader_close(&f->me, 0);
    f->store->closes = 0;
    f->cfg.on_new_leader = fork_in_the_callback;
    forking = &f->me;
    ASSERT_EQ(LEADER_OK, leader_init(&f->me, &f->cfg));
    leader_tick(&f->me);
    ASSERT_GT(forked, 0);
    ASSERT_EQ(0, status_of(forked));
    still_leads(utest_result, f);
}

static int stop_ticking;
static void *tick_on(void *election) {
    while (!__atomic_load_n(&stop_ticking, __ATOMIC_SEQ_CST)) {
        leader_tick((leader_t *)election);
        sched_yield();
    }
    return NULL;
}

UTEST(forks, from_a_thread_while_another_ticks_make_nobodies) {
    static leader_t me;
    static leader_config cfg;
    pthread_t loop;
    cfg.identity = "a";
    cfg.backend = leader_single_backend();
    ASSERT_EQ(LEADER_OK, leader_init(&me, &cfg));
    leader_tick(&me);
    ASSERT_EQ(0, pthread_create(&loop, NULL, tick_on, &me));
    for (int i = 0; i < 30; i++) {
        pid_t pid = fork();
        if (pid == 0) { all_questions_say_no(&me); CHECK(leader_close(&me, -1) == LEADER_OK); _exit(0); }
        EXPECT_EQ(0, status_of(pid));
    }
    __atomic_store_n(&stop_ticking, 1, __ATOMIC_SEQ_CST);
    pthread_join(loop, NULL);
    EXPECT_TRUE(leader_is_leader(&me));
    leader_close(&me, 0);
}

/* ---- bare clone(): no fork handler runs -------------------------------------------------------- */

#if defined(__linux__)
static pid_t bare_clone(void) {
    return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL);
}

static void stray_acts(leader_t *l) {
    for (int i = 0; i < 5; i++) {
        leader_tick(l);
        clock_ms += 4000;
    }
    leader_stop(l);
    leader_tick(l);
    CHECK(!leader_is_leader(l));
    CHECK(leader_wait(l, 0) == LEADER_E_STATE);
    CHECK(leader_close(l, 0) == LEADER_OK);
    all_questions_say_no(l);
}

UTEST_F(child, of_bare_clone_never_calls_the_store) {
    pid_t pid = bare_clone();
    if (pid == 0) { stray_acts(&utest_fixture->me); _exit(0); }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, utest_fixture);
}

UTEST_F(child, of_bare_clone_never_goes_on_with_a_request) {
    utest_fixture->store->pending = 1;
    clock_ms += 5000;
    leader_tick(&utest_fixture->me);
    pid_t pid = bare_clone();
    if (pid == 0) { stray_acts(&utest_fixture->me); _exit(0); }
    ASSERT_EQ(0, status_of(pid));
    ASSERT_EQ(0, utest_fixture->store->foreign);
    utest_fixture->store->pending = 0;
    leader_tick(&utest_fixture->me);
    ASSERT_EQ(10000, leader_remaining_ms(&utest_fixture->me));
}

UTEST_F(child, of_bare_clone_that_only_closes_never_calls_the_store) {
    pid_t pid = bare_clone();
    if (pid == 0) {
        CHECK(leader_close(&utest_fixture->me, 0) == LEADER_OK);
        all_questions_say_no(&utest_fixture->me);
        _exit(0);
    }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, utest_fixture);
}

UTEST_F(child, of_bare_clone_of_a_store_without_poll_never_calls_the_store) {
    struct child *f = utest_fixture;
    leader_close(&f->me, 0);
    f->store->closes = 0;
    f->cfg.backend.poll = NULL;
    ASSERT_EQ(LEADER_OK, leader_init(&f->me, &f->cfg));
    leader_tick(&f->me);
    pid_t pid = bare_clone();
    if (pid == 0) {
        clock_ms += 5000;
        leader_tick(&f->me);                    // the renewal finds out
        all_questions_say_no(&f->me);
        stray_acts(&f->me);
        _exit(0);
    }
    ASSERT_EQ(0, status_of(pid));
    still_leads(utest_result, f);
}
#endif

/* ---- the parent's file, lock and descriptors --------------------------------------------------- */

#if !defined(LEADER_NO_FILE) && defined(__linux__)
struct lease { leader_t me; leader_file file; leader_config cfg; char dir[64], path[96]; };

UTEST_F_SETUP(lease) {
    struct lease *f = utest_fixture;
    snprintf(f->dir, sizeof f->dir, "/tmp/leader-fork-XXXXXX");
    ASSERT_TRUE(mkdtemp(f->dir) != NULL);
    snprintf(f->path, sizeof f->path, "%s/job.lease", f->dir);
    f->cfg.identity = "parent";
    f->cfg.lease_ms = 600000;                   // no stall of the machine costs the term
    f->cfg.backend = leader_file_backend(&f->file, f->path);
    ASSERT_EQ(LEADER_OK, leader_init(&f->me, &f->cfg));
    ASSERT_EQ(LEADER_OK, leader_wait(&f->me, 10000));
}
UTEST_F_TEARDOWN(lease) {
    char command[128];
    EXPECT_EQ(LEADER_OK, leader_close(&utest_fixture->me, 10000));
    snprintf(command, sizeof command, "rm -rf '%s'", utest_fixture->dir);
    EXPECT_EQ(0, system(command));
}

/* Everything in the lease's directories, names and inodes and contents, in one number; the order does not
   matter. */
static uint64_t fingerprint(const char *dir) {
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char path[600], text[4096];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%.300s/%.250s", dir, e->d_name);
        if (lstat(path, &st) != 0) continue;
        uint64_t one = leader_mix_(st.st_ino) ^ (uint64_t)st.st_mtim.tv_nsec;
        for (const char *c = e->d_name; *c; c++) one = leader_mix_(one + (unsigned char)*c);
        if (S_ISDIR(st.st_mode)) { sum += fingerprint(path); continue; }
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
        for (ssize_t i = 0; i < n; i++) one = leader_mix_(one + (unsigned char)text[i]);
        if (fd >= 0) close(fd);
        sum += one;
    }
    if (d) closedir(d);
    return sum;
}

/* Is the lock that says "this process lives" still held? Another open of the file can tell. */
static bool lock_is_held(const struct lease *f) {
    char dir[128], path[600];
    bool held = false;
    snprintf(dir, sizeof dir, "%s.d", f->path);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "lock.", 5) != 0) continue;
        snprintf(path, sizeof path, "%s/%.250s", dir, e->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        struct flock lock;
        memset(&lock, 0, sizeof lock);
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) held = true;
        if (fd >= 0) close(fd);
    }
    if (d) closedir(d);
    return held;
}

static void nothing_was_touched(int *utest_result, struct lease *f, uint64_t before) {
    leader_fd fds[LEADER_FDS_MAX];
    EXPECT_EQ(before, fingerprint(f->dir));
    EXPECT_TRUE(lock_is_held(f));
    EXPECT_TRUE(leader_is_leader(&f->me));
    for (int i = 0, n = leader_fds(&f->me, fds); i < n; i++) EXPECT_NE(-1, fcntl((int)fds[i].fd, F_GETFD));
}

UTEST_F(lease, of_the_parent_survives_whatever_the_child_does) {
    uint64_t before = fingerprint(utest_fixture->dir);
    ASSERT_TRUE(lock_is_held(utest_fixture));
    pid_t pid = fork();
    if (pid == 0) {
        all_questions_say_no(&utest_fixture->me);
        all_acts_do_nothing(&utest_fixture->me);
        _exit(0);
    }
    ASSERT_EQ(0, status_of(pid));
    nothing_was_touched(utest_result, utest_fixture, before);
}

UTEST_F(lease, of_the_parent_survives_a_stray_child_that_does_everything) {
    uint64_t before = fingerprint(utest_fixture->dir);
    pid_t pid = bare_clone();
    if (pid == 0) { stray_acts(&utest_fixture->me); _exit(0); }
    ASSERT_EQ(0, status_of(pid));
    nothing_was_touched(utest_result, utest_fixture, before);
}

UTEST_F(lease, of_the_parent_is_taken_over_by_its_child_only_when_released) {
    struct lease *f = utest_fixture;
    int to_child[2], to_parent[2];
    char byte = 0;
    ASSERT_EQ(0, pipe(to_child));
    ASSERT_EQ(0, pipe(to_parent));
    pid_t pid = fork();
    if (pid == 0) {
        static leader_file file;
        static leader_t mine;
        leader_config cfg;
        char leader[16];
        memset(&cfg, 0, sizeof cfg);
        cfg.identity = "child";
        cfg.backend = leader_file_backend(&file, f->path);
        cfg.retry_ms = 50;
        CHECK(leader_init(&mine, &cfg) == LEADER_OK);
        CHECK(leader_wait(&mine, 300) == LEADER_E_TIMEOUT);
        leader_get_leader(&mine, leader, sizeof leader);
        CHECK(strcmp(leader, "parent") == 0);
        CHECK(write(to_parent[1], "1", 1) == 1);
        CHECK(leader_wait(&mine, 30000) == LEADER_OK);
        CHECK(read(to_child[0], &byte, 1) == 1);        // the parent had released before
        CHECK(leader_close(&mine, 10000) == LEADER_OK);
        _exit(0);
    }
    ASSERT_EQ(1, read(to_parent[0], &byte, 1));
    uint64_t token = leader_token(&f->me);
    ASSERT_TRUE(token != 0);
    ASSERT_EQ(1, write(to_child[1], "1", 1));
    EXPECT_EQ(LEADER_OK, leader_close(&f->me, 10000));
    EXPECT_EQ(0, status_of(pid));
    for (int i = 0; i < 2; i++) { close(to_child[i]); close(to_parent[i]); }
}
#endif
