/* utest.h: unit tests in one header, for C99 and C++11.

   The interface is that of the well-known utest.h by Neil Henning, so either header can stand in for the
   other; the code is our own, because the original cannot be had as a package where these tests have to
   run. To use another header in place of this one:

       cc -isystem dir -DUTEST_HEADER='<utest.h>' ...        (make test-core UTEST=dir/utest.h does that)

   A test:
       UTEST(set, name) { ASSERT_EQ(4, 2 + 2); }
   with a fixture, zeroed and set up afresh for each test:
       struct pond { int ducks; };
       UTEST_F_SETUP(pond)    { utest_fixture->ducks = 2; }
       UTEST_F_TEARDOWN(pond) { EXPECT_EQ(3, utest_fixture->ducks); }
       UTEST_F(pond, one_more_duck) { utest_fixture->ducks++; }
   the same test N times, set-up and tear-down knowing utest_index:
       UTEST_I_SETUP(pond) ...   UTEST_I_TEARDOWN(pond) ...   UTEST_I(pond, name, N) ...
   and in one file UTEST_MAIN(), or UTEST_STATE(); and a main that calls utest_main(argc, argv).

   EXPECT_x goes on after a failure, ASSERT_x leaves the function it stands in. A failed set-up runs
   neither test nor tear-down; a failed test is torn down. A function that takes `int *utest_result` can
   use the macros as well. Exit status: how many tests failed.

   Where we differ, always to the strict side: numbers of different signs are compared by value; the exit
   status of 256 failures is not 0; a skip does not hide an earlier failure; the XML is escaped; an
   --output that cannot be written is an error; output is flushed line by line, so that a crash or a fork
   neither loses nor doubles it; there is --shard=K/N. Not here: the EXCEPTION macros. */

#ifndef UTEST_CHOICE_INCLUDED
#define UTEST_CHOICE_INCLUDED
#ifdef UTEST_HEADER
#include UTEST_HEADER
#else

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#  include <io.h>
#  define UTEST_TTY_() _isatty(_fileno(stdout))
#else
#  include <unistd.h>
#  define UTEST_TTY_() isatty(STDOUT_FILENO)
#endif

#define UTEST_TEST_PASSED  0
#define UTEST_TEST_FAILURE 1
#define UTEST_TEST_SKIPPED 2

#define UTEST_ATTRIBUTE_(a) __attribute((a))       // with tcc, glibc defines the usual spelling away
#define UTEST_UNUSED_ UTEST_ATTRIBUTE_(unused)
// there plain "printf" means the format language of an older C library
#if defined(_WIN32) && !defined(__clang__)
#  define UTEST_PRINTF_LIKE_ UTEST_ATTRIBUTE_(format(gnu_printf, 1, 2))
#else
#  define UTEST_PRINTF_LIKE_ UTEST_ATTRIBUTE_(format(printf, 1, 2))
#endif

/* ---- the tests: a list that constructors fill before main, without allocating ------------------ */

struct utest_case_ {
    const char *name;
    void (*run)(int *utest_result, size_t index);
    size_t index;
    int indexed, result;
    struct utest_case_ *next;
};

struct utest_state_s {
    struct utest_case_ *first, *last;
    FILE *output;                                // of --output, or NULL
    int in_failure;                              // an XML element of the running test is open
};

#ifdef __cplusplus
extern "C" struct utest_state_s utest_state;
#else
extern struct utest_state_s utest_state;
#endif

#define UTEST_STATE() struct utest_state_s utest_state = {0, 0, 0, 0}
#define UTEST_MAIN()                                                                                         \
    UTEST_STATE();                                                                                           \
    int main(int argc, char **argv) {                                                                        \
        return utest_main(argc, (const char *const *)argv);                                                  \
    }

static UTEST_UNUSED_ void utest_add_(struct utest_case_ *cases, size_t count, const char *name, int indexed,
                                           void (*run)(int *, size_t)) {
    size_t i;
    for (i = 0; i < count; i++) {
        struct utest_case_ *one = &cases[i];
        one->name = name;
        one->run = run;
        one->index = i;
        one->indexed = indexed;
        if (utest_state.last) utest_state.last->next = one;
        else utest_state.first = one;
        utest_state.last = one;
    }
}

