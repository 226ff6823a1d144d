/* --on-leader and --on-follower: shell commands that are told of the role of this process, one at a time.

   A role that changes while the command for the earlier one still runs ends that one, SIGTERM first,
   SIGKILL after the grace; then the newest role is told. While a command for the end of a term runs, the
   lease is kept: what it tidies up is tidy before another process leads. */
#ifndef HOOKS_H_INCLUDED
#define HOOKS_H_INCLUDED

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "guard.h"

enum { HOOK_FOLLOWER, HOOK_LEADER, HOOK_ROLES };

typedef struct hook_role {                      // what is to be told
    int      role;
    uint64_t token;
    char     leader[LEADER_IDENTITY_MAX + 1];
} hook_role;

typedef struct hooks {
    const char *command[HOOK_ROLES];            // NULL: none
    hook_role   wanted, told;
    bool        known, any_told;
    int64_t     kill_at_ms;                     // of the one that runs; INT64_MAX: not asked to end
} hooks;

static bool hooks_running(void) { return guard_stranger != 0; }

static bool hooks_same(const hook_role *a, const hook_role *b) {
    return a->role == b->role && strcmp(a->leader, b->leader) == 0
           && (a->role == HOOK_FOLLOWER || a->token == b->token);
}

/* Something is still to be told, or is being told. */
static bool hooks_busy(const hooks *h) {
    bool waiting =
        h->known && h->command[h->wanted.role] && !(h->any_told && hooks_same(&h->wanted, &h->told));
    return hooks_running() || waiting;
}

static void hooks_exec(const char *command, const hook_role *role, const guard_command *settings) {
    char token[24];
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    snprintf(token, sizeof token, "%" PRIu64, role->token);
    setenv("LEADER_TOKEN", token, 1);
    setenv("LEADER_LEADER", role->leader, 1);
    setenv("LEADER_ROLE", role->role == HOOK_LEADER ? "leader" : "follower", 1);
    sigaction(SIGPIPE, &settings->on_pipe, NULL);
    sigprocmask(SIG_SETMASK, &settings->mask, NULL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void hooks_begin(hooks *h, const guard_command *settings) {
    h->told = h->wanted;
    h->any_told = true;
    h->kill_at_ms = INT64_MAX;
    const char *command = h->command[h->wanted.role];
    if (!command) {
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        hooks_exec(command, &h->wanted, settings);
    }
    if (pid < 0) {
        say("cannot fork", strerror(errno));
        return;
    }
    setpgid(pid, pid);
    guard_stranger = pid;
}

static void hooks_want(hooks *h, int role, uint64_t token, const char *leader) {
    h->wanted.role = role;
    h->wanted.token = token;
    snprintf(h->wanted.leader, sizeof h->wanted.leader, "%s", leader);
    h->known = true;
}

/* At every turn of the loop; *wait_ms is shortened to the next time. */
static void hooks_turn(hooks *h, const guard_command *settings, int *wait_ms) {
    bool same = h->any_told && hooks_same(&h->wanted, &h->told);
    if (!h->known || same) {
        return;
    }
    if (!hooks_running()) {
        hooks_begin(h, settings);
        return;
    }
    int64_t now = guard_clock_ms();
    if (h->kill_at_ms == INT64_MAX) {
        h->kill_at_ms = now + settings->grace_ms;
        kill(-guard_stranger, SIGTERM);
        kill(-guard_stranger, SIGCONT);
    }
    if (now >= h->kill_at_ms) {
        kill(-guard_stranger, SIGKILL);
    }
    guard_wake_in(wait_ms, GUARD_KILL_AGAIN_MS * 10);
}

#endif // HOOKS_H_INCLUDED
