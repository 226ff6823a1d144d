/* The file backend on Windows: processes that lead, hand over, are killed and suspended; the swap itself,
   from threads. Started with "candidate" it is one of those processes. Run by tests/compile/test_wine.sh. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"

enum { LONG_MS = 600000, SHORT_MS = 3000, PATIENCE_MS = 120000, PEERS_MAX = 4 };

/* ---- a candidate: says what it sees, does what it reads ----------------------------------------------- */

static int read_command(void) {
    HANDLE in = GetStdHandle(STD_INPUT_HANDLE);
    DWORD there = 0, got = 0;
    char c = 0;
    if (!PeekNamedPipe(in, NULL, 0, NULL, &there, NULL)) {
        return 'q';
    }
    if (there > 0 && ReadFile(in, &c, 1, &got, NULL) && got == 1) {
        return c;
    }
    return 0;
}

/* "at TOKEN MS": it led, for certain, at that moment of the machine's clock. */
static void report(leader_t *me, uint64_t *told) {
    static int64_t told_ms;
    int64_t before_ms = (int64_t)GetTickCount64();
    uint64_t token = leader_token(me);
    bool news = token != *told || before_ms - told_ms >= 20;
    if (token != 0 && news) {
        told_ms = before_ms;
        int64_t ms = *told == token ? before_ms : (int64_t)GetTickCount64();
        printf("at %llu %lld\n", (unsigned long long)token, (long long)ms);
    } else if (token == 0 && *told != 0) {
        printf("not\n");
    }
    *told = token;
}

static int run_candidate(char **argv) {
    static leader_file file;
    static leader_t me;
    leader_config config = {0};
    uint64_t told = 0;
    bool hops = argv[5][0] == 'h';
    setvbuf(stdout, NULL, _IONBF, 0);
    config.identity = argv[3];
    config.lease_ms = atoi(argv[4]);
    config.retry_ms = 20;
    config.renew_ms = config.lease_ms / 30;
    config.renew_deadline_ms = config.lease_ms * 2 / 3;
    config.backend = leader_file_backend(&file, argv[2]);
    if (leader_init(&me, &config) != LEADER_OK) {
        printf("error %s\n", leader_error(&me));
        return 1;
    }
    for (;;) {
        leader_tick(&me);
        report(&me, &told);
        int command = read_command();
        if (command == 'q') {
            leader_close(&me, PATIENCE_MS);
            printf("closed\n");
            return 0;
        }
        if (hops && leader_is_leader(&me)) {
            leader_resign(&me, 1);
        }
        leader_sleep(&me, 5);
    }
}

/* ---- the test's side ---------------------------------------------------------------------------------- */

typedef struct peer {
    PROCESS_INFORMATION process;
    HANDLE   in, out;
    char     line[200];
    size_t   len;
    uint64_t token;                 // of the term it leads; 0: none
    bool     closed;
} peer;

typedef struct span { uint64_t token; int64_t first_ms, last_ms; } span;

struct windows {
    char     root[200], path[260];
    peer     peers[PEERS_MAX];
    span     spans[4096];
    int      span_count;
    char     error[200];
};

static void to_wide(const char *text, wchar_t *out, int cap) {
    MultiByteToWideChar(CP_UTF8, 0, text, -1, out, cap);
}

static void note(struct windows *w, uint64_t token, int64_t ms) {
    for (int i = 0; i < w->span_count; i++) {
        span *s = &w->spans[i];
        if (s->token == token) {
            s->first_ms = ms < s->first_ms ? ms : s->first_ms;
            s->last_ms = ms > s->last_ms ? ms : s->last_ms;
            return;
        }
    }
    if (w->span_count < (int)(sizeof w->spans / sizeof w->spans[0])) {
        span fresh = {token, ms, ms};
        w->spans[w->span_count++] = fresh;
    }
}

static void take_line(struct windows *w, peer *p) {
    unsigned long long token;
    long long ms;
    if (sscanf(p->line, "at %llu %lld", &token, &ms) == 2) {
        note(w, token, ms);
        p->token = token;
    } else if (strncmp(p->line, "error", 5) == 0) {
        snprintf(w->error, sizeof w->error, "%.190s", p->line);
    } else {
        p->token = 0;
        p->closed = p->closed || strncmp(p->line, "closed", 6) == 0;
    }
}