#ifdef __cplusplus
#  define UTEST_ZEROED_(type, name) type name = {}
#else
#  define UTEST_ZEROED_(type, name) type name; memset(&name, 0, sizeof name)
#endif

#define UTEST_REGISTER_(id, name, count, indexed)                                                            \
    static void utest_register_##id(void) UTEST_ATTRIBUTE_(constructor);                                     \
    static void utest_register_##id(void) {                                                                  \
        static struct utest_case_ cases[count];                                                              \
        utest_add_(cases, (count), name, indexed, utest_run_##id);                                           \
    }

#define UTEST(SET, NAME)                                                                                     \
    static void utest_body_##SET##_##NAME(int *);                                                            \
    static void utest_run_##SET##_##NAME(int *utest_result, size_t utest_index) {                            \
        (void)utest_index;                                                                                   \
        utest_body_##SET##_##NAME(utest_result);                                                             \
    }                                                                                                        \
    UTEST_REGISTER_(SET##_##NAME, #SET "." #NAME, 1, 0)                                                      \
    static void utest_body_##SET##_##NAME(int *utest_result UTEST_UNUSED_)

#define UTEST_F_SETUP(FIXTURE)                                                                               \
    static void utest_f_setup_##FIXTURE(int *utest_result UTEST_UNUSED_,                                     \
                                        struct FIXTURE *utest_fixture UTEST_UNUSED_)
#define UTEST_F_TEARDOWN(FIXTURE)                                                                            \
    static void utest_f_teardown_##FIXTURE(int *utest_result UTEST_UNUSED_,                                  \
                                           struct FIXTURE *utest_fixture UTEST_UNUSED_)
#define UTEST_F(FIXTURE, NAME)                                                                               \
    static void utest_f_setup_##FIXTURE(int *, struct FIXTURE *);                                            \
    static void utest_f_teardown_##FIXTURE(int *, struct FIXTURE *);                                         \
    static void utest_body_##FIXTURE##_##NAME(int *, struct FIXTURE *);                                      \
    static void utest_run_##FIXTURE##_##NAME(int *utest_result, size_t utest_index) {                        \
        UTEST_ZEROED_(struct FIXTURE, fixture);                                                              \
        (void)utest_index;                                                                                   \
        utest_f_setup_##FIXTURE(utest_result, &fixture);                                                     \
        if (*utest_result != UTEST_TEST_PASSED)                                                              \
            return;                                                                                          \
        utest_body_##FIXTURE##_##NAME(utest_result, &fixture);                                               \
        utest_f_teardown_##FIXTURE(utest_result, &fixture);                                                  \
    }                                                                                                        \
    UTEST_REGISTER_(FIXTURE##_##NAME, #FIXTURE "." #NAME, 1, 0)                                              \
    static void utest_body_##FIXTURE##_##NAME(int *utest_result UTEST_UNUSED_,                               \
                                              struct FIXTURE *utest_fixture UTEST_UNUSED_)

#define UTEST_I_SETUP(FIXTURE)                                                                               \
    static void utest_i_setup_##FIXTURE(int *utest_result UTEST_UNUSED_,                                     \
                                        struct FIXTURE *utest_fixture UTEST_UNUSED_,                         \
                                        size_t utest_index UTEST_UNUSED_)
#define UTEST_I_TEARDOWN(FIXTURE)                                                                            \
    static void utest_i_teardown_##FIXTURE(int *utest_result UTEST_UNUSED_,                                  \
                                           struct FIXTURE *utest_fixture UTEST_UNUSED_,                      \
                                           size_t utest_index UTEST_UNUSED_)
#define UTEST_I(FIXTURE, NAME, COUNT)                                                                        \
    static void utest_i_setup_##FIXTURE(int *, struct FIXTURE *, size_t);                                    \
    static void utest_i_teardown_##FIXTURE(int *, struct FIXTURE *, size_t);                                 \
    static void utest_body_##FIXTURE##_##NAME(int *, struct FIXTURE *);                                      \
    static void utest_run_##FIXTURE##_##NAME(int *utest_result, size_t utest_index) {                        \
        UTEST_ZEROED_(struct FIXTURE, fixture);                                                              \
        utest_i_setup_##FIXTURE(utest_result, &fixture, utest_index);                                        \
        if (*utest_result != UTEST_TEST_PASSED)                                                              \
            return;                                                                                          \
        utest_body_##FIXTURE##_##NAME(utest_result, &fixture);                                               \
        utest_i_teardown_##FIXTURE(utest_result, &fixture, utest_index);                                     \
    }                                                                                                        \
    UTEST_REGISTER_(FIXTURE##_##NAME, #FIXTURE "." #NAME, COUNT, 1)                                          \
    static void utest_body_##FIXTURE##_##NAME(int *utest_result UTEST_UNUSED_,                               \
                                              struct FIXTURE *utest_fixture UTEST_UNUSED_)

