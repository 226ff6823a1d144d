/* leader_init with arbitrary settings. What the header's comments say about them is restated here, apart
   from the code: a config is accepted exactly if it fits, filled in with the documented defaults; a
   refusal names a field, and nothing was opened. */
#include "fuzz.h"

enum { CONFIG_OPENED, CONFIG_CLOSED };
static int config_calls[2];

static leader_result config_ask(void *self, const leader_request *q, leader_record *seen) {
    (void)self;
    (void)q;
    (void)seen;
    return LEADER_E_IO;
}
static const char *config_open(void *self, const leader_host *host) {
    (void)self;
    (void)host;
    config_calls[CONFIG_OPENED]++;
    return NULL;
}
static void config_close(void *self) { (void)self; config_calls[CONFIG_CLOSED]++; }

static int64_t config_default(int64_t value, int64_t otherwise) { return value ? value : otherwise; }
static int64_t config_most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t config_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Does it fit? Then *c has its defaults filled in. */
static bool config_fits(leader_config *c) {
    const int64_t ten_years = INT64_C(315360000000);
    int64_t times[] = {c->lease_ms, c->renew_deadline_ms, c->renew_ms,           c->renew_retry_ms,
                       c->retry_ms, c->retry_max_ms,      c->request_timeout_ms, c->drain_timeout_ms};
    size_t length = c->identity ? strlen(c->identity) : 0;
    bool single_node = !c->backend.acquire && !c->backend.open;
    bool needs_identity = c->identity || !single_node;
    if (needs_identity && (length < 1 || length > 255 || !fuzz_is_utf8(c->identity, length))) return false;
    if (single_node) c->backend = leader_single_backend();
    if (!c->backend.acquire || !c->backend.renew || !c->backend.release
        || (c->observe_only && !c->backend.observe))
        return false;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (times[i] < 0 || times[i] > ten_years)
            return false;
    if (c->renew_retries < LEADER_NO_RETRIES || c->renew_retries > 1000) return false;
    c->lease_ms = config_default(c->lease_ms, 15000);
    c->renew_deadline_ms = config_default(c->renew_deadline_ms, c->lease_ms * 2 / 3);
    c->renew_ms = config_default(c->renew_ms, c->lease_ms / 3);
    int64_t slack = c->renew_deadline_ms - c->renew_ms;
    if (c->lease_ms < 30 || c->renew_deadline_ms >= c->lease_ms || slack < 2 || c->renew_ms < 1) return false;
    c->renew_retry_ms = config_default(c->renew_retry_ms, config_most(1, config_least(500, slack / 10)));
    c->renew_retries = c->renew_retries ? c->renew_retries : -1;
    c->retry_ms = config_default(c->retry_ms, config_most(1, config_least(2000, c->renew_ms)));
    c->retry_max_ms = config_default(c->retry_max_ms, config_most(60000, c->retry_ms));
    c->request_timeout_ms = config_default(c->request_timeout_ms, config_most(1, slack / 2));
    if (c->retry_max_ms < c->retry_ms || c->request_timeout_ms > slack) return false;
    /* 500, 1000, 2000, 2000, ... must be over before the deadline */
    int64_t n = c->renew_retries, factor = n < 1 ? 0 : n == 1 ? 1 : 3 + (n - 2) * 4;
    return factor == 0 || c->renew_retry_ms < (slack + factor - 1) / factor;
}

static bool config_same(const leader_config *a, const leader_config *b) {
    return a->lease_ms == b->lease_ms && a->renew_deadline_ms == b->renew_deadline_ms
           && a->renew_ms == b->renew_ms && a->renew_retry_ms == b->renew_retry_ms
           && a->renew_retries == b->renew_retries && a->retry_ms == b->retry_ms
           && a->retry_max_ms == b->retry_max_ms && a->request_timeout_ms == b->request_timeout_ms
           && a->drain_timeout_ms == b->drain_timeout_ms;
}

static bool config_names_a_field(const char *error) {
    static const char *const fields[] = {"identity",           "backend.",        "lease_ms",
                                         "renew_deadline_ms",  "renew_ms",        "renew_retry_ms",
                                         "renew_retries",      "retry_ms",        "retry_max_ms",
                                         "request_timeout_ms", "drain_timeout_ms"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strncmp(error, fields[i], strlen(fields[i])) == 0)
            return true;
    return false;
}

static void config_read(fuzz_input *in, leader_config *c) {
    int64_t *times[] = {&c->lease_ms, &c->renew_deadline_ms, &c->renew_ms,           &c->renew_retry_ms,
                        &c->retry_ms, &c->retry_max_ms,      &c->request_timeout_ms, &c->drain_timeout_ms};
    unsigned flags = fuzz_byte(in), lacks = fuzz_byte(in);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) *times[i] = fuzz_number(in);
    c->renew_retries = (int)fuzz_number(in);
    c->observe_only = flags & 1;
    c->cautious_start = flags & 2;
    c->clock_ms = fuzz_clock_ms;
    if (!(flags & 4)) {
        c->backend.open = config_open;
        c->backend.close = config_close;
        c->backend.acquire = lacks & 1 ? NULL : config_ask;
        c->backend.renew = lacks & 2 ? NULL : config_ask;
        c->backend.release = lacks & 4 ? NULL : config_ask;
        c->backend.observe = lacks & 8 ? NULL : config_ask;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = fuzz_open(data, size);
    leader_config given, before, want;
    leader_t l;
    fuzz_reset();
    memset(&given, 0, sizeof given);
    memset(&l, 0xa5, sizeof l);
    memset(config_calls, 0, sizeof config_calls);
    config_read(&in, &given);
    char *identity = fuzz_text(in.at, (size_t)(in.end - in.at));
    given.identity = size > 0 && data[0] & 8 ? NULL : identity;
    memcpy(&before, &given, sizeof before);
    memcpy(&want, &given, sizeof want);
    bool fits = config_fits(&want);

    leader_result result = leader_init(&l, &given);
    MUST(memcmp(&before, &given, sizeof before) == 0);
    MUST(result == (fits ? LEADER_OK : LEADER_E_CONFIG));
    MUST(!leader_is_leader(&l) && leader_token(&l) == 0);
    if (fits) {
        MUST(config_same(&l.cfg, &want));
        MUST(leader_error(&l)[0] == 0 && leader_get_state(&l) == LEADER_STATE_FOLLOWER);
        MUST(l.cfg.identity != identity
             && (given.identity ? strcmp(l.cfg.identity, identity) == 0 : l.cfg.identity[0] != 0));
        int wait = leader_tick(&l);
        MUST(wait >= 1 && wait <= LEADER_WAIT_MAX_MS);
        MUST(leader_is_leader(&l)
             == (given.backend.acquire == NULL && !given.observe_only && !given.cautious_start));
    } else {
        MUST(config_names_a_field(leader_error(&l)) && strlen(leader_error(&l)) < 160);
        MUST(fuzz_is_utf8(leader_error(&l), strlen(leader_error(&l))));
        MUST(leader_get_state(&l) == LEADER_STATE_NONE && leader_is_stopped(&l));
    }
    MUST(config_calls[CONFIG_OPENED] == (fits && given.backend.open));
    (void)leader_close(&l, 0);
    MUST(config_calls[CONFIG_CLOSED] == config_calls[CONFIG_OPENED]
         && leader_get_state(&l) == LEADER_STATE_NONE);
    free(identity);
    return 0;
}
