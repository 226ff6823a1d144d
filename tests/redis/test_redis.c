/* The Redis backend against real servers, and against one that misbehaves on purpose. `make test` runs it
   as root, for the namespaces. */
#define LEADER_REDIS_TLS
#include "tests/redis/redis_harness.h"
#include "tests/redis/nameserver.h"
#include "tests/tools/utest.h"
#include "tests/tools/asked_from_threads.h"

UTEST_STATE();

#define NEVER_TWO() do { ASSERT_EQ(0, (int)both_ms); ASSERT_FALSE(token_fell); } while (0)

/* ---- the scripts, attacked directly ---------------------------------------------------------------- */

static uint64_t token_said;         // of the last answer
static long long ms_said;
static char word_said[16];
static int settled_seq;             // of the caller's last answer; and the token of its last term
static unsigned long long term_token;

/* The records that acquires were told, by nonce and seq: a renewal names its own. */
static char records[64][400];
static const char *known_to(int op, int nonce, int seq) {
    return op == LEADER_REDIS_RENEW_ ? records[nonce * 10 + seq] : "";
}

/* What the answer says: word, token, milliseconds. The token of a record counts more than the one beside
   it. */
static void read_said(int nonce, int seq) {
    unsigned long long token = 0, of_record = 0;
    char record[400];
    word_said[0] = 0;
    ms_said = -1;
    int n = sscanf(said, "%15s %llu %lld", word_said, &token, &ms_said);
    bool has_record = n == 3 && sscanf(said, "%*s %*s %*s %*s %llu", &of_record) == 1 && of_record > 100000;
    token_said = has_record ? of_record : token;
    if (!strcmp(word_said, "OK") && has_record && sscanf(said, "%*s %*s %*s %*s %399[^\n]", record) == 1) {
        char *end = strstr(record, " leader:job ");
        if (end) *end = 0;
        snprintf(records[nonce * 10 + seq], sizeof records[0], "%s", record);
    }
}

/* With an acquire "/length value"; with a renewal the record that has another value. */
static const char *value_sent = "";

/* The mark of the witness that the caller knows, and the one that the server has. */
static const char *mark_known = "";
static char mark_there[100];
static const char *mark_of(const server *s) {
    snprintf(mark_there, sizeof mark_there, "%s", say(s, "HGET leader:job:witness:{leader:job} born"));
    return mark_there;
}

/* The record that a reclaiming process has found. */
static char found_record[600];

static void find_record(const server *s) {
    snprintf(found_record, sizeof found_record, "%s", say(s, "GET leader:job"));
}

/* Runs the script by its text. nonce and seq as numbers; min_token, longest and reclaim only for acquire. */
static const char *lua(const server *s, int op, const char *me, int nonce, int seq, long long lease_ms,
                       unsigned long long min_token, long long longest, bool reclaim) {
    char n[20], q[24], l[24], m[24], x[24], ss[24], st[24];
    snprintf(n, sizeof n, "%016x", (unsigned)nonce);
    snprintf(q, sizeof q, "%020d", seq);
    snprintf(l, sizeof l, "%lld", lease_ms);
    snprintf(ss, sizeof ss, "%020d", settled_seq);
    snprintf(st, sizeof st, "%llu",
             op == LEADER_REDIS_RENEW_ ? strtoull(known_to(op, nonce, seq), NULL, 10) : term_token);
    snprintf(m, sizeof m, "%llu", min_token);
    snprintf(x, sizeof x, "%lld", longest);
    const char *argv[] = {"EVAL",
                          leader_redis_script_text_,
                          "2",
                          "leader:job",
                          "leader:job:witness:{leader:job}",
                          leader_redis_ops_[op],
                          me,
                          n,
                          q,
                          l,
                          reclaim ? found_record : known_to(op, nonce, seq),
                          "0",
                          ss,
                          st,
                          m,
                          x,
                          reclaim ? "1" : "0",
                          "leader:job@0",
                          value_sent,
                          mark_known};
    say_argv(s, 20, argv);
    read_said(nonce, seq);
    return word_said;
}
static const char *acquire(const server *s, const char *me, int nonce, int seq, long long lease_ms,
                           unsigned long long min_token) {
    return lua(s, LEADER_REDIS_ACQUIRE_, me, nonce, seq, lease_ms, min_token, 0, false);
}
static const char *renew(const server *s, const char *me, int nonce, int term, long long lease_ms) {
    return lua(s, LEADER_REDIS_RENEW_, me, nonce, term, lease_ms, 0, 0, false);
}
static const char *release(const server *s, const char *me, int nonce, int seq) {
    return lua(s, LEADER_REDIS_RELEASE_, me, nonce, seq, 1000, 0, 0, false);
}
static const char *observe(const server *s) {
    return lua(s, LEADER_REDIS_OBSERVE_, "x", 0, 0, 1000, 0, 0, false);
}

UTEST(scripts, sum_is_the_servers_own) {
    fresh();
    server *s = server_start("");
    const char *argv[] = { "SCRIPT", "LOAD", leader_redis_script_text_ };
    ASSERT_STREQ(say_argv(s, 3, argv), leader_redis_script_sha1_);
}

UTEST(scripts, one_holder_until_it_releases) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("FREE", observe(s));
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    uint64_t first = token_said;
    ASSERT_STREQ("HELD", acquire(s, "b", 2, 1, 60000, 1));
    ASSERT_EQ(first, token_said);
    ASSERT_TRUE(strstr(said, " a"));
    ASSERT_TRUE(ms_said > 50000 && ms_said <= 60001);
    ASSERT_STREQ("HELD", observe(s));
    ASSERT_STREQ("LOST", renew(s, "b", 2, 1, 60000));
    ASSERT_STREQ("LOST", release(s, "b", 2, 9));
    say(s, "PEXPIRE leader:job 20000");
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    ASSERT_STREQ("HELD", acquire(s, "b", 2, 2, 60000, first + 1));
    ASSERT_TRUE(ms_said > 50000);                       // the renewal extended it
    ASSERT_STREQ("OK", release(s, "a", 1, 3));
    ASSERT_STREQ("FREE", observe(s));
    ASSERT_EQ(0, (int)ms_said);
    ASSERT_STREQ("OK", acquire(s, "b", 2, 3, 60000, first + 1));
    ASSERT_GT(token_said, first);
}

UTEST(scripts, expiry_frees_and_not_before) {
    fresh();
    server *s = server_start("");
    int64_t taken = clock_ms();
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 400, 1));
    uint64_t first = token_said;
    while (strcmp(acquire(s, "b", 2, 1, 60000, first + 1), "OK") && clock_ms() < taken + LIMIT_MS)
        usleep(2000);
    ASSERT_STREQ("OK", word_said);
    ASSERT_TRUE(clock_ms() - taken >= 390);             // its clock counts in whole ms, ours too
    ASSERT_GT(token_said, first);
    ASSERT_STREQ("LOST", renew(s, "a", 1, 1, 400));
    ASSERT_STREQ("LOST", release(s, "a", 1, 5));
    ASSERT_STREQ("HELD", observe(s));
}

UTEST(scripts, own_record_is_adopted_by_a_write) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 4, 60000, 1));
    uint64_t first = token_said;
    // the same request, carried out twice: the same term
    ASSERT_STREQ("OK", acquire(s, "a", 1, 4, 60000, 1));
    ASSERT_EQ(first, token_said);
    ASSERT_STREQ("OK", acquire(s, "a", 1, 6, 60000, 1));          // a later one: a term of its own
    ASSERT_GT(token_said, first);
    uint64_t second = token_said;
    ASSERT_STREQ("LOST", renew(s, "a", 1, 4, 60000));             // of the earlier term
    ASSERT_STREQ("HELD", acquire(s, "a", 1, 5, 60000, 1));        // late: overtaken
    ASSERT_EQ(second, token_said);
    ASSERT_STREQ("LOST", release(s, "a", 1, 5));                  // late: must not free the later term
    ASSERT_STREQ("OK", renew(s, "a", 1, 6, 60000));
    ASSERT_STREQ("OK", release(s, "a", 1, 8));
    ASSERT_STREQ("LOST", renew(s, "a", 1, 6, 60000));             // late: after the release
    ASSERT_STREQ("LOST", release(s, "a", 1, 8));                  // twice
    // late: sent before the release, carried out after it
    ASSERT_STREQ("WAIT", acquire(s, "a", 1, 7, 60000, 1));
    ASSERT_STREQ("FREE", observe(s));
    ASSERT_STREQ("OK", acquire(s, "b", 2, 1, 60000, 1));          // others are not kept out by that
}

/* A renewal that changes the value may have been carried out without an answer: the next one repeats it. */
UTEST(scripts, a_value_stands_in_the_record_and_changes_with_it) {
    fresh();
    server *s = server_start("");
    value_sent = "/9 10.0.0.1:";
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    value_sent = "";
    char first[400];
    char second[400];
    char third[400];
    snprintf(first, sizeof first, "%s", records[11]);
    ASSERT_TRUE(strstr(first, " 60000/9 10.0.0.1: a"));
    ASSERT_STREQ("HELD", acquire(s, "b", 2, 1, 60000, 1));
    ASSERT_TRUE(strstr(said, "/9 10.0.0.1: a"));
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    int head = (int)(strstr(first, "/9 ") - first);
    snprintf(second, sizeof second, "%.*s/6 second a", head, first);
    snprintf(third, sizeof third, "%.*s a", head, first);
    value_sent = second;
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    snprintf(records[11], sizeof records[11], "%s", first);         // as if that had not been answered
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    value_sent = third;                                             // no value again
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    value_sent = "";
    ASSERT_STREQ("HELD", observe(s));
    ASSERT_TRUE(strstr(said, " 60000 a"));
    snprintf(records[11], sizeof records[11], "%s", first);
    ASSERT_STREQ("LOST", renew(s, "a", 1, 1, 60000));               // late, of an earlier value
    ASSERT_STREQ("OK", release(s, "a", 1, 2));
}

/* A request that was given up is carried out after all, by a server that has forgotten the holder seen
   since. */
UTEST(scripts, a_ghost_is_waited_out_neither_adopted_nor_released) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "b", 2, 1, 1000, 1));
    uint64_t holder = token_said;
    ASSERT_STREQ("HELD", acquire(s, "a", 1, 2, 1000, 1));
    say(s, "FLUSHALL");
    int64_t ghost_ms = clock_ms();
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 1000, 1));           // sent first, when a had seen nobody
    settled_seq = 2;
    ASSERT_STREQ("WAIT", acquire(s, "a", 1, 3, 1000, holder + 1));
    EXPECT_TRUE(ms_said > 0 && ms_said <= 1001);
    EXPECT_STREQ("WAIT", lua(s, LEADER_REDIS_ACQUIRE_, "a", 1, 4, 1000, holder + 1, 0, true));
    EXPECT_STREQ("LOST", release(s, "a", 1, 5));
    records[11][0] = 0;                                        // its sender never had an answer
    EXPECT_STREQ("LOST", renew(s, "a", 1, 1, 1000));
    while (strcmp(acquire(s, "a", 1, 6, 1000, holder + 1), "OK") && clock_ms() < ghost_ms + LIMIT_MS)
        usleep(2000);
    EXPECT_STREQ("OK", word_said);
    EXPECT_TRUE(clock_ms() - ghost_ms >= 990);
    settled_seq = 6;
    term_token = token_said;                                   // the term itself is no ghost
    EXPECT_STREQ("OK", renew(s, "a", 1, 6, 1000));
    EXPECT_STREQ("OK", acquire(s, "a", 1, 7, 1000, holder + 1));
    settled_seq = 0;
    term_token = 0;
}

UTEST(scripts, same_name_other_process) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    ASSERT_STREQ("DUPLICATE", acquire(s, "a", 2, 1, 60000, 1));
    ASSERT_STREQ("LOST", renew(s, "a", 2, 1, 60000));
    ASSERT_STREQ("LOST", release(s, "a", 2, 9));
    uint64_t first = token_said;
    find_record(s);
    ASSERT_STREQ("OK", lua(s, LEADER_REDIS_ACQUIRE_, "a", 2, 2, 60000, 1, 0, true));
    ASSERT_GT(token_said, first);
    ASSERT_STREQ("LOST", renew(s, "a", 1, 1, 60000));
    // a late request of the process in between takes nothing from the one that came after it
    ASSERT_STREQ("DUPLICATE", lua(s, LEADER_REDIS_ACQUIRE_, "a", 4, 1, 60000, 1, 0, true));
    // reclaim is for one's own name
    find_record(s);
    ASSERT_STREQ("HELD", lua(s, LEADER_REDIS_ACQUIRE_, "b", 3, 1, 60000, 1, 0, true));
}

/* A candidate that has seen the holder waits a full lease from the moment at which it noticed the loss;
   tokens go on rising. */
UTEST(scripts, a_store_that_forgot_is_not_a_release) {
    static const char *const ways[] = {"DEL leader:job", "DEL leader:job:witness:{leader:job}", "FLUSHALL",
                                       "DEL leader:job leader:job:witness:{leader:job}"};
    for (size_t i = 0; i < 4; i++) {
        fresh();
        server *s = server_start("");
        int64_t taken = clock_ms();
        ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 1000, 1));
        uint64_t first = token_said;
        say(s, ways[i]);
        bool key_stands = i == 1;
        ASSERT_STREQ(key_stands ? "HELD" : "WAIT", acquire(s, "b", 2, 1, 1000, first + 1));
        ASSERT_TRUE(ms_said > 0 && ms_said <= 1001);
        ASSERT_TRUE(token_said >= first);
        ASSERT_STREQ(key_stands ? "HELD" : "WAIT",
                     acquire(s, "a", 1, 2, 1000, first + 1)[0] == 'O' ? "HELD" : word_said);
        if (!key_stands) { ASSERT_STREQ("LOST", renew(s, "a", 1, 1, 1000)); }
        while (strcmp(acquire(s, "b", 2, 2, 1000, first + 1), "OK") && clock_ms() < taken + LIMIT_MS)
            usleep(2000);
        ASSERT_STREQ("OK", word_said);
        ASSERT_TRUE(clock_ms() - taken >= 990);
        ASSERT_GT(token_said, first);
    }
}

/* A release is over when the next term begins, or when the store is found to have forgotten one. */
UTEST(scripts, a_release_ends_with_the_next_term) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    ASSERT_STREQ("OK", release(s, "a", 1, 2));
    ASSERT_STREQ("OK", acquire(s, "b", 2, 1, 60000, 1));
    say(s, "DEL leader:job");
    ASSERT_STREQ("WAIT", acquire(s, "c", 3, 1, 60000, 1));        // b may still lead
    say(s, "FLUSHALL");
    say(s, "HSET leader:job:witness:{leader:job} t 5 lease 60000 rel x");
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 2, 60000, 100));      // an old state of the store, restored
    mark_known = mark_of(s);
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 3, 60000, 100));
    ASSERT_STREQ("WAIT", acquire(s, "c", 3, 2, 60000, 1));
    mark_known = "";
}