static void hear(struct windows *w, peer *p) {
    DWORD there = 0, got = 0;
    char buf[4096];
    if (!p->out || !PeekNamedPipe(p->out, NULL, 0, NULL, &there, NULL) || there == 0) {
        return;
    }
    if (!ReadFile(p->out, buf, sizeof buf, &got, NULL)) {
        return;
    }
    for (DWORD i = 0; i < got; i++) {
        if (buf[i] != '\n' && p->len + 1 < sizeof p->line) {
            p->line[p->len++] = buf[i];
            continue;
        }
        p->line[p->len] = 0;
        p->len = 0;
        take_line(w, p);
    }
}

#define UNTIL(condition)                                                                                     \
    do {                                                                                                     \
        ULONGLONG limit_ = GetTickCount64() + PATIENCE_MS;                                                   \
        while (!(condition) && GetTickCount64() < limit_) {                                                  \
            for (int i_ = 0; i_ < PEERS_MAX; i_++) {                                                         \
                hear(w, &w->peers[i_]);                                                                      \
            }                                                                                                \
            Sleep(2);                                                                                        \
        }                                                                                                    \
        ASSERT_TRUE(condition);                                                                              \
    } while (0)

static bool start(peer *p, const char *path, const char *identity, int lease_ms, const char *how) {
    SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
    STARTUPINFOW with;
    HANDLE child_in, child_out;
    char line[900];
    wchar_t self[300], wide[1000];
    memset(p, 0, sizeof *p);
    memset(&with, 0, sizeof with);
    GetModuleFileNameW(NULL, self, 300);
    snprintf(line, sizeof line, "windows.exe candidate \"%s\" %s %d %s", path, identity, lease_ms, how);
    to_wide(line, wide, 1000);
    if (!CreatePipe(&child_in, &p->in, &inherit, 0) || !CreatePipe(&p->out, &child_out, &inherit, 1 << 20)) {
        return false;
    }
    SetHandleInformation(p->in, HANDLE_FLAG_INHERIT, 0);
    SetHandleInformation(p->out, HANDLE_FLAG_INHERIT, 0);
    with.cb = sizeof with;
    with.dwFlags = STARTF_USESTDHANDLES;
    with.hStdInput = child_in;
    with.hStdOutput = child_out;
    with.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    BOOL good = CreateProcessW(self, wide, NULL, NULL, TRUE, 0, NULL, NULL, &with, &p->process);
    CloseHandle(child_in);
    CloseHandle(child_out);
    return good != 0;
}

static void tell_to_close(peer *p) {
    DWORD put;
    WriteFile(p->in, "q", 1, &put, NULL);
}

static void end(struct windows *w, peer *p) {
    if (!p->process.hProcess) {
        return;
    }
    TerminateProcess(p->process.hProcess, 9);
    WaitForSingleObject(p->process.hProcess, PATIENCE_MS);
    hear(w, p);
    CloseHandle(p->process.hProcess);
    CloseHandle(p->process.hThread);
    CloseHandle(p->in);
    CloseHandle(p->out);
    memset(p, 0, sizeof *p);
}

/* No two terms at one moment, and a later one has the higher token. */
static int overlaps(const struct windows *w) {
    int count = 0;
    for (int i = 0; i < w->span_count; i++) {
        for (int j = 0; j < w->span_count; j++) {
            const span *a = &w->spans[i];
            const span *b = &w->spans[j];
            count += a->token < b->token && b->first_ms < a->last_ms;
        }
    }
    return count;
}

UTEST_F_SETUP(windows) {
    wchar_t wide[300], temp[200];
    struct windows *w = utest_fixture;
    memset(w, 0, sizeof *w);
    GetTempPathW(200, temp);
    unsigned long long random = (unsigned long long)leader_random64_();
    swprintf(wide, 300, L"%lslead\x0451r %lu %llu", temp, GetCurrentProcessId(), random);
    ASSERT_TRUE(CreateDirectoryW(wide, NULL));
    WideCharToMultiByte(CP_UTF8, 0, wide, -1, w->root, sizeof w->root, NULL, NULL);
    snprintf(w->path, sizeof w->path, "%s/job.lease", w->root);
}

UTEST_F_TEARDOWN(windows) {
    struct windows *w = utest_fixture;
    for (int i = 0; i < PEERS_MAX; i++) {
        end(w, &w->peers[i]);
    }
    EXPECT_STREQ("", w->error);
    EXPECT_EQ(0, overlaps(w));
}

static bool read_text(const char *path, char *buf, size_t cap) {
    wchar_t wide[400];
    DWORD got = 0;
    to_wide(path, wide, 400);
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE h = CreateFileW(wide, GENERIC_READ, share, NULL, OPEN_EXISTING, 0, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        return false;
    }
    bool good = ReadFile(h, buf, (DWORD)cap - 1, &got, NULL) != 0;
    buf[got] = 0;
    CloseHandle(h);
    return good;
}

