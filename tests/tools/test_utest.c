/* Tests of utest.h itself: a check that cannot fail would make every other test worthless. This program
   runs itself again to see it fail: the sets whose names begin with "subject" are the patients, those that
   begin with "utest" examine them. */
#if !defined(_POSIX_C_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif
#include "tests/tools/utest.h"
#include <stdbool.h>
#include <sys/wait.h>

/* ---- patients ---------------------------------------------------------------------------------- */

/* One test that must fail by each macro; "went on" shows whether the macro left the function. */
#define FAILS_BY(NAME, ...)                                                                                  \
    UTEST(subject_expect, NAME) {                                                                            \
        EXPECT_##NAME(__VA_ARGS__);                                                                          \
        puts("went on");                                                                                     \
    }                                                                                                        \
    UTEST(subject_assert, NAME) {                                                                            \
        ASSERT_##NAME(__VA_ARGS__);                                                                          \
        puts("went on");                                                                                     \
    }                                                                                                        \
    UTEST(subject_expect, NAME##_MSG) {                                                                      \
        EXPECT_##NAME##_MSG(__VA_ARGS__, "said why");                                                        \
        puts("went on");                                                                                     \
    }                                                                                                        \
    UTEST(subject_assert, NAME##_MSG) {                                                                      \
        ASSERT_##NAME##_MSG(__VA_ARGS__, "said why");                                                        \
        puts("went on");                                                                                     \
    }
FAILS_BY(TRUE, 0)
FAILS_BY(FALSE, 1)
FAILS_BY(EQ, 1, 2)
FAILS_BY(NE, 1, 1)
FAILS_BY(LT, 2, 2)
FAILS_BY(LE, 3, 2)
FAILS_BY(GT, 2, 2)
FAILS_BY(GE, 1, 2)
FAILS_BY(STREQ, "duck", "ducks")
FAILS_BY(STRNE, "duck", "duck")
FAILS_BY(STRNEQ, "duck", "dumb", 3u)
FAILS_BY(STRNNE, "duck", "duct", 3u)
FAILS_BY(NEAR, 1.0, 1.2, 0.1)
enum { FAILING = 13 * 2 };

UTEST(subject_mix, pass)  { EXPECT_TRUE(1); }
enum { FAILING_LINE = __LINE__ + 1 };
UTEST(subject_mix, fail)  { EXPECT_EQ(41, 6 * 7); }
UTEST(subject_mix, skip)  { UTEST_SKIP("not today"); }
UTEST(subject_mix, later) { EXPECT_TRUE(1); }

struct subject_setup { int unused; };
UTEST_F_SETUP(subject_setup)    { utest_fixture->unused = 1; ASSERT_TRUE(0); }
UTEST_F_TEARDOWN(subject_setup) { EXPECT_TRUE(utest_fixture->unused); puts("torn down"); }
UTEST_F(subject_setup, fails)   { EXPECT_TRUE(utest_fixture->unused); puts("body ran"); }

struct subject_body { int unused; };
UTEST_F_SETUP(subject_body)    { EXPECT_EQ(0, utest_fixture->unused); }
UTEST_F_TEARDOWN(subject_body) { EXPECT_EQ(0, utest_fixture->unused); puts("torn down"); }
UTEST_F(subject_body, fails)   { ASSERT_EQ(1, utest_fixture->unused); puts("body ran"); }

struct subject_teardown { int unused; };
UTEST_F_SETUP(subject_teardown)    { EXPECT_EQ(0, utest_fixture->unused); }
UTEST_F_TEARDOWN(subject_teardown) { ASSERT_EQ(1, utest_fixture->unused); }
UTEST_F(subject_teardown, fails)   { EXPECT_EQ(0, utest_fixture->unused); puts("body ran"); }

