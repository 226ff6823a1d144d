/* leader-run: runs a command while this process is leader, and only then. See leader-run.1 for its use, guard.h for how it keeps that. */
#define _GNU_SOURCE 1
#if !defined(__linux__)
#  error "leader-run needs Linux: child subreapers, PR_SET_PDEATHSIG and timers that count suspend"
#endif
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "../http.h"
#include "../options.h"
#include "guard.h"

enum { EXIT_USAGE = 2, EXIT_NOT_LEADER = 75, EXIT_FAILED = 125, STATUS_TIMEOUT_MS = 10000, PAUSE_AFTER_STOP_MS = 1000 };

typedef struct run {
    store         where;
    const char   *identity, *address;
    char          name[LEADER_IDENTITY_MAX + 1];
    int64_t       lease_ms, deadline_ms, retry_ms, wait_ms, grace_ms;
    bool          once, status, json, verbose;
    leader_t      me;
    http_server   http;
    http_election served;
    guard_command command;
    guard         guard;
    int           signals;
    int           stop_signal;                  /* the one that asked us to end; 0: none                                  */
    bool          over;                         /* nothing more is to be run                                              */
    int           exit_code;
} run;

static const char usage[] =
    "usage: leader-run STORE [OPTIONS] [--] COMMAND [ARGUMENTS]\n"
    "       leader-run STORE --status [--json]\n"
    "\n"
    "Runs COMMAND while this process is leader, and only then.\n"
    "\n"
    "  STORE is one of\n"
    "    --file PATH              a file that all candidates can reach\n"
    "    --redis URL --name NAME  redis://[[user]:password@]host[:port][/db], rediss://, unix://; \"env\": REDIS_URL, REDIS_HOST, ...\n"
    "    --k8s [NAMESPACE/]NAME   a Kubernetes Lease, in a pod\n"
    "\n"
    "  --id ID            name of this candidate; default: from host name and process number, in a pod $POD_NAME\n"
    "  --lease TIME       how long others wait for a leader that is not heard of (15s)\n"
    "  --deadline TIME    when a command that cannot be kept covered is killed; less than the lease (2/3 of it)\n"
    "  --grace TIME       between SIGTERM and SIGKILL (an eighth of the deadline)\n"
    "  --retry TIME       between attempts of a standby (2s, or a third of a shorter lease)\n"
    "  --wait TIME        give up when not leader after this long (never)\n"
    "  --once             end when leadership is lost, instead of competing again\n"
    "  --http ADDR:PORT   serve /healthz, /readyz and /metrics\n"
    "  --verbose          say on standard error what happens\n"
    "  --status           say who leads, since when and with which token; --json: as JSON\n"
    "  --help, --version\n"
    "\n"
    "COMMAND gets LEADER_TOKEN, LEADER_IDENTITY and LEADER_NAME in its environment. TIME is a number and ms, s, m or h.\n"
    "\n"
    "Exit status: that of COMMAND (128 + n: ended by signal n), or\n"
    "    2 usage   75 not leader (--once, --wait)   125 leader-run failed   126 COMMAND cannot be run   127 COMMAND not found\n"
    "    128 + n: ended by signal n while standing by    with --status: 0 somebody leads, 1 nobody does, 125 the store did not say\n";

static int complain(int code, const char *about, const char *what) {
    fprintf(stderr, "leader-run: %s%s%s\n", about, about[0] ? ": " : "", what);
    return code;
}

/* ---- options ------------------------------------------------------------------------------------------------------------------- */

