/* The resolver of the Redis backend by itself: lookups on a clock that the test moves, asked of name servers
   that the test plays. */
#include "tests/redis/redis_harness.h"
#include "tests/redis/nameserver.h"
#include "tests/tools/utest.h"

UTEST_STATE();

static leader_redis_lookup_ lookup;
static int64_t lookup_ms;               // how long it took, on the test's clock

static int asked_in_all(const nameserver *first, const nameserver *second) {
    return first->asked + second->asked;
}

/* Waits for the question to arrive at a name server, or for what comes back; then for the answer. False: the
   question went to a server that says nothing. */
static bool answer_comes(nameserver *first, nameserver *second) {
    struct pollfd set[3] = {{lookup.fd, POLLIN, 0}, {first->fd, POLLIN, 0}, {second->fd, POLLIN, 0}};
    poll(set, 3, LIMIT_MS);
    int before = asked_in_all(first, second);
    int unheard = first->silent ? first->asked : second->asked;
    nameserver_step(first);
    nameserver_step(second);
    bool silent = first->silent || second->silent;
    int unheard_now = first->silent ? first->asked : second->asked;
    if (silent && unheard_now > unheard) {
        return false;
    }
    bool asked = asked_in_all(first, second) > before;
    return asked || set[0].revents != 0;
}

/* Lets the lookup go on until it ends. Where no answer comes, its clock goes on to the end of the attempt. */
static bool look_up(const char *host, nameserver *first, nameserver *second) {
    enum { STEPS_MAX = 200 };
    int64_t now_ms = 1000000;
    lookup_ms = 0;
    bool over = leader_redis_lookup_start_(&lookup, host, now_ms);
    for (int step = 0; step < STEPS_MAX && !over; step++) {
        if (answer_comes(first, second)) {
            struct pollfd ready = {lookup.fd, POLLIN, 0};
            poll(&ready, 1, LIMIT_MS);
        } else {
            lookup_ms += lookup.deadline_ms - now_ms;
            now_ms = lookup.deadline_ms;
        }
        over = leader_redis_lookup_step_(&lookup, now_ms);
    }
    leader_redis_lookup_end_(&lookup);
    return over;
}

/* "name/type name/type ..." as they were asked for. */
static const char *questions(const nameserver *d) {
    static char text[2000];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < d->asked && i < ASKED_MAX; i++) {
        const char *gap = i > 0 ? " " : "";
        const char *type = d->types[i] == 28 ? "6" : "4";
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s/%s", gap, d->names[i], type);
    }
    return text;
}

struct resolver { nameserver one, two; };

UTEST_F_SETUP(resolver) {
    lookup.fd = -1;
    nameserver_open(&utest_fixture->one, "nameserver 127.0.0.1\n");
    nameserver_listen(&utest_fixture->two, "127.0.0.2");
    ASSERT_TRUE(true);
}

UTEST_F_TEARDOWN(resolver) {
    close(utest_fixture->two.fd);
    nameserver_close(&utest_fixture->one);
    ASSERT_TRUE(true);
}

/* With few dots the search list comes first, else the name as it is; a dot at the end: nothing but that. */
UTEST_F(resolver, forms_of_a_name_in_their_order) {
    nameserver *one = &utest_fixture->one;
    nameserver *two = &utest_fixture->two;
    write_text(resolv_conf, "search never.read\nnameserver 127.0.0.1\nsearch x.y z\noptions edns0 ndots:2\n");
    ASSERT_TRUE(look_up("redis", one, two));
    ASSERT_STREQ("redis.x.y/4 redis.z/4 redis/4", questions(one));
    one->asked = 0;
    ASSERT_TRUE(look_up("a.b.c", one, two));
    ASSERT_STREQ("a.b.c/4 a.b.c.x.y/4 a.b.c.z/4", questions(one));
    one->asked = 0;
    ASSERT_TRUE(look_up("redis.", one, two));
    ASSERT_STREQ("redis/4", questions(one));
    ASSERT_EQ(0, lookup.count);
    ASSERT_EQ(0, (int)lookup_ms);
    ASSERT_TRUE(look_up("a..b", one, two));             // not a name
    ASSERT_EQ(0, lookup.count);
}

UTEST_F(resolver, both_kinds_of_addresses) {
    nameserver *one = &utest_fixture->one;
    one->answers_to = "redis.x";
    one->address = "10.1.2.3";
    one->address6 = "fd00::7";
    write_text(resolv_conf, "nameserver 127.0.0.1\nsearch x y\n");
    ASSERT_TRUE(look_up("redis", one, &utest_fixture->two));
    ASSERT_STREQ("redis.x/4 redis.x/6", questions(one));
    ASSERT_EQ(2, lookup.count);
    ASSERT_STREQ("10.1.2.3", lookup.found[0]);
    ASSERT_STREQ("fd00::7", lookup.found[1]);
}

