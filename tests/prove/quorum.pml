/* A lease on a majority of three stores that know nothing of each other, as backends/leader_quorum.h takes, keeps and
 * gives it back. Two candidates.
 *
 * A store answers one request at a time and keeps others out for L ticks; that it does so is what the models of the
 * stores show. It may forget everything. A request that was carried out may stay without an answer; one to release may
 * be carried out long after its sender has given up. Candidates stop anywhere, crash, and come back as a stranger who
 * bears the same name. A candidate counts on D ticks from before the first request of its round.
 *
 * At most one of them may lead, and each term's token must be above all earlier ones'.
 *
 * Sizes, each by a -D:
 *   L, D      how long a lease lasts, and how long a leader counts on it
 *   WIPES     how often a store forgets everything
 *   CRASHES   how often a candidate crashes
 *   LATE      1: releases may be late
 *   TOKENS    terms are explored up to this token; 0: tokens are left out, and with them the limit
 *
 * Explored: -DL=3 -DD=2
 * Explored: -DLATE=1
 * Explored: -DCRASHES=1
 * Explored: -DWIPES=1
 * Explored: -DTOKENS=3
 * Explored: -DTOKENS=2 -DCRASHES=1
 *
 * Each -D below leaves one rule out, brings the sizes that it takes, and must yield its counterexample:
 *   EXTEND_OR_LOCK  a renewal locks what it does not have any more, and an empty store counts at once
 *   NO_DOUBT        the vote of a store that was found empty counts at once
 *   RELEASE_DOUBT   a record in a store that was found empty is released, and taken at once
 *   OLD_VOTES       votes of earlier rounds count in a renewal
 *   HALF            two of three stores are needed to take the lease, one to keep it
 *   FROM_THE_REPLY  validity is counted from the last answer of the round
 *   LATE_RELEASE    a late release frees a later term of its sender
 *   LOW_TOKENS      a vote counts although the token of its record is below that of the term */
#if defined(EXTEND_OR_LOCK) || defined(NO_DOUBT) || defined(RELEASE_DOUBT)
#define WIPES 1
#endif
#if defined(OLD_VOTES) || defined(HALF)
#define L 3
#define D 2
#endif
#ifdef LATE_RELEASE
#define LATE 1
#endif
#ifdef LOW_TOKENS
#define TOKENS 3
#endif
#ifndef L
#define L 2
#endif
#ifndef D
#define D 1
#endif
#ifndef WIPES
#define WIPES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef TOKENS
#define TOKENS 0
#endif
#define N 3
#define C 2
#define ALL 7
#define STRANGER 3                                  /* holds a record of a candidate that has crashed              */

/* The stores. */
byte owner[N];                                      /* 0: nobody                                                   */
byte rest[N];                                       /* ticks that its lease still lasts                            */
byte token[N];
bool blank[N];                                      /* nothing was ever written into it, as far as it knows        */
bool shaky[N];                                      /* written by one that holds off: who inherits it does so too  */

/* The candidates. Sets of stores have a bit for each. */
mtype = { IDLE, TRY, KEEP, RENEW };
mtype phase[C] = IDLE;
bool leads[C];
byte age[C];                                        /* ticks since the round began, up to D                        */
byte fresh[C];                                      /* ticks for which the last confirmed round is good            */
byte hold[C];                                       /* ticks until the term may start                              */
byte voted[C];                                      /* confirmed in this round                                     */
byte mine[C];                                       /* holds our record, as far as we know                         */
byte doubt[C];                                      /* was found empty: our record counts only after `wait`        */
byte late[C];                                       /* releases under way that nobody waits for                    */
byte term[C];                                       /* token of the attempt or term                                */
byte got[C * N];                                    /* token of our record, in this term                           */
byte wait[C * N];                                   /* ticks until our record counts                               */

byte top;                                           /* token of the last term                                      */
byte wipes = WIPES;
byte crashes = CRASHES;