/* 0: go on. 1: all is done. Otherwise the status to end with. */
static int parse(run *r, int argc, char **argv) {
    const struct { const char *name; bool *to; } flags[] = {{"--once", &r->once}, {"--status", &r->status}, {"--json", &r->json}, {"--verbose", &r->verbose}};
    const struct { const char *name; int64_t *to; } times[] = {{"--lease", &r->lease_ms}, {"--deadline", &r->deadline_ms}, {"--retry", &r->retry_ms},
        {"--wait", &r->wait_ms}, {"--grace", &r->grace_ms}};
    int i = 1;
    for (; i < argc && strncmp(argv[i], "-", 1) == 0; i++) {
        const char *option = argv[i], *value = "";
        bool known = false, good = true;
        if (strcmp(option, "--") == 0) { i++; break; }
        if (strcmp(option, "--help") == 0) { fputs(usage, stdout); return 1; }
        if (strcmp(option, "--version") == 0) { puts("leader-run " LEADER_VERSION); return 1; }
        for (size_t k = 0; k < sizeof flags / sizeof flags[0] && !known; k++) if (strcmp(option, flags[k].name) == 0) known = *flags[k].to = true;
        for (size_t k = 0; k < sizeof times / sizeof times[0] && !known; k++) {
            known = option_is(argv, &i, times[k].name, &value);
            if (known && value) good = option_duration(value, times[k].to);
        }
        if (!known && option_is(argv, &i, "--id", &value)) { known = true; r->identity = value; }
        if (!known && option_is(argv, &i, "--http", &value)) { known = true; r->address = value; }
        if (!known && !store_option(&r->where, argv, &i, &value)) return complain(EXIT_USAGE, option, "no such option; leader-run --help lists them");
        if (!value) return complain(EXIT_USAGE, option, "a value is missing");
        if (!good) return complain(EXIT_USAGE, option, "not a duration: give a number and ms, s, m or h, such as 15s or 500ms");
    }
    r->command.argv = argv + i;
    const char *mistake = store_mistake(&r->where);
    if (mistake) return complain(EXIT_USAGE, "", mistake);
    if (r->status && i < argc) return complain(EXIT_USAGE, argv[i], "--status runs no command");
    if (r->json && !r->status) return complain(EXIT_USAGE, "--json", "goes with --status");
    if (!r->status && i == argc) return complain(EXIT_USAGE, "", "what to run? give a command");
    return 0;
}

static void on_log(void *user, leader_level level, const char *text) {
    const run *r = (const run *)user;
    if (level <= LEADER_LOG_WARN || (r->verbose && level == LEADER_LOG_INFO)) complain(0, "", text);
}

static bool is_drained(void *user) { return !((const run *)user)->guard.busy; }

/* Fills in the defaults and opens the election. */
static int set_up(run *r) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    if (!r->lease_ms) r->lease_ms = 15000;
    if (!r->deadline_ms) r->deadline_ms = r->lease_ms * 2 / 3;
    if (!r->grace_ms) r->grace_ms = r->deadline_ms / 8;
    if (r->status) r->identity = leader_make_identity(r->name, sizeof r->name, "status");    /* not the leader's, though in its pod      */
    else if (!r->identity) r->identity = store_identity(&r->where, r->name);
    cfg.identity = r->identity;
    cfg.backend = store_backend(&r->where);
    cfg.lease_ms = r->lease_ms;
    cfg.renew_deadline_ms = r->deadline_ms;
    cfg.renew_ms = r->lease_ms / 3 < r->deadline_ms / 2 ? r->lease_ms / 3 : r->deadline_ms / 2;
    cfg.retry_ms = r->retry_ms;
    cfg.observe_only = r->status;
    cfg.is_drained = is_drained;
    cfg.on_log = r->status ? NULL : on_log;     /* there the one answer says it all                                       */
    cfg.user = r;
    if (r->deadline_ms >= r->lease_ms) return complain(EXIT_USAGE, "--deadline", "must be less than --lease: others may lead when that is over");
    if (leader_init(&r->me, &cfg) != LEADER_OK) return complain(EXIT_USAGE, "", leader_error(&r->me));
    if (r->grace_ms >= r->deadline_ms - cfg.renew_ms) return complain(EXIT_USAGE, "--grace", "leaves no time for a renewal before --deadline");
    if (!r->address) return 0;
    http_election served = {&r->me, store_election(&r->where), r->identity, (r->deadline_ms - cfg.renew_ms) / 2};
    r->served = served;
    const char *wrong = http_open(&r->http, r->address, http_election_answer, &r->served);
    return wrong ? complain(errno == EINVAL ? EXIT_USAGE : EXIT_FAILED, r->address, wrong) : 0;
}

/* ---- --status ------------------------------------------------------------------------------------------------------------------ */

