/* A record of the file store. First the reader alone: what it accepts is JSON with every required field once, and reads the same
   when written again. Then an election over a directory that holds the input: nobody leads over a record that cannot be read, or
   that is somebody else's, before a full lease has passed.

   The input is the record with the highest number; after a line "---" comes one with a lower number, after another the copy. If both
   records are empty lines there is only the copy: a store that was wiped. */
#include "fuzz.h"
#include "json.h"
#include <dirent.h>

enum { RECORD_NUMBER = 1000, RECORD_BELOW = 900, RECORD_LEASE_MS = 3000 };
static char record_top[256], record_path[300], record_dir[320];

/* Removes a directory with its files. */
static void record_remove(const char *path) {
    char name[700];
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        (void)unlink(name);
    }
    if (dir) closedir(dir);
    (void)rmdir(path);
}

static void record_make_dir(void) {
    const char *place = getenv("TMPDIR");
    snprintf(record_top, sizeof record_top, "%.200s/leader-fuzz-XXXXXX", place && place[0] ? place : "/tmp");
    MUST(mkdtemp(record_top) != NULL);
    snprintf(record_path, sizeof record_path, "%s/job", record_top);
    snprintf(record_dir, sizeof record_dir, "%s.d", record_path);
    MUST(mkdir(record_dir, 0700) == 0);
}

static void record_put(const char *name, json_span text) {
    char path[400];
    snprintf(path, sizeof path, "%s%s", record_path, name);
    FILE *file = fopen(path, "wb");
    MUST(file && fwrite(text.at, 1, (size_t)(text.end - text.at), file) == (size_t)(text.end - text.at));
    MUST(fclose(file) == 0);
}

static bool record_round_trip(const char *text, size_t size, leader_lease_ *r) {
    static const char *const required[] = {"holder", "renewTime", "leaseDuration", "token", "nonce", "seq"};
    char again[4096], why[160] = "", holder[2000];
    leader_lease_ back;
    json_span root, member, value;
    int depth;
    bool json = json_document(text, size, &root, &depth);
    if (!leader_file_parse_(text, size, r, why, sizeof why)) {
        MUST(why[0] && fuzz_is_utf8(why, strlen(why)));
        return false;
    }
    MUST(json);
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) MUST(json_find(root, required[i], &member, &value) == 1);
    MUST(r->token > 0 && r->token < UINT64_C(1) << 53 && r->lease_ms > 0 && r->lease_ms <= (uint64_t)LEADER_TIME_MAX_MS_ && fuzz_is_utf8(r->holder, strlen(r->holder)));
    MUST(leader_json_quote_(holder, sizeof holder, r->holder) < sizeof holder);
    char boot[300];
    MUST(leader_json_quote_(boot, sizeof boot, r->boot_id) < sizeof boot);
    int n = snprintf(again, sizeof again, "{\"holder\":%s,\"renewTime\":\"2026-11-16T01:28:19Z\",\"leaseDuration\":\"%llums\",\"token\":%llu,\"nonce\":\"%016llX\",\"seq\":%llu,"
                     "\"bootId\":%s,\"timeNamespace\":%llu,\"bootClockMs\":%llu,\"lockDevice\":%llu,\"lockInode\":%llu,\"holdOffMs\":%llu}",
                     holder, (unsigned long long)r->lease_ms, (unsigned long long)r->token, (unsigned long long)r->nonce, (unsigned long long)r->seq, boot,
                     (unsigned long long)r->time_namespace, (unsigned long long)r->stamp_ms, (unsigned long long)r->lock_device, (unsigned long long)r->lock_inode,
                     (unsigned long long)r->hold_off_ms);
    MUST(n > 0 && (size_t)n < sizeof again && leader_file_parse_(again, (size_t)n, &back, why, sizeof why));
    back.form = r->form;
    MUST(memcmp(&back, r, sizeof back) == 0);
    return true;
}

/* From when on may somebody else lead? INT64_MIN: at once. A stamp of this very boot counts from the stamp. */
static int64_t record_free_at(bool readable, const leader_lease_ *r, int64_t now) {
    int64_t from = now, length = readable ? (int64_t)r->lease_ms : RECORD_LEASE_MS;
    if (readable && !r->holder[0]) return INT64_MIN;
    if (readable && (int64_t)r->hold_off_ms > length) length = (int64_t)r->hold_off_ms;
    if (readable && strcmp(r->boot_id, "boot") == 0 && r->time_namespace == 7 && r->stamp_ms > 0 && (int64_t)r->stamp_ms <= now) from = (int64_t)r->stamp_ms;
    return from + length;
}