UTEST(scripts, a_newcomer_on_an_emptied_store_gets_a_higher_token) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    uint64_t first = token_said;
    usleep(3000);
    say(s, "FLUSHALL");
    ASSERT_STREQ("OK", acquire(s, "c", 3, 1, 60000, 1));
    ASSERT_GT(token_said, first);
}

UTEST(scripts, renewal_mends_the_witness) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    uint64_t first = token_said;
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    say(s, "DEL leader:job");
    ASSERT_STREQ("WAIT", acquire(s, "c", 3, 1, 60000, 1));        // even who has seen nothing waits
    ASSERT_EQ(first, token_said);
}

UTEST(scripts, a_release_mends_the_witness) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    uint64_t first = token_said;
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_STREQ("OK", release(s, "a", 1, 2));
    ASSERT_STREQ("OK", acquire(s, "b", 2, 1, 60000, first + 1));
    ASSERT_GT(token_said, first);
}

UTEST(scripts, longer_leases_of_others_are_kept) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    uint64_t first = token_said;
    say(s, "DEL leader:job");
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 1, 1000, first + 1));
    ASSERT_TRUE(ms_said > 50000);                       // by the witness, not by b's own second
    say(s, "FLUSHALL");
    ASSERT_STREQ("WAIT", lua(s, LEADER_REDIS_ACQUIRE_, "b", 2, 2, 1000, first + 1, 60000, false));
    ASSERT_TRUE(ms_said > 50000);                       // by what b remembers
    say(s, "FLUSHALL");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_STREQ("HELD", acquire(s, "b", 2, 1, 1000, 1));
    ASSERT_TRUE(ms_said > 50000);                       // by the record
}

/* a has a minute in a server that then forgets it, and c a second in what comes after: its first request,
   late, or one that has seen nothing. mark_known is a's. */
static uint64_t forgotten(const server *s) {
    static char mark[100];
    mark_known = "";
    acquire(s, "a", 1, 1, 60000, 1);
    uint64_t token = token_said;
    snprintf(mark, sizeof mark, "%s", mark_of(s));
    usleep(3000);
    say(s, "FLUSHALL");
    acquire(s, "c", 3, 1, 1000, 1);
    mark_known = mark;
    return strcmp(word_said, "OK") == 0 ? token : 0;
}

/* Whoever asks, and whatever c does, nobody begins a term before a's minute is over. */
UTEST(scripts, a_late_request_hides_no_longer_lease) {
    fresh();
    server *s = server_start("");
    uint64_t token = forgotten(s);
    ASSERT_GT(token, 0u);
    ASSERT_STREQ("HELD", lua(s, LEADER_REDIS_ACQUIRE_, "b", 2, 2, 1000, token + 1, 60000, false));
    ASSERT_TRUE(strstr(said, mark_of(s)));              // it is told the new mark
    mark_known = "";
    EXPECT_STREQ("WAIT", acquire(s, "c", 3, 2, 1000, 1));         // c's own record does not help it
    EXPECT_TRUE(ms_said > 50000 && ms_said <= 60000);
    EXPECT_STREQ("OK", release(s, "c", 3, 3));
    EXPECT_STREQ("FREE", observe(s));
    EXPECT_TRUE(ms_said > 50000);
    EXPECT_STREQ("WAIT", acquire(s, "d", 4, 1, 1000, 1));         // d has seen nothing
    EXPECT_TRUE(ms_said > 50000);
    mark_known = mark_of(s);
    EXPECT_STREQ("WAIT", acquire(s, "b", 2, 3, 1000, token + 1));
    EXPECT_TRUE(ms_said > 50000 && ms_said <= 60000);
    mark_known = "";
}

/* Every way in which the longer lease is told: a's own renewal, a look, a start with caution, a token. */
UTEST(scripts, who_has_seen_the_forgotten_lease_says_so) {
    fresh();
    server *s = server_start("");
    for (int way = 0; way < 4; way++) {
        say(s, "FLUSHALL");
        uint64_t token = forgotten(s);
        ASSERT_GT(token, 0u);
        if (way == 0) {
            ASSERT_STREQ("LOST", renew(s, "a", 1, 1, 60000));
        } else if (way == 1) {
            ASSERT_STREQ("HELD", lua(s, LEADER_REDIS_OBSERVE_, "b", 2, 2, 1000, token + 1, 60000, false));
        } else if (way == 2) {
            mark_known = "0";
            ASSERT_STREQ("HELD", acquire(s, "b", 2, 2, 60000, 1));
        } else {                                        // the witness was gone when b looked
            mark_known = "";
            ASSERT_STREQ("HELD", lua(s, LEADER_REDIS_ACQUIRE_, "b", 2, 2, 1000, token + 1, 60000, false));
        }
        mark_known = "";
        ASSERT_STREQ("OK", release(s, "c", 3, 2));
        EXPECT_STREQ("WAIT", acquire(s, "d", 4, 1, 1000, 1));
        EXPECT_TRUE(ms_said > 50000 && ms_said <= 60000);
    }
}

/* A server that is older than the longest lease has nobody to wait for; a clock that was set back makes no
   wait longer than that lease; and the term that begins is an end of it all. */
UTEST(scripts, the_wait_for_a_forgotten_lease_ends) {
    fresh();
    server *s = server_start("");
    uint64_t token = forgotten(s);
    const char *mark = mark_known;
    ASSERT_GT(token, 0u);
    mark_known = "";
    ASSERT_STREQ("OK", release(s, "c", 3, 2));
    mark_known = mark;
    say(s, "HSET leader:job:witness:{leader:job} born 1000");
    ASSERT_STREQ("OK", lua(s, LEADER_REDIS_ACQUIRE_, "b", 2, 2, 1000, token + 1, 60000, false));
    ASSERT_STREQ("OK", release(s, "b", 2, 3));
    say(s, "HSET leader:job:witness:{leader:job} till 9000000000000 doubt 200");
    int64_t then = clock_ms();
    mark_known = mark_of(s);
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 4, 1000, token + 1));
    EXPECT_TRUE(ms_said <= 200);
    while (strcmp(acquire(s, "b", 2, 5, 1000, token + 1), "OK") && clock_ms() < then + LIMIT_MS)
        usleep(2000);
    EXPECT_STREQ("OK", word_said);
    EXPECT_TRUE(clock_ms() - then >= 190);
    EXPECT_STREQ("0", say(s, "HEXISTS leader:job:witness:{leader:job} till"));
    mark_known = "";
}

/* Who mends the witness of a standing lease leaves it its mark. */
UTEST(scripts, a_mended_witness_keeps_its_mark) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    char mark[100];
    snprintf(mark, sizeof mark, "%s", mark_of(s));
    mark_known = mark;
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    EXPECT_STREQ(mark, mark_of(s));
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 2, 60000, 1));
    EXPECT_STREQ(mark, mark_of(s));
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_STREQ("OK", release(s, "a", 1, 3));
    EXPECT_STREQ(mark, mark_of(s));
    mark_known = "";
}

UTEST(scripts, a_lease_never_lasts_for_ever) {
    fresh();
    server *s = server_start("");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 5000, 1));
    uint64_t first = token_said;
    say(s, "PERSIST leader:job");
    ASSERT_STREQ("HELD", acquire(s, "b", 2, 1, 5000, first + 1));
    ASSERT_TRUE(ms_said <= 5001);
    ASSERT_TRUE(atoi(say(s, "PTTL leader:job")) > 0);
    say(s, "PEXPIRE leader:job 99999999");              // as after the server's clock was set back
    ASSERT_STREQ("HELD", acquire(s, "b", 2, 2, 5000, first + 1));
    ASSERT_TRUE(ms_said <= 5001);
    say(s, "DEL leader:job");
    say(s, "PERSIST leader:job:witness:{leader:job}");
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 3, 5000, first + 1));
    ASSERT_TRUE(ms_said <= 5000);
    ASSERT_TRUE(atoll(say(s, "PTTL leader:job:witness:{leader:job}")) > 86000000);
    // as after the server's clock was set back
    say(s, "PEXPIRE leader:job:witness:{leader:job} 999999999999");
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 4, 5000, first + 1));
    ASSERT_TRUE(ms_said > 0 && ms_said <= 5000);
    ASSERT_TRUE(atoll(say(s, "PTTL leader:job:witness:{leader:job}")) <= 86400000);
    say(s, "HSET leader:job:witness:{leader:job} lease rubbish");
    ASSERT_STREQ("WAIT", acquire(s, "b", 2, 5, 5000, first + 1));
}

UTEST(scripts, rubbish_is_corrupt_and_heals_where_it_can) {
    static const char *const foreign[] = {"hello",
                                          "1 2 3",
                                          "",
                                          "-1 00000000000000000001 0000000000000001 9 a",
                                          "nan 00000000000000000001 0000000000000001 9 a",
                                          "5 1 0000000000000001 9 a",
                                          "5 00000000000000000001 zz 9 a",
                                          "5 00000000000000000001 0000000000000001 9 ",
                                          "5 00000000000000000001 0000000000000001 a",
                                          "5 00000000000000000001 0000000000000001 -9 a",
                                          "5 00000000000000000001 0000000000000001 9/9 a",
                                          "5 00000000000000000001 0000000000000001 9/1 a",
                                          "5 00000000000000000001 0000000000000001 9/x a"};
    static const char *const corrupt[] = {
        "9007199254740992 00000000000000000001 0000000000000001 9 a",
        "99999999999999999999999999 00000000000000000001 0000000000000001 9 a",
        "5 00000000000000000001 0000000000000001 99999999999999999 a"};
    fresh();
    server *s = server_start("");
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0] + sizeof corrupt / sizeof corrupt[0]; i++) {
        bool ours = i >= sizeof foreign / sizeof foreign[0];
        const char *argv[] = {"SET", "leader:job",
                              ours ? corrupt[i - sizeof foreign / sizeof foreign[0]] : foreign[i]};
        say(s, "FLUSHALL");
        say_argv(s, 3, argv);
        ASSERT_STREQ(ours ? "CORRUPT" : "FOREIGN", acquire(s, "a", 1, 1, 5000, 1));
        ASSERT_TRUE(atoi(say(s, "PTTL leader:job")) > 0);
        ASSERT_STREQ(ours ? "CORRUPT" : "FOREIGN", observe(s));
        ASSERT_STREQ("LOST", renew(s, "a", 1, 1, 5000));
        ASSERT_STREQ("LOST", release(s, "a", 1, 1));
    }
    static const char *const tokens[] = {
        "9007199254740992", "9007199254740991", "x", "-4", "1e3", "0x10", "inf"};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        const char *argv[] = { "HSET", "leader:job:witness:{leader:job}", "t", tokens[i], "rel", "x" };
        say(s, "FLUSHALL");
        say_argv(s, 6, argv);
        ASSERT_STREQ("CORRUPT", acquire(s, "a", 1, 1, 5000, 1));
        ASSERT_STREQ("0", say(s, "EXISTS leader:job"));
    }
    say(s, "FLUSHALL");
    say(s, "LPUSH leader:job x");
    acquire(s, "a", 1, 1, 5000, 1);
    ASSERT_TRUE(strstr(said, "WRONGTYPE"));
    say(s, "FLUSHALL");
    say(s, "SET leader:job:witness:{leader:job} x");
    acquire(s, "a", 1, 1, 5000, 1);
    ASSERT_TRUE(strstr(said, "WRONGTYPE"));
    ASSERT_STREQ("0", say(s, "EXISTS leader:job"));     // nothing was written before the error
    say(s, "FLUSHALL");
    say(s, "HSET leader:job:witness:{leader:job} t 9007199254740989 rel x");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 5000, 1));
    ASSERT_STREQ("OK", release(s, "a", 1, 2));
    ASSERT_STREQ("OK", acquire(s, "a", 1, 3, 5000, 1));
    ASSERT_TRUE(strstr(said, "9007199254740991"));      // exact to the last token there is
    ASSERT_STREQ("CORRUPT", acquire(s, "a", 1, 4, 5000, 1));
}

UTEST(election, a_holder_that_no_candidate_can_be) {
    fresh();
    server *s = server_start("");
    const char *argv[] = {"SET", "leader:job", "5 00000000000000000001 00000000000000ff 1500 \xff\xfe", "PX",
                          "1500"};
    ASSERT_STREQ("OK", say_argv(s, 5, argv));
    candidate *a = join(s, "a", 1500);
    ASSERT_TRUE(UNTIL(leader_get_view(&a->me).age_ms >= 0));
    ASSERT_STREQ("", leader_get_view(&a->me).leader);
    ASSERT_TRUE(UNTIL(leads(a)));                       // it heals when the record expires
}

UTEST(scripts, a_full_server_refuses_terms_but_not_renewals) {
    fresh();
    server *s = server_start("--maxmemory-policy noeviction");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    say(s, "CONFIG SET maxmemory 1");
    ASSERT_STREQ("OK", renew(s, "a", 1, 1, 60000));
    ASSERT_STREQ("OK", release(s, "a", 1, 2));
    acquire(s, "b", 2, 1, 60000, 1);
    ASSERT_TRUE(strstr(said, "OOM"));
    ASSERT_STREQ("0", say(s, "EXISTS leader:job"));
    say(s, "CONFIG SET maxmemory 0");
    ASSERT_STREQ("OK", acquire(s, "b", 2, 2, 60000, 1));
}

/* What has the shortest time to live goes first: the lease, and the witness last. */
UTEST(scripts, eviction_is_not_a_release) {
    fresh();
    server *s = server_start("--maxmemory-policy volatile-ttl --maxmemory-samples 64");
    ASSERT_STREQ("OK", acquire(s, "a", 1, 1, 60000, 1));
    uint64_t first = token_said;
    const char *fill[] = {
        "EVAL", "for i = 1, 2000 do redis.call('SET', 'filler'..i, string.rep('x', 500), 'EX', 3600) end",
        "0"};
    say_argv(s, 3, fill);
    const char *used = strstr(say(s, "INFO memory"), "used_memory:");
    ASSERT_TRUE(used != NULL);
    char line[80];
    snprintf(line, sizeof line, "CONFIG SET maxmemory %lld", atoll(used + 12) - 100000);
    say(s, line);
    for (int i = 0; i < 1000 && strcmp(say(s, "EXISTS leader:job"), "0"); i++) say(s, "SET other 1");
    ASSERT_STREQ("0", said);
    say(s, "CONFIG SET maxmemory 0");
    ASSERT_STREQ("1", say(s, "EXISTS leader:job:witness:{leader:job}"));
    ASSERT_STREQ("WAIT", acquire(s, "c", 3, 1, 60000, 1));
    ASSERT_EQ(first, token_said);
}