static bool write_text(const char *path, const char *text) {
    wchar_t wide[400];
    DWORD put = 0;
    to_wide(path, wide, 400);
    HANDLE h = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    bool good = h != INVALID_HANDLE_VALUE && WriteFile(h, text, (DWORD)strlen(text), &put, NULL);
    CloseHandle(h);
    return good;
}

/* ---- processes ---------------------------------------------------------------------------------------- */

UTEST_F(windows, a_release_hands_over_to_the_other_process) {
    struct windows *w = utest_fixture;
    peer *a = &w->peers[0], *b = &w->peers[1];
    char text[2000];
    ASSERT_TRUE(start(a, w->path, "A", LONG_MS, "stays"));
    UNTIL(a->token != 0);
    uint64_t first = a->token;
    ASSERT_TRUE(start(b, w->path, "B", LONG_MS, "stays"));
    UNTIL(read_text(w->path, text, sizeof text));
    EXPECT_TRUE(strstr(text, "\"holder\": \"A\""));
    Sleep(300);
    hear(w, b);
    EXPECT_EQ(0u, b->token);
    tell_to_close(a);
    UNTIL(b->token != 0);
    EXPECT_TRUE(b->token > first);
    UNTIL(a->closed);
}

UTEST_F(windows, a_killed_leader_is_followed_at_once) {
    struct windows *w = utest_fixture;
    peer *a = &w->peers[0], *b = &w->peers[1];
    ASSERT_TRUE(start(a, w->path, "A", LONG_MS, "stays"));
    UNTIL(a->token != 0);
    uint64_t first = a->token;
    ASSERT_TRUE(start(b, w->path, "B", LONG_MS, "stays"));
    end(w, a);
    UNTIL(b->token != 0);           // long before its lease is over: the lock says so
    EXPECT_TRUE(b->token > first);
}

UTEST_F(windows, a_suspended_leader_finds_that_it_was_replaced) {
    typedef LONG(NTAPI * on_process)(HANDLE);
    struct windows *w = utest_fixture;
    peer *a = &w->peers[0], *b = &w->peers[1];
    HMODULE ntdll = GetModuleHandleA("ntdll.dll");
    on_process suspend = (on_process)(void *)GetProcAddress(ntdll, "NtSuspendProcess");
    on_process resume = (on_process)(void *)GetProcAddress(ntdll, "NtResumeProcess");
    ASSERT_TRUE(suspend && resume);
    ASSERT_TRUE(start(a, w->path, "A", SHORT_MS, "stays"));
    UNTIL(a->token != 0);
    ASSERT_EQ(0, suspend(a->process.hProcess));
    ASSERT_TRUE(start(b, w->path, "B", SHORT_MS, "stays"));
    UNTIL(b->token != 0);
    ASSERT_EQ(0, resume(a->process.hProcess));
    UNTIL(a->token == 0);
    EXPECT_TRUE(b->token != 0);
}

UTEST_F(windows, four_processes_that_pass_it_on_and_are_killed) {
    enum { TERMS = 60, KILLS = 6 };
    static const char *const names[] = {"A", "B", "C", "D"};
    struct windows *w = utest_fixture;
    for (int i = 0; i < PEERS_MAX; i++) {
        ASSERT_TRUE(start(&w->peers[i], w->path, names[i], LONG_MS, "hops"));
    }
    for (int kill = 0; kill < KILLS; kill++) {
        UNTIL(w->span_count >= (kill + 1) * TERMS / KILLS);
        end(w, &w->peers[kill % PEERS_MAX]);
        ASSERT_TRUE(start(&w->peers[kill % PEERS_MAX], w->path, names[kill % PEERS_MAX], LONG_MS, "hops"));
    }
    int before = w->span_count;
    UNTIL(w->span_count > before + 10);
}

/* ---- one process -------------------------------------------------------------------------------------- */

static struct { int dir; volatile LONG round, at_gate, wins[8]; volatile LONG winner; char from[64]; } race;

static DWORD WINAPI race_on(void *arg) {
    int number = (int)(intptr_t)arg;
    char to[64];
    for (int round = 1; round <= 200; round++) {
        InterlockedIncrement(&race.at_gate);
        while (race.round < round) {
            SwitchToThread();
        }
        snprintf(to, sizeof to, "%d.%d", round, number);
        if (leader_fs_swap_(race.dir, race.from, to)) {
            InterlockedIncrement(&race.wins[number]);
            race.winner = number;
        }
    }
    return 0;
}

