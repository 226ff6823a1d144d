/* leader-run: runs a command while this process is leader, and only then. See README.md and leader-run.1
   for its use, guard.h for how it keeps that. */
#define _GNU_SOURCE 1
#if !defined(__linux__)
#  error "leader-run needs Linux: child subreapers, PR_SET_PDEATHSIG and timers that count suspend"
#endif
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "../http.h"
#include "../options.h"
#include "explain.h"
#include "guard.h"
#include "hooks.h"
#include "notify.h"
#include "say.h"
#include "status.h"

enum {
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 69,                      // as in sysexits.h: EX_UNAVAILABLE, EX_TEMPFAIL, EX_NOPERM
    EXIT_NOT_LEADER = 75,
    EXIT_REFUSED = 77,
    EXIT_FAILED = 125,
    PAUSE_AFTER_STOP_MS = 1000,
    REPEAT_MS = 60000,                          // the same complaint again
    // a real-time signal by number: its names differ between C libraries
    RESIGN_SIGNAL = 40
};

typedef struct run {
    store         where;
    const char   *identity, *value, *address, *resign;
    const char   *wait;
    char          name[LEADER_IDENTITY_MAX + 1];
    int64_t       lease_ms, deadline_ms, renew_ms, retry_ms, grace_ms;
    const char   *retries;                      // --renew-retries, as given
    int           renew_retries;
    int64_t       hold_ms, once_per_ms;         // 0: not asked for
    int64_t       silence_ms;                   // of the store, before /readyz says 503; 0: for ever
    int64_t       give_up_at_ms;                // --wait; INT64_MAX: never
    bool          once, status, watch, json, verbose, no_wait, explain;
    bool          round_only;                   // --once-per: a standby leaves when the round is nearly over
    leader_t      me;
    http_server   http;
    http_election served;
    notify        manager;
    hooks         hooks;
    guard_command command;
    guard         guard;
    int           signals;
    int           stop_signal;                  // the one that asked us to end; 0: none
    bool          resigned;                     // asked to hand over
    bool          over;                         // nothing more is to be run
    bool          holding;                      // the command has ended, the lease is kept
    int64_t       started_ms, hold_until_ms;
    int           exit_code;
    char          seen[LEADER_IDENTITY_MAX + 64];       // what --verbose said last about the leader
    char          complaint[240];               // what the library complained of last, and when
    int64_t       complained_ms;
} run;

/* In two parts, as C99 has it for long texts. */
static const char usage[] =
    "usage: leader-run STORE [OPTIONS] [--] COMMAND [ARGUMENTS]\n"
    "       leader-run STORE --status [--json] [--watch]\n"
    "       leader-run --resign PID | --explain [--lease TIME ...]\n"
    "\n"
    "Runs COMMAND while this process is leader, and only then.\n"
    "\n"
    "  STORE is one of\n"
    "    --file PATH              a file that all candidates can reach; --mode 0660: for a group\n"
    "    --redis URL --name NAME  redis://[[user]:password@]host[:port][/db], rediss://, unix://;\n"
    "                             \"env\": REDIS_URL, REDIS_HOST, ...\n"
    "    --sentinels LIST --sentinel-name NAME --name NAME\n"
    "                             the Redis master that these sentinels name\n"
    "    --k8s [NAMESPACE/]NAME   a Kubernetes Lease, in a pod or with --kubeconfig FILE, --context NAME,\n"
    "                             or --k8s-server URL (kubectl proxy); --events: record changes as Events;\n"
    "                             --label-pod: this pod's label leader-h/role says leader or standby\n"
    "    --pg CONNINFO --name NAME\n"
    "                             postgres://... or \"host=... dbname=...\"; --table NAME;\n"
    "                             \"env\": DATABASE_URL, PGHOST, ...\n"
    "    --etcd ENDPOINTS --name NAME\n"
    "                             https://a:2379,https://b:2379; --user NAME[:PASSWORD];\n"
    "                             \"env\": ETCDCTL_ENDPOINTS, ...\n"
    "    --store URL              file:///PATH, redis://HOST#NAME, postgres://HOST/DB#NAME,\n"
    "                             etcd://HOST#NAME, etcds://, k8s://[NAMESPACE/]NAME;\n"
    "                             given three, five or seven times: a majority of these\n"
    "    --quorum URL,URL,URL     the same in one option\n"
    "  with Redis and etcd: --password-file FILE, --prefix TEXT, --tls-ca FILE, --tls-cert FILE,\n"
    "    --tls-key FILE\n"
    "  with Redis: --sentinel-password-file FILE, --tls, --tls-name NAME, --redis-key KEY instead of --name\n"
    "    and --prefix; with etcd: --plain-http, to other machines as well\n";