/* ---- elections ------------------------------------------------------------------------------------- */

UTEST(election, acquire_refuse_renew_release) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 6000);
    ASSERT_TRUE(UNTIL(leads(a)));
    int64_t began = clock_ms();
    candidate *b = join(s, "b", 6000);
    ASSERT_TRUE(UNTIL(leader_get_view(&b->me).leader[0] == 'a'));
    ASSERT_EQ(leader_get_view(&b->me).token, leader_token(&a->me));
    uint64_t token = leader_token(&a->me);
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals >= 3 && clock_ms() > began + 6000));
    ASSERT_TRUE(leads(a));                              // past its first lease: renewal extends
    ASSERT_EQ(token, leader_token(&a->me));
    ASSERT_FALSE(leads(b));
    leader_stop(&a->me);
    ASSERT_TRUE(UNTIL(leads(b)));
    ASSERT_GT(leader_token(&b->me), token);
    ASSERT_EQ(1, a->stopped);
    ASSERT_EQ(LEADER_OK, a->why);
    NEVER_TWO();
}

/* Like join, but asking as often as the test wants. */
static void join_asking(candidate *c, const server *s, const char *identity, int64_t lease_ms,
                        int64_t retry_ms) {
    leader_redis_config how;
    leader_config cfg = settings(c, identity, lease_ms);
    memset(&how, 0, sizeof how);
    how.port = s->port;
    leader_redis_client_init(&c->client, &how);
    cfg.backend = leader_redis_shared_backend(&c->election, &c->client, "job");
    cfg.retry_ms = retry_ms;
    c->open = leader_init(&c->me, &cfg) == LEADER_OK;
}

UTEST(election, a_release_is_heard_at_once) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 600000), *b = &candidates[1];
    ASSERT_TRUE(UNTIL(leads(a)));
    join_asking(b, s, "b", 600000, 200000);             // neither polling nor expiry comes within the test
    ASSERT_TRUE(UNTIL(b->client.watch.stage == LEADER_REDIS_READY_
                      && b->election.generation == b->client.generation));
    pass_ms(100);
    ASSERT_EQ(1, (int)leader_get_stats(&b->me).acquires);
    leader_stop(&a->me);
    ASSERT_TRUE(UNTIL(leads(b)));
    // the first attempt after the notice, none before it
    ASSERT_EQ(2, (int)leader_get_stats(&b->me).acquires);
    NEVER_TWO();
}

/* Its answer may be older than the notice, and must not be what the attempt after the notice is told. */
UTEST(election, a_notice_outdates_the_look_that_is_under_way) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 600000), *b = &candidates[1];
    ASSERT_TRUE(UNTIL(leads(a)));
    join_asking(b, s, "b", 600000, 200000);             // neither polling nor expiry comes within the test
    ASSERT_TRUE(UNTIL(b->election.subscribed && b->election.phase == LEADER_REDIS_IDLE_));
    unsigned sent = b->election.serial;
    leader_redis_heard_(&b->election, true, "another");
    ASSERT_TRUE(UNTIL(b->election.phase == LEADER_REDIS_SENT_));
    ASSERT_EQ(sent + 1, b->election.serial);
    leader_redis_heard_(&b->election, true, "another");
    ASSERT_TRUE(UNTIL(b->election.serial == sent + 2 && b->election.phase == LEADER_REDIS_IDLE_));
    ASSERT_TRUE(b->election.held_until_ms > 0);         // this one is remembered
    NEVER_TWO();
}

UTEST(election, a_ghost_of_its_own_makes_no_leader_beside_the_forgotten_one) {
    fresh();
    server *s = server_start("");
    candidate *b = join(s, "b", 30000), *a = &candidates[1];
    ASSERT_TRUE(UNTIL(leads(b)));
    join_asking(a, s, "a", 30000, 100);                 // a asks long before b finds out
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&a->me).leader, "b")));
    char nonce[20];
    snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)a->election.nonce);
    const char *argv[] = {"EVAL",
                          leader_redis_script_text_,
                          "2",
                          "leader:job",
                          "leader:job:witness:{leader:job}",
                          "acquire",
                          "a",
                          nonce,
                          "00000000000000000001",
                          "30000",
                          "",
                          "0",
                          "00000000000000000000",
                          "0",
                          "1",
                          "0",
                          "0",
                          "leader:job@0",
                          "",
                          ""};
    say(s, "FLUSHALL");
    // a's first request, as if it had been on its way until now
    say_argv(s, 20, argv);
    ASSERT_TRUE(strncmp(said, "OK", 2) == 0);
    uint64_t asked = leader_get_stats(&a->me).acquires;
    ASSERT_TRUE(UNTIL(leads(a) || leader_get_stats(&a->me).acquires >= asked + 5));
    ASSERT_FALSE(leads(a));
    NEVER_TWO();
}

/* c's first request, late, for a second, where a has a minute that b has seen. The clock was set back in
   between, so that only the mark tells. */
UTEST(election, a_late_request_hides_no_longer_lease) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 60000), *b = &candidates[1];
    ASSERT_TRUE(UNTIL(leads(a)));
    join_asking(b, s, "b", 1500, 100);
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&b->me).leader, "a")));
    b->frozen = true;
    say(s, "FLUSHALL");
    mark_known = "";
    ASSERT_STREQ("OK", acquire(s, "c", 3, 1, 1000, 1));
    char line[100];
    snprintf(line, sizeof line, "HSET leader:job:witness:{leader:job} born %llu",
             (unsigned long long)leader_token(&a->me) - 1000);
    say(s, line);
    b->frozen = false;
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&b->me).leader, "c")));
    ASSERT_STREQ("OK", release(s, "c", 3, 2));
    uint64_t asked = leader_get_stats(&b->me).acquires;
    ASSERT_TRUE(UNTIL(leads(b) || leader_get_stats(&b->me).acquires >= asked + 5));
    ASSERT_FALSE(leads(b));
    ASSERT_TRUE(leads(a));                              // a has not found out yet
    NEVER_TWO();
}

UTEST(election, without_notices_polling_is_enough) {
    fresh();
    server *s = server_start("");
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    how.no_notice = true;
    candidate *a = join_with(&how, "a", 3000, "job");
    ASSERT_TRUE(UNTIL(leads(a)));
    candidate *b = join_with(&how, "b", 3000, "job");
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&b->me).leader, "a")));
    leave(a);
    ASSERT_TRUE(UNTIL(leads(b)));
    ASSERT_TRUE(b->client.watch.stage == LEADER_REDIS_CLOSED_);
}

UTEST(election, a_crash_is_taken_over_when_the_lease_is_over) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 1500);
    ASSERT_TRUE(UNTIL(leads(a)));
    candidate *b = join(s, "b", 1500);
    ASSERT_TRUE(UNTIL(leader_get_stats(&b->me).acquires >= 1));
    a->frozen = true;                                   // as dead as it gets without a process of its own
    ASSERT_TRUE(UNTIL(leads(b)));
    ASSERT_FALSE(leads(a));
    a->frozen = false;
    ASSERT_TRUE(UNTIL(a->stopped == 1));
    ASSERT_EQ(LEADER_E_TIMEOUT, a->why);
    NEVER_TWO();
}

UTEST(election, of_fifty_candidates_one_wins) {
    fresh();
    server *s = server_start("");
    char name[16];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "c%d", i);
        ASSERT_TRUE(join(s, name, 4000)->open);
    }
    ASSERT_TRUE(UNTIL(leaders() == 1));
    for (int round = 0; round < 4; round++) {           // and again each time the winner goes
        candidate *winner = the_leader();
        ASSERT_TRUE(winner != NULL);
        leave(winner);
        ASSERT_TRUE(UNTIL(leaders() == 1));
    }
    NEVER_TWO();
}

UTEST(election, renewal_failure_demotes_and_cleans_up) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 1500);
    ASSERT_TRUE(UNTIL(leads(a)));
    server_stop(s);
    ASSERT_TRUE(UNTIL(a->stopped == 1));
    ASSERT_FALSE(leads(a));
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).failures_io > 0));
    char refusal[64];
    snprintf(refusal, sizeof refusal, "Redis 127.0.0.1:%d: Connection refused", s->port);
    ASSERT_TRUE(strstr(a->log, refusal) != NULL);
    ASSERT_TRUE(strstr(a->log, "no connection within") == NULL);
    leader_fd fds[LEADER_FDS_MAX];
    ASSERT_TRUE(UNTIL(leader_fds(&a->me, fds) == 0));   // no socket is left behind
    server_run(s);
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_EQ(2, a->started);
    NEVER_TWO();
}

/* A stranger overwrote the record: the next renewal says so, and that ends the term at once. */
UTEST(election, lost_to_another) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "a", 1500);
    ASSERT_TRUE(UNTIL(leads(a)));
    char record[128];
    snprintf(record, sizeof record, "%llu 00000000000000000001 00000000000000ff 2000 stranger",
             (unsigned long long)leader_token(&a->me) + 1);
    const char *argv[] = { "SET", "leader:job", record, "PX", "2000" };
    ASSERT_STREQ("OK", say_argv(s, 5, argv));
    ASSERT_TRUE(UNTIL(a->stopped == 1));
    ASSERT_EQ(LEADER_LOST, a->why);
    ASSERT_STREQ("stranger", leader_get_view(&a->me).leader);
    ASSERT_TRUE(UNTIL(leads(a)));
    NEVER_TWO();
}

UTEST(election, same_identity_twice) {
    fresh();
    server *s = server_start("");
    candidate *a = join(s, "twin", 3000);
    ASSERT_TRUE(UNTIL(leads(a)));
    candidate *b = join(s, "twin", 3000);
    ASSERT_TRUE(UNTIL(leader_get_stats(&b->me).failures_duplicate > 0));
    ASSERT_TRUE(strstr(leader_error(&b->me), "identity") != NULL);
    pass_ms(500);
    ASSERT_TRUE(leads(a));
    NEVER_TWO();
}

UTEST(election, an_observer_sees_and_takes_nothing) {
    fresh();
    server *s = server_start("");
    candidate *o = &candidates[40];
    leader_config cfg = settings(o, "observer", 3000);
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    leader_redis_client_init(&o->client, &how);
    cfg.backend = leader_redis_shared_backend(&o->election, &o->client, "job");
    cfg.observe_only = true;
    ASSERT_EQ(LEADER_OK, leader_init(&o->me, &cfg));
    o->open = true;
    ASSERT_TRUE(UNTIL(leader_get_view(&o->me).age_ms >= 0));
    ASSERT_STREQ("0", say(s, "EXISTS leader:job leader:job:witness:{leader:job}"));
    candidate *a = join(s, "a", 3000);
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&o->me).leader, "a")));
    leave(a);
    ASSERT_TRUE(UNTIL(leader_get_view(&o->me).leader[0] == 0));
    ASSERT_FALSE(leads(o));
}

/* ---- a store that forgets, stops, comes back ------------------------------------------------------- */

/* Two candidates that know each other, and something happens to the server. */
#define TWO(s, lease) \
    candidate *a = join(s, "a", lease); \
    ASSERT_TRUE(UNTIL(leads(a))); \
    candidate *b = join(s, "b", lease); \
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&b->me).leader, "a")))

UTEST(forgets, flushall) {
    fresh();
    server *s = server_start("");
    TWO(s, 1500);
    int64_t then = clock_ms();
    say(s, "FLUSHALL");
    ASSERT_TRUE(UNTIL(a->stopped > 0));
    ASSERT_EQ(LEADER_LOST, a->why);
    ASSERT_TRUE(UNTIL(leaders() == 1));
    ASSERT_TRUE(clock_ms() - then >= 1490);             // a full lease after the loss
    ASSERT_TRUE(a->started + b->started == 2);
    NEVER_TWO();
}

UTEST(forgets, key_deleted_by_hand) {
    fresh();
    server *s = server_start("");
    TWO(s, 1500);
    say(s, "DEL leader:job");
    ASSERT_TRUE(UNTIL(a->stopped > 0));
    ASSERT_TRUE(UNTIL(leaders() == 1));
    NEVER_TWO();
}

UTEST(forgets, witness_deleted_by_hand) {
    fresh();
    server *s = server_start("");
    TWO(s, 6000);
    say(s, "DEL leader:job:witness:{leader:job}");
    ASSERT_TRUE(UNTIL(!strcmp(say(s, "EXISTS leader:job:witness:{leader:job}"), "1")));
    ASSERT_EQ(0, a->stopped);                           // the next renewal wrote it again
    NEVER_TWO();
}

UTEST(forgets, killed_and_restarted_empty) {
    fresh();
    server *s = server_start("");
    TWO(s, 1500);
    uint64_t token = leader_token(&a->me);
    server_stop(s);
    server_run(s);
    ASSERT_TRUE(UNTIL(a->stopped > 0));
    ASSERT_TRUE(UNTIL(leaders() == 1));
    ASSERT_GT(leader_token(&the_leader()->me), token);
    NEVER_TWO();
}

UTEST(forgets, killed_and_restarted_with_its_data) {
    fresh();
    server *s = server_start("--appendonly yes --appendfsync always");
    TWO(s, 6000);
    uint64_t token = leader_token(&a->me);
    server_stop(s);
    server_run(s);
    ASSERT_TRUE(UNTIL(a->client.stage == LEADER_REDIS_ON_ && leader_get_stats(&a->me).renewals > 0));
    pass_ms(200);
    ASSERT_TRUE(leads(a));                              // the same term goes on
    ASSERT_EQ(token, leader_token(&a->me));
    ASSERT_EQ(0, a->stopped + b->started);
    NEVER_TWO();
}

UTEST(forgets, paused_and_resumed) {
    fresh();
    server *s = server_start("");
    TWO(s, 1500);
    kill(s->pid, SIGSTOP);
    ASSERT_TRUE(UNTIL(a->stopped == 1));                // a knows by its clock, without an answer
    pass_ms(1500);
    ASSERT_EQ(0, leaders());
    kill(s->pid, SIGCONT);                              // and now the leftovers of both are carried out
    ASSERT_TRUE(UNTIL(leaders() == 1));
    pass_ms(500);
    NEVER_TWO();
}

UTEST(forgets, scripts_flushed) {
    fresh();
    server *s = server_start("");
    TWO(s, 6000);
    for (int i = 0; i < 3; i++) {
        say(s, "SCRIPT FLUSH");
        uint64_t renewals = leader_get_stats(&a->me).renewals;
        ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals > renewals));
    }
    ASSERT_EQ(0, a->stopped);
    ASSERT_EQ(0, (int)leader_get_stats(&a->me).failures);
    NEVER_TWO();
}