#define BIT(i)     (1 << (i))
#define HAS(set, i) ((set & BIT(i)) != 0)
#define AT(c, i)   ((c) * N + (i))
#define LEADING(c) (leads[c] && fresh[c] > 0)
#define FREE(i)    (owner[i] == 0 || rest[i] == 0)
#if TOKENS > 0 && !defined(LOW_TOKENS)
#define ENOUGH(c, i) (got[AT(c, i)] >= term[c])
#define ROOM(i)    (token[i] < TOKENS && top < TOKENS)
#elif TOKENS > 0
#define ENOUGH(c, i) (got[AT(c, i)] > 0)
#define ROOM(i)    (token[i] < TOKENS && top < TOKENS)
#else
#define ENOUGH(c, i) (got[AT(c, i)] > 0)
#define ROOM(i)    true
#endif
#ifdef FROM_THE_REPLY
#define IN_TIME(c) true
#define GOOD(c)    D
#else
#define IN_TIME(c) (age[c] < D)
#define GOOD(c)    (D - age[c])
#endif
#ifdef RELEASE_DOUBT
#define KEPT(c, i) false
#else
#define KEPT(c, i) (HAS(doubt[c], i) || shaky[i])  /* what is in doubt expires; a store sees to it by itself      */
#endif
#ifdef HALF
#define TO_KEEP    1
#else
#define TO_KEEP    2
#endif

inline raise(x, to) { if :: x < to -> x = to :: else fi }
inline lapse(x) { if :: x > 0 -> x-- :: else fi }
inline heard_or_not() { if :: heard = true :: heard = false fi }
inline pick(i) { if :: i = 0 :: i = 1 :: i = 2 fi }

inline count(n, i, test) {                          /* how many stores pass the test, which names them i           */
    n = 0; i = 0;
    do
    :: i < N && (test) -> n++; i++
    :: i < N && !(test) -> i++
    :: else -> break
    od;
    i = 0
}
inline tally(n, i, test) { d_step { count(n, i, test) } }

/* ---- requests ------------------------------------------------------------------------------------------------- */

/* One look at a set of stores. Nothing changes by it, so nothing is lost by looking at all of them in one moment: what a
 * look may miss is what happens between it and the request that follows. */
inline look(set) {
    n = 0; i = 0;
    do
    :: i < N ->
        if
        :: HAS(set, i) ->
            if :: FREE(i) || owner[i] == me + 1 -> n++ :: else fi;
#if TOKENS > 0
            raise(term[me], token[i] + 1);
#endif
            if
            :: blank[i] -> doubt[me] = doubt[me] | BIT(i)
            :: !blank[i] && owner[i] != me + 1 -> doubt[me] = doubt[me] & (ALL - BIT(i))
            :: else
            fi;
        :: else
        fi;
        i++
    :: else -> break
    od;
#if TOKENS > 0
    if :: set != ALL || doubt[me] != 0 -> raise(term[me], top + 1) :: else fi;      /* it begins at the clock       */
#endif
    i = 0
}

inline forget_record(i) { mine[me] = mine[me] & (ALL - BIT(i)); got[AT(me, i)] = 0; wait[AT(me, i)] = 0 }

/* The store decides; then the candidate hears of it, or not. */
inline acquire(i) {
    if
    :: FREE(i) || owner[i] == me + 1 ->
        off = blank[i] || HAS(doubt[me], i) || (shaky[i] && rest[i] > 0);
#if defined(NO_DOUBT) || defined(EXTEND_OR_LOCK)
        off = false;
#endif
#if TOKENS > 0
        token[i]++;
        if :: HAS(mine[me], i) -> raise(token[i], term[me]) :: else fi;
#endif
        owner[i] = me + 1; rest[i] = L; blank[i] = false; shaky[i] = off;
#ifndef LATE_RELEASE
        late[me] = late[me] & (ALL - BIT(i));       /* a request tells which record it is about                    */
#endif
        if
        :: heard ->
            if
            :: off -> doubt[me] = doubt[me] | BIT(i); wait[AT(me, i)] = L + 1
            :: else -> wait[AT(me, i)] = 0
            fi;
#if TOKENS > 0
            if                                      /* the first grant is above what this store knew               */
            :: phase[me] == TRY && got[AT(me, i)] == 0 -> raise(term[me], token[i])
            :: else
            fi;
            got[AT(me, i)] = token[i];
#else
            got[AT(me, i)] = 1;
#endif
            mine[me] = mine[me] | BIT(i);
            voted[me] = voted[me] | BIT(i)
        :: else                                     /* the answer is lost                                          */
        fi;
        off = false
    :: else ->
        voted[me] = voted[me] & (ALL - BIT(i));
        forget_record(i)
    fi
}