static const char usage_of_options[] =
    "\n"
    "  a job that ends\n"
    "  -n, --no-wait      end with 75 at once, and silently, if another candidate leads\n"
    "  --wait TIME        give up when not leader after this long (never); 0: as -n\n"
    "  --hold TIME        keep the lease this long after COMMAND has ended, so that others skip this round\n"
    "  --once-per TIME    keep it until TIME after COMMAND was started; not if COMMAND failed, so that\n"
    "                     another one tries; a standby ends with 75, silently, when nine tenths of TIME\n"
    "                     are over\n"
    "  --once             end when leadership is lost, instead of competing again\n"
    "\n"
    "  a service\n"
    "  --http ADDR:PORT   serve /healthz, /readyz and /metrics\n"
    "  --silence TIME     /readyz answers 503 when the store has not answered for this long (never)\n"
    "  --on-leader CMD    run by the shell when this process becomes leader; then COMMAND may be left out\n"
    "  --on-follower CMD  run by the shell when it stands by, and when another one leads\n"
    "  --resign PID       make that leader-run hand over, and pause for a lease\n"
    "\n"
    "  --id ID            name of this candidate; default: from host name and process number, in a pod\n"
    "                     $POD_NAME\n"
    "  --lease TIME       how long others wait for a leader that is not heard of (15s)\n"
    "  --deadline TIME    when a command that cannot be kept covered is killed; less than the lease\n"
    "                     (2/3 of it)\n"
    "  --grace TIME       between SIGTERM and SIGKILL (an eighth of the deadline)\n"
    "  --retry TIME       between attempts of a standby (2s, or a third of a shorter lease)\n"
    "  --renew-retries N  then hand over, or none; default: a renewal is tried again until the deadline\n"
    "  --pid-namespace    run COMMAND in a PID namespace, so that the kernel ends every daemon of it (root\n"
    "                     or CAP_SYS_ADMIN)\n"
    "  --verbose          say on standard error what happens, with times\n"
    "  --status           say who leads, since when and with which token; --json: as JSON; --watch: a line\n"
    "                     at each change\n"
    "  --explain          what follows from --lease, --deadline, --grace and --retry\n"
    "  --help, --version\n"
    "\n"
    "COMMAND gets LEADER_TOKEN, LEADER_IDENTITY and LEADER_NAME in its environment. TIME is a number and\n"
    "ms, s, m, h or d.\n"
    "\n"
    "Exit status: that of COMMAND (128 + n: ended by signal n), or\n"
    "    2 usage   69 store unreachable   75 another one leads   77 credentials refused\n"
    "    (69, 75, 77: with -n, --wait, --once, --status)\n"
    "    125 leader-run failed   126 COMMAND cannot be run   127 COMMAND not found\n"
    "    128 + n: ended by signal n while standing by\n"
    "    with --status: 0 somebody leads, 1 nobody does\n";

/* ---- options ------------------------------------------------------------------------------------------- */

static bool parse_flag(run *r, const char *option) {
    const struct { const char *name; bool *to; } flags[] = {
        {"--once", &r->once},
        {"--status", &r->status},
        {"--json", &r->json},
        {"--watch", &r->watch},
        {"--verbose", &r->verbose},
        {"--explain", &r->explain},
        {"-n", &r->no_wait},
        {"--no-wait", &r->no_wait},
        {"--pid-namespace", &r->command.pid_namespace},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(option, flags[i].name) == 0) {
            *flags[i].to = true;
            return true;
        }
    }
    return false;
}