UTEST(forgets, clients_killed_in_the_middle) {
    fresh();
    server *s = server_start("");
    TWO(s, 6000);
    for (int i = 0; i < 3; i++) {
        say(s, "CLIENT KILL TYPE normal");
        say(s, "CLIENT KILL TYPE pubsub");
        uint64_t renewals = leader_get_stats(&a->me).renewals;
        ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals > renewals));
    }
    ASSERT_EQ(0, a->stopped);
    ASSERT_TRUE(UNTIL(b->client.watch.stage == LEADER_REDIS_READY_));          // notices come back too
    pass_ms(200);
    leader_stop(&a->me);
    ASSERT_TRUE(UNTIL(leads(b)));
    NEVER_TWO();
}

UTEST(forgets, memory_full) {
    fresh();
    server *s = server_start("--maxmemory-policy noeviction");
    TWO(s, 6000);
    say(s, "CONFIG SET maxmemory 1");
    uint64_t renewals = leader_get_stats(&a->me).renewals;
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals >= renewals + 2));
    ASSERT_EQ(0, a->stopped);                           // renewals need no memory
    leave(a);
    pass_ms(300);
    ASSERT_FALSE(leads(b));
    ASSERT_TRUE(UNTIL(strstr(b->log, "OOM") != NULL));
    say(s, "CONFIG SET maxmemory 0");
    ASSERT_TRUE(UNTIL(leads(b)));
    NEVER_TWO();
}

UTEST(forgets, loading_busy_and_readonly_pass) {
    fresh();
    server *s = server_start("");
    server *other = server_start("");
    char line[64];
    candidate *a = join(s, "a", 1500);
    ASSERT_TRUE(UNTIL(leads(a)));
    snprintf(line, sizeof line, "REPLICAOF 127.0.0.1 %d", other->port);
    say(s, line);
    ASSERT_TRUE(UNTIL(strstr(a->log, "READONLY") || strstr(a->log, "MASTERDOWN")));
    ASSERT_TRUE(UNTIL(a->stopped > 0));
    say(s, "REPLICAOF NO ONE");
    ASSERT_TRUE(UNTIL(leads(a)));
    const char *busy[] = {
        "EVAL", "local till = redis.call('TIME')[1] + 3 while redis.call('TIME')[1] + 0 < till do end", "0"};
    say(s, "CONFIG SET busy-reply-threshold 10");
    redisContext *c = dial(s);
    redisAppendCommandArgv(c, 3, busy, NULL);
    int done = 0;
    while (!done) redisBufferWrite(c, &done);
    ASSERT_TRUE(UNTIL(strstr(a->log, "BUSY") != NULL));
    redisFree(c);
    ASSERT_TRUE(UNTIL(leads(a)));
    NEVER_TWO();
}

/* ---- credentials and rights ------------------------------------------------------------------------ */

static candidate *join_as(const server *s, const char *user, const char *password) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    how.username = user;
    how.password = password;
    return join_with(&how, user ? user : "default", 1500, "job");
}

static bool leaks(const candidate *c, const char *secret) {
    leader_stats stats = leader_get_stats(&c->me);
    return strstr(c->log, secret) || strstr(leader_error(&c->me), secret)
           || strstr(stats.last_error_text, secret);
}

UTEST(rights, right_and_wrong_password) {
    fresh();
    server *s = server_start("--requirepass Sesame77");
    candidate *good = join_as(s, NULL, "Sesame77");
    ASSERT_TRUE(UNTIL(leads(good)));
    candidate *bad = join_as(s, NULL, "Hunter2secret"), *none = join_as(s, NULL, NULL);
    ASSERT_TRUE(
        UNTIL(leader_get_stats(&bad->me).failures_auth > 0 && leader_get_stats(&none->me).failures_auth > 0));
    ASSERT_TRUE(strstr(bad->log, "WRONGPASS") != NULL);
    ASSERT_TRUE(strstr(none->log, "wants a password: set password") != NULL);
    ASSERT_FALSE(leaks(bad, "Hunter2secret"));
    ASSERT_FALSE(leaks(good, "Sesame77"));
    say(s, "CONFIG SET requirepass Hunter2secret");     // a wrong one notices when it is right
    leave(good);
    ASSERT_TRUE(UNTIL(leads(bad)));
}

UTEST(rights, acl) {
    fresh();
    server *s = server_start("");
    say(s, "ACL SETUSER full on >pw ~leader:* &leader:* +eval +evalsha +get +set +pttl +pexpire +del +hget "
           "+hmget +hset +hdel +time +publish +subscribe +unsubscribe");
    say(s, "ACL SETUSER nohash on >pw ~* &* +@all -hset");
    say(s, "ACL SETUSER noeval on >pw ~* &* +@all -eval -evalsha");
    say(s, "ACL SETUSER nokeys on >pw ~other:* &* +@all");
    say(s, "ACL SETUSER quiet on >pw ~* resetchannels +@all");
    static const char *const users[] = { "nohash", "noeval", "nokeys" };
    for (int i = 0; i < 3; i++) {
        candidate *poor = join_as(s, users[i], "pw");
        ASSERT_TRUE(UNTIL(leader_get_stats(&poor->me).failures_auth > 0));
        ASSERT_EQ(0, poor->started);
        leave(poor);
        say(s, "FLUSHALL");
    }
    candidate *full = join_as(s, "full", "pw");
    ASSERT_TRUE(UNTIL(leads(full)));                    // exactly what the header names is enough
    candidate *quiet = join_as(s, "quiet", "pw");
    ASSERT_TRUE(UNTIL(strstr(quiet->log, "polling instead") != NULL));
    leave(full);
    ASSERT_TRUE(UNTIL(leads(quiet)));                   // no channel rights: elected by polling
    // and its PUBLISH, which fails, does not make the release fail
    leave(quiet);
    ASSERT_STREQ("0", say(s, "EXISTS leader:job"));
}

/* A server that does not know AUTH quotes what it was given. */
UTEST(rights, a_server_that_echoes_the_password) {
    fresh();
    fake f;
    fake_open(&f);
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = f.port;
    how.password = "Sesame77";
    candidate *a = join_with(&how, "a", 1500, "job");
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    static const char echo[] = "-ERR unknown command `AUTH`, with args beginning with: `Sesame77`\r\n";
    fake_send(&f, echo, sizeof echo - 1);
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).failures_auth > 0));
    ASSERT_FALSE(leaks(a, "Sesame77"));
    leave(a);
    fake_close(&f);
}

/* ---- servers that misbehave ------------------------------------------------------------------------ */

/* Sends these bytes (NULL: n bytes of a yes, the one at `at` changed) as the answer to the first request,
   hangs up, and says whether the candidate led. */
static bool led_by(fake *f, const char *bytes, size_t n, size_t pause_at, size_t at, char value) {
    candidate *c = join_fake(f, 15000);
    char yes[1000];
    bool led = false;
    if (!UNTIL((fake_step(f), f->peer >= 0 && f->got > 0))) abort();
    if (!bytes) {
        yes_to(c, yes);
        if (at < n) yes[at] = value;
        bytes = yes;
    }
    if (pause_at < n) {
        fake_send(f, bytes, pause_at);
        pass_ms(2);
        fake_send(f, bytes + pause_at, n - pause_at);
    } else {
        fake_send(f, bytes, n);
    }
    if (pause_at >= n) fake_hang_up(f);
    led = UNTIL(leads(c) || leader_get_stats(&c->me).failures > 0) && leads(c);
    leader_close(&c->me, 0);
    c->open = false;
    fake_hang_up(f);
    return led;
}

static size_t yes_length(void) {
    static candidate none;
    char yes[1000];
    return yes_to(&none, yes);
}

UTEST(hostile, replies_cut_at_every_byte) {
    fresh();
    fake f;
    fake_open(&f);
    size_t whole = yes_length();
    for (size_t n = 0; n < whole; n++) ASSERT_FALSE(led_by(&f, NULL, n, n, whole, 0));
    // in two pieces
    for (size_t n = 1; n < whole; n += 3) ASSERT_TRUE(led_by(&f, NULL, whole, n, whole, 0));
    fake_close(&f);
}

UTEST(hostile, every_byte_changed) {
    fresh();
    fake f;
    fake_open(&f);
    static const char values[] = { 0, '\n', '9', '-', '*', '$', '\xff' };
    size_t whole = yes_length();
    for (size_t at = 0; at < whole; at++)
        // whether it leads depends on the byte; that it lives does not
        for (size_t v = at % 2; v < sizeof values; v += 2) led_by(&f, NULL, whole, whole, at, values[v]);
    fake_close(&f);
}

/* An answer to somebody else's request, however it came on our connection, makes no leader. */
UTEST(hostile, an_answer_that_names_another_is_not_ours) {
    fresh();
    fake f;
    fake_open(&f);
    for (int what = 0; what < 4; what++) {
        candidate *c = join_fake(&f, 15000);
        char yes[1000];
        ASSERT_TRUE(UNTIL((fake_step(&f), f.peer >= 0 && f.got > 0)));
        size_t n = yes_to(c, yes);
        if (what == 1) memcpy(strstr(yes, "leader:job"), "leader:jot", 10);
        if (what == 2) { char *nonce = strstr(yes, "$16\r\n") + 5; nonce[0] = nonce[0] == '0' ? '1' : '0'; }
        if (what == 3) yes[n - 3] = yes[n - 3] == '9' ? '8' : '9';
        fake_send(&f, yes, n);
        ASSERT_TRUE(UNTIL(leads(c) || leader_get_stats(&c->me).failures > 0));
        ASSERT_EQ(what == 0, leads(c));
        leader_close(&c->me, 0);
        c->open = false;
        fake_hang_up(&f);
    }
    fake_close(&f);
}

UTEST(hostile, what_no_script_answers) {
    static const char *const replies[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "$2\r\nOK\r\n",
        "*4\r\n$2\r\nOK\r\n:1\r\n:1500\r\n:1500\r\n",
        "*6\r\n$2\r\nOK\r\n:1\r\n:1500\r\n:1500\r\n$1\r\na\r\n:1\r\n",
        "*5\r\n$2\r\nOK\r\n:-1\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n$2\r\nOK\r\n:9007199254740992\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n$2\r\nOK\r\n:9223372036854775808\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n$2\r\nOK\r\n$1\r\n7\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n+OK\r\n:7\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n$5\r\nMAYBE\r\n:7\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n$4\r\nLOST\r\n:7\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n$2\r\nOK\r\n:0\r\n:1500\r\n:1500\r\n$1\r\na\r\n",
        "*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n*5\r\n",
        "*2147483647\r\n",
        "*-2\r\n",
        "$-2\r\n",
        "$536870912\r\nx",
        "$99999999999999999999\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "-\r\n",
        "-ERR\r\n",
        "- \r\n",
        "-MOVED\r\n",
        "-MOVED 1\r\n",
        "-MOVED 1 :\r\n",
        "-MOVED 1 nowhere\r\n",
        "-MOVED 1 127.0.0.1:99999\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-NOSCRIPT\r\n-NOSCRIPT\r\n",
        "\r\n\r\n\r\n",
        "+OK\r\n+OK\r\n+OK\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n",
        "%1\r\n+a\r\n+b\r\n",
        ",1.5\r\n",
        "#t\r\n",
        "_\r\n",
        "(12345\r\n"};
    fresh();
    fake f;
    fake_open(&f);
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        ASSERT_FALSE(led_by(&f, replies[i], strlen(replies[i]), 999, 999, 0));
    }
    fake_close(&f);
}

/* Unasked for, before the first request and after the answer: hiredis alone would end the process. */
UTEST(hostile, replies_that_nobody_asked_for) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *a = join_fake(&f, 15000);
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    char two[1010];
    size_t n = yes_to(a, two);
    memcpy(two + n, "+more\r\n", 7);
    fake_send(&f, two, n + 7);
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_TRUE(UNTIL(a->client.main.stage == LEADER_REDIS_CLOSED_));
    ASSERT_TRUE(strstr(a->client.why, "nobody asked for") != NULL);
    ASSERT_TRUE(leads(a));                              // the term stands, the connection does not
    leader_close(&a->me, 0);
    a->open = false;
    fake_close(&f);
}

UTEST(hostile, a_reply_without_end) {
    fresh();
    fake f;
    fake_open(&f);
    static char junk[300000];
    memset(junk, 'x', sizeof junk);
    junk[0] = '+';
    for (int kind = 0; kind < 2; kind++) {
        candidate *a = join_fake(&f, 15000);
        ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
        fake_send(&f, junk, sizeof junk);               // and the connection stays open
        ASSERT_TRUE(UNTIL(strstr(a->log, "longer than") != NULL));
        ASSERT_EQ(0, a->started);
        leader_close(&a->me, 0);
        a->open = false;
        fake_hang_up(&f);
        memcpy(junk, "$9999999\r\n", 10);
    }
    fake_close(&f);
}

/* Notices of every wrong shape; the main connection is a real server's. */
/* Each piece is small, and nothing stays unread. */
UTEST(hostile, a_list_without_end) {
    fresh();
    fake f;
    fake_open(&f);
    static char text[2009] = "$2000\r\n";
    memset(text + 7, 'x', 2000);
    memcpy(text + 2007, "\r\n", 2);
    candidate *a = join_fake(&f, 15000);
    ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
    fake_send(&f, "*1024\r\n", 7);
    for (int i = 0; i < 100; i++) fake_send(&f, text, sizeof text);
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).failures > 0));
    ASSERT_TRUE(strstr(a->log, "too large") != NULL);
    ASSERT_EQ(0, a->started);
    leader_close(&a->me, 0);
    a->open = false;
    fake_close(&f);
}

UTEST(hostile, notices_of_the_wrong_shape) {
    static const char *const notices[] = {"+OK\r\n",
                                          ":1\r\n",
                                          "*0\r\n",
                                          "*1\r\n$7\r\nmessage\r\n",
                                          "*3\r\n:1\r\n:2\r\n:3\r\n",
                                          "*3\r\n$7\r\nmessage\r\n:2\r\n:3\r\n",
                                          "*3\r\n$7\r\nmessage\r\n$12\r\nleader:job@0\r\n:3\r\n",
                                          "*3\r\n$11\r\nunsubscribe\r\n$12\r\nleader:job@0\r\n$1\r\nx\r\n",
                                          "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
                                          "*3\r\n$8\r\npmessage\r\n$1\r\nx\r\n$1\r\ny\r\n",
                                          "*4\r\n$8\r\npmessage\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n",
                                          "*3\r\n*3\r\n:1\r\n:2\r\n:3\r\n:1\r\n:2\r\n",
                                          "*3\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n",
                                          "*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\n9\r\n",
                                          "*3\r\n$-1\r\n$-1\r\n$-1\r\n",
                                          "*3\r\n$7\r\nmessage\r\n$12\r\nleader:job@0\r\n$3\r\nabc\r\n",
                                          ("*3\r\n$11\r\nunsubscribe\r\n$12\r\nleader:job@0\r\n:0\r\n"
                                           "*3\r\n$7\r\nmessage\r\n$12\r\nleader:job@0\r\n$1\r\n9\r\n"),
                                          "-ERR no\r\n",
                                          ">3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
                                          "$-1\r\n"};
    fresh();
    fake f, g;
    fake_open(&f);
    for (size_t i = 0; i < sizeof notices / sizeof notices[0]; i++) {
        candidate *a = join_fake(&f, 15000);
        memset(&g, 0, sizeof g);
        g.listener = f.listener;                        // the second connection comes to the same port
        g.peer = -1;
        ASSERT_TRUE(UNTIL((fake_step(&f), f.got > 0)));
        char held[1000];
        fake_send(&f, held, held_to(a, held));
        ASSERT_TRUE(UNTIL((fake_step(&g), g.got > 0)));
        ASSERT_TRUE(strstr(g.heard, "SUBSCRIBE") != NULL);
        if (i % 2) fake_send(&g, "*3\r\n$9\r\nsubscribe\r\n$12\r\nleader:job@0\r\n:1\r\n", 43);
        fake_send(&g, notices[i], strlen(notices[i]));
        pass_ms(20);
        ASSERT_FALSE(leads(a));
        // whatever happens there, requests go on
        ASSERT_TRUE(a->client.stage == LEADER_REDIS_ON_);
        leader_close(&a->me, 0);
        a->open = false;
        fake_hang_up(&g);
        fake_hang_up(&f);
    }
    fake_close(&f);
}