/* A copy without its record: whoever wrote it may still lead, for its lease or for ours. */
static int64_t record_wiped_free_at(bool readable, const leader_lease_ *copy, int64_t now) {
    if (readable && !copy->holder[0]) return INT64_MIN;
    return now + (readable && copy->lease_ms > RECORD_LEASE_MS ? (int64_t)copy->lease_ms : RECORD_LEASE_MS);
}

static void record_elect(json_span *part, int parts, bool wiped, bool readable, const leader_lease_ *top, int64_t free_at) {
    leader_file file;
    leader_config cfg;
    leader_t l;
    char name[16];
    memset(&cfg, 0, sizeof cfg);
    record_make_dir();
    snprintf(name, sizeof name, ".d/%d", RECORD_NUMBER);
    if (!wiped) record_put(name, part[0]);
    snprintf(name, sizeof name, ".d/%d", RECORD_BELOW);
    if (!wiped && parts > 1) record_put(name, part[1]);
    if (parts > 2) record_put("", part[2]);
    cfg.identity = "me";
    cfg.backend = leader_file_backend(&file, record_path);
    cfg.lease_ms = RECORD_LEASE_MS;
    cfg.clock_ms = fuzz_clock_ms;
    MUST(leader_init(&l, &cfg) == LEADER_OK);
    file.ready = true;                              /* the machine's own identity would not be the same elsewhere     */
    memcpy(file.boot_id, "boot", 5);
    file.time_namespace = 7;

    leader_record seen;
    leader_request q;
    memset(&seen, 0, sizeof seen);
    memset(&q, 0, sizeof q);
    leader_result looked = leader_file_observe_(&file, &q, &seen);
    if (wiped) MUST(looked == LEADER_OK);
    else if (!readable) MUST(looked == LEADER_E_CORRUPT);
    else if (top->token <= RECORD_NUMBER) MUST(strcmp(seen.holder, top->holder) == 0 && seen.token == top->token);

    for (int step = 0; step < 12; step++) {
        leader_tick(&l);
        if (leader_is_leader(&l)) {
            MUST(fuzz_now_ms > free_at);
            MUST(leader_token(&l) > RECORD_NUMBER && (!readable || leader_token(&l) > top->token || top->token == LEADER_NUMBER_MAX_));
        }
        fuzz_now_ms += step % 3 ? 1 : RECORD_LEASE_MS / 3;
    }
    (void)leader_close(&l, 0);
    record_remove(record_dir);
    record_remove(record_top);
    MUST(access(record_top, F_OK) != 0);            /* nothing else was made                                          */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char mark[] = "\n---\n";
    json_span part[3];
    leader_lease_ r[3];
    bool readable[3] = {false, false, false};
    int parts = 0;
    fuzz_reset();
    char *text = fuzz_text(data, size), *at = text, *end = text + size;
    while (parts < 3) {
        char *cut = parts < 2 ? strstr(at, mark) : NULL;
        part[parts].at = at;
        part[parts].end = cut ? cut + 1 : end;
        readable[parts] = record_round_trip(at, (size_t)(part[parts].end - at), &r[parts]);
        parts++;
        if (!cut) break;
        at = cut + sizeof mark - 1;
    }
    json_span root;
    int depth;
    if (size > 20000 || (size % 8 && parts < 3 && !json_document(part[0].at, (size_t)(part[0].end - part[0].at), &root, &depth))) {
        free(text);                                 /* an election takes long, and to it one piece of rubbish is like another */
        return 0;
    }
    bool counts = readable[0] && r[0].token <= RECORD_NUMBER && part[0].end - part[0].at <= LEADER_FILE_TEXT_MAX_;
    int64_t free_at = record_free_at(counts, &r[0], fuzz_now_ms);
    if (parts > 1) {
        bool below = readable[1] && r[1].token <= RECORD_BELOW && part[1].end - part[1].at <= LEADER_FILE_TEXT_MAX_;
        int64_t below_at = record_free_at(below, &r[1], fuzz_now_ms);
        if (!(below && counts && r[1].nonce == r[0].nonce) && below_at > free_at) free_at = below_at;
    }
    bool wiped = parts == 3 && part[0].end - part[0].at <= 1 && part[1].end - part[1].at <= 1;
    if (wiped) {
        counts = readable[2] && part[2].end - part[2].at <= LEADER_FILE_TEXT_MAX_;
        r[0] = r[2];
        free_at = record_wiped_free_at(counts, &r[2], fuzz_now_ms);
    }
    record_elect(part, parts, wiped, counts, &r[0], free_at);
    free(text);
    return 0;
}