/* True: it was an option with a time. *good: the time could be read. */
static bool parse_time(run *r, char **argv, int *i, const char **value, bool *good) {
    const struct { const char *name; int64_t *to; } times[] = {
        {"--lease", &r->lease_ms}, {"--deadline", &r->deadline_ms},
        {"--retry", &r->retry_ms}, {"--grace", &r->grace_ms},
        {"--hold", &r->hold_ms}, {"--once-per", &r->once_per_ms}, {"--silence", &r->silence_ms},
    };
    for (size_t k = 0; k < sizeof times / sizeof times[0]; k++) {
        if (option_is(argv, i, times[k].name, value)) {
            *good = !*value || option_duration(*value, times[k].to);
            return true;
        }
    }
    return false;
}

static bool parse_text(run *r, char **argv, int *i, const char **value) {
    const struct { const char *name; const char **to; } texts[] = {
        
        {"--id", &r->identity},
        {"--value", &r->value},
        {"--http", &r->address},
        {"--wait", &r->wait},
        {"--resign", &r->resign},
        {"--renew-retries", &r->retries},
        {"--on-leader", &r->hooks.command[HOOK_LEADER]},
        {"--on-follower", &r->hooks.command[HOOK_FOLLOWER]},
        };
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        if (option_is(argv, i, texts[k].name, value)) {
            *texts[k].to = *value;
            return true;
        }
    }
    return false;
}

/* One option, with its value. 0, or the status to end with. */
static int parse_option(run *r, char **argv, int *i) {
    const char *option = argv[*i];
    const char *value = "";
    bool good = true;
    bool known = parse_flag(r, option) || parse_time(r, argv, i, &value, &good)
                 || parse_text(r, argv, i, &value) || store_option(&r->where, argv, i, &value);
    if (!known) {
        return complain(EXIT_USAGE, option, "no such option; leader-run --help lists them");
    }
    if (!value) {
        return complain(EXIT_USAGE, option, "a value is missing");
    }
    if (!good) {
        return complain(EXIT_USAGE, option,
                        "not a duration: give a number and ms, s, m, h or d, such as 15s or 500ms");
    }
    return 0;
}

/* "0" and "0s" mean: not at all. */
static int parse_wait(run *r) {
    int64_t wait_ms = 0;
    r->give_up_at_ms = INT64_MAX;
    // the round is over before the lease of the one who did the work is
    if (!r->wait && r->once_per_ms) {
        r->round_only = true;
        r->give_up_at_ms = guard_clock_ms() + r->once_per_ms / 10 * 9;
    }
    if (!r->wait) {
        return 0;
    }
    size_t digits = strspn(r->wait, "0");
    bool zero =
        digits > 0 && (r->wait[digits] == 0 || strspn(r->wait + digits, "mshd") == strlen(r->wait + digits));
    if (zero) {
        r->no_wait = true;
        return 0;
    }
    if (!option_duration(r->wait, &wait_ms)) {
        return complain(EXIT_USAGE, "--wait",
                        "not a duration: give a number and ms, s, m, h or d, such as 15s or 500ms");
    }
    r->give_up_at_ms = guard_clock_ms() + wait_ms;
    return 0;
}

/* Options that do not go together. NULL, or what is wrong. */
static const char *combination_mistake(const run *r, bool has_command) {
    bool has_hooks = r->hooks.command[HOOK_LEADER] || r->hooks.command[HOOK_FOLLOWER];
    bool holds = r->hold_ms || r->once_per_ms;
    if (r->status && has_command) {
        return "--status runs no command";
    }
    if (r->json && !r->status) {
        return "--json: goes with --status";
    }
    if (r->watch && !r->status) {
        return "--watch: goes with --status";
    }
    if (!r->status && !has_command && !has_hooks) {
        return "what to run? give a command";
    }
    if (holds && !has_command) {
        return "--hold and --once-per go with a command";
    }
    if (r->hold_ms && r->once_per_ms) {
        return "--hold and --once-per exclude each other";
    }
    return NULL;
}