/* When the present term began, as the store tells people; "": it does not. The file's readable copy may lag: its token shows. */
static void read_since(const run *r, uint64_t token, char since[40]) {
    char text[8192];
    size_t bad_at;
    leader_json_ root, v;
    uint64_t of_token = 0;
    since[0] = 0;
    if (r->where.file) {
        FILE *f = fopen(r->where.file, "re");
        size_t len = f ? fread(text, 1, sizeof text, f) : 0;
        if (f) fclose(f);
        if (!leader_json_parse_(text, len, &root, &bad_at) || !leader_json_member_(root, "token", &v) || !leader_json_u64_(v, &of_token) || of_token != token) return;
    } else {
#if defined(LEADER_WITH_K8S)
        const leader_k8s_buf_ *doc = &r->where.in_k8s.doc_;
        if (!r->where.k8s || !doc->at || !leader_json_parse_(doc->at, doc->len, &root, &bad_at) || !leader_json_member_(root, "spec", &v)) return;
        root = v;
#else
        return;
#endif
    }
    if (!leader_json_member_(root, "acquireTime", &v) || !leader_json_string_(v, since, 40)) since[0] = 0;
    for (const char *c = since; *c; c++) if (!strchr("0123456789-:.TZ+", *c)) { since[0] = 0; break; }
}

static int show_status(run *r) {
    int64_t until = guard_clock_ms() + STATUS_TIMEOUT_MS;
    leader_view v = leader_get_view(&r->me);
    for (; v.age_ms < 0 && guard_clock_ms() < until; v = leader_get_view(&r->me)) {
        leader_tick(&r->me);
        leader_stats s = leader_get_stats(&r->me);
        if (s.failures > 0) return complain(EXIT_FAILED, store_election(&r->where), s.last_error_text);
        leader_sleep(&r->me, 100);
    }
    if (v.age_ms < 0) return complain(EXIT_FAILED, store_election(&r->where), "no answer from the store");
    char since[40] = "";
    static http_body out;
    if (v.leader[0]) read_since(r, v.token, since);
    if (r->json) {
        http_print(&out, "{\"election\":");
        http_print_quoted(&out, store_election(&r->where));
        http_print(&out, ",\"leader\":");
        if (v.leader[0]) http_print_quoted(&out, v.leader);
        else http_print(&out, "null");
        http_print(&out, ",\"token\":%" PRIu64 ",\"since\":", v.token);
        if (since[0]) http_print_quoted(&out, since);
        else http_print(&out, "null");
        http_print(&out, "}\n");
    } else if (v.leader[0]) {
        http_print(&out, "leader  %s\ntoken   %" PRIu64 "\nsince   %s\n", v.leader, v.token, since[0] ? since : "unknown: this store does not tell");
    } else {
        http_print(&out, "nobody leads %s\n", store_election(&r->where));
    }
    fputs(out.text, stdout);
    return v.leader[0] ? 0 : 1;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------------ */

static void end_with(run *r, int code) {
    if (!r->over) r->exit_code = code;
    r->over = true;
    leader_stop(&r->me);
}

static void start_command(run *r, int64_t stop_at, int64_t kill_at) {
    char token[24];
    snprintf(token, sizeof token, "%" PRIu64, leader_token(&r->me));
    if (strcmp(token, "0") == 0) return;        /* over in this very moment                                               */
    setenv("LEADER_TOKEN", token, 1);
    setenv("LEADER_IDENTITY", r->identity, 1);
    setenv("LEADER_NAME", store_election(&r->where), 1);
    /* The lock of the file store stands for the life of its holder, and the holder is not only this process: see guard.h. */
    r->command.lock_fd = r->where.file ? r->where.in_file.lock_fd : -1;
    r->command.grace_ms = r->grace_ms;
    if (!guard_start(&r->guard, &r->command, stop_at, kill_at)) end_with(r, complain(EXIT_FAILED, "cannot fork", strerror(errno)));
}

/* Tells the guard until when the lease covers the command; starts it when we have become leader. */
static void steer(run *r) {
    int64_t now = guard_clock_ms();             /* before the question: the times can only come out too early             */
    leader_view v = leader_get_view(&r->me);
    int64_t kill_at = now + v.remaining_ms, stop_at = kill_at - r->grace_ms;
    if (!r->guard.busy) {
        if (v.leading && !r->over && now < stop_at) start_command(r, stop_at, kill_at);
        return;
    }
    if (!v.leading && !r->stop_signal) stop_at = now;   /* a signal that asked us to end has gone to the command as well    */
    guard_set_times(&r->guard, stop_at, kill_at);
}

static void hear_guard(run *r, int *wait_ms) {
    guard_report report;
    if (!r->guard.busy || !guard_hear(&r->guard, (r->lease_ms - r->deadline_ms) / 4, &report, wait_ms)) return;
    *wait_ms = 0;
    if (!report.gone) {                         /* SIGTERM was sent, for want of a renewal: this term is not to go on     */
        if (r->verbose) complain(0, "", "the lease could not be renewed in time: the command is told to stop");
        leader_resign(&r->me, PAUSE_AFTER_STOP_MS);
        return;
    }
    int status = WIFSIGNALED(report.status) ? 128 + WTERMSIG(report.status) : WEXITSTATUS(report.status);
    if (r->stop_signal || report.by_itself) end_with(r, status);
    else if (r->once) end_with(r, complain(EXIT_NOT_LEADER, "", "leadership was lost, and the command stopped"));
    else complain(0, "", "leadership was lost, and the command stopped: competing again");
}

static void hear_signals(run *r) {
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool ends = number == SIGTERM || number == SIGINT || number == SIGQUIT || (number == SIGHUP && !r->guard.busy);
        if (number == SIGCHLD) { guard_bury(); continue; }
        if (r->guard.busy) guard_tell(&r->guard, 0, 0, number);
        if (!ends) continue;
        r->stop_signal = number;
        if (r->guard.busy) leader_stop(&r->me); /* the lease is kept until the command has ended                          */
        else end_with(r, 128 + number);
    }
}