inline renew(i) {
    if
    :: owner[i] == me + 1 ->
        rest[i] = L;
        if :: !HAS(doubt[me], i) -> shaky[i] = false :: else fi;
        if :: heard -> voted[me] = voted[me] | BIT(i) :: else fi
    :: else -> forget_record(i)                     /* lost: the next request asks for it again                    */
    fi
}

/* ---- the candidate -------------------------------------------------------------------------------------------- */

inline begin_round() {
    age[me] = 0;
#ifdef OLD_VOTES
    if :: phase[me] == TRY -> voted[me] = 0 :: else fi
#else
    voted[me] = 0
#endif
}

inline start_term() {
    leads[me] = true; hold[me] = 0;
#if TOKENS > 0
    assert(term[me] > top);
    top = term[me]
#endif
}

/* What is in doubt is not given back, and stays known. The rest is released now, late, or never. */
inline give_back(now, later) {
    leads[me] = false; fresh[me] = 0; hold[me] = 0;
    i = 0;
    do
    :: i < N ->
        if
        :: owner[i] == me + 1 && !KEPT(me, i) && HAS(now, i) -> owner[i] = 0; rest[i] = 0; shaky[i] = false
        :: owner[i] == me + 1 && !KEPT(me, i) && HAS(later, i) -> late[me] = late[me] | BIT(i)
        :: else
        fi;
#ifdef RELEASE_DOUBT
        doubt[me] = doubt[me] & (ALL - BIT(i));
#endif
        if :: !HAS(doubt[me], i) -> forget_record(i) :: else fi;
        i++
    :: else -> break
    od;
    i = 0;
    be_idle(me)
}

/* All at once, all but the first, all but the last, or none: what is left of the others is as if it were late. */
inline end_round() {
    if :: set = 0 :: set = 7 :: set = 6 :: set = 3 fi;
    if
    :: LATE == 1 -> d_step { give_back(set, ALL - set); set = 0 }
    :: d_step { give_back(set, 0); set = 0 }
    fi
}

inline be_idle(who) {
    phase[who] = IDLE; age[who] = 0; voted[who] = 0; term[who] = 0;
    got[AT(who, 0)] = 0; got[AT(who, 1)] = 0; got[AT(who, 2)] = 0
}

/* How long until two of the votes count. */
inline find_hold() {
    hold[me] = 0;
    do
    :: true ->
        count(n, i, HAS(voted[me], i) && ENOUGH(me, i) && wait[AT(me, i)] <= hold[me]);
        if :: n >= 2 -> break :: else -> hold[me]++ fi
    od;
    n = 0
}