#ifndef UTEST_HEADER
struct subject_many { int unused; };
UTEST_I_SETUP(subject_many)    { utest_fixture->unused = 0; }
UTEST_I_TEARDOWN(subject_many) { (void)utest_index; }
UTEST_I(subject_many, fail, 256) { ASSERT_TRUE(utest_fixture->unused); }

UTEST(subject_strict, skip_after_failure) { EXPECT_TRUE(0); UTEST_SKIP("to hide it"); }
UTEST(subject_strict, hostile_text)       { EXPECT_STREQ("<a>&\"\x01", ""); }
UTEST(subject_strict, null_equal)         { const char *none = NULL; EXPECT_STREQ(none, none); }
UTEST(subject_strict, null_differs)       { const char *none = NULL; EXPECT_STRNE("a", none); }
#endif

/* ---- the examination --------------------------------------------------------------------------- */

static const char *program;
static char output[256 * 1024];
static int exit_status;

/* Runs this program again with the arguments given; its output and exit status are left in the two
   variables above. */
static void examine(const char *arguments) {
    char command[1024];
    size_t length;
    FILE *pipe;
    snprintf(command, sizeof command, "'%s' %s 2>&1", program, arguments);
    exit_status = -1;
    output[0] = '\0';
    fflush(stdout);
    pipe = popen(command, "r");
    if (!pipe) return;
    length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    length = (size_t)pclose(pipe);
    exit_status = WIFEXITED((int)length) ? WEXITSTATUS((int)length) : -1;
}

static int times_said(const char *text) {
    int count = 0;
    const char *at;
    for (at = output; (at = strstr(at, text)) != NULL; at += strlen(text)) count++;
    return count;
}

UTEST(utest, every_expect_fails_its_test_and_goes_on) {
    examine("--filter=subject_expect.*");
    EXPECT_EQ((int)FAILING, exit_status);
    EXPECT_EQ((int)FAILING, times_said("went on"));
    EXPECT_EQ((int)FAILING, times_said("test_utest.c:"));
    EXPECT_EQ(FAILING / 2, times_said("said why"));
    EXPECT_TRUE(strstr(output, "[  PASSED  ] 0 tests."));
    EXPECT_TRUE(strstr(output, "[  FAILED  ] 26 tests"));
}

UTEST(utest, every_assert_fails_its_test_and_leaves_it) {
    examine("--filter=subject_assert.*");
    EXPECT_EQ((int)FAILING, exit_status);
    EXPECT_EQ(0, times_said("went on"));
    EXPECT_EQ(FAILING / 2, times_said("said why"));
}

UTEST(utest, a_failure_names_file_line_expression_and_both_values) {
    char line[64];
    examine("--filter=subject_mix.fail");
    EXPECT_EQ(1, exit_status);
    EXPECT_TRUE(strstr(output, "(41) == (6 * 7)"));
#ifndef UTEST_HEADER                             // the other header knows the values from C11 on
    EXPECT_TRUE(strstr(output, "41 vs 42"));
#endif
    snprintf(line, sizeof line, "test_utest.c:%d: Failure", (int)FAILING_LINE);
    EXPECT_TRUE_MSG(strstr(output, line), output);
}

UTEST(utest, a_mixed_run_counts_and_lists_passed_skipped_and_failed) {
    examine("--filter=subject_mix.*");
    EXPECT_EQ(1, exit_status);
    EXPECT_TRUE(strstr(output, "[==========] Running 4 test cases.\n"));
    EXPECT_TRUE(strstr(output, "[ RUN      ] subject_mix.pass\n"));
    EXPECT_TRUE(strstr(output, "[       OK ] subject_mix.later ("));
    EXPECT_TRUE(strstr(output, "[==========] 4 test cases ran.\n[  PASSED  ] 2 tests.\n"));
    EXPECT_TRUE(strstr(output, "[  SKIPPED ] 1 tests, listed below:\n[  SKIPPED ] subject_mix.skip\n"));
    EXPECT_TRUE(strstr(output, "[  FAILED  ] 1 tests, listed below:\n[  FAILED  ] subject_mix.fail\n"));
    EXPECT_TRUE(strstr(output, "not today"));
}