/* 0: go on. 1: all is done. Otherwise the status to end with. */
static int parse(run *r, int argc, char **argv) {
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            fputs(usage_of_options, stdout);
            return 1;
        }
        if (strcmp(argv[i], "--version") == 0) {
            puts("leader-run " LEADER_VERSION);
            return 1;
        }
        int wrong = parse_option(r, argv, &i);
        if (wrong) {
            return wrong;
        }
    }
    r->command.argv = argv + i;
    say_to.times = r->verbose;
    if (r->explain || r->resign) {
        return 0;
    }
    const char *mistake = store_mistake(&r->where);
    if (!mistake) {
        mistake = combination_mistake(r, i < argc);
    }
    if (mistake) {
        return complain(EXIT_USAGE, "", mistake);
    }
    return parse_wait(r);
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

/* A store that stays away gives the same reason at every attempt: once a minute is enough. */
static bool is_repeated(run *r, const char *text) {
    int64_t now = guard_clock_ms();
    bool same = strncmp(r->complaint, text, sizeof r->complaint - 1) == 0;
    if (same && now - r->complained_ms < REPEAT_MS) {
        return true;
    }
    snprintf(r->complaint, sizeof r->complaint, "%s", text);
    r->complained_ms = now;
    return false;
}

static void on_log(void *user, leader_level level, const char *text) {
    run *r = (run *)user;
    // the one that says why we end
    bool one_line_will_do = r->no_wait || r->over || (r->status && !r->watch);
    bool wanted = level <= LEADER_LOG_WARN && !one_line_will_do;
    if (r->verbose && level <= LEADER_LOG_INFO) {
        say("", text);
    } else if (wanted && !is_repeated(r, text)) {
        say("", text);
    }
}

/* The lease is given back when nothing of the command is left, and what the end of the term calls for has
   been done. */
static bool is_drained(void *user) {
    const run *r = (const run *)user;
    return !r->guard.busy && !hooks_busy(&r->hooks);
}

static void on_stopped_leading(void *user, uint64_t token, leader_result why) {
    run *r = (run *)user;
    (void)why;
    hooks_want(&r->hooks, HOOK_FOLLOWER, token, "");
}

/* Fills in what was not given. 0, or the status to end with. */
static int set_times(run *r) {
    if (!r->lease_ms) {
        r->lease_ms = 15000;
    }
    if (!r->deadline_ms) {
        r->deadline_ms = r->lease_ms * 2 / 3;
    }
    if (r->retries && !option_retries(r->retries, &r->renew_retries)) {
        return complain(EXIT_USAGE, "--renew-retries", "give a number from 1 to 1000, or none");
    }
    if (r->deadline_ms >= r->lease_ms) {
        return complain(EXIT_USAGE, "--deadline",
                        "must be less than --lease: others may lead when that is over");
    }
    r->renew_ms = r->lease_ms / 3 < r->deadline_ms / 2 ? r->lease_ms / 3 : r->deadline_ms / 2;
    r->command.strict = r->grace_ms != 0;
    if (!r->grace_ms) {
        r->grace_ms = r->deadline_ms / 8;
    }
    r->command.grace_ms = r->grace_ms;
    r->command.patience_ms = (r->lease_ms - r->deadline_ms) / 8;
    return 0;
}

static int serve_http(run *r) {
    http_election served = {&r->me, store_election(&r->where), r->identity,
                            (r->deadline_ms - r->renew_ms) / 2, r->silence_ms};
    r->served = served;
    const char *wrong = http_open(&r->http, r->address, http_election_answer, &r->served);
    if (!wrong) {
        return 0;
    }
    return complain(errno == EINVAL ? EXIT_USAGE : EXIT_FAILED, r->address, wrong);
}