UTEST(hostile, accepts_and_says_nothing) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *a = join_fake(&f, 1500);
    ASSERT_TRUE(UNTIL((fake_step(&f), leader_get_stats(&a->me).failures_timeout > 0)));
    // the dead connection is not kept
    ASSERT_TRUE(UNTIL((fake_step(&f), a->client.main.stage == LEADER_REDIS_CLOSED_ || f.accepted > 1)));
    leader_close(&a->me, 0);
    a->open = false;
    fake_close(&f);
}

/* The answer to a request that was given up comes late, on the same connection, just when the next one
   waits for its own: it must be dropped. */
UTEST(hostile, a_late_answer_is_not_the_next_ones) {
    fresh();
    fake f;
    fake_open(&f);
    candidate *c = &candidates[0];
    leader_config cfg = settings(c, "a", 1500);
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = f.port;
    leader_redis_client_init(&c->client, &how);
    leader_backend b = leader_redis_shared_backend(&c->election, &c->client, "job");
    cfg.backend = b;
    ASSERT_EQ(LEADER_OK, leader_init(&c->me, &cfg));    // for its host; the backend is driven by hand here
    leader_request q;
    leader_record seen;
    memset(&q, 0, sizeof q);
    q.identity = "a"; q.nonce = 5; q.min_token = 1; q.lease_ms = 1500; q.timeout_ms = 100000; q.seq = 1;
    while (b.acquire(b.self, &q, &seen) == LEADER_PENDING && f.got == 0) { b.poll(b.self); fake_step(&f); }
    char yes[1000], text[1000];
    size_t yes_len = yes_to(c, yes);
    b.cancel(b.self);
    q.seq = 2;
    ASSERT_EQ(LEADER_PENDING, b.acquire(b.self, &q, &seen));
    fake_send(&f, yes, yes_len);                        // of request 1
    for (int i = 0; i < 50; i++) {
        b.poll(b.self);
        ASSERT_EQ(LEADER_PENDING, b.acquire(b.self, &q, &seen));
        usleep(200);
    }
    static const char time_is[] = "*2\r\n$1\r\n1\r\n$1\r\n1\r\n";
    fake_send(&f, time_is, sizeof time_is - 1);         // asked before request 2, as request 1 was given up
    fake_send(&f, text, held_to(c, text));              // of request 2
    leader_result result = LEADER_PENDING;
    for (int64_t end = clock_ms() + LIMIT_MS; result == LEADER_PENDING && clock_ms() < end; usleep(200)) {
        b.poll(b.self);
        result = b.acquire(b.self, &q, &seen);
    }
    ASSERT_EQ(LEADER_HELD, result);
    q.seq = 3;                                          // a new number alone gives the old request up as well
    ASSERT_EQ(LEADER_PENDING, b.acquire(b.self, &q, &seen));
    yes_len = yes_to(c, yes);
    q.seq = 4;
    ASSERT_EQ(LEADER_PENDING, b.acquire(b.self, &q, &seen));
    fake_send(&f, yes, yes_len);
    for (int i = 0; i < 50; i++) {
        b.poll(b.self);
        ASSERT_EQ(LEADER_PENDING, b.acquire(b.self, &q, &seen));
        usleep(200);
    }
    leader_close(&c->me, 0);                            // with an answer on its way
    fake_close(&f);
}

/* The process must not die of SIGPIPE when the server has gone. */
UTEST(hostile, broken_pipe) {
    fresh();
    signal(SIGPIPE, SIG_DFL);
    server *s = server_start("");
    candidate *a = join(s, "a", 1500);
    ASSERT_TRUE(UNTIL(leads(a)));
    for (int i = 0; i < 3; i++) {
        kill(s->pid, SIGSTOP);                          // so that no end of file comes first
        shutdown(a->client.main.fd, SHUT_WR);     // the next write is EPIPE for certain
        uint64_t renewals = leader_get_stats(&a->me).renewals;
        ASSERT_TRUE(UNTIL(strstr(a->log, "ipe") != NULL));
        a->log[0] = 0;
        kill(s->pid, SIGCONT);
        ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals > renewals));
    }
    NEVER_TWO();
}

/* ---- settings -------------------------------------------------------------------------------------- */

/* What leader_init says of these settings; "" if it likes them. */
static const char *verdict(const leader_redis_config *how, const char *name) {
    static char text[200];
    candidate *c = &candidates[CANDIDATES_MAX - 1];
    leader_config cfg = settings(c, "a", 1500);
    leader_redis_client_init(&c->client, how);
    cfg.backend = leader_redis_shared_backend(&c->election, &c->client, name);
    leader_result result = leader_init(&c->me, &cfg);
    snprintf(text, sizeof text, "%s", result == LEADER_OK ? "" : leader_error(&c->me));
    if (result != LEADER_OK && result != LEADER_E_CONFIG)
        snprintf(text, sizeof text, "result %d", (int)result);
    leader_close(&c->me, 0);
    return text;
}
static const leader_redis_client *verdict_client(void) { return &candidates[CANDIDATES_MAX - 1].client; }

static leader_redis_config with_url(const char *url) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.url = url;
    return how;
}

UTEST(settings, urls_taken) {
    static const struct {
        const char *url, *host;
        int port;
        const char *user, *password;
        int db;
        const char *path;
    } good[] = {{"redis://10.0.0.7", "10.0.0.7", 6379, "", "", 0, ""},
                {"redis://10.0.0.7:7000/3", "10.0.0.7", 7000, "", "", 3, ""},
                {"redis://", "127.0.0.1", 6379, "", "", 0, ""},
                {"redis://:secret@h/", "h", 6379, "", "secret", 0, ""},
                {"redis://u:p%40%3a%2F@h:1?db=9", "h", 1, "u", "p@:/", 9, ""},
                {"redis://u:p@q@h", "h", 6379, "u", "p@q", 0, ""},
                {"redis://[::1]:7000/1", "::1", 7000, "", "", 1, ""},
                {"unix:///run/redis.sock?db=1", "127.0.0.1", 6379, "", "", 1, "/run/redis.sock"},
                {"unix://u:p@/a%20b", "127.0.0.1", 6379, "u", "p", 0, "/a b"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        leader_redis_config how = with_url(good[i].url);
        ASSERT_STREQ("", verdict(&how, "job"));
        const leader_redis_client *r = verdict_client();
        ASSERT_STREQ(good[i].host, r->server.host);
        ASSERT_EQ(good[i].port, r->server.port);
        ASSERT_STREQ(good[i].user, r->username);
        ASSERT_STREQ(good[i].password, r->password);
        ASSERT_EQ(good[i].db, r->db);
        ASSERT_STREQ(good[i].path, r->path);
    }
}

UTEST(settings, urls_refused) {
    static const struct { const char *url, *says; } bad[] = {
        {"", "url: byte 0"},
        {"http://h", "url: byte 0"},
        {"redis:/h", "url: byte 0"},
        {"redis://h:0", "url: byte 8"},
        {"redis://h:65536", "url: byte 8"},
        {"redis://h:x", "url: byte 8"},
        {"redis://h:", "url: byte 8"},
        {"redis://h/x", "url: byte 10"},
        {"redis://h/1/2", "url: byte 10"},
        {"redis://h?db=x", "url: byte 13"},
        {"redis://h?timeout=1", "url: byte 9"},
        {"redis://u:se%zzcret@h", "url: byte 12"},
        {"redis://u:p%00@h", "url: byte 11"},
        {"redis://u:p%4@h", "url: byte 11"},
        {"redis://[::1", "url: byte 8"},
        {"redis://user@h", "username is set without password"},
        {"unix://", "url: byte 7"},
        {"unix://host/path", "url: byte 7"},
        {"unix://u:p@#run", "url: byte 11"},
        {"redis://h#5", "url: byte 9"},
        {"redis://u:p#q@h", "url: byte 11"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        leader_redis_config how = with_url(bad[i].url);
        const char *text = verdict(&how, "job");
        ASSERT_TRUE(!strncmp(text, bad[i].says, strlen(bad[i].says)));
        ASSERT_FALSE(strstr(text, "cret"));             // no part of a password
    }
    char longest[700];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "redis://:", 9);
    memcpy(longest + 600, "@h", 3);
    leader_redis_config how = with_url(longest);
    ASSERT_TRUE(strstr(verdict(&how, "job"), "longer than"));
}

UTEST(settings, fields_refused_by_name) {
    leader_redis_config how, none;
    memset(&none, 0, sizeof none);
#define REFUSED(says, name, ...) do { \
        how = none; \
        __VA_ARGS__; \
        const char *text_ = verdict(&how, name); \
        ASSERT_TRUE(!strncmp(text_, says, strlen(says))); \
    } while (0)
    REFUSED("port (-1)", "job", how.port = -1);
    REFUSED("port (70000)", "job", how.port = 70000);
    REFUSED("db (-2)", "job", how.db = -2);
    REFUSED("path and port", "job", how.url = "unix:///p"; how.port = 7);
    REFUSED("sentinels and url", "job", how.sentinels = "s"; how.sentinel_name = "m"; how.url = "redis://h");
    REFUSED("password and password_file", "job", how.password = "x"; how.password_file = "y");
    REFUSED("path and host", "job", how.path = "/p"; how.host = "h");
    REFUSED("sentinels and host", "job", how.sentinels = "s"; how.sentinel_name = "m"; how.host = "h");
    REFUSED("sentinel_name is missing", "job", how.sentinels = "s");
    REFUSED("sentinel_name is set without sentinels", "job", how.sentinel_name = "m");
    REFUSED("sentinel_port (70000)", "job", how.sentinel_port = 70000);
    REFUSED("sentinels: entry 2", "job", how.sentinels = "a:1,,b:2"; how.sentinel_name = "m");
    REFUSED("sentinels: entry 1", "job", how.sentinels = "a:x"; how.sentinel_name = "m");
    REFUSED("sentinels: entry 1", "job", how.sentinels = " "; how.sentinel_name = "m");
    REFUSED("username is set without password", "job", how.username = "u");
    REFUSED("sentinel_username is set without", "job", how.sentinels = "s"; how.sentinel_name = "m";
            how.sentinel_username = "u");
    REFUSED("connect_timeout_ms (-1)", "job", how.connect_timeout_ms = -1);
    REFUSED("sentinel_timeout_ms (-1)", "job", how.sentinel_timeout_ms = -1);
    REFUSED("wait_replicas (-1)", "job", how.wait_replicas = -1);
    REFUSED("cert_file is set without key_file", "job", how.cert_file = "c");
    REFUSED("key_file is set without cert_file", "job", how.key_file = "k");
    REFUSED("ca_file is set without tls", "job", how.ca_file = "c");
    REFUSED("tls and path", "job", how.tls = true; how.path = "/p");
    REFUSED("name of the election is missing", NULL, (void)how);
    REFUSED("name of the election is missing", "", (void)how);
    REFUSED("name: braces", "a}b", (void)how);
    REFUSED("name: braces", "job", how.prefix = "{}");
    REFUSED("ca_file cannot be read", "job", how.tls = true; how.ca_file = "/nonexistent");
    char text[400];
    memset(text, 'x', sizeof text);
    text[399] = 0;
    REFUSED("host is longer than 255 bytes", "job", how.host = text);
    REFUSED("password is longer than 255 bytes", "job", how.password = text);
    REFUSED("prefix is longer than 127 bytes", "job", how.prefix = text);
    REFUSED("name: the whole key is longer", text, (void)how);
#undef REFUSED
    how = none;
    how.sentinels = "a, b:7 ,[::1]:9,::2";
    how.sentinel_name = "m";
    ASSERT_STREQ("", verdict(&how, "job"));
    leader_redis_place_ w;
    leader_redis_client *r = &candidates[CANDIDATES_MAX - 1].client;
    ASSERT_EQ(4, r->sentinel_count);
    leader_redis_sentinel_at_(r, 1, &w);
    ASSERT_STREQ("b", w.host);
    ASSERT_EQ(7, w.port);
    leader_redis_sentinel_at_(r, 3, &w);
    ASSERT_STREQ("::2", w.host);
    ASSERT_EQ(26379, w.port);
}

UTEST(settings, keys_share_a_slot) {
    fresh();
    server *s = server_start("");
    static const char *const prefixes[] = { NULL, "app", "{app}" };
    static const char *const keys[] = {"leader:job", "app:leader:job", "{app}:leader:job"},
                             *const witnesses[] = {"leader:job:witness:{leader:job}",
                                                   "app:leader:job:witness:{app:leader:job}",
                                                   "{app}:leader:job:witness"};
    for (int i = 0; i < 3; i++) {
        leader_redis_config how;
        memset(&how, 0, sizeof how);
        how.port = s->port;
        how.prefix = prefixes[i];
        candidate *a = join_with(&how, "a", 3000, "job");
        ASSERT_TRUE(UNTIL(leads(a)));
        char line[100], slot[20];
        snprintf(line, sizeof line, "EXISTS %s %s", keys[i], witnesses[i]);
        ASSERT_STREQ("2", say(s, line));
        snprintf(line, sizeof line, "CLUSTER KEYSLOT %s", keys[i]);
        snprintf(slot, sizeof slot, "%.19s", say(s, line));
        snprintf(line, sizeof line, "CLUSTER KEYSLOT %s", witnesses[i]);
        if (!strstr(said, "cluster support disabled")) { ASSERT_STREQ(slot, say(s, line)); }
        leave(a);
    }
}