UTEST_F(resolver, a_name_with_addresses_of_the_other_kind_only) {
    nameserver *one = &utest_fixture->one;
    one->answers_to = "redis";
    one->address6 = "fd00::7";
    ASSERT_TRUE(look_up("redis", one, &utest_fixture->two));
    ASSERT_EQ(1, lookup.count);
    ASSERT_STREQ("fd00::7", lookup.found[0]);
}

/* SERVFAIL (2) and REFUSED (5) are of one question: the next form is asked for, as glibc does. */
UTEST_F(resolver, a_failure_for_one_form_leads_to_the_next) {
    nameserver *one = &utest_fixture->one;
    write_text(resolv_conf, "nameserver 127.0.0.1\nsearch broken.example good.example\noptions ndots:5\n");
    for (int code = 2; code <= 5; code += 3) {
        one->asked = 0;
        one->fails_for = "broken";
        one->code = code;
        one->answers_to = "redis.good.example";
        one->address = "10.1.2.3";
        ASSERT_TRUE(look_up("redis", one, &utest_fixture->two));
        ASSERT_EQ(1, lookup.count);
        ASSERT_STREQ("10.1.2.3", lookup.found[0]);
        ASSERT_EQ(0, (int)lookup_ms);
    }
    one->fails_for = "redis";                           // all forms
    ASSERT_TRUE(look_up("redis", one, &utest_fixture->two));
    ASSERT_EQ(0, lookup.count);
}

UTEST_F(resolver, a_second_server_answers_for_a_failing_one) {
    nameserver *one = &utest_fixture->one;
    nameserver *two = &utest_fixture->two;
    write_text(resolv_conf, "nameserver 127.0.0.1\nnameserver 127.0.0.2\n");
    two->answers_to = "redis";
    two->address = "10.1.2.3";
    one->fails_for = "redis";
    one->code = 2;
    ASSERT_TRUE(look_up("redis", one, two));
    ASSERT_EQ(1, lookup.count);
    one->fails_for = NULL;
    one->answers_to = "redis";
    one->cuts_short = true;                             // its answer does not fit: no use either
    ASSERT_TRUE(look_up("redis", one, two));
    ASSERT_EQ(1, lookup.count);
    ASSERT_EQ(0, (int)lookup_ms);
}

/* Two rounds over all servers, 400 ms for each attempt, and not one more for other forms of the name. */
UTEST_F(resolver, silence_ends_the_lookup) {
    nameserver *one = &utest_fixture->one;
    nameserver *two = &utest_fixture->two;
    // nobody is at .9
    write_text(resolv_conf, "nameserver 127.0.0.1\nnameserver 127.0.0.9\nsearch x y z\n");
    one->silent = true;
    ASSERT_TRUE(look_up("redis", one, two));
    ASSERT_EQ(0, lookup.count);
    ASSERT_EQ(800, (int)lookup_ms);                     // a refusal at .9 costs no time
    ASSERT_STREQ("redis.x/4 redis.x/4", questions(one));
    write_text(resolv_conf, "nameserver 127.0.0.1\nnameserver 127.0.0.2\n");
    two->answers_to = "redis";
    two->address = "10.1.2.3";
    ASSERT_TRUE(look_up("redis", one, two));
    ASSERT_EQ(1, lookup.count);
    // the one that answered is asked for the other kind first
    ASSERT_EQ(400, (int)lookup_ms);
    ASSERT_STREQ("redis/4 redis/6", questions(two));
}

UTEST_F(resolver, an_answer_to_another_question_is_not_believed) {
    nameserver *one = &utest_fixture->one;
    one->lies = true;
    one->answers_to = "redis";
    one->address = "10.1.2.3";
    ASSERT_TRUE(look_up("redis", one, &utest_fixture->two));
    ASSERT_EQ(1, lookup.count);
    ASSERT_STREQ("10.1.2.3", lookup.found[0]);
}