static void loop(run *r) {
    int64_t give_up = r->wait_ms ? guard_clock_ms() + r->wait_ms : INT64_MAX;
    while (r->guard.busy || !leader_is_stopped(&r->me)) {
        struct pollfd fds[LEADER_FDS_MAX + HTTP_FDS_MAX + 2];
        int wait_ms = leader_tick(&r->me), n = 2;
        steer(r);
        if (r->guard.busy) give_up = INT64_MAX;
        hear_guard(r, &wait_ms);
        if (give_up != INT64_MAX && give_up - guard_clock_ms() < wait_ms) wait_ms = (int)(give_up - guard_clock_ms());
        if (wait_ms < 0 && !r->over) {
            give_up = INT64_MAX;
            end_with(r, complain(EXIT_NOT_LEADER, "", "not leader within --wait"));
        }
        if (r->over && !r->guard.busy && leader_due_ms(&r->me) == 0) wait_ms = 0;
        fds[0].fd = r->signals;
        fds[1].fd = r->guard.busy && r->guard.pid ? r->guard.socket : -1;
        fds[0].events = fds[1].events = POLLIN;
        n += http_leader_fds(&r->me, fds + n);
        if (r->address) n += http_fds(&r->http, fds + n, &wait_ms);
        poll(fds, (nfds_t)n, wait_ms > 0 ? wait_ms : 0);
        hear_signals(r);
        if (r->address) http_serve(&r->http);
    }
}

int main(int argc, char **argv) {
    static run r;                               /* large, and zero                                                        */
    struct sigaction ignore;
    const int watched[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD};
    sigset_t set;
    for (int fd = 0; fd < FD_SETSIZE; fd++) if (fcntl(fd, F_GETFD) >= 0) FD_SET(fd, &r.command.inherited);
    int done = parse(&r, argc, argv);
    if (done) return done == 1 ? 0 : done;
    done = set_up(&r);
    if (done) return done;
    if (r.status) {
        done = show_status(&r);
        leader_close(&r.me, 0);
        return done;
    }
    signal(SIGCHLD, SIG_DFL);                   /* ignored, it would keep the command's status from us                    */
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &r.command.on_pipe);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, &r.command.mask);
    r.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r.signals < 0) return complain(EXIT_FAILED, "signalfd", strerror(errno));
    loop(&r);
    if (r.address) http_close(&r.http);
    leader_close(&r.me, 1000);
    return r.exit_code;
}
