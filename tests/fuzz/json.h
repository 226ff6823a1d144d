/* json.h - a reader of JSON for the fuzz targets to compare with, written apart from the one in leader.h
   (RFC 8259, UTF-8). */
#ifndef FUZZ_JSON_H_INCLUDED
#define FUZZ_JSON_H_INCLUDED
#include "fuzz.h"

typedef struct json_span { const char *at, *end; } json_span;

static bool json_is(const char *p, const char *end, const char *set) {
    return p < end && *p && strchr(set, *p) != NULL;
}

static const char *json_space(const char *p, const char *end) {
    while (json_is(p, end, " \t\r\n")) p++;
    return p;
}

static const char *json_digits(const char *p, const char *end) {
    const char *start = p;
    while (json_is(p, end, "0123456789")) p++;
    return p > start ? p : NULL;
}

static const char *json_number(const char *p, const char *end) {
    if (json_is(p, end, "-")) p++;
    if (json_is(p, end, "0")) p++;
    else if (!(p = json_digits(p, end))) return NULL;
    if (json_is(p, end, ".") && !(p = json_digits(p + 1, end))) return NULL;
    if (!json_is(p, end, "eE")) return p;
    p++;
    return json_digits(json_is(p, end, "+-") ? p + 1 : p, end);
}

static const char *json_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"';) {
        size_t width = *p == '\\' ? 2 : fuzz_utf8(p, (size_t)(end - p));
        if (width == 0 || (unsigned char)*p < 0x20 || (size_t)(end - p) < width) return NULL;
        if (*p == '\\' && p[1] == 'u') {
            width = 6;
            if (end - p < 6) return NULL;
            for (int i = 2; i < 6; i++) if (!json_is(p + i, end, "0123456789abcdefABCDEF")) return NULL;
        } else if (*p == '\\' && !json_is(p + 1, end, "\"\\/bfnrt")) {
            return NULL;
        }
        p += width;
    }
    return p < end ? p + 1 : NULL;
}

/* The end of the value at p, or NULL; *depth is the deepest nesting met. */
static const char *json_value(const char *p, const char *end, int level, int *depth) {
    if (level > *depth) *depth = level;
    if (p >= end || level > 200) return NULL;
    if (*p == '"') return json_string(p, end);
    if (end - p >= 4 && (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0)) return p + 4;
    if (end - p >= 5 && memcmp(p, "false", 5) == 0) return p + 5;
    if (*p != '{' && *p != '[') return json_number(p, end);
    const char open = *p, close = open == '{' ? '}' : ']';
    p = json_space(p + 1, end);
    if (p < end && *p == close) return p + 1;
    for (;; p = json_space(p + 1, end)) {
        if (open == '{') {
            if (!json_is(p, end, "\"") || !(p = json_string(p, end))) return NULL;
            p = json_space(p, end);
            if (!json_is(p, end, ":")) return NULL;
            p = json_space(p + 1, end);
        }
        if (!(p = json_value(p, end, level + 1, depth))) return NULL;
        p = json_space(p, end);
        if (p < end && *p == close) return p + 1;
        if (!json_is(p, end, ",")) return NULL;
    }
}

/* Is the text one JSON value and nothing else? */
static bool json_document(const char *text, size_t size, json_span *root, int *depth) {
    *depth = 0;
    root->at = json_space(text, text + size);
    root->end = json_value(root->at, text + size, 1, depth);
    return root->end && json_space(root->end, text + size) == text + size;
}

/* What a string without surrogates stands for; false: it has some, or a NUL, or does not fit. */
static bool json_decode(json_span string, char *out, size_t cap) {
    size_t n = 0;
    for (const char *p = string.at + 1; p < string.end - 1; p++) {
        unsigned long c = (unsigned char)*p;
        if (n + 5 > cap) return false;
        if (c == '\\' && p[1] != 'u') {
            static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
            out[n++] = means[strchr(names, *++p) - names];
            continue;
        }
        if (c != '\\') { out[n++] = *p; continue; }
        char digits[5] = {p[2], p[3], p[4], p[5], 0};
        c = strtoul(digits, NULL, 16);
        p += 5;
        if (c == 0 || (c >= 0xd800 && c < 0xe000)) return false;
        if (c < 0x80) out[n++] = (char)c;
        else if (c < 0x800) { out[n++] = (char)(0xc0 | c >> 6); out[n++] = (char)(0x80 | (c & 0x3f));
        } else {
            out[n++] = (char)(0xe0 | c >> 12);
            out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[n++] = (char)(0x80 | (c & 0x3f));
        }
    }
    out[n] = 0;
    return true;
}

/* How often the object has a member of that name; the last of them, from its name's quote on, and its
   value. */
FUZZ_UNUSED static int json_find(json_span object, const char *name, json_span *member, json_span *value) {
    int found = 0, depth = 0;
    if (object.at == object.end || *object.at != '{') return 0;
    for (const char *p = json_space(object.at + 1, object.end); *p == '"';
         p = json_space(p + 1, object.end)) {
        char key[300];
        json_span k = {p, json_string(p, object.end)}, v = {NULL, NULL};
        MUST(k.end != NULL);
        v.at = json_space(json_space(k.end, object.end) + 1, object.end);
        v.end = json_value(v.at, object.end, 1, &depth);
        MUST(v.end != NULL);
        if (json_decode(k, key, sizeof key) && strcmp(key, name) == 0) {
            found++;
            *value = v;
            member->at = k.at;
            member->end = v.end;
        }
        p = json_space(v.end, object.end);
        if (*p != ',') break;
    }
    return found;
}

FUZZ_UNUSED static bool json_is_null(json_span v) {
    return v.end - v.at == 4 && memcmp(v.at, "null", 4) == 0;
}

#endif