/* Opens the election. 0, or the status to end with. */
static int set_up(run *r) {
    leader_config cfg;
    memset(&cfg, 0, sizeof cfg);
    if (r->status) {                            // not the leader's name, though in its pod
        r->identity = leader_make_identity(r->name, sizeof r->name, "status");
    } else if (!r->identity) {
        r->identity = store_identity(&r->where, r->name);
    }
    cfg.identity = r->identity;
    cfg.value = r->value;
    cfg.backend = store_backend(&r->where);
    cfg.lease_ms = r->lease_ms;
    cfg.renew_deadline_ms = r->deadline_ms;
    cfg.renew_ms = r->renew_ms;
    cfg.renew_retries = r->renew_retries;
    cfg.retry_ms = r->retry_ms;
    cfg.observe_only = r->status;
    cfg.is_drained = is_drained;
    cfg.on_stopped_leading = on_stopped_leading;
    cfg.on_log = on_log;
    cfg.user = r;
    if (leader_init(&r->me, &cfg) != LEADER_OK) {
        return complain(EXIT_USAGE, "", leader_error(&r->me));
    }
    if (r->grace_ms >= r->deadline_ms - r->renew_ms) {
        return complain(EXIT_USAGE, "--grace", "leaves no time for a renewal before --deadline");
    }
    return r->address ? serve_http(r) : 0;
}

/* ---- other things than to lead ------------------------------------------------------------------------- */

static int exit_code_of(leader_result why) {
    if (why == LEADER_E_AUTH) {
        return EXIT_REFUSED;
    }
    return why == LEADER_E_DUPLICATE ? EXIT_NOT_LEADER : EXIT_UNREACHABLE;
}

static int show_status(run *r) {
    leader_view v;
    leader_result why = status_ask(&r->me, &v);
    if (why != LEADER_OK) {
        leader_stats s = leader_get_stats(&r->me);
        return complain(exit_code_of(why), store_election(&r->where),
                        s.failures > 0 ? s.last_error_text : "no answer from the store");
    }
    if (r->watch) {
        status_watch(&r->me, &r->where, v, r->json);
        return 0;
    }
    status_print(&r->where, &v, r->json, false);
    return v.leader[0] ? 0 : STATUS_NOBODY;
}

static int explain_times_of(const run *r) {
    int64_t retry_ms = r->retry_ms ? r->retry_ms : r->renew_ms;
    explain_times t = {r->lease_ms, r->deadline_ms, r->renew_ms, r->grace_ms, retry_ms};
    if (!r->retry_ms && t.retry_ms > 2000) {
        t.retry_ms = 2000;
    }
    explain(&t);
    return 0;
}

/* A signal for a leader-run on this machine: guard and watchdog have other names, and a wrong number is
   not ours to signal. */
