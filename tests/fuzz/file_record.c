/* The record of the file store. First the name alone: what the reader accepts, it writes the same way
   again. Then the text: what it accepts is JSON with every required field once. Then an election over a
   directory that holds both: nobody leads over a record that cannot be read, or that is somebody else's,
   before a full lease has passed.

   The input is the name of the record, a line "---", its text, another such line, and the copy. An empty
   name: a store that was wiped. */
#include "fuzz.h"
#include "json.h"
#include <dirent.h>

enum { RECORD_LEASE_MS = 3000 };
static char record_top[256], record_path[300], record_dir[320];

/* Removes a directory with all that is in it. */
static void record_remove(const char *path) {
    char name[700];
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(name, sizeof name, "%s/%.300s", path, e->d_name);
        if (unlink(name) != 0) record_remove(name);
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
    char path[700];
    snprintf(path, sizeof path, "%s%s", record_path, name);
    FILE *file = fopen(path, "wb");
    MUST(file && fwrite(text.at, 1, (size_t)(text.end - text.at), file) == (size_t)(text.end - text.at));
    MUST(fclose(file) == 0);
}

/* The reader of names: one spelling, within bounds. */
static bool record_name(json_span part, char *name, size_t cap, leader_name_ *parsed) {
    char again[LEADER_ENTRY_VERSION_MAX + 1];
    size_t len = (size_t)(part.end - part.at);
    if (len >= cap) return false;
    memcpy(name, part.at, len);
    name[len] = 0;
    if (!leader_name_parse_(name, parsed)) return false;
    leader_name_text_(parsed, again, sizeof again);
    MUST(strcmp(name, again) == 0 && strlen(again) < sizeof again - 1);
    MUST(parsed->token > 0 && parsed->token <= LEADER_TOKEN_MAX_
         && parsed->lease_ms > 0 && parsed->lease_ms <= (uint64_t)LEADER_TIME_MAX_MS_
         && parsed->hold_off_ms <= (uint64_t)LEADER_TIME_MAX_MS_);
    return true;
}

static bool record_text(json_span part, leader_term_ *term) {
    static const char *const required[] = {"holder", "renewTime", "leaseDuration"};
    size_t size = (size_t)(part.end - part.at);
    char why[160] = "";
    json_span root, member, value;
    leader_json_ json;
    int depth;
    bool is_json = json_document(part.at, size, &root, &depth);
    memset(term, 0, sizeof *term);
    bool good = leader_entry_parse_(part.at, size, &term->entry, &json, why, sizeof why)
                && leader_term_parse_(json, term, why, sizeof why);
    if (!good) {
        MUST(why[0] && fuzz_is_utf8(why, strlen(why)));
        return false;
    }
    MUST(is_json);
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        MUST(json_find(root, required[i], &member, &value) == 1);
    const leader_entry *e = &term->entry;
    MUST(e->lease_ms > 0 && e->lease_ms <= LEADER_TIME_MAX_MS_ && e->token <= LEADER_TOKEN_MAX_
         && fuzz_is_utf8(e->holder, strlen(e->holder)));
    return size <= LEADER_FILE_TEXT_MAX_;
}

/* From when on may somebody else lead? INT64_MIN: at once. A stamp of this very boot counts from the
   stamp. A record that cannot be read counts for its lease or ours, whichever is longer. */
static int64_t record_free_at(bool readable, const leader_term_ *term, const leader_name_ *name,
                              int64_t now) {
    bool ours = readable && term->entry.nonce == name->nonce;
    int64_t from = now, length = (int64_t)name->lease_ms;
    if (ours && (name->released || !term->entry.holder[0])) return INT64_MIN;
    if (!ours && length < RECORD_LEASE_MS) length = RECORD_LEASE_MS;
    if ((int64_t)name->hold_off_ms > length) length = (int64_t)name->hold_off_ms;
    bool shared = ours && strcmp(term->boot_id, "boot") == 0 && term->time_namespace == 7;
    if (shared && name->stamp_ms > 0 && (int64_t)name->stamp_ms <= now) from = (int64_t)name->stamp_ms;
    return from + length;
}

/* A copy without its record: its writer may still lead, for its lease; what cannot be read, for ours. */
static int64_t record_wiped_free_at(bool there, bool readable, const leader_term_ *copy, int64_t now) {
    if (!there || (readable && !copy->entry.holder[0])) return INT64_MIN;
    return now + (readable ? copy->entry.lease_ms : RECORD_LEASE_MS);
}

static void record_elect(int64_t free_at, uint64_t token) {
    leader_file file;
    leader_config cfg;
    leader_t l;
    memset(&cfg, 0, sizeof cfg);
    cfg.identity = "me";
    cfg.backend = leader_file_backend(&file, record_path);
    cfg.lease_ms = RECORD_LEASE_MS;
    cfg.clock_ms = fuzz_clock_ms;
    MUST(leader_init(&l, &cfg) == LEADER_OK);
    file.ready = true;  // the machine's own identity would not be the same elsewhere
    memcpy(file.boot_id, "boot", 5);
    file.time_namespace = 7;
    for (int step = 0; step < 12; step++) {
        leader_tick(&l);
        if (leader_is_leader(&l)) {
            MUST(fuzz_now_ms > free_at);
            MUST(leader_token(&l) > token);
        }
        fuzz_now_ms += step % 3 ? 1 : RECORD_LEASE_MS / 3;
    }
    (void)leader_close(&l, 0);
    record_remove(record_dir);
    record_remove(record_top);
    MUST(access(record_top, F_OK) != 0);            // nothing else was made
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char mark[] = "\n---\n";
    json_span part[3];
    leader_term_ term, copy;
    leader_name_ name;
    char text_name[700], version[300], term_name[LEADER_FILE_NAME_MAX_];
    int parts = 0;
    fuzz_reset();
    char *text = fuzz_text(data, size), *at = text, *end = text + size;
    while (parts < 3) {
        char *cut = parts < 2 ? strstr(at, mark) : NULL;
        part[parts].at = at;
        part[parts].end = cut ? cut : end;
        parts++;
        if (!cut) break;
        at = cut + sizeof mark - 1;
    }
    bool named = record_name(part[0], version, sizeof version, &name);
    bool readable = parts > 1 && record_text(part[1], &term);
    bool copy_readable = parts > 2 && record_text(part[2], &copy);
    record_make_dir();
    if (parts > 2) record_put("", part[2]);
    int64_t free_at;
    uint64_t token = 0;
    if (named) {
        char dir[400];
        json_span nothing = {text, text};
        snprintf(dir, sizeof dir, "%s/record", record_dir);
        MUST(mkdir(dir, 0700) == 0);
        snprintf(text_name, sizeof text_name, ".d/record/%s", version);
        record_put(text_name, nothing);
        leader_file_term_name_(term_name, name.nonce, name.draft);
        snprintf(text_name, sizeof text_name, ".d/%s", term_name);
        if (parts > 1) record_put(text_name, part[1]);
        free_at = record_free_at(readable, &term, &name, fuzz_now_ms);
        token = name.token;
    } else {
        free_at = record_wiped_free_at(parts > 2, copy_readable, &copy, fuzz_now_ms);
        if (copy_readable) token = copy.entry.token;
    }
    if (named && free_at == INT64_MIN && copy_readable && copy.entry.nonce == 0 && copy.entry.holder[0])
        free_at = fuzz_now_ms + copy.entry.lease_ms;    // another program has taken its turn
    record_elect(free_at, token);
    free(text);
    return 0;
}