/* ---- what a failure says: to the terminal, and into the XML ------------------------------------ */

static UTEST_UNUSED_ void utest_xml_(const char *text) {
    for (; *text; text++) {
        switch (*text) {
            case '<':  fputs("&lt;", utest_state.output); break;
            case '>':  fputs("&gt;", utest_state.output); break;
            case '&':  fputs("&amp;", utest_state.output); break;
            case '"':  fputs("&quot;", utest_state.output); break;
            default:                             // XML 1.0 has no way to write the control characters
                fputc((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t' ? '?' : *text,
                      utest_state.output);
        }
    }
}

static UTEST_UNUSED_ void utest_say_(const char *format, ...) UTEST_PRINTF_LIKE_;
static UTEST_UNUSED_ void utest_say_(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    if (utest_state.output) {
        char text[4096];
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        utest_xml_(text);
    }
}

static UTEST_UNUSED_ void utest_fail_begin_(int *utest_result, const char *file, int line) {
    *utest_result = UTEST_TEST_FAILURE;
    if (utest_state.output && !utest_state.in_failure) fputs("<failure>", utest_state.output);
    utest_state.in_failure = 1;
    utest_say_("%s:%d: Failure\n", file, line);
}

static UTEST_UNUSED_ void utest_fail_end_(const char *message) {
    if (*message) utest_say_("   Message : %s\n", message);
    fflush(stdout);
}

static UTEST_UNUSED_ void utest_skip_(int *utest_result, const char *why) {
    printf("   Skipped : %s\n", why);
    if (*utest_result == UTEST_TEST_PASSED) *utest_result = UTEST_TEST_SKIPPED;
}

#define UTEST_SKIP(why)                                                                                      \
    do {                                                                                                     \
        utest_skip_(utest_result, why);                                                                      \
        return;                                                                                              \
    } while (0)

/* ---- comparing two values of any arithmetic or pointer type: by value, so that -1 is less than 1u ---- */

struct utest_value_ {
    char kind;                                   // i signed, u unsigned, f floating, p pointer
    int negative;
    uint64_t size;                               // without the sign
    long double real;
};

#ifdef __cplusplus
#  include <type_traits>
template <typename T> static inline char utest_kind_(const T &) {
    return std::is_floating_point<T>::value ? 'f'
           : std::is_pointer<T>::value      ? 'p'
           : std::is_unsigned<T>::value     ? 'u'
                                            : 'i';
}
#  define UTEST_KEEP_(name, x) auto name = (x)
#  define UTEST_KIND_(v) utest_kind_(v)
#else  // ?: makes small types int and arrays pointers, and drops const
#  define UTEST_KEEP_(name, x) __extension__ __typeof__(1 ? (x) : (x)) name = (x)
#define UTEST_KIND_(v)                                                                                       \
    (__extension__ _Generic((v), int                                                                         \
                            : 'i', long                                                                      \
                            : 'i', long long                                                                 \
                            : 'i', unsigned                                                                  \
                            : 'u', unsigned long                                                             \
                            : 'u', unsigned long long                                                        \
                            : 'u', float                                                                     \
                            : 'f', double                                                                    \
                            : 'f', long double                                                               \
                            : 'f', default                                                                   \
                            : 'p'))
#endif

static UTEST_UNUSED_ struct utest_value_ utest_valued_(char kind, const void *at, size_t size) {
    struct utest_value_ value = {kind, 0, 0, 0};
    if (kind == 'f') {
        float f;
        double d;
        if (size == sizeof f) memcpy(&f, at, size), value.real = (long double)f;
        else if (size == sizeof d) memcpy(&d, at, size), value.real = (long double)d;
        else memcpy(&value.real, at, size);
        return value;
    }
    if (size == 1) { uint8_t u; memcpy(&u, at, 1); value.size = u; }
    else if (size == 2) { uint16_t u; memcpy(&u, at, 2); value.size = u; }
    else if (size == 4) { uint32_t u; memcpy(&u, at, 4); value.size = u; }
    else memcpy(&value.size, at, sizeof value.size);
    if (kind == 'i' && (value.size >> (8 * size - 1)) != 0) {
        if (size < 8) value.size |= UINT64_MAX << (8 * size);
        value.size = 0 - value.size;
        value.negative = 1;
    }
    value.real = value.negative ? -(long double)value.size : (long double)value.size;
    return value;
}

static UTEST_UNUSED_ int utest_holds_(struct utest_value_ x, const char *op, struct utest_value_ y) {
    int less, equal, unordered = 0;
    if (x.kind == 'f' || y.kind == 'f') {
        less = x.real < y.real;
        equal = x.real <= y.real && !less;
        unordered = !(less || x.real >= y.real);
    } else if (x.negative != y.negative) {
        less = x.negative;
        equal = 0;
    } else {
        less = x.negative ? x.size > y.size : x.size < y.size;
        equal = x.size == y.size;
    }
    if (unordered) return op[0] == '!';          // not a number: differs from everything, itself included
    switch (op[0]) {
        case '=': return equal;
        case '!': return !equal;
        case '<': return less || (op[1] && equal);
        default:  return op[1] ? !less : !less && !equal;
    }
}

static UTEST_UNUSED_ void utest_show_(struct utest_value_ value) {
    if (value.kind == 'f') utest_say_("%.17g", (double)value.real);
    else if (value.kind == 'p') utest_say_("0x%llx", (unsigned long long)value.size);
    else utest_say_("%s%llu", value.negative ? "-" : "", (unsigned long long)value.size);
}

static UTEST_UNUSED_ int utest_compare_(int *utest_result, const char *file, int line, const char *x_text,
                                        struct utest_value_ x, const char *op, const char *y_text,
                                        struct utest_value_ y, const char *message) {
    if (utest_holds_(x, op, y)) return 1;
    utest_fail_begin_(utest_result, file, line);
    utest_say_("  Expected : (%s) %s (%s)\n    Actual : ", x_text, op, y_text);
    utest_show_(x);
    utest_say_(" vs ");
    utest_show_(y);
    utest_say_("\n");
    utest_fail_end_(message);
    return 0;
}

/* The sizeof compares nothing, but has the compiler object to two types that cannot be compared. */
#define UTEST_COMPARE_(x, y, x_text, y_text, op, message, stop)                                              \
    do {                                                                                                     \
        UTEST_KEEP_(utest_x_, x);                                                                            \
        UTEST_KEEP_(utest_y_, y);                                                                            \
        (void)sizeof(utest_x_ op utest_y_);                                                                  \
        if (!utest_compare_(utest_result, __FILE__, __LINE__, x_text,                                        \
                            utest_valued_(UTEST_KIND_(utest_x_), &utest_x_, sizeof utest_x_), #op, y_text,   \
                            utest_valued_(UTEST_KIND_(utest_y_), &utest_y_, sizeof utest_y_), message)       \
            && (stop))                                                                                       \
            return;                                                                                          \
    } while (0)

#define EXPECT_EQ(x, y)          UTEST_COMPARE_(x, y, #x, #y, ==, "", 0)
#define EXPECT_NE(x, y)          UTEST_COMPARE_(x, y, #x, #y, !=, "", 0)
#define EXPECT_LT(x, y)          UTEST_COMPARE_(x, y, #x, #y, <,  "", 0)
#define EXPECT_LE(x, y)          UTEST_COMPARE_(x, y, #x, #y, <=, "", 0)
#define EXPECT_GT(x, y)          UTEST_COMPARE_(x, y, #x, #y, >,  "", 0)
#define EXPECT_GE(x, y)          UTEST_COMPARE_(x, y, #x, #y, >=, "", 0)
#define ASSERT_EQ(x, y)          UTEST_COMPARE_(x, y, #x, #y, ==, "", 1)
#define ASSERT_NE(x, y)          UTEST_COMPARE_(x, y, #x, #y, !=, "", 1)
#define ASSERT_LT(x, y)          UTEST_COMPARE_(x, y, #x, #y, <,  "", 1)
#define ASSERT_LE(x, y)          UTEST_COMPARE_(x, y, #x, #y, <=, "", 1)
#define ASSERT_GT(x, y)          UTEST_COMPARE_(x, y, #x, #y, >,  "", 1)
#define ASSERT_GE(x, y)          UTEST_COMPARE_(x, y, #x, #y, >=, "", 1)
#define EXPECT_EQ_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, ==, msg, 0)
#define EXPECT_NE_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, !=, msg, 0)
#define EXPECT_LT_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, <,  msg, 0)
#define EXPECT_LE_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, <=, msg, 0)
#define EXPECT_GT_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, >,  msg, 0)
#define EXPECT_GE_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, >=, msg, 0)
#define ASSERT_EQ_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, ==, msg, 1)
#define ASSERT_NE_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, !=, msg, 1)
#define ASSERT_LT_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, <,  msg, 1)
#define ASSERT_LE_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, <=, msg, 1)
#define ASSERT_GT_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, >,  msg, 1)
#define ASSERT_GE_MSG(x, y, msg) UTEST_COMPARE_(x, y, #x, #y, >=, msg, 1)

/* ---- truth, strings, nearness ------------------------------------------------------------------ */

static UTEST_UNUSED_ int utest_truth_(int *utest_result, const char *file, int line, const char *text,
                                      int got, int wanted, const char *message) {
    if (got == wanted) return 1;
    utest_fail_begin_(utest_result, file, line);
    utest_say_("  Expected : (%s) is %s\n    Actual : %s\n", text, wanted ? "true" : "false",
               got ? "true" : "false");
    utest_fail_end_(message);
    return 0;
}

#define UTEST_TRUTH_(x, x_text, wanted, message, stop)                                                       \
    do {                                                                                                     \
        if (!utest_truth_(utest_result, __FILE__, __LINE__, x_text, (x) ? 1 : 0, wanted, message) && (stop)) \
            return;                                                                                          \
    } while (0)

#define EXPECT_TRUE(x)           UTEST_TRUTH_(x, #x, 1, "", 0)
#define EXPECT_FALSE(x)          UTEST_TRUTH_(x, #x, 0, "", 0)
#define ASSERT_TRUE(x)           UTEST_TRUTH_(x, #x, 1, "", 1)
#define ASSERT_FALSE(x)          UTEST_TRUTH_(x, #x, 0, "", 1)
#define EXPECT_TRUE_MSG(x, msg)  UTEST_TRUTH_(x, #x, 1, msg, 0)
#define EXPECT_FALSE_MSG(x, msg) UTEST_TRUTH_(x, #x, 0, msg, 0)
#define ASSERT_TRUE_MSG(x, msg)  UTEST_TRUTH_(x, #x, 1, msg, 1)
#define ASSERT_FALSE_MSG(x, msg) UTEST_TRUTH_(x, #x, 0, msg, 1)

/* limit: compare so many bytes at most. NULL is no string: neither equal to anything nor different from
   it. */
static UTEST_UNUSED_ int utest_strings_(int *utest_result, const char *file, int line, const char *x,
                                        const char *y, size_t limit, int want_equal, const char *message) {
    if (x && y && ((limit == SIZE_MAX ? strcmp(x, y) : strncmp(x, y, limit)) == 0) == want_equal) return 1;
    utest_fail_begin_(utest_result, file, line);
    utest_say_("  Expected : \"%s\"%s\n    Actual : \"%s\"\n", x ? x : "(NULL)",
               want_equal ? "" : " to differ", y ? y : "(NULL)");
    if (limit != SIZE_MAX) utest_say_("    Length : %llu\n", (unsigned long long)limit);
    utest_fail_end_(message);
    return 0;
}

#define UTEST_STRINGS_(x, y, limit, want_equal, message, stop)                                               \
    do {                                                                                                     \
        if (!utest_strings_(utest_result, __FILE__, __LINE__, x, y, limit, want_equal, message) && (stop))   \
            return;                                                                                          \
    } while (0)

#define EXPECT_STREQ(x, y)              UTEST_STRINGS_(x, y, SIZE_MAX, 1, "", 0)
#define EXPECT_STRNE(x, y)              UTEST_STRINGS_(x, y, SIZE_MAX, 0, "", 0)
#define EXPECT_STRNEQ(x, y, n)          UTEST_STRINGS_(x, y, n, 1, "", 0)
#define EXPECT_STRNNE(x, y, n)          UTEST_STRINGS_(x, y, n, 0, "", 0)
#define ASSERT_STREQ(x, y)              UTEST_STRINGS_(x, y, SIZE_MAX, 1, "", 1)
#define ASSERT_STRNE(x, y)              UTEST_STRINGS_(x, y, SIZE_MAX, 0, "", 1)
#define ASSERT_STRNEQ(x, y, n)          UTEST_STRINGS_(x, y, n, 1, "", 1)
#define ASSERT_STRNNE(x, y, n)          UTEST_STRINGS_(x, y, n, 0, "", 1)
#define EXPECT_STREQ_MSG(x, y, msg)     UTEST_STRINGS_(x, y, SIZE_MAX, 1, msg, 0)
#define EXPECT_STRNE_MSG(x, y, msg)     UTEST_STRINGS_(x, y, SIZE_MAX, 0, msg, 0)
#define EXPECT_STRNEQ_MSG(x, y, n, msg) UTEST_STRINGS_(x, y, n, 1, msg, 0)
#define EXPECT_STRNNE_MSG(x, y, n, msg) UTEST_STRINGS_(x, y, n, 0, msg, 0)
#define ASSERT_STREQ_MSG(x, y, msg)     UTEST_STRINGS_(x, y, SIZE_MAX, 1, msg, 1)
#define ASSERT_STRNE_MSG(x, y, msg)     UTEST_STRINGS_(x, y, SIZE_MAX, 0, msg, 1)
#define ASSERT_STRNEQ_MSG(x, y, n, msg) UTEST_STRINGS_(x, y, n, 1, msg, 1)
#define ASSERT_STRNNE_MSG(x, y, n, msg) UTEST_STRINGS_(x, y, n, 0, msg, 1)

static UTEST_UNUSED_ int utest_near_(int *utest_result, const char *file, int line, double x, double y,
                                     double epsilon, const char *message) {
    const double apart = x < y ? y - x : x - y;
    if (apart <= epsilon) return 1;              // false for what is not a number
    utest_fail_begin_(utest_result, file, line);
    utest_say_("  Expected : %.17g, give or take %.17g\n    Actual : %.17g\n", x, epsilon, y);
    utest_fail_end_(message);
    return 0;
}

#define UTEST_NEAR_(x, y, epsilon, message, stop)                                                            \
    do {                                                                                                     \
        if (!utest_near_(utest_result, __FILE__, __LINE__, (double)(x), (double)(y), (double)(epsilon),      \
                         message)                                                                            \
            && (stop))                                                                                       \
            return;                                                                                          \
    } while (0)

#define EXPECT_NEAR(x, y, epsilon)          UTEST_NEAR_(x, y, epsilon, "", 0)
#define ASSERT_NEAR(x, y, epsilon)          UTEST_NEAR_(x, y, epsilon, "", 1)
#define EXPECT_NEAR_MSG(x, y, epsilon, msg) UTEST_NEAR_(x, y, epsilon, msg, 0)
#define ASSERT_NEAR_MSG(x, y, epsilon, msg) UTEST_NEAR_(x, y, epsilon, msg, 1)

/* ---- running them ------------------------------------------------------------------------------ */

struct utest_options_ {
    const char *filter;                          // NULL: all
    int mixed_units, shuffle, list, help;
    uint32_t seed;
    unsigned shard, shards;                      // 0, 0: all
};

static UTEST_UNUSED_ int64_t utest_now_ns_(void) {
#if defined(CLOCK_MONOTONIC) && !defined(_WIN32)
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
#else                                            // plain C99 has no better clock
    return (int64_t)clock() * (1000000000 / (int64_t)CLOCKS_PER_SEC);
#endif
}

static UTEST_UNUSED_ const char *utest_name_(const struct utest_case_ *one, char *buf, size_t cap) {
    if (!one->indexed) return one->name;
    snprintf(buf, cap, "%s/%llu", one->name, (unsigned long long)one->index);
    return buf;
}

static UTEST_UNUSED_ int utest_glob_(const char *pattern, const char *name) {
    if (*pattern == '*') return utest_glob_(pattern + 1, name) || (*name && utest_glob_(pattern, name + 1));
    if (*pattern != *name || *name == '\0') return *pattern == *name;
    return utest_glob_(pattern + 1, name + 1);
}

static UTEST_UNUSED_ int utest_chosen_(const struct utest_options_ *options, const struct utest_case_ *one) {
    char buf[1024];
    return !options->filter || utest_glob_(options->filter, utest_name_(one, buf, sizeof buf));
}

/* Draws the tests one by one from the list into a new one; of a hundred tests the walk costs nothing worth
   an allocation. */
static UTEST_UNUSED_ void utest_shuffle_(uint32_t seed) {
    struct utest_case_ *one, **link, *drawn = NULL;
    uint32_t left = 0, skip;
    for (one = utest_state.first; one; one = one->next) left++;
    for (; left; left--) {
        seed = seed * 1664525u + 1013904223u;
        skip = (seed >> 8) % left;
        for (link = &utest_state.first; skip; skip--) link = &(*link)->next;
        one = *link;
        *link = one->next;
        one->next = drawn;
        drawn = one;
    }
    utest_state.first = drawn;
}

/* Leaves every so many-th of the chosen tests in the list: the shards of a run have each test once. */
static UTEST_UNUSED_ void utest_take_shard_(const struct utest_options_ *options) {
    struct utest_case_ **link = &utest_state.first;
    unsigned number = 0;
    while (*link) {
        if (utest_chosen_(options, *link) && number++ % options->shards == options->shard - 1)
            link = &(*link)->next;
        else *link = (*link)->next;
    }
}

/* What follows `name` in the argument, or NULL if it is another option. */
static UTEST_UNUSED_ const char *utest_option_(const char *argument, const char *name) {
    const size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

static UTEST_UNUSED_ int utest_parse_(int argc, const char *const *argv, struct utest_options_ *options) {
    const char *value;
    int i;
    for (i = 1; i < argc; i++) {                 // unknown ones are left to the program that has its own main
        if ((value = utest_option_(argv[i], "--filter=")) != NULL) options->filter = value;
        else if ((value = utest_option_(argv[i], "--output=")) != NULL) {
            if (utest_state.output) fclose(utest_state.output);
            utest_state.output = fopen(value, "w");
            if (!utest_state.output) return fprintf(stderr, "--output=%s: %s\n", value, strerror(errno)), 0;
        } else if ((value = utest_option_(argv[i], "--shard=")) != NULL) {
            const int read = sscanf(value, "%u/%u", &options->shard, &options->shards);
            const int good = read == 2 && options->shard > 0 && options->shard <= options->shards;
            if (!good) return fprintf(stderr, "--shard=%s: must be K/N with K from 1 to N\n", value), 0;
        } else if ((value = utest_option_(argv[i], "--random-order=")) != NULL) {
            options->shuffle = 1;
            options->seed = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--random-order") == 0) {
            options->shuffle = 1;
            options->seed = (uint32_t)(utest_now_ns_() ^ (int64_t)time(NULL) * 2654435761);
        } else if (strcmp(argv[i], "--enable-mixed-units") == 0) options->mixed_units = 1;
        else if (strcmp(argv[i], "--list-tests") == 0) options->list = 1;
        else if (strcmp(argv[i], "--help") == 0) options->help = 1;
    }
    return 1;
}

/* Label and counts come in colour on a terminal: green, red or yellow. */
static UTEST_UNUSED_ void utest_label_(char colour, const char *label) {
    if (UTEST_TTY_()) printf("\033[3%cm%s\033[0m ", colour == 'g' ? '2' : colour == 'r' ? '1' : '3', label);
    else printf("%s ", label);
}

static UTEST_UNUSED_ void utest_result_line_(int result) {
    if (result == UTEST_TEST_PASSED) utest_label_('g', "[       OK ]");
    else if (result == UTEST_TEST_SKIPPED) utest_label_('y', "[  SKIPPED ]");
    else utest_label_('r', "[  FAILED  ]");
}

static UTEST_UNUSED_ void utest_run_one_(struct utest_case_ *one, int mixed_units) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    char buf[1024];
    const char *name = utest_name_(one, buf, sizeof buf);
    int64_t begin, took;
    int unit = 0;
    utest_label_('g', "[ RUN      ]");
    printf("%s\n", name);
    fflush(stdout);
    if (utest_state.output) {
        fputs("<testcase name=\"", utest_state.output);
        utest_xml_(name);
        fputs("\">", utest_state.output);
    }
    utest_state.in_failure = 0;
    errno = 0;
    begin = utest_now_ns_();
    one->run(&one->result, one->index);
    took = utest_now_ns_() - begin;
    if (utest_state.output) {
        if (one->result == UTEST_TEST_SKIPPED) fputs("<skipped/>", utest_state.output);
        fputs(utest_state.in_failure ? "</failure></testcase>\n" : "</testcase>\n", utest_state.output);
    }
    for (; mixed_units && took >= 10000 && unit < 3; unit++) took /= 1000;
    utest_result_line_(one->result);
    printf("%s (%lld%s)\n", name, (long long)took, units[unit]);
    fflush(stdout);
}

static UTEST_UNUSED_ int utest_count_(const struct utest_options_ *options, int result, int list) {
    const struct utest_case_ *one;
    char buf[1024];
    int count = 0;
    for (one = utest_state.first; one; one = one->next) {
        if (one->result != result || !utest_chosen_(options, one)) continue;
        count++;
        if (list) {
            utest_result_line_(result);
            printf("%s\n", utest_name_(one, buf, sizeof buf));
        }
    }
    return count;
}

static UTEST_UNUSED_ int utest_run_all_(const struct utest_options_ *options) {
    struct utest_case_ *one;
    const int chosen = utest_count_(options, UTEST_TEST_PASSED, 0);  // before the run none has another result
    int skipped, failed;
    utest_label_('g', "[==========]");
    printf("Running %d test cases.\n", chosen);
    if (utest_state.output) fprintf(utest_state.output, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites tests=\"%d\" name=\"All\">\n<testsuite name=\"Tests\" tests=\"%d\">\n", chosen, chosen);
    for (one = utest_state.first; one; one = one->next)
        if (utest_chosen_(options, one)) utest_run_one_(one, options->mixed_units);
    skipped = utest_count_(options, UTEST_TEST_SKIPPED, 0);
    failed = utest_count_(options, UTEST_TEST_FAILURE, 0);
    utest_label_('g', "[==========]");
    printf("%d test cases ran.\n", chosen);
    utest_label_('g', "[  PASSED  ]");
    printf("%d tests.\n", chosen - skipped - failed);
    if (skipped) {
        utest_label_('y', "[  SKIPPED ]");
        printf("%d tests, listed below:\n", skipped);
        utest_count_(options, UTEST_TEST_SKIPPED, 1);
    }
    if (failed) {
        utest_label_('r', "[  FAILED  ]");
        printf("%d tests, listed below:\n", failed);
        utest_count_(options, UTEST_TEST_FAILURE, 1);
    }
    if (utest_state.output) fputs("</testsuite>\n</testsuites>\n", utest_state.output);
    return failed < 255 ? failed : 255;
}

static UTEST_UNUSED_ int utest_main(int argc, const char *const *argv) {
    struct utest_options_ options = {NULL, 0, 0, 0, 0, 0, 0, 0};
    const struct utest_case_ *one;
    char buf[1024];
    int status = 0;
    if (!utest_parse_(argc, argv, &options)) return 255;
    if (options.help) {
        printf("Runs the tests built into this program; the exit status is the number that failed.\n"
               "  --help                   this text\n"
               "  --list-tests             the names, one a line\n"
               "  --filter=PATTERN         only tests of this name; * stands for any characters\n"
               "  --shard=K/N              only every N-th of these, from the K-th on\n"
               "  --output=FILE            also write the results as JUnit XML\n"
               "  --enable-mixed-units     times in ns, us, ms or s, whichever reads best\n"
               "  --random-order[=SEED]    in another order each time, or in that of a seed\n");
    } else if (options.list) {
        for (one = utest_state.first; one; one = one->next) printf("%s\n", utest_name_(one, buf, sizeof buf));
    } else {
        if (options.shuffle) {
            printf("--random-order=%lu\n", (unsigned long)options.seed);
            utest_shuffle_(options.seed);
        }
        if (options.shards) utest_take_shard_(&options);
        status = utest_run_all_(&options);
    }
    if (utest_state.output && fclose(utest_state.output) != 0) {
        fprintf(stderr, "--output: %s\n", strerror(errno));
        status = status ? status : 255;
    }
    utest_state.output = NULL;
    return status;
}

#endif // UTEST_HEADER
#endif // UTEST_CHOICE_INCLUDED