UTEST(utest, a_clean_run_exits_with_zero) {
    examine("--filter=subject_mix.pass");
    EXPECT_EQ(0, exit_status);
    EXPECT_TRUE(strstr(output, "[  PASSED  ] 1 tests.\n"));
    EXPECT_FALSE(strstr(output, "FAILED"));
}

UTEST(utest, a_failed_setup_runs_neither_body_nor_teardown) {
    examine("--filter=subject_setup.fails");
    EXPECT_EQ(1, exit_status);
    EXPECT_EQ(0, times_said("body ran") + times_said("torn down"));
}

UTEST(utest, a_failed_body_is_torn_down) {
    examine("--filter=subject_body.fails");
    EXPECT_EQ(1, exit_status);
    EXPECT_EQ(0, times_said("body ran"));
    EXPECT_EQ(1, times_said("torn down"));
}

UTEST(utest, a_failed_teardown_fails_the_test) {
    examine("--filter=subject_teardown.fails");
    EXPECT_EQ(1, exit_status);
    EXPECT_EQ(1, times_said("body ran"));
}

UTEST(utest, the_filter_takes_stars_anywhere_and_nothing_by_prefix) {
    examine("'--filter=*_mix.*a*'");             // pass, fail, later
    EXPECT_TRUE(strstr(output, "Running 3 test cases."));
    examine("--filter=subject_mix.pas");
    EXPECT_TRUE(strstr(output, "Running 0 test cases."));
    examine("--filter=subject_mix.pass");
    EXPECT_TRUE(strstr(output, "Running 1 test cases."));
}

UTEST(utest, list_tests_names_each_once_and_runs_none) {
    examine("--list-tests");
    EXPECT_EQ(0, exit_status);
    EXPECT_EQ(1, times_said("subject_mix.fail\n"));
    EXPECT_EQ(1, times_said("utest_counted.each_index_runs_once/2\n"));
    EXPECT_FALSE(strstr(output, "RUN"));
}

UTEST(utest, help_names_every_option) {
    examine("--help");
    EXPECT_EQ(0, exit_status);
    EXPECT_TRUE(strstr(output, "--filter="));
    EXPECT_TRUE(strstr(output, "--output="));
    EXPECT_TRUE(strstr(output, "--list-tests"));
    EXPECT_TRUE(strstr(output, "--enable-mixed-units"));
    EXPECT_TRUE(strstr(output, "--random-order"));
}

UTEST(utest, a_seed_gives_one_order_of_all_the_tests) {
    static char first[sizeof output];
    char *time;
    int round;
    for (round = 0; round < 2; round++) {
        examine("--filter=subject_mix.* --random-order=7 | grep RUN");
        EXPECT_EQ(4, times_said("subject_mix."));
        for (time = output; (time = strchr(time, '(')) != NULL;) *time = ' ';
        if (round == 0) memcpy(first, output, sizeof first);
    }
    EXPECT_STREQ(first, output);
    examine("--filter=subject_mix.* --random-order --enable-mixed-units");
    EXPECT_EQ(1, exit_status);
}

/* The XML that the tests chosen by `filter` leave in a file, in `output`. */
static void examine_xml(const char *filter) {
    char arguments[1024];
    snprintf(arguments, sizeof arguments,
             "--filter=%s --output='%s.xml' >/dev/null; cat '%s.xml'; rm -f '%s.xml'", filter, program,
             program, program);
    examine(arguments);
}