static void env(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static const char *env_verdict(void) {
    static char text[200];
    candidate *c = &candidates[CANDIDATES_MAX - 1];
    leader_config cfg = settings(c, "a", 1500);
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    leader_result result = leader_redis_config_from_env(&how);
    leader_redis_client_init(&c->client, &how);
    cfg.backend = leader_redis_shared_backend(&c->election, &c->client, "job");
    snprintf(text, sizeof text, "%s", leader_init(&c->me, &cfg) == LEADER_OK ? "" : leader_error(&c->me));
    leader_close(&c->me, 0);
    if (result != LEADER_OK && strcmp(text, how.mistake)) return "the two disagree";
    return text;
}

UTEST(settings, environment) {
    static const char *const names[] = {
        "HOST",     "PORT", "PREFIX", "SENTINEL_HOST", "SENTINEL_PORT", "SENTINEL_NAME", "USERNAME",
        "PASSWORD", "DB",   "URL"};
    const leader_redis_client *r = verdict_client();
    for (int i = 0; i < 10; i++) {
        char full[64];
        snprintf(full, sizeof full, "REDIS_%s", names[i]);
        env(full, NULL);
        snprintf(full, sizeof full, "MUTEX_REDIS_%s", names[i]);
        env(full, NULL);
    }
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("127.0.0.1", r->server.host);
    ASSERT_EQ(6379, r->server.port);
    env("REDIS_HOST", "cache");
    env("REDIS_PORT", "7001");
    env("REDIS_PASSWORD", "pw");
    env("REDIS_DB", "4");
    env("REDIS_PREFIX", "app");
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("cache", r->server.host);
    ASSERT_EQ(7001, r->server.port);
    ASSERT_STREQ("pw", r->password);
    ASSERT_EQ(4, r->db);
    ASSERT_STREQ("app:leader:job", candidates[CANDIDATES_MAX - 1].election.key);
    env("MUTEX_REDIS_HOST", "locks"); env("MUTEX_REDIS_PREFIX", ""); env("REDIS_URL", "redis://elsewhere");
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("locks", r->server.host);               // the nearer family wins as a whole; empty is unset
    ASSERT_EQ(7001, r->server.port);
    ASSERT_STREQ("app", r->prefix);
    env("MUTEX_REDIS_HOST", NULL);
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("elsewhere", r->server.host);
    ASSERT_EQ(6379, r->server.port);
    ASSERT_STREQ("", r->password);                      // a URL wins over what its own family says beside it
    env("MUTEX_REDIS_PORT", "7002"); env("MUTEX_REDIS_DB", "5");
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("elsewhere", r->server.host);
    ASSERT_EQ(7002, r->server.port);                    // and what the nearer family says wins over the URL
    ASSERT_EQ(5, r->db);
    env("MUTEX_REDIS_URL", "redis://own/3");
    ASSERT_STREQ("", env_verdict());
    ASSERT_EQ(6379, r->server.port);
    ASSERT_EQ(3, r->db);
    env("MUTEX_REDIS_URL", NULL); env("MUTEX_REDIS_PORT", NULL); env("MUTEX_REDIS_DB", NULL);
    // a Kubernetes Service
    env("REDIS_URL", NULL); env("REDIS_HOST", NULL); env("REDIS_PORT", "tcp://10.96.4.2:6380");
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("10.96.4.2", r->server.host);
    ASSERT_EQ(6380, r->server.port);
    env("REDIS_HOST", "redis.default.svc");
    ASSERT_STREQ("", env_verdict());
    ASSERT_STREQ("redis.default.svc", r->server.host);
    ASSERT_EQ(6380, r->server.port);
    env("REDIS_SENTINEL_HOST", "s1,s2:7");
    env("REDIS_SENTINEL_PORT", "26000");
    env("REDIS_SENTINEL_NAME", "main");
    ASSERT_STREQ("", env_verdict());
    ASSERT_EQ(2, r->sentinel_count);
    ASSERT_STREQ("main", r->sentinel_name);
    ASSERT_EQ(26000, r->sentinel_port);
    env("REDIS_SENTINEL_NAME", NULL);
    ASSERT_TRUE(strstr(env_verdict(), "sentinel_name is missing"));
    env("REDIS_SENTINEL_HOST", NULL);
    env("MUTEX_REDIS_PORT", "70000");
    ASSERT_STREQ("MUTEX_REDIS_PORT is not a port", env_verdict());
    env("MUTEX_REDIS_PORT", NULL); env("REDIS_PORT", "tcp://");
    ASSERT_STREQ("REDIS_PORT is not a port", env_verdict());
    env("REDIS_PORT", NULL); env("REDIS_DB", "one");
    ASSERT_STREQ("REDIS_DB is not a database number", env_verdict());
    env("REDIS_DB", NULL); env("MUTEX_REDIS_URL", "redis://h:1:2:x");
    ASSERT_TRUE(strstr(env_verdict(), "url: byte"));
    env("MUTEX_REDIS_URL", NULL);
    env("REDIS_PASSWORD", NULL);
    env("REDIS_PREFIX", NULL);
    env("REDIS_HOST", NULL);
    env("REDIS_SENTINEL_PORT", NULL);
}

UTEST(settings, timing_preset) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    leader_redis_timing(&cfg);
    ASSERT_EQ(30000, (int)cfg.lease_ms);
    ASSERT_EQ(10000, (int)cfg.renew_ms);
    ASSERT_EQ(5000, (int)cfg.retry_ms);
    cfg.identity = "a";
    cfg.backend = leader_single_backend();
    leader_t me;
    ASSERT_EQ(LEADER_OK, leader_init(&me, &cfg));
    leader_close(&me, 0);
}

/* ---- ways to reach a server ------------------------------------------------------------------------ */

UTEST(reach, unix_socket_database_and_name) {
    fresh();
    char extra[300], url[300];
    snprintf(extra, sizeof extra, "--unixsocket %s/sock", root);
    server *s = server_start(extra);
    leader_redis_config how;
    snprintf(url, sizeof url, "unix://%s/sock?db=3", root);
    how = with_url(url);
    candidate *a = join_with(&how, "a", 3000, "job");
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_STREQ("0", say(s, "EXISTS leader:job"));     // it is in database 3
    snprintf(url, sizeof url, "redis://localhost:%d/3", s->port);
    how = with_url(url);
    candidate *b = join_with(&how, "b", 3000, "job");
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&b->me).leader, "a")));
    ASSERT_STREQ("localhost", b->client.good_host);
    ASSERT_STREQ("127.0.0.1", b->client.good_address);
    say(s, "CLIENT KILL TYPE normal");
    leave(a);
    ASSERT_TRUE(UNTIL(leads(b)));
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/99", s->port);
    how = with_url(url);
    candidate *c = join_with(&how, "c", 3000, "job");
    ASSERT_TRUE(UNTIL(strstr(c->log, "SELECT") != NULL));
    how = with_url("unix:///nonexistent/sock");
    candidate *d = join_with(&how, "d", 3000, "job");
    ASSERT_TRUE(UNTIL(strstr(d->log, "/nonexistent/sock") != NULL));
}

UTEST(reach, three_sentinels_and_a_failover_while_leading) {
    fresh();
    char extra[200], list[200];
    server *master = server_start(""), *guards[3];
    snprintf(extra, sizeof extra, "--replicaof 127.0.0.1 %d", master->port);
    server *replica = server_start(extra);
    for (int64_t end = clock_ms() + LIMIT_MS;
         clock_ms() < end && !strstr(say(replica, "INFO replication"), "master_link_status:up");)
        usleep(20000);
    for (int i = 0; i < 3; i++) guards[i] = sentinel_start(master->port, 2);
    // the first is dead
    snprintf(list, sizeof list, "127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", guards[0]->port,
             guards[1]->port, guards[2]->port);
    for (int64_t end = clock_ms() + LIMIT_MS;
         clock_ms() < end
         && !(strstr(say(guards[0], "SENTINEL MASTER main"), "num-other-sentinels 2")
              && strstr(said, "num-slaves 1"));)
        usleep(50000);
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.sentinels = list;
    how.sentinel_name = "main";
    candidate *a = join_with(&how, "a", 12000, "job");
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_EQ(master->port, a->client.target.port);
    candidate *b = join_with(&how, "b", 12000, "job");
    ASSERT_TRUE(UNTIL(!strcmp(leader_get_view(&b->me).leader, "a")));
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals >= 1));
    uint64_t token = leader_token(&a->me);
    usleep(100000);                                     // the replica has it
    server_stop(master);
    ASSERT_TRUE(UNTIL(strstr(say(replica, "ROLE"), "master") == said));
    ASSERT_TRUE(UNTIL(a->client.target.port == replica->port && b->client.target.port == replica->port
                      && a->client.stage == LEADER_REDIS_ON_ && b->client.stage == LEADER_REDIS_ON_));
    ASSERT_TRUE(UNTIL(leaders() == 1));
    ASSERT_TRUE(the_leader() != a || leader_token(&a->me) >= token);
    // the old one comes back as a replica, and nobody follows it
    server_run(master);
    pass_ms(1000);
    ASSERT_EQ(replica->port, a->client.target.port);
    leave(a);
    ASSERT_TRUE(UNTIL(leads(b)));
    NEVER_TWO();
}

UTEST(reach, a_sentinel_that_does_not_know_or_names_no_master) {
    fresh();
    char extra[200], list[100];
    server *master = server_start("");
    snprintf(extra, sizeof extra, "--replicaof 127.0.0.1 %d", master->port);
    server *replica = server_start(extra);
    server *lying = sentinel_start(replica->port, 1);   // it was told that the replica is the master
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    snprintf(list, sizeof list, "127.0.0.1:%d", lying->port);
    how.sentinels = list;
    how.sentinel_name = "unknown";
    candidate *a = join_with(&how, "a", 1500, "job");
    ASSERT_TRUE(UNTIL(strstr(a->log, "does not know sentinel_name (unknown)") != NULL));
    how.sentinel_name = "main";
    candidate *b = join_with(&how, "b", 1500, "job");
    // a sentinel may find out by itself
    ASSERT_TRUE(UNTIL(strstr(b->log, "is not a master") || leads(b)));
    NEVER_TWO();
}

UTEST(reach, moved_in_a_cluster) {
    fresh();
    server *one = server_start("--cluster-enabled yes"), *two = server_start("--cluster-enabled yes");
    char line[100];
    say(one, "CLUSTER ADDSLOTSRANGE 0 8191");
    say(two, "CLUSTER ADDSLOTSRANGE 8192 16383");
    snprintf(line, sizeof line, "CLUSTER MEET 127.0.0.1 %d", two->port);
    say(one, line);
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end
                                              && !(strstr(say(one, "CLUSTER INFO"), "cluster_state:ok")
                                                   && strstr(say(two, "CLUSTER INFO"), "cluster_state:ok"));)
        usleep(50000);
    candidate *all[8];
    for (int i = 0; i < 8; i++) {                       // each finds its node, wherever it starts
        char name[16], identity[16];
        leader_redis_config how;
        memset(&how, 0, sizeof how);
        how.port = i % 2 ? one->port : two->port;
        snprintf(name, sizeof name, "job%d", i / 2);
        snprintf(identity, sizeof identity, "c%d", i);
        all[i] = join_with(&how, identity, 3000, name);
    }
    int moved = 0;
    ASSERT_TRUE(UNTIL(leaders() == 4));
    for (int i = 0; i < 8; i += 2)
        ASSERT_TRUE(UNTIL(leads(all[i]) != leads(all[i + 1])
                          && all[i]->client.target.port == all[i + 1]->client.target.port));
    for (int i = 0; i < 8; i++) moved += all[i]->client.moved.host[0] != 0;
    ASSERT_EQ(4, moved);
    pass_ms(500);
    ASSERT_TRUE(UNTIL(leaders() == 4));
}

UTEST(reach, wait_replicas) {
    fresh();
    char extra[200];
    server *master = server_start("");
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = master->port;
    how.wait_replicas = 1;
    candidate *a = join_with(&how, "a", 3000, "job");
    ASSERT_TRUE(UNTIL(strstr(a->log, "0 of wait_replicas (1)") != NULL));
    ASSERT_EQ(0, a->started);                           // the record is there, but not where it was to be
    snprintf(extra, sizeof extra, "--replicaof 127.0.0.1 %d --repl-diskless-load on-empty-db", master->port);
    server *replica = server_start(extra);
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_TRUE(UNTIL(leader_get_stats(&a->me).renewals >= 2));
    server_stop(replica);
    ASSERT_TRUE(UNTIL(a->stopped == 1));
    NEVER_TWO();
}

/* ---- names ----------------------------------------------------------------------------------------- */

static candidate *join_named(const server *s, const char *host) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.host = host;
    how.port = s->port;
    return join_with(&how, "a", 3000, "job");
}

UTEST(names, by_file_and_by_server) {
    fresh();
    server *s = server_start("");
    nameserver d;
    nameserver_open(&d, "# none\nnameserver bogus\nnameserver 127.0.0.1\nsearch ns.svc.cluster.local "
                        "svc.cluster.local\noptions edns0 ndots:5\n");
    candidate *a = join_named(s, "FILE-name");
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_EQ(0, d.asked);
    leave(a);
    d.answers_to = "redis.svc.cluster.local";
    d.address = "127.0.0.1";
    a = join_named(s, "redis");
    ASSERT_TRUE(UNTIL((nameserver_step(&d), leads(a))));
    ASSERT_STREQ("redis.ns.svc.cluster.local", d.names[0]);       // in the order of the search list
    ASSERT_STREQ("redis.svc.cluster.local", d.names[d.asked - 1]);
    int asked = d.asked;
    for (int i = 0; i < 3; i++) {                       // reconnects do not ask
        say(s, "CLIENT KILL TYPE normal");
        uint64_t renewals = leader_get_stats(&a->me).renewals;
        ASSERT_TRUE(UNTIL((nameserver_step(&d), leader_get_stats(&a->me).renewals > renewals)));
    }
    ASSERT_EQ(asked, d.asked);
    // no names, no server; then the server comes back, and names do not
    d.silent = true;
    server_stop(s);
    ASSERT_TRUE(UNTIL((nameserver_step(&d), d.asked > asked && a->stopped > 0)));
    server_run(s);
    ASSERT_TRUE(UNTIL((nameserver_step(&d), leads(a))));          // the last good address still serves
    leave(a);
    nameserver_close(&d);
}