UTEST_F(resolver, hosts_and_numbers_ask_nobody) {
    nameserver *one = &utest_fixture->one;
    write_text(hosts_file,
               "::1 localhost ip6-localhost # loopback\nnonsense redis\n\n127.0.0.1\tRedis localhost\n"
               "10.0.0.9 redis.example redis\n10.0.0.8 other ; redis\n");
    ASSERT_TRUE(look_up("localhost", one, &utest_fixture->two));
    ASSERT_EQ(2, lookup.count);
    ASSERT_STREQ("::1", lookup.found[0]);
    ASSERT_STREQ("127.0.0.1", lookup.found[1]);
    ASSERT_TRUE(look_up("rediS", one, &utest_fixture->two));
    ASSERT_EQ(2, lookup.count);
    ASSERT_STREQ("127.0.0.1", lookup.found[0]);
    ASSERT_STREQ("10.0.0.9", lookup.found[1]);
    ASSERT_TRUE(look_up("192.0.2.1", one, &utest_fixture->two));
    ASSERT_STREQ("192.0.2.1", lookup.found[0]);
    ASSERT_TRUE(look_up("2001:db8::1", one, &utest_fixture->two));
    ASSERT_STREQ("2001:db8::1", lookup.found[0]);
    ASSERT_EQ(0, one->asked);
    write_text(hosts_file,
               "10.0.0.1 m\n10.0.0.2 m\n10.0.0.3 m\n10.0.0.4 m\n10.0.0.5 m\n10.0.0.6 m\n10.0.0.7 m\n"
               "10.0.0.8 m\n10.0.0.9 m\n");
    ASSERT_TRUE(look_up("m", one, &utest_fixture->two));
    ASSERT_EQ((int)LEADER_REDIS_ADDRESSES_, lookup.count);
}

/* Without the files: no local names, and the name server of this machine. */
UTEST_F(resolver, missing_files) {
    nameserver *one = &utest_fixture->one;
    unlink(resolv_conf);
    unlink(hosts_file);
    one->answers_to = "redis";
    one->address = "10.1.2.3";
    ASSERT_TRUE(look_up("redis", one, &utest_fixture->two));
    ASSERT_EQ(1, lookup.count);
}

/* ---- answers of every shape ------------------------------------------------------------------------ */

static uint64_t dice = 88172645463325252u;

static uint64_t roll(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

/* The answer in memory of exactly its size, so that a byte too far is seen. */
static int read_exactly(const unsigned char *answer, size_t size) {
    unsigned char *copy = (unsigned char *)malloc(size > 0 ? size : 1);
    memcpy(copy, answer, size);
    lookup.count = 0;
    int said_to_it = leader_redis_read_dns_(&lookup, copy, size);
    free(copy);
    return said_to_it;
}

UTEST(answers, questions_for_impossible_names) {
    unsigned char query[300];
    char text[400];
    ASSERT_EQ(0u, (unsigned)leader_redis_question_(query, 1, "a..b", false));
    memset(text, 'a', sizeof text);
    text[64] = 0;
    ASSERT_EQ(0u, (unsigned)leader_redis_question_(query, 1, text, false));
    for (int i = 0; i < 6; i++) {
        text[i * 60 + 59] = '.';
    }
    text[64] = 'a';
    text[360] = 0;
    ASSERT_EQ(0u, (unsigned)leader_redis_question_(query, 1, text, false));
}

/* Whole, cut at every byte, and with bytes changed at random. */
UTEST(answers, of_every_shape) {
    for (int kind = 0; kind < 2; kind++) {
        unsigned char whole[512];
        memset(&lookup, 0, sizeof lookup);
        lookup.query_len = leader_redis_question_(lookup.query, 0x1234, "Redis.example", kind == 1);
        memcpy(whole, lookup.query, lookup.query_len);
        size_t n =
            nameserver_reply(whole, lookup.query_len, true, kind ? 28 : 1, kind ? "fd00::1" : "10.1.2.3");
        ASSERT_EQ((int)LEADER_REDIS_DNS_TAKEN_, read_exactly(whole, n));
        ASSERT_EQ(1, lookup.count);
        ASSERT_STREQ(kind ? "fd00::1" : "10.1.2.3", lookup.found[0]);
        for (size_t size = 0; size < n; size++) {
            ASSERT_TRUE(read_exactly(whole, size) != LEADER_REDIS_DNS_TAKEN_ || lookup.count == 0);
        }
        for (int round = 0; round < 50000; round++) {
            unsigned char changed[512];
            memcpy(changed, whole, n);
            size_t size = n - roll() % 20;
            size_t from = roll() % 2 ? lookup.query_len : 0;
            for (uint64_t left = roll() % 3 + 1; left > 0; left--) {
                changed[from + roll() % (size - from)] = (unsigned char)roll();
            }
            read_exactly(changed, size);
            for (int i = 0; i < lookup.count; i++) {
                ASSERT_TRUE(leader_redis_is_numeric_(lookup.found[i]));
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- */

static int tests(int argc, char **argv) {
    return utest_main(argc, (const char *const *)argv);
}

int main(int argc, char **argv) {
    return supervise(tests, argc, argv, NULL);
}