UTEST_F(windows, of_all_that_swap_one_name_one_succeeds) {
    enum { THREADS = 4, ROUNDS = 200 };
    struct windows *w = utest_fixture;
    HANDLE threads[THREADS];
    memset(&race, 0, sizeof race);
    race.dir = leader_fs_open_(LEADER_HERE_, w->root, LEADER_OPEN_DIR_, 0);
    ASSERT_TRUE(race.dir >= 0);
    snprintf(race.from, sizeof race.from, "first");
    int made = leader_fs_open_(race.dir, race.from, LEADER_OPEN_NEW_, 0);
    ASSERT_TRUE(made >= 0);
    leader_fs_close_(made);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = CreateThread(NULL, 0, race_on, (void *)(intptr_t)i, 0, NULL);
    }
    for (int round = 1; round <= ROUNDS + 1; round++) {
        LONG wins = 0;
        while (round <= ROUNDS && race.at_gate < round * THREADS) {
            SwitchToThread();
        }
        if (round > ROUNDS) {
            WaitForMultipleObjects(THREADS, threads, TRUE, INFINITE);
        }
        for (int i = 0; i < THREADS; i++) {
            wins += race.wins[i];
        }
        ASSERT_EQ(round - 1, (int)wins);
        if (round > 1) {
            snprintf(race.from, sizeof race.from, "%d.%d", round - 1, (int)race.winner);
        }
        InterlockedExchange(&race.round, round);
    }
    leader_fs_close_(race.dir);
}

/* Wine renames by name, Windows what is open: there, two that have it open could both rename it. */
UTEST_F(windows, nobody_renames_what_another_has_open_to_rename) {
    struct windows *w = utest_fixture;
    int dir = leader_fs_open_(LEADER_HERE_, w->root, LEADER_OPEN_DIR_, 0);
    int made = leader_fs_open_(dir, "first", LEADER_OPEN_NEW_, 0);
    leader_fs_close_(made);
    HANDLE alone = leader_fs_open_alone_(dir, "first");
    ASSERT_TRUE(alone != INVALID_HANDLE_VALUE);
    EXPECT_FALSE(leader_fs_swap_(dir, "first", "second"));
    EXPECT_EQ(EBUSY, errno);
    CloseHandle(alone);
    EXPECT_TRUE(leader_fs_swap_(dir, "first", "second"));
    EXPECT_FALSE(leader_fs_swap_(dir, "first", "third"));
    EXPECT_EQ(ENOENT, errno);
    leader_fs_close_(dir);
}

static char said[600];
static void hear_log(void *user, leader_level level, const char *text) {
    (void)user;
    if (level <= LEADER_LOG_WARN) {
        snprintf(said, sizeof said, "%.590s", text);
    }
}

/* The result of leader_init, or what was said within some ticks. */
static const char *try_path(const char *path) {
    static leader_file file;
    static leader_t me;
    leader_config config = {0};
    said[0] = 0;
    memset(&me, 0, sizeof me);
    config.identity = "A";
    config.on_log = hear_log;
    config.backend = leader_file_backend(&file, path);
    if (leader_init(&me, &config) != LEADER_OK) {
        snprintf(said, sizeof said, "%s", leader_error(&me));
        return said;
    }
    for (int i = 0; i < 5 && !leader_is_leader(&me); i++) {
        leader_tick(&me);
        Sleep(1);
    }
    leader_close(&me, 1000);
    return said;
}

UTEST_F(windows, wrong_paths_are_told) {
    struct windows *w = utest_fixture;
    char path[300];
    snprintf(path, sizeof path, "%s\\", w->root);
    EXPECT_TRUE(strstr(try_path(path), "names a directory"));
    EXPECT_TRUE(strstr(try_path("job\xff.lease"), "not UTF-8"));
    snprintf(path, sizeof path, "%s\\nowhere\\job.lease", w->root);
    EXPECT_TRUE(strstr(try_path(path), "cannot make"));
    EXPECT_STREQ("", try_path(w->path));
}

UTEST_F(windows, a_file_of_somebody_elses_is_left_alone) {
    struct windows *w = utest_fixture;
    char text[100];
    ASSERT_TRUE(write_text(w->path, "dear diary"));
    EXPECT_TRUE(strstr(try_path(w->path), "is no lease record"));
    ASSERT_TRUE(read_text(w->path, text, sizeof text));
    EXPECT_STREQ("dear diary", text);
}

UTEST_STATE();
int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "candidate") == 0) {
        wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &argc);
        static char path[1000];
        WideCharToMultiByte(CP_UTF8, 0, wide[2], -1, path, sizeof path, NULL, NULL);
        argv[2] = path;
        return run_candidate(argv);
    }
    return utest_main(argc, (const char *const *)argv);
}