UTEST(names, unknown_silent_and_refusing_servers_never_block) {
    fresh();
    server *s = server_start("");
    nameserver d;
    nameserver_open(&d, "nameserver 127.0.0.2\nnameserver 127.0.0.1\n");   // nobody is at the first
    candidate *a = join_named(s, "no.such.name");
    ASSERT_TRUE(UNTIL((nameserver_step(&d), strstr(a->log, "no address is known") != NULL)));
    d.silent = true;
    candidate *b = join_named(s, "silent.name"), *c = join_named(s, "a..b");
    int64_t longest = 0;
    for (int64_t end = clock_ms() + LIMIT_MS;
         clock_ms() < end && !(strstr(b->log, "silent.name") && strstr(c->log, "a..b")); usleep(1000)) {
        int64_t begin = clock_ms();
        tick_all();
        if (clock_ms() - begin > longest) longest = clock_ms() - begin;
        nameserver_step(&d);
    }
    ASSERT_TRUE(strstr(b->log, "silent.name") && strstr(c->log, "a..b"));
    // a name server that does not answer would hold getaddrinfo for 5000
    ASSERT_TRUE(longest < 1000);
    d.silent = false;
    d.answers_to = "silent.name";
    d.address = "127.0.0.1";
    ASSERT_TRUE(UNTIL((nameserver_step(&d), leads(b))));
    nameserver_close(&d);
}

/* SERVFAIL and REFUSED for one form of the name: the next form is asked for. */
UTEST(names, a_server_that_fails_for_one_form_is_asked_for_the_next) {
    for (int code = 2; code <= 5; code += 3) {
        fresh();
        server *s = server_start("");
        nameserver d;
        nameserver_open(&d, "nameserver 127.0.0.1\nsearch broken.example good.example\noptions ndots:5\n");
        d.fails_for = "broken.example";
        d.code = code;
        d.answers_to = "redis.good.example";
        d.address = "127.0.0.1";
        candidate *a = join_named(s, "redis");
        ASSERT_TRUE(UNTIL((nameserver_step(&d), leads(a))));
        leave(a);
        nameserver_close(&d);
    }
}

/* A name server that is down costs 400 ms; they are not taken from the time to connect. */
UTEST(names, time_to_resolve_is_not_time_to_connect) {
    fresh();
    server *s = server_start("");
    nameserver down, good;
    nameserver_open(&down, "nameserver 127.0.0.1\nnameserver 127.0.0.2\n");
    nameserver_listen(&good, "127.0.0.2");
    good.answers_to = "redis";
    good.address = "127.0.0.1";
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.host = "redis";
    how.port = s->port;
    how.connect_timeout_ms = 300;
    candidate *a = join_with(&how, "a", 15000, "job");
    ASSERT_TRUE(UNTIL((nameserver_step(&good), leads(a))));
    leave(a);
    close(good.fd);
    nameserver_close(&down);
}

/* localhost is ::1 first on many machines, and nobody listens there. */
UTEST(names, all_addresses_are_tried_in_turn) {
    fresh();
    server *s = server_start("");
    nameserver d;
    nameserver_open(&d, "nameserver 127.0.0.1\n");
    FILE *h = fopen(hosts_file, "w");
    fputs("::1 localhost twofold\n127.0.0.1 localhost twofold\n", h);
    fclose(h);
    candidate *a = join_named(s, "twofold");
    ASSERT_TRUE(UNTIL(leads(a)));
    ASSERT_STREQ("127.0.0.1", a->client.good_address);
    ASSERT_EQ(0, (int)leader_get_stats(&a->me).failures);
    leave(a);
    nameserver_close(&d);
}

/* ---- threads --------------------------------------------------------------------------------------- */

UTEST(threads, ask_while_others_tick_resign_and_stop) {
    static leader_t me[2];
    static leader_redis_client client[2];
    static leader_redis_election election[2];
    fresh();
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = server_start("")->port;
    for (int i = 0; i < 2; i++) {
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        cfg.identity = i ? "b" : "a";
        cfg.retry_ms = 50;
        leader_redis_client_init(&client[i], &how);
        cfg.backend = leader_redis_shared_backend(&election[i], &client[i], "job");
        ASSERT_EQ(LEADER_OK, leader_init(&me[i], &cfg));
    }
    asked_from_threads(utest_result, me);
}

/* ---- many elections, one connection ---------------------------------------------------------------- */

enum { MANY = 1000 };
static struct { leader_t me; leader_redis_election election; bool due; } many[MANY];
static leader_redis_client shared;
static struct pollfd watched[4];
static int watching;

static void loop_fd(void *user, intptr_t fd, int events) {
    int i = 0;
    (void)user;
    while (i < watching && watched[i].fd != (int)fd) i++;
    if (i == watching) watching++;
    watched[i].fd = (int)fd;
    watched[i].events = leader_poll_events(events);
    if (!events) watched[i] = watched[--watching];
}
static void loop_due(void *user) { many[(size_t)(uintptr_t)user].due = true; }

static int many_open(const server *s, size_t from, size_t to, int64_t lease_ms) {
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    if (from == 0) leader_redis_client_init(&shared, &how);
    for (size_t i = from; i < to; i++) {
        char name[32], identity[32];
        leader_config cfg;
        memset(&cfg, 0, sizeof cfg);
        snprintf(name, sizeof name, "job-%d", (int)i);
        snprintf(identity, sizeof identity, "node");
        cfg.identity = identity;
        cfg.lease_ms = lease_ms;
        cfg.backend = leader_redis_shared_backend(&many[i].election, &shared, name);
        cfg.on_fd = loop_fd;
        cfg.on_due = loop_due;
        cfg.loop_user = (void *)(uintptr_t)i;
        many[i].due = true;
        if (leader_init(&many[i].me, &cfg) != LEADER_OK) return 0;
    }
    return 1;
}

/* A loop as an event library would run it: ticks only who is due, and the carrier when a socket is ready. */
static int many_loop(size_t n, size_t carrier, bool (*done)(size_t)) {
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end; ) {
        int wait = 100;
        for (size_t i = 0; i < n; i++) {
            if (many[i].due || leader_due_ms(&many[i].me) == 0) {
                many[i].due = false;
                leader_tick(&many[i].me);
            }
            int ms = many[i].due ? 0 : leader_due_ms(&many[i].me);
            if (ms < wait) wait = ms;
        }
        if (done(n)) return 1;
        if (poll(watched, (nfds_t)watching, wait) > 0) many[carrier].due = true;
    }
    return 0;
}
static bool all_lead(size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!leader_is_leader(&many[i].me))
            return false;
    return true;
}
static bool all_but_first(size_t n) {
    for (size_t i = 1; i < n; i++)
        if (!leader_is_leader(&many[i].me))
            return false;
    return true;
}
static bool all_renewed(size_t n) {
    for (size_t i = 1; i < n; i++)
        if (leader_get_stats(&many[i].me).renewals < 2)
            return false;
    return true;
}
static bool all_stopped(size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!leader_is_stopped(&many[i].me))
            return false;
    return true;
}

UTEST(many, a_thousand_elections_on_one_connection) {
    fresh();
    server *s = server_start("");
    ASSERT_TRUE(sizeof(leader_redis_election) <= 900);
    ASSERT_TRUE(many_open(s, 0, MANY, 6000));
    ASSERT_TRUE(many_loop(MANY, 0, all_lead));
    ASSERT_EQ(1, watching);                             // nobody stands by: no second connection
    ASSERT_TRUE(strstr(say(s, "INFO clients"), "connected_clients:2"));   // theirs and this one
    leader_close(&many[0].me, 2000);                    // the carrier goes; the next one carries
    many[0].due = false;
    ASSERT_EQ(1, watching);
    size_t carrier = (size_t)(uintptr_t)shared.first->host.config->loop_user;
    ASSERT_TRUE(carrier != 0);
    ASSERT_TRUE(many_loop(MANY, carrier, all_renewed));
    ASSERT_TRUE(all_but_first(MANY));
    say(s, "CLIENT KILL TYPE normal");
    ASSERT_TRUE(many_loop(MANY, carrier, all_but_first));
    for (size_t i = 1; i < MANY; i++) leader_stop(&many[i].me), many[i].due = true;
    ASSERT_TRUE(many_loop(MANY, carrier, all_stopped));
    for (size_t i = 1; i < MANY; i++) leader_close(&many[i].me, 0);
    ASSERT_EQ(0, watching);
    ASSERT_STREQ("0", say(s, "EXISTS leader:job-1 leader:job-999"));
}

/* The carrier is not ticked any more: its loop watches sockets that nobody reads, so another one takes
   them over. */
UTEST(many, a_stopped_carrier_is_relieved) {
    fresh();
    server *s = server_start("");
    ASSERT_TRUE(many_open(s, 0, 3, 3000));
    ASSERT_TRUE(many_loop(3, 0, all_lead));
    ASSERT_TRUE(shared.first == &many[0].election);
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && !all_renewed(3); usleep(2000))
        for (int i = 1; i < 3; i++) leader_tick(&many[i].me);
    ASSERT_TRUE(all_renewed(3));
    ASSERT_TRUE(shared.first != &many[0].election);
    for (int i = 0; i < 3; i++) leader_close(&many[i].me, 2000);
}

/* One that has stopped, but is not closed, goes on reading for the others. */
UTEST(many, a_stopped_carrier_goes_on_carrying) {
    fresh();
    server *s = server_start("");
    ASSERT_TRUE(many_open(s, 0, 3, 3000));
    ASSERT_TRUE(many_loop(3, 0, all_lead));
    leader_stop(&many[0].me);
    many[0].due = true;
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && !leader_is_stopped(&many[0].me);
         usleep(1000))
        leader_tick(&many[0].me);
    ASSERT_TRUE(leader_is_stopped(&many[0].me));
    size_t carrier = (size_t)(uintptr_t)shared.first->host.config->loop_user;
    ASSERT_TRUE(many_loop(3, carrier, all_renewed));
    for (int i = 0; i < 3; i++) leader_close(&many[i].me, 2000);
}

/* Both candidates for one name on one client, and an election that is closed while its answers are on
   their way. */
UTEST(many, one_name_twice_and_closing_early) {
    fresh();
    server *s = server_start("");
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    leader_redis_client_init(&shared, &how);
    candidate *c[3];
    for (int i = 0; i < 3; i++) {
        char identity[16];
        c[i] = &candidates[i];
        snprintf(identity, sizeof identity, "c%d", i);
        leader_config cfg = settings(c[i], identity, 60000);
        cfg.backend = leader_redis_shared_backend(&c[i]->election, &shared, "job");
        ASSERT_EQ(LEADER_OK, leader_init(&c[i]->me, &cfg));
        c[i]->open = true;
    }
    ASSERT_TRUE(UNTIL(leaders() == 1));
    ASSERT_TRUE(UNTIL(shared.watch.stage == LEADER_REDIS_READY_));
    pass_ms(100);
    candidate *winner = the_leader();
    leader_stop(&winner->me);
    ASSERT_TRUE(UNTIL(leaders() == 1));                 // both of the others heard of it
    for (int round = 0; round < 20; round++) {
        // freed below: an answer that still came there would be noticed
        candidate *d = (candidate *)malloc(sizeof *d);
        leader_config cfg = settings(d, "passer-by", 60000);
        cfg.backend = leader_redis_shared_backend(&d->election, &shared, "job");
        ASSERT_EQ(LEADER_OK, leader_init(&d->me, &cfg));
        leader_tick(&d->me);
        if (round % 2) pass_ms(1);
        leader_close(&d->me, 0);
        free(d);
        pass_ms(2);
    }
    ASSERT_EQ(1, leaders());
    NEVER_TWO();
}

/* ---- TLS ------------------------------------------------------------------------------------------- */

UTEST(tls, peer_and_name_are_verified) {
    fresh();
    char extra[900], ca[200], other[200], cert[200], key[200];
    ASSERT_EQ(0, shell("cd %s && for ca in ca other; do openssl req -x509 -newkey ec -pkeyopt "
                       "ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=$ca -keyout $ca.key -out "
                       "$ca.pem; done 2>/dev/null"
                       " && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "
                       "/CN=redis.test -keyout s.key -out s.csr 2>/dev/null && printf "
                       "'subjectAltName=DNS:redis.test,IP:127.0.0.1' > s.ext"
                       " && openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
                       "-extfile s.ext -out s.pem 2>/dev/null",
                       root));
    int port = free_port();
    snprintf(ca, sizeof ca, "%s/ca.pem", root);
    snprintf(other, sizeof other, "%s/other.pem", root);
    snprintf(cert, sizeof cert, "%s/s.pem", root);
    snprintf(key, sizeof key, "%s/s.key", root);
    snprintf(
        extra, sizeof extra,
        "--tls-port %d --tls-cert-file %s --tls-key-file %s --tls-ca-cert-file %s --requirepass Sesame77",
        port, cert, key, ca);
    server *s = server_start(extra);
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = port;
    how.tls = true;
    how.password = "Sesame77";
    how.ca_file = ca;
    candidate *without = join_with(&how, "without", 3000, "job");
    // the server wants a client certificate
    ASSERT_TRUE(UNTIL(leader_get_stats(&without->me).failures > 0));
    how.cert_file = cert;
    how.key_file = key;
    candidate *a = join_with(&how, "a", 3000, "job");
    ASSERT_TRUE(UNTIL(leads(a)));
    how.server_name = "redis.test";
    candidate *b = join_with(&how, "b", 3000, "job");
    ASSERT_TRUE(UNTIL(b->client.watch.stage == LEADER_REDIS_READY_));
    how.server_name = "elsewhere.test";
    candidate *name = join_with(&how, "name", 3000, "job");
    how.server_name = NULL;
    how.ca_file = other;
    candidate *issuer = join_with(&how, "issuer", 3000, "job");
    ASSERT_TRUE(
        UNTIL(leader_get_stats(&name->me).failures > 0 && leader_get_stats(&issuer->me).failures > 0));
    ASSERT_EQ(0, without->started + name->started + issuer->started);
    leave(a);
    ASSERT_TRUE(UNTIL(leads(b)));
    ASSERT_TRUE(UNTIL(leader_get_stats(&b->me).renewals > 1));
    say(s, "CLIENT KILL TYPE normal");
    ASSERT_TRUE(UNTIL(leader_get_stats(&b->me).renewals > 3));
    NEVER_TWO();
}

/* ---- processes: a candidate serves /healthz and /readyz and writes down when it led ---------------- */

static void http_step(int listener, const leader_t *me) {
    char request[512], reply[256];
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return;
    ssize_t n = recv(fd, request, sizeof request - 1, 0);
    request[n > 0 ? n : 0] = 0;
    bool leading = leader_is_leader(me), ready = !strncmp(request, "GET /readyz ", 12),
         health = !strncmp(request, "GET /healthz ", 13);
    bool good = ready ? leading : health && leader_is_healthy(me, 5000);
    snprintf(reply, sizeof reply, "HTTP/1.0 %s\r\n\r\n%s\n",
             good              ? "200 OK"
             : ready || health ? "503 Service Unavailable"
                               : "404 Not Found",
             leading ? "leading" : "standing by");
    (void)!write(fd, reply, strlen(reply));
    close(fd);
}

/* Every moment at which leader_is_leader said yes lies between a "lead" line's first and last number:
   read before the first yes, and after the last. */
