/* Many elections on one store: NAME-0, NAME-1, and so on, over one connection. The store is what options.h
   chose; of a majority each store has a connection of its own. Include options.h first.

       family all;
       family_member members[256];
       family_init(&all, &chosen);
       cfg.backend = family_backend(&all, &members[i], i);        // for each election */
#ifndef FAMILY_H_INCLUDED
#define FAMILY_H_INCLUDED

/* What the elections share at one store. */
typedef struct family_line {
#if defined(LEADER_WITH_REDIS)
    leader_redis_client redis;
#endif
#if defined(LEADER_HTTP_H_INCLUDED)
    leader_http_client  http;
#endif
#if defined(LEADER_WITH_PG)
    leader_pg_client    pg;
#endif
    int                 unused;             // a C struct is never empty
} family_line;

typedef struct family {
    const store *chosen;                    // without mistakes; has to outlive the family
    family_line  lines[STORE_VOTES_MAX];
} family;

typedef struct family_member {
    store at;
    store votes[STORE_VOTES_MAX];
    char  names[STORE_VOTES_MAX][600];
} family_member;

static inline void family_init_line(family_line *line, const store *s) {
    memset(line, 0, sizeof *line);
#if defined(LEADER_WITH_REDIS)
    if (s->redis || s->sentinels) {
        store copy = *s;
        leader_redis_config how = store_redis_settings(&copy);
        leader_redis_client_init(&line->redis, &how);
    }
#endif
    (void)s;
}

static inline void family_init(family *f, const store *chosen) {
    f->chosen = chosen;
    for (int i = 0; chosen->votes && i < chosen->url_count; i++) {
        family_init_line(&f->lines[i], &chosen->votes[i]);
    }
    if (!chosen->votes) {
        family_init_line(&f->lines[0], chosen);
    }
}

/* A copy of the choice, for one election of the family. */
static inline void family_name(store *to, const store *like, family_line *line, char name[600], int number) {
    *to = *like;
    snprintf(name, 600, "%s-%d", store_election(like), number);
    const char **field = like->file ? &to->file : &to->name;
    if (like->k8s) {
        field = &to->k8s;
    }
    *field = name;
#if defined(LEADER_WITH_REDIS)
    to->redis_client = &line->redis;
#endif
#if defined(LEADER_HTTP_H_INCLUDED)
    to->http_client = &line->http;
#endif
#if defined(LEADER_WITH_PG)
    to->pg_client = &line->pg;
#endif
    (void)line;
}

/* The backend of election `number`. The member has to outlive it. */
static inline leader_backend family_backend(family *f, family_member *m, int number) {
    const store *like = f->chosen;
    if (!like->votes) {
        family_name(&m->at, like, &f->lines[0], m->names[0], number);
        return store_backend(&m->at);
    }
    m->at = *like;
    m->at.votes = m->votes;
    for (int i = 0; i < like->url_count; i++) {
        family_name(&m->votes[i], &like->votes[i], &f->lines[i], m->names[i], number);
    }
    return store_backend(&m->at);
}

#endif // FAMILY_H_INCLUDED