proctype candidate(byte me) {
    byte i, n, set;
    bool off, heard;
end:
    do
    /* An attempt: look at all, or at those that answer; then take each. */
    :: atomic { phase[me] == IDLE ->
        if :: set = 3 :: set = 5 :: set = 6 :: set = 7 fi;
        d_step {
            look(set);
            if :: n >= 2 -> phase[me] = TRY; begin_round() :: else -> be_idle(me) fi;
            n = 0; set = 0
        } }
    :: atomic { phase[me] == TRY && IN_TIME(me) -> pick(i); heard_or_not();
        d_step {
            if :: !(HAS(voted[me], i) && ENOUGH(me, i)) && ROOM(i) -> acquire(i) :: else fi;
            i = 0; heard = false
        } }
    :: atomic { phase[me] == TRY && IN_TIME(me) -> tally(n, i, HAS(voted[me], i) && ENOUGH(me, i));
        if
        :: n >= 2 ->
            d_step { find_hold() }
            fresh[me] = GOOD(me); age[me] = 0; phase[me] = KEEP;
            if :: hold[me] == 0 -> start_term() :: else fi
        :: else
        fi;
        n = 0 }
    :: atomic { phase[me] == TRY -> end_round() }

    /* A term, or the wait before it. */
    :: atomic { phase[me] == KEEP && !leads[me] && hold[me] == 0 && fresh[me] > 0 -> start_term() }
    :: atomic { phase[me] == KEEP && (!leads[me] || fresh[me] > 0) -> phase[me] = RENEW; begin_round() }
    :: atomic { phase[me] == RENEW && IN_TIME(me) -> pick(i); heard_or_not();
        d_step { if
        :: HAS(mine[me], i) && ENOUGH(me, i) && !HAS(voted[me], i) -> renew(i)
#ifdef EXTEND_OR_LOCK
        :: !(HAS(mine[me], i) && ENOUGH(me, i)) && ROOM(i) -> acquire(i)
#else
        :: !(HAS(mine[me], i) && ENOUGH(me, i)) && ROOM(i) && fresh[me] > 0 -> acquire(i)
#endif
        :: else
        fi;
        i = 0; heard = false } }
    :: atomic { phase[me] == RENEW && IN_TIME(me) && (!leads[me] || fresh[me] > 0) ->
        tally(n, i, HAS(voted[me], i) && ENOUGH(me, i) && wait[AT(me, i)] <= hold[me]);
        if :: n >= TO_KEEP -> fresh[me] = GOOD(me); age[me] = 0; phase[me] = KEEP :: else fi;
        n = 0 }
    :: atomic { phase[me] == RENEW && !leads[me] && age[me] >= D -> age[me] = 0; phase[me] = KEEP }
    :: atomic { (phase[me] == KEEP || phase[me] == RENEW) -> end_round() }  /* resigned, expired, lost, withdrawn   */
    od
}

/* ---- the world ------------------------------------------------------------------------------------------------ */

inline pass_time() {
    i = 0;
    do
    :: i < N ->
        lapse(rest[i]);
        if :: rest[i] == 0 && owner[i] == STRANGER -> owner[i] = 0 :: else fi;
        i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < C ->
        lapse(fresh[i]); lapse(hold[i]);
        if :: (phase[i] == TRY || phase[i] == RENEW) && age[i] < D -> age[i]++ :: else fi;
        j = 0;
        do
        :: j < N ->
            lapse(wait[AT(i, j)]);
            if                                      /* a full lease has passed since our record went in            */
            :: wait[AT(i, j)] == 0 && HAS(mine[i], j) -> doubt[i] = doubt[i] & (ALL - BIT(j))
            :: else
            fi;
            j++
        :: else -> break
        od;
        i++
    :: else -> break
    od;
    i = 0; j = 0
}

inline wipe(i) { owner[i] = 0; rest[i] = 0; token[i] = 0; shaky[i] = false; blank[i] = true }

inline crash(me) {
    leads[me] = false; fresh[me] = 0; hold[me] = 0; mine[me] = 0; doubt[me] = 0; be_idle(me);
    wait[AT(me, 0)] = 0; wait[AT(me, 1)] = 0; wait[AT(me, 2)] = 0;
    late[me] = 0;
    i = 0;
    do
    :: i < N && owner[i] == me + 1 -> owner[i] = STRANGER; i++
    :: i < N && owner[i] != me + 1 -> i++
    :: else -> break
    od;
    i = 0
}

proctype world() {
    byte i, j;
end:
    do
    :: d_step { pass_time() }
    :: atomic { wipes > 0 -> wipes--; pick(i); wipe(i); i = 0 }
    :: atomic { crashes > 0 -> crashes--;
        if
        :: d_step { crash(0) }
        :: d_step { crash(1) }
        fi }
    :: atomic { late[0] != 0 || late[1] != 0 -> pick(i);
        if
        :: HAS(late[0], i) ->
            late[0] = late[0] & (ALL - BIT(i));
            if :: owner[i] == 1 -> owner[i] = 0; rest[i] = 0 :: else fi
        :: HAS(late[1], i) ->
            late[1] = late[1] & (ALL - BIT(i));
            if :: owner[i] == 2 -> owner[i] = 0; rest[i] = 0 :: else fi
        :: else
        fi;
        i = 0 }
    :: atomic { LEADING(0) && LEADING(1) -> assert(false) }
    od
}

init { atomic { run candidate(0); run candidate(1); run world() } }