static int candidate_main(int argc, const char *const argv[]) {
    if (argc != 7) return 2;                            // candidate identity url lease_ms http_port log
    leader_t me;
    leader_redis_client client;
    leader_redis_election election;
    leader_redis_config how = with_url(argv[3]);
    leader_config cfg;
    fake http;                                          // for its listener
    memset(&cfg, 0, sizeof cfg);
    how.connect_timeout_ms = 300;
    leader_redis_client_init(&client, &how);
    cfg.identity = argv[2];
    cfg.lease_ms = atoi(argv[4]);
    cfg.retry_max_ms = cfg.lease_ms;
    cfg.renew_retries = -1;
    cfg.backend = leader_redis_shared_backend(&election, &client, "job");
    fake_open(&http);
    if (leader_init(&me, &cfg) != LEADER_OK) return 2;
    FILE *log = fopen(argv[6], "w"), *port = fopen(argv[5], "w");
    if (!log || !port) return 2;
    fprintf(port, "%d\n", http.port);
    fclose(port);
    int64_t first = 0, noted = 0;
    for (;;) {
        leader_fd fds[LEADER_FDS_MAX];
        struct pollfd set[LEADER_FDS_MAX + 1];
        int wait = leader_tick(&me), n = leader_fds(&me, fds);
        int64_t before = clock_ms();
        bool leading = leader_is_leader(&me);
        int64_t after = clock_ms();
        if (leading && !first) {
            first = before;
            fprintf(log, "start %lld token %llu\n", (long long)before, (unsigned long long)leader_token(&me));
            fflush(log);
        }
        if (leading && after - noted >= 2) {
            noted = after;
            fprintf(log, "lead %lld %lld\n", (long long)first, (long long)after);
            fflush(log);
        }
        if (!leading && first) { fprintf(log, "none %lld\n", (long long)after); fflush(log); first = 0; }
        http_step(http.listener, &me);
        set[0].fd = http.listener;
        set[0].events = POLLIN;
        for (int i = 0; i < n; i++) {
            set[i + 1].fd = (int)fds[i].fd;
            set[i + 1].events = leader_poll_events(fds[i].events);
        }
        poll(set, (nfds_t)n + 1, wait < 2 ? wait : 2);
    }
}

typedef struct process { pid_t pid; char log[200], port_file[200]; int http; } process;
enum { PROCESSES_MAX = 4 };
static process processes[PROCESSES_MAX];

static process *process_start(int index, const char *netns, const char *identity, const char *url,
                              int lease_ms) {
    process *p = &processes[index];
    char self[300], lease[16];
    memset(p, 0, sizeof *p);
    snprintf(p->log, sizeof p->log, "%s/%s.log", root, identity);
    snprintf(p->port_file, sizeof p->port_file, "%s/%s.port", root, identity);
    snprintf(lease, sizeof lease, "%d", lease_ms);
    remove(p->log);
    remove(p->port_file);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    const char *all[] = {"ip",     "netns", "exec", netns,        self,   "candidate",
                         identity, url,     lease,  p->port_file, p->log, NULL};
    char *argv[16];
    int argc = 0;
    for (int i = netns ? 0 : 4; all[i]; i++) argv[argc++] = (char *)(uintptr_t)all[i];
    argv[argc] = NULL;
    p->pid = spawn(NULL, argv);
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end && p->http == 0; usleep(2000)) {
        FILE *f = fopen(p->port_file, "r");
        if (f && fscanf(f, "%d", &p->http) != 1) p->http = 0;
        if (f) fclose(f);
    }
    return p;
}

/* "200 leading" and the like; "no answer" if there is none. */
static const char *get(const process *p, const char *path) {
    static char text[64];
    char reply[256] = "", line[64];
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)p->http);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    snprintf(text, sizeof text, "no answer");
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
        snprintf(line, sizeof line, "GET %s HTTP/1.0\r\n\r\n", path);
        (void)!write(fd, line, strlen(line));
        size_t got = 0;
        for (ssize_t n; got < sizeof reply - 1 && (n = read(fd, reply + got, sizeof reply - 1 - got)) > 0;)
            got += (size_t)n;
        const char *body = strstr(reply, "\r\n\r\n");
        if (body) snprintf(text, sizeof text, "%.3s %.*s", reply + 9, (int)strcspn(body + 4, "\n"), body + 4);
    }
    close(fd);
    return text;
}

typedef struct span { int64_t first, last; } span;

/* The times at which it led, from its log. */
static int spans(const process *p, span out[64]) {
    char line[200];
    int n = 0;
    FILE *f = fopen(p->log, "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        long long first, last;
        if (sscanf(line, "lead %lld %lld", &first, &last) != 2 || !strchr(line, '\n')) continue;
        if (n == 0 || out[n - 1].first != first) n++;
        out[n - 1].first = first;
        out[n - 1].last = last;
        if (n == 63) break;
    }
    fclose(f);
    return n;
}

static bool overlap(const process *p, const process *q) {
    span a[64], b[64];
    int n = spans(p, a), m = spans(q, b);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            if (a[i].first <= b[k].last && b[k].first <= a[i].last)
                return true;
    return false;
}

static bool log_has(const process *p, const char *word) {
    return shell("grep -q '%s' %s", word, p->log) == 0;
}

/* A leads and says so; A is killed; after the lease B leads and says so; nowhere do the logs overlap. */
UTEST(plan, failover) {
    fresh();
    server *s = server_start("");
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->port);
    process *a = process_start(0, NULL, "A", url, 4500);
    ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(a, "/readyz"), "200 leading")));
    ASSERT_STREQ("200 leading", get(a, "/healthz"));
    process *b = process_start(1, NULL, "B", url, 4500);
    ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(b, "/healthz"), "200 standing by")));
    ASSERT_STREQ("503 standing by", get(b, "/readyz"));
    usleep(1000000);
    ASSERT_STREQ("503 standing by", get(b, "/readyz"));
    int64_t killed = clock_ms();
    reap(&a->pid, SIGKILL);
    ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(b, "/readyz"), "200 leading")));
    ASSERT_STREQ("200 leading", get(b, "/healthz"));
    ASSERT_STREQ("no answer", get(a, "/healthz"));
    span was[64], is[64];
    ASSERT_EQ(1, spans(a, was));
    ASSERT_EQ(1, spans(b, is));
    ASSERT_TRUE(is[0].first > killed);
    ASSERT_TRUE(is[0].first > was[0].last);
    ASSERT_FALSE(overlap(a, b));
    a = process_start(0, NULL, "A2", url, 4500);        // the one that was killed comes back and stands by
    ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(a, "/healthz"), "200 standing by")));
    for (int i = 0; i < PROCESSES_MAX; i++) reap(&processes[i].pid, SIGKILL);
}

/* A leader that is stopped past its lease must not act once when it wakes up. */
UTEST(plan, stopped_past_its_lease) {
    fresh();
    server *s = server_start("");
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", s->port);
    process *a = process_start(0, NULL, "A", url, 3000);
    ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(a, "/readyz"), "200 leading")));
    process *b = process_start(1, NULL, "B", url, 3000);
    ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(b, "/healthz"), "200 standing by")));
    for (int round = 0; round < 2; round++) {
        process *leading = round ? b : a, *other = round ? a : b;
        kill(leading->pid, SIGSTOP);
        ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(other, "/readyz"), "200 leading")));
        kill(leading->pid, SIGCONT);
        ASSERT_TRUE(WAIT_FOR(30000, !strcmp(get(leading, "/healthz"), "200 standing by")));
        ASSERT_FALSE(overlap(a, b));
    }
    for (int i = 0; i < PROCESSES_MAX; i++) reap(&processes[i].pid, SIGKILL);
}

static uint64_t chaos_dice;
static unsigned roll(unsigned sides) {
    chaos_dice ^= chaos_dice << 13; chaos_dice ^= chaos_dice >> 7; chaos_dice ^= chaos_dice << 17;
    return (unsigned)((chaos_dice >> 20) % sides);
}

/* A candidate that starts in the middle has seen nothing: it is cautious. */
static void chaos_start(candidate *c, const server *s, int number) {
    char identity[16];
    leader_redis_config how;
    memset(&how, 0, sizeof how);
    how.port = s->port;
    how.connect_timeout_ms = 200;
    snprintf(identity, sizeof identity, "c%d", number);
    leader_config cfg = settings(c, identity, 900);
    cfg.cautious_start = true;
    leader_redis_client_init(&c->client, &how);
    cfg.backend = leader_redis_shared_backend(&c->election, &c->client, "job");
    c->open = leader_init(&c->me, &cfg) == LEADER_OK;
}

static void chaos_act(server *s, int *starts) {
    candidate *c = &candidates[roll(5)], *leading = the_leader();
    switch (roll(12)) {
    case 0:  say(s, "FLUSHALL"); break;
    case 1:  say(s, "DEL leader:job"); break;
    case 2:  say(s, "DEL leader:job:witness:{leader:job}"); break;
    case 3:  say(s, "SCRIPT FLUSH"); break;
    case 4:  say(s, "CLIENT KILL TYPE normal"); break;
    case 5:  kill(s->pid, SIGSTOP); pass_ms(roll(1300)); kill(s->pid, SIGCONT); break;
    case 6:  if (leading) leader_resign(&leading->me, 300); break;
    case 7:  c->frozen = true; break;                   // not ticked: its term runs out, its requests linger
    case 8:  if (leading) leading->frozen = true; break;
    case 9:  server_stop(s); pass_ms(roll(400)); server_run(s); break;
    case 10: leader_close(&c->me, 0); chaos_start(c, s, ++*starts); break;
    default: for (int i = 0; i < 5; i++) candidates[i].frozen = false; break;
    }
}

/* Everything at once, from a seed; then the faults stop, and there is one leader. */
UTEST(plan, chaos) {
    fresh();
    server *s = server_start("");
    int starts = 0;
    const char *seed = getenv("REDIS_CHAOS_SEED"), *seconds = getenv("REDIS_CHAOS_SECONDS");
    chaos_dice = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 2654435761u | 1;
    printf("REDIS_CHAOS_SEED=%llu\n", (unsigned long long)chaos_dice);
    for (int i = 0; i < 5; i++) chaos_start(&candidates[i], s, ++starts);
    for (int64_t end = clock_ms() + (seconds ? atoi(seconds) : 20) * 1000; clock_ms() < end; ) {
        pass_ms(roll(300));
        chaos_act(s, &starts);
        NEVER_TWO();
    }
    for (int i = 0; i < 5; i++) candidates[i].frozen = false;
    ASSERT_TRUE(UNTIL(leaders() == 1));
    NEVER_TWO();
}

/* The network between A and Redis is cut, silently, for longer than the lease: A must know that it does
   not lead before B starts. */
static char netns[2][32];

static void netns_remove(void) {
    for (int i = 0; i < 2; i++) if (netns[i][0]) shell("ip netns del %s 2>/dev/null", netns[i]);
}

static void netns_name(pid_t pid) {
    snprintf(netns[0], sizeof netns[0], "leader-%d-s", (int)pid);
    snprintf(netns[1], sizeof netns[1], "leader-%d-a", (int)pid);
}

static bool netns_make(void) {
    netns_name(getpid());
    const char *s = netns[0], *a = netns[1];
    return shell("ip netns add %s && ip netns add %s && ip -n %s link set lo up && ip -n %s link set lo up",
                 s, a, s, a)
               == 0
           && shell("ip -n %s link add v0 type veth peer name v1 netns %s && ip -n %s addr add 10.77.0.1/24 "
                    "dev v0 && ip -n %s addr add 10.77.0.2/24 dev v1",
                    s, a, s, a)
                  == 0
           && shell("ip -n %s link set v0 up && ip -n %s link set v1 up", s, a) == 0;
}

/* Black-holed, not refused: no carrier, no neighbour to ask, packets vanish. */
static void cut(bool off) {
    shell("ip -n %s link set v0 %s", netns[0], off ? "down" : "up");
    if (off)
        shell("ip -n %s neigh replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev v1 nud permanent", netns[1]);
    else shell("ip -n %s neigh del 10.77.0.1 dev v1", netns[1]);
}

UTEST(plan, split_brain) {
    fresh();
    for (int i = 0; i < PROCESSES_MAX; i++) reap(&processes[i].pid, SIGKILL);
    ASSERT_TRUE(netns_make());                          // no namespaces, no proof: that is a failure
    server *s = server_place();
    char line[400];
    snprintf(line, sizeof line,
             "ip netns exec %s redis-server --port 6379 --bind 10.77.0.1 --protected-mode no --dir %s --save "
             "'' --daemonize no",
             netns[0], s->dir);
    char *argv[24], *save = NULL;
    int argc = 0;
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "''") ? word : word + 2;
    argv[argc] = NULL;
    s->pid = spawn(NULL, argv);
    process *a = process_start(0, netns[1], "A", "redis://10.77.0.1:6379", 2400), *b;
    ASSERT_TRUE(WAIT_FOR(30000, log_has(a, "lead")));
    b = process_start(1, netns[0], "B", "redis://10.77.0.1:6379", 2400);
    usleep(500000);
    for (int round = 0; round < 2; round++) {
        cut(true);
        ASSERT_TRUE(WAIT_FOR(30000, log_has(b, round ? "lead.*" : "lead")));
        // a lease and more: A goes on trying to renew and to acquire
        usleep(2500000);
        ASSERT_TRUE(log_has(a, "none"));
        ASSERT_FALSE(overlap(a, b));
        cut(false);
        usleep(1500000);                                // healed: what A had sent may arrive now
        ASSERT_FALSE(overlap(a, b));
        if (round == 0) {                               // hand back to A, and again
            reap(&b->pid, SIGKILL);
            span led[64];
            ASSERT_TRUE(WAIT_FOR(30000, spans(a, led) >= 2));
            ASSERT_FALSE(overlap(a, b));
            b = process_start(1, netns[0], "B2", "redis://10.77.0.1:6379", 2400);
            usleep(500000);
        }
    }
    span was[64], is[64];
    int n = spans(a, was);
    ASSERT_TRUE(n >= 2);
    ASSERT_TRUE(spans(b, is) >= 1);
    ASSERT_TRUE(was[n - 1].last < is[0].first);         // A knew first
    for (int i = 0; i < PROCESSES_MAX; i++) reap(&processes[i].pid, SIGKILL);
    server_stop(s);
    netns_remove();
}

/* ---------------------------------------------------------------------------------------------------- */

static int tests(int argc, char **argv) {
    int failed = utest_main(argc, (const char *const *)argv);
    fresh();
    for (int i = 0; i < PROCESSES_MAX; i++) reap(&processes[i].pid, SIGKILL);
    return failed;
}

static void forget_netns(pid_t pid) {
    netns_name(pid);
    netns_remove();
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "candidate")) return candidate_main(argc, (const char *const *)argv);
    return supervise(tests, argc, argv, forget_netns);
}