static int ask_to_resign(const char *number) {
    char path[64];
    char name[32] = "";
    long pid = strtol(number, NULL, 10);
    bool good = number[0] && strspn(number, "0123456789") == strlen(number) && strlen(number) < 10 && pid > 0;
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *f = good ? fopen(path, "re") : NULL;
    if (f) {
        good = fgets(name, sizeof name, f) != NULL;
        fclose(f);
    }
    if (!good || strncmp(name, "leader-run", strlen("leader-run")) != 0) {
        return complain(EXIT_USAGE, number, "not the process number of a leader-run");
    }
    if (kill((pid_t)pid, RESIGN_SIGNAL) != 0) {
        return complain(errno == EPERM ? EXIT_REFUSED : EXIT_FAILED, number, strerror(errno));
    }
    return 0;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static void end_with(run *r, int code) {
    if (!r->over) {
        r->exit_code = code;
    }
    r->over = true;
    notify_stopping(&r->manager);
    leader_stop(&r->me);
}

static void start_command(run *r, int64_t stop_at, int64_t kill_at) {
    char token[24];
    uint64_t number = leader_token(&r->me);
    if (number == 0) {
        return;                                 // over in this very moment
    }
    snprintf(token, sizeof token, "%" PRIu64, number);
    setenv("LEADER_TOKEN", token, 1);
    // The lock of a file store stands for the life of its holder, and that is not only this process: see
    // guard.h.
    r->command.lock_count = store_locks(&r->where, r->command.locks);
    r->started_ms = guard_clock_ms();
    if (!guard_start(&r->guard, &r->command, stop_at, kill_at)) {
        end_with(r, complain(EXIT_FAILED, "cannot fork", strerror(errno)));
    }
}

/* Tells guard and watchdog until when the lease covers the command; starts it when we have become leader. */
static void steer(run *r) {
    int64_t now = guard_clock_ms();             // before the question: the times can only come out too early
    leader_view v = leader_get_view(&r->me);
    int64_t kill_at = now + v.remaining_ms;
    int64_t stop_at = kill_at - r->grace_ms;
    bool may_start = v.leading && !r->over && !r->holding && r->command.argv[0] && now < stop_at;
    if (!r->guard.busy) {
        if (may_start) {
            start_command(r, stop_at, kill_at);
        }
        return;
    }
    // a signal that asked us to end has gone to the command as well
    if (!v.leading && !r->stop_signal) {
        stop_at = now;
    }
    guard_set_times(&r->guard, stop_at, kill_at);
}

/* The command has ended by itself. */
static void command_ended(run *r, int status) {
    int64_t now = guard_clock_ms();
    int64_t until = now;
    if (r->hold_ms) {
        until = now + r->hold_ms;
    }
    if (r->once_per_ms && status == 0) {
        until = r->started_ms + r->once_per_ms;
    }
    r->exit_code = status;
    if (until <= now || r->stop_signal) {
        end_with(r, status);
        return;
    }
    r->holding = true;
    r->hold_until_ms = until;
    if (r->verbose) {
        say("", "the command has ended: the lease is kept, so that the others skip this round");
    }
}

static void hear_guard(run *r, int *wait_ms) {
    guard_report report;
    int64_t patience_ms = (r->lease_ms - r->deadline_ms) / 4;
    bool news = r->guard.busy && guard_hear(&r->guard, patience_ms, &report, wait_ms);
    if (!news) {
        return;
    }
    *wait_ms = 0;
    // SIGTERM was sent, as no renewal came: this term is not to go on
    if (!report.gone) {
        if (r->verbose) {
            say("", "the lease could not be renewed in time: the command is told to stop");
        }
        leader_resign(&r->me, PAUSE_AFTER_STOP_MS);
        return;
    }
    int status = WIFSIGNALED(report.status) ? 128 + WTERMSIG(report.status) : WEXITSTATUS(report.status);
    if (r->stop_signal) {
        end_with(r, status);
    } else if (report.by_itself) {
        command_ended(r, status);
    } else if (report.never_ran) {
        say("", "a stall used up the time for the command before it was run: trying again");
    } else if (r->once) {
        end_with(r, complain(EXIT_NOT_LEADER, "", "leadership was lost, and the command stopped"));
    } else if (r->resigned) {
        say("", "handed over on request, and the command stopped: competing again");
    } else {
        say("", "leadership was lost, and the command stopped: competing again");
    }
    r->resigned = false;
}

/* ---- what others are told ------------------------------------------------------------------------------ */

static void tell_role(run *r, int *wait_ms) {
    leader_view v = leader_get_view(&r->me);
    char text[LEADER_IDENTITY_MAX + 64];
    bool other_leads = v.leader[0] && strcmp(v.leader, r->identity) != 0;
    if (v.leading) {
        hooks_want(&r->hooks, HOOK_LEADER, v.token, r->identity);
        snprintf(text, sizeof text, "leading with token %" PRIu64, v.token);
    } else if (other_leads) {
        hooks_want(&r->hooks, HOOK_FOLLOWER, v.token, v.leader);
        snprintf(text, sizeof text, "standing by: %s leads with token %" PRIu64, v.leader, v.token);
    } else {
        snprintf(text, sizeof text, "%s: nobody is known to lead", leader_state_name(v.state));
    }
    say_printable(text);
    if (v.age_ms >= 0) {
        notify_ready(&r->manager);
    }
    if (r->verbose && other_leads && strcmp(r->seen, text) != 0) {
        say("", text);
    }
    snprintf(r->seen, sizeof r->seen, "%s", text);
    notify_status(&r->manager, text);
    notify_alive(&r->manager, guard_clock_ms(), wait_ms);
    hooks_turn(&r->hooks, &r->command, wait_ms);
}

/* ---- time runs out ------------------------------------------------------------------------------------- */

/* -n: the first answer of the store decides. */
static void decide_without_waiting(run *r) {
    leader_view v = leader_get_view(&r->me);
    leader_stats s = leader_get_stats(&r->me);
    bool other_leads = v.age_ms >= 0 && v.leader[0] && strcmp(v.leader, r->identity) != 0;
    if (v.leading || r->over) {
        r->no_wait = false;
    } else if (other_leads) {
        r->no_wait = false;
        end_with(r, EXIT_NOT_LEADER);
    } else if (s.failures > 0) {
        r->no_wait = false;
        end_with(r, complain(exit_code_of(s.last_error), store_election(&r->where), s.last_error_text));
    }
}

static void give_up(run *r) {
    leader_view v = leader_get_view(&r->me);
    leader_stats s = leader_get_stats(&r->me);
    r->give_up_at_ms = INT64_MAX;
    bool never_answered = v.age_ms < 0 && s.failures > 0;
    if (never_answered) {
        end_with(r, complain(exit_code_of(s.last_error), store_election(&r->where), s.last_error_text));
    } else if (r->round_only) {
        end_with(r, EXIT_NOT_LEADER);
    } else {
        end_with(r, complain(EXIT_NOT_LEADER, "", "not leader within --wait"));
    }
}

static void mind_the_time(run *r, int *wait_ms) {
    int64_t now = guard_clock_ms();
    if (r->no_wait) {
        decide_without_waiting(r);
    }
    bool led = r->guard.busy || r->holding || leader_is_leader(&r->me);
    if (led) {
        r->give_up_at_ms = INT64_MAX;
    }
    if (now >= r->give_up_at_ms && !r->over) {
        give_up(r);
    }
    bool hold_is_over = r->holding && (now >= r->hold_until_ms || !leader_is_leader(&r->me));
    if (hold_is_over && !r->over) {
        end_with(r, r->exit_code);
    }
    if (r->give_up_at_ms != INT64_MAX) {
        guard_wake_in(wait_ms, r->give_up_at_ms - now);
    }
    if (r->holding && !r->over) {
        guard_wake_in(wait_ms, r->hold_until_ms - now);
    }
}

/* ---- signals ------------------------------------------------------------------------------------------- */

static void hear_signal(run *r, int number) {
    bool ends =
        number == SIGTERM || number == SIGINT || number == SIGQUIT || (number == SIGHUP && !r->guard.busy);
    if (number == SIGCHLD) {
        guard_bury();
        return;
    }
    if (number == RESIGN_SIGNAL) {
        if (leader_is_leader(&r->me)) {
            r->resigned = true;
            leader_resign(&r->me, 0);
        }
        return;
    }
    if (r->guard.busy) {
        guard_tell(&r->guard, 0, 0, number);
    }
    if (!ends) {
        return;
    }
    r->stop_signal = number;
    notify_stopping(&r->manager);
    if (r->guard.busy) {
        leader_stop(&r->me);                    // the lease is kept until the command has ended
    } else {
        end_with(r, r->holding ? r->exit_code : 128 + number);
    }
}

static void hear_signals(run *r) {
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        hear_signal(r, (int)info.ssi_signo);
    }
}