UTEST(utest, output_writes_every_test_and_every_failure_as_xml) {
    examine_xml("subject_mix.*");
    EXPECT_TRUE(strstr(output, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"));
    EXPECT_TRUE(strstr(output, "<testsuite name=\"Tests\" tests=\"4\">"));
    EXPECT_EQ(4, times_said("<testcase name=\"subject_mix."));
    EXPECT_EQ(4, times_said("</testcase>"));
    EXPECT_TRUE(strstr(output, "(41) == (6 * 7)"));
    EXPECT_TRUE(strstr(output, "</testsuites>"));
}

/* ---- what must hold, and how arguments are treated --------------------------------------------- */

UTEST(utest, all_macros_accept_what_is_so) {
    const char *text = "duck";
    EXPECT_TRUE(text);
    EXPECT_FALSE(!text);
    EXPECT_EQ(1, 1);
    EXPECT_NE(1, 2);
    EXPECT_LT(1, 2);
    EXPECT_LE(2, 2);
    EXPECT_GT(2, 1);
    EXPECT_GE(2, 2);
    EXPECT_STREQ("duck", text);
    EXPECT_STRNE("goose", text);
    EXPECT_STRNEQ("dull", text, 2u);
    EXPECT_STRNNE("dull", text, 3u);
    EXPECT_NEAR(1.0, 1.05, 0.1);
    EXPECT_NEAR(1.05f, 1.0f, 0.1f);
}

UTEST(utest, an_argument_is_evaluated_once) {
    int left = 0, right = 0, truth = 0;
    EXPECT_EQ(left++, right++);
    EXPECT_TRUE(++truth);
    EXPECT_EQ(1, left);
    EXPECT_EQ(1, right);
    EXPECT_EQ(1, truth);
}

UTEST(utest, values_of_every_type_compare) {
    const bool yes = true;
    const unsigned char small = 200;
    const signed char negative = -100;
    const short medium = -30000;
    const long long wide = INT64_MIN;
    const uint64_t widest = UINT64_MAX;
    const float half = 0.5f;
    const long double third = 1.0L / 3.0L;
    char array[2] = {0, 0};
    EXPECT_EQ(yes, true);
    EXPECT_EQ(small, 200);
    EXPECT_EQ(negative, -100);
    EXPECT_LT(medium, negative);
    EXPECT_LT(wide, medium);
    EXPECT_EQ(widest, UINT64_MAX);
    EXPECT_LT(widest - 1, widest);
    EXPECT_EQ(half, 0.5);
    EXPECT_GT(half, third);
    EXPECT_EQ((char *)array, &array[0]);
    EXPECT_LT(&array[0], &array[1]);
}

UTEST(utest, errno_is_zero_when_a_test_begins) { EXPECT_EQ(0, errno); }

#ifndef UTEST_HEADER
UTEST(utest, numbers_of_different_signs_compare_by_value) {
    const size_t one = 1;
    EXPECT_LT(-1, one);
    EXPECT_NE(-1, UINT64_MAX);
    EXPECT_NE(-1, UINT32_MAX);
    EXPECT_GT(0u, INT64_MIN);
    EXPECT_EQ(1, one);
}

UTEST(utest, not_a_number_equals_nothing) {
    volatile double zero = 0.0;
    const double nan = zero / zero;
    EXPECT_NE(nan, nan);
    EXPECT_NE(nan, 1.0);
    EXPECT_FALSE(
        utest_holds_(utest_valued_('f', &nan, sizeof nan), "==", utest_valued_('f', &nan, sizeof nan)));
    EXPECT_FALSE(
        utest_holds_(utest_valued_('f', &nan, sizeof nan), "<=", utest_valued_('f', &nan, sizeof nan)));
    EXPECT_FALSE(
        utest_holds_(utest_valued_('f', &nan, sizeof nan), ">", utest_valued_('f', &nan, sizeof nan)));
}

UTEST(utest, the_shards_have_every_chosen_test_once) {
    char arguments[64], seen[sizeof output] = "";
    unsigned shard, lines = 0;
    const char *at;
    for (shard = 1; shard <= 3; shard++) {
        snprintf(arguments, sizeof arguments, "--filter=subject_mix.* --shard=%u/3 | grep RUN", shard);
        examine(arguments);
        strncat(seen, output, sizeof seen - strlen(seen) - 1);
    }
    examine("--filter=subject_mix.* | grep RUN");
    for (at = output; (at = strstr(at, "[ RUN      ] ")) != NULL; at++, lines++) {
        char name[128] = "";
        const char *first;
        strncat(name, at, strcspn(at, "\n") + 1 < sizeof name ? strcspn(at, "\n") + 1 : sizeof name - 1);
        first = strstr(seen, name);
        ASSERT_TRUE(first);
        EXPECT_FALSE(strstr(first + 1, name));
    }
    EXPECT_EQ(strlen(output), strlen(seen));
    EXPECT_GT(lines, 1u);
}

UTEST(utest, a_shard_that_cannot_be_is_an_error) {
    static const char *const wrong[] = {"--shard=0/3", "--shard=4/3", "--shard=x", "--shard=1",
                                        "--shard=0/0"};
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        examine(wrong[i]);
        EXPECT_EQ(255, exit_status);
    }
}

UTEST(utest, the_exit_status_of_256_failures_is_not_zero) {
    examine("--filter=subject_many.*");
    EXPECT_EQ(255, exit_status);
    EXPECT_TRUE(strstr(output, "[  FAILED  ] 256 tests"));
}

UTEST(utest, a_skip_does_not_hide_an_earlier_failure) {
    examine("--filter=subject_strict.skip_after_failure");
    EXPECT_EQ(1, exit_status);
}

UTEST(utest, null_is_neither_equal_to_nor_different_from_a_string) {
    examine("--filter=subject_strict.null_*");
    EXPECT_EQ(2, exit_status);
}

UTEST(utest, hostile_text_is_escaped_in_the_xml) {
    examine_xml("subject_strict.hostile_text");
    EXPECT_TRUE(strstr(output, "&lt;a&gt;&amp;&quot;?"));
    EXPECT_FALSE(strstr(output, "<a>"));
}

UTEST(utest, an_output_that_cannot_be_written_is_an_error) {
    examine("--filter=subject_mix.pass --output=/nonexistent/results.xml");
    EXPECT_EQ(255, exit_status);
    EXPECT_TRUE(strstr(output, "/nonexistent/results.xml: No such file"));
}
#endif

struct utest_pond { int ducks; char name[16]; };
UTEST_F_SETUP(utest_pond)    { ASSERT_EQ(0, utest_fixture->ducks); utest_fixture->ducks = 2; }
UTEST_F_TEARDOWN(utest_pond) { EXPECT_EQ(3, utest_fixture->ducks); }
UTEST_F(utest_pond, is_fresh_for_the_first_test) {
    ASSERT_STREQ("", utest_fixture->name);
    utest_fixture->name[0] = 'x';
    utest_fixture->ducks++;
}
UTEST_F(utest_pond, is_fresh_for_the_second_test) {
    ASSERT_STREQ("", utest_fixture->name);
    utest_fixture->ducks++;
}

static unsigned indexes_seen;
struct utest_counted { size_t index; };
UTEST_I_SETUP(utest_counted)    { utest_fixture->index = utest_index; EXPECT_LT(utest_index, (size_t)3); }
UTEST_I_TEARDOWN(utest_counted) { EXPECT_EQ(utest_index, utest_fixture->index); }
UTEST_I(utest_counted, each_index_runs_once, 3) {
    EXPECT_FALSE(indexes_seen & (1u << utest_fixture->index));
    indexes_seen |= 1u << utest_fixture->index;
}

UTEST_STATE();

int main(int argc, char **argv) {
    const char *arguments[16] = {argv[0], "--filter=utest*"};
    int i, count = 2;
    program = argv[0];
    // a filter of the caller comes later and wins
    for (i = 1; i < argc && count < 16; i++) arguments[count++] = argv[i];
    return utest_main(count, arguments);
}
