/* A store that compares and swaps, under the real engine of leader.h: a record, a version that differs
   with every write, and nothing that expires by itself. It may number its changes or not, tell of them or
   not; an operator deletes, re-creates and labels the record; a wipe may start the numbers again. */

static struct {
    bool         exists;
    leader_entry record;
    uint64_t     uid, uids, revision;  // a version is both: numbers come again after a wipe
    bool         knows_deaths;                                  // it says when a holder's process is gone
    bool         counts;  // it shows its revision, and an identity of each record
} shelf;

static void shelf_reset(void) { memset(&shelf, 0, sizeof shelf); }

static bool shelf_holder_lives(void) {
    for (int i = 0; i < sim.count; i++) {
        if (sim.all[i].up && sim.all[i].nonce == shelf.record.nonce) {
            return true;
        }
    }
    return false;
}

static void shelf_show(leader_entry *out) {
    memset(out, 0, sizeof *out);
    if (!shelf.exists) {
        return;
    }
    *out = shelf.record;
    snprintf(out->version, sizeof out->version, "%llu.%llu", (unsigned long long)shelf.uid,
             (unsigned long long)shelf.revision);
    out->dead = shelf.knows_deaths && out->holder[0] && !shelf_holder_lives();
    if (shelf.counts) {
        out->revision = shelf.revision;
        out->origin   = shelf.uid;
    }
}

/* Everybody who listens is told, sooner or later or never. */
static void shelf_announce(void) {
    for (int i = 0; i < sim.count; i++) {
        bool lost = sim.phase == PHASE_CHAOS && rng_permille(&sim.net_rng, sim.lose_permille);
        if (!sim.all[i].up || sim.all[i].plan.no_notice) {
            continue;
        }
        if (lost) {
            run.faults[FAULT_LOST_NOTICE]++;
            continue;
        }
        message m;
        memset(&m, 0, sizeof m);
        m.who = i;
        m.incarnation = sim.all[i].incarnation;
        shelf_show(&m.entry);
        plan_event(sim.now_us + net_delay_us(), EV_NOTICE, i, 0, message_new(&m));
    }
}

static void shelf_put(const leader_entry *next) {
    if (!shelf.exists) {
        shelf.uid = ++shelf.uids;
    }
    shelf.exists = true;
    shelf.record = *next;
    shelf.revision++;
    shelf_announce();
}

static void shelf_delete(bool numbers_too) {
    if (numbers_too) {
        shelf.revision = 0;
    }
    if (!shelf.exists) {
        return;
    }
    shelf.exists = false;
    shelf.revision++;
    shelf_announce();
}

static bool shelf_recreate(void) {                              // by an operator: an empty one
    leader_entry blank;
    memset(&blank, 0, sizeof blank);
    if (!shelf.counts) {  // without an identity one blank record is like another
        return false;
    }
    shelf_delete(false);
    shelf_put(&blank);
    return true;
}

static bool shelf_label(void) {
    if (!shelf.exists) {
        return false;
    }
    shelf_put(&shelf.record);
    return true;
}

/* Without an identity of its own, a record that the same request makes once more after a wipe is the same
   record to everybody: a store like that must not be asked twice. */
static bool shelf_ran_before(const message *m) {
    client *cl = &sim.all[m->who].client;
    bool before = m->id == cl->ran_id || m->id == cl->naive.ran_id;
    cl->ran_id = m->id;
    if (m->id == cl->naive.id) {
        cl->naive.ran_id = m->id;
    }
    return before && !shelf.counts;
}

static void shelf_execute(message *m) {
    leader_entry now;
    shelf_show(&now);
    m->result = LEADER_OK;
    if (m->op == OP_WRITE && shelf_ran_before(m)) {
        m->result = LEADER_E_IO;
        return;
    }
    if (m->op == OP_WRITE && strcmp(m->entry.version, now.version) != 0) {
        m->result = LEADER_LOST;
        return;
    }
    if (m->op == OP_WRITE) {
        shelf_put(&m->entry);
    }
    shelf_show(&m->entry);
}

/* ---- the register: two functions, and notices -------------------------------------------------- */
static leader_result shelf_ask(candidate *c, op_kind op, const leader_call *call, const leader_entry *next,
                               leader_entry *out) {
    client *cl = &c->client;
    if (client_begins(c, call->id, call->timeout_ms)) {
        message m;
        memset(&m, 0, sizeof m);
        m.op = op;
        if (next) {
            m.entry = *next;
        }
        client_send(c, &m);
    }
    if (!client_answered(c)) {
        return c->plan.blocking ? LEADER_E_TIMEOUT : LEADER_PENDING;
    }
    cl->wait_id = 0;
    if (cl->reply.result == LEADER_OK) {
        *out = cl->reply.entry;
    }
    return cl->reply.result;
}

static leader_result shelf_read(void *self, const leader_call *call, leader_entry *found) {
    return shelf_ask((candidate *)self, OP_READ, call, NULL, found);
}

static leader_result shelf_write(void *self, const leader_call *call, const leader_entry *next,
                                 leader_entry *stored) {
    return shelf_ask((candidate *)self, OP_WRITE, call, next, stored);
}

static leader_news shelf_notice(void *self, leader_entry *found) {
    client *cl = &((candidate *)self)->client;
    if (cl->news_count == 0) {
        return LEADER_NEWS_NONE;
    }
    leader_news kind = cl->news[0].kind;
    *found = cl->news[0].entry;
    cl->news_count--;
    memmove(cl->news, cl->news + 1, (size_t)cl->news_count * sizeof cl->news[0]);
    return kind;
}

static void shelf_cancel(void *self) {
    client *cl = &((candidate *)self)->client;
    cl->wait_id = 0;
    cl->answered = false;
}

static leader_backend shelf_backend(candidate *c) {
    leader_register r;
    memset(&r, 0, sizeof r);
    r.self   = c;
    r.read   = shelf_read;
    r.write  = shelf_write;
    r.notice = c->plan.no_notice ? NULL : shelf_notice;
    r.cancel = shelf_cancel;
    return leader_register_backend(&c->engine, &r);
}