/* nohup and a shell without job control start programs with these ignored. That is meant for the command,
   and for us. */
static bool is_ignored(int number) {
    struct sigaction now;
    bool may_be = number == SIGHUP || number == SIGINT || number == SIGQUIT;
    return may_be && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static bool catch_signals(run *r) {
    const int watched[] = {SIGTERM, SIGINT,   SIGQUIT, SIGHUP,       SIGUSR1,
                           SIGUSR2, SIGWINCH, SIGCHLD, RESIGN_SIGNAL};
    struct sigaction ignore;
    sigset_t set;
    signal(SIGCHLD, SIG_DFL);                   // ignored, it would keep the command's status from us
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &r->command.on_pipe);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        if (!is_ignored(watched[i])) {
            sigaddset(&set, watched[i]);
        }
    }
    sigprocmask(SIG_BLOCK, &set, &r->command.mask);
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signals >= 0;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static void sleep_until_news(run *r, int wait_ms) {
    struct pollfd fds[LEADER_FDS_MAX + HTTP_FDS_MAX + 2];
    int n = 2;
    fds[0].fd = r->signals;
    fds[0].events = POLLIN;
    fds[1].fd = r->guard.busy ? r->guard.socket : -1;
    fds[1].events = POLLIN;
    n += http_leader_fds(&r->me, fds + n);
    if (r->address) {
        n += http_fds(&r->http, fds + n, &wait_ms);
    }
    bool due = r->over && !r->guard.busy && leader_due_ms(&r->me) == 0;
    poll(fds, (nfds_t)n, wait_ms > 0 && !due ? wait_ms : 0);
}

static bool is_finished(const run *r) {
    return !r->guard.busy && leader_is_stopped(&r->me) && !hooks_busy(&r->hooks);
}

static void loop(run *r) {
    while (!is_finished(r)) {
        int wait_ms = leader_tick(&r->me);
        steer(r);
        hear_guard(r, &wait_ms);
        tell_role(r, &wait_ms);
        mind_the_time(r, &wait_ms);
        sleep_until_news(r, wait_ms);
        hear_signals(r);
        if (r->address) {
            http_serve(&r->http);
        }
    }
}

/* ---- start --------------------------------------------------------------------------------------------- */

/* A copy of the command line for the command, so that guard and watchdog can show their own names in ps. */
static bool copy_command(guard_command *command, int argc, char **argv) {
    char **copy = (char **)calloc((size_t)argc + 1, sizeof *copy);
    if (!copy) {
        return false;
    }
    int n = 0;
    for (char **arg = command->argv; *arg; arg++) {
        copy[n] = strdup(*arg);
        if (!copy[n]) {
            return false;
        }
        n++;
    }
    command->argv = copy;
    const char *last = argv[argc - 1];
    command->title = argv[0];
    command->title_size = (size_t)(last - argv[0]) + strlen(last) + 1;
    return true;
}

/* What the guard needs of this system. */
static int check_system(const run *r) {
    const char *wrong = guard_proc_mistake();
    if (wrong) {
        return complain(EXIT_FAILED, "", wrong);
    }
    if (!r->command.pid_namespace) {
        return 0;
    }
    wrong = guard_namespace_mistake();
    return wrong ? complain(EXIT_FAILED, "--pid-namespace", wrong) : 0;
}

static void remember_descriptors(guard_command *command) {
    for (int fd = 0; fd < FD_SETSIZE; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            FD_SET(fd, &command->inherited);
        }
    }
}

static int lead(run *r, int argc, char **argv) {
    if (!copy_command(&r->command, argc, argv)) {
        return complain(EXIT_FAILED, "", "out of memory");
    }
    if (!catch_signals(r)) {
        return complain(EXIT_FAILED, "signalfd", strerror(errno));
    }
    setenv("LEADER_IDENTITY", r->identity, 1);
    setenv("LEADER_NAME", store_election(&r->where), 1);
    loop(r);
    if (r->address) {
        http_close(&r->http);
    }
    return r->exit_code;
}

int main(int argc, char **argv) {
    static run r;                               // large, and zero
    remember_descriptors(&r.command);
    int done = parse(&r, argc, argv);
    if (done) {
        return done == 1 ? 0 : done;
    }
    if (r.resign) {
        return ask_to_resign(r.resign);
    }
    notify_open(&r.manager);
    done = set_times(&r);
    if (!done && r.explain) {
        return explain_times_of(&r);
    }
    if (!done && !r.status) {
        done = check_system(&r);
    }
    if (!done) {
        done = set_up(&r);
    }
    if (done) {
        return done;
    }
    int code = r.status ? show_status(&r) : lead(&r, argc, argv);
    leader_close(&r.me, r.status ? 0 : 1000);
    store_free(&r.where);
    return code;
}
