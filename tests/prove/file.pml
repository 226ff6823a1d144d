/* The file store's protocol, one system call a step, with stops anywhere.
 *
 * The record is the name of the one file in a directory of its own. Every write renames that file: the old name is the
 * comparison, the new one the swap. No name ever returns. Where there is no record, a directory that already holds its
 * first record is renamed into place, which the system refuses unless nothing is there.
 *
 * Candidates take, renew, release, crash and come back, close without a release, and stop between any two calls. An
 * operator removes the record, moves the directory away, moves it back. Time passes in ticks: a lease lasts L of them, a
 * leader counts on D of them from before its request. Nobody may lead beside another.
 *
 * Explored: -DNAMES=3
 * Explored: -DNAMES=3 -DLOCKS=0
 *
 * Each -D below leaves one rule out, brings the sizes that it takes, and must yield its counterexample:
 *   NAMES_RETURN    names are numbers that start over when the store was wiped
 *   CREATE_LATE     the first record is put into whatever directory stands there
 *   LINK_UNLINK     the new name is made and the old one removed, instead of one rename
 *   NO_PATH_CHECK   a write into a directory that was moved away counts
 *   LOCK_FIRST      a close without a release frees the lock before its name is gone
 *   ONE_LOOK        the name of a free lock is not looked at again
 *   NO_DOUBT        a candidate that has seen a record believes an empty store at once
 *   DOUBT_LATE      whether to hold off is decided at the write, from how long ago the look was */
#ifndef N
#define N 2
#endif
#define L 2
#define D 1
#ifdef DOUBT_LATE
#define NAMES 3
#define LOCKS 0
#endif
#ifndef NAMES
#define NAMES 4                                     /* how many writes are explored                                */
#endif
#ifndef MEDDLES
#define MEDDLES 1                                   /* how often the operator meddles                              */
#endif
#ifndef LOCKS
#define LOCKS 1                                     /* 0: holders on other machines, whose death nobody can see    */
#endif
#define DIRS 4
#define NONE 255

/* The file system. record[d]: the name in directory d, 0: none. */
byte record[DIRS];
byte at = 0;                                        /* the directory at the path; 0: none                          */
byte away = 0;                                      /* one that was moved away                                     */
byte last;                                          /* the last name ever given                                    */
byte used;                                          /* how many writes there were                                  */
byte meddles = MEDDLES;

/* What each name says. */
byte holder[NAMES + 2];                             /* 0: released; else candidate + 1                             */
byte life[NAMES + 2];                               /* of the holder: a candidate that crashed is another          */
byte age[NAMES + 2];                                /* ticks since its writer read the clock, up to L + 1          */
bool doubt[NAMES + 2];                              /* written while holding off                                   */

/* The candidates. */
byte valid[N];                                      /* leads for so many more ticks                                */
byte hold[N];                                       /* holds off for so many more ticks                            */
byte sent[N];                                       /* ticks since the request's reading of the clock; L + 1: none */
byte base[N];                                       /* the name that the next write replaces; 0: there was none    */
byte base_dir[N];                                   /* kept open from the look to the write                        */
byte lives[N];
bool lock_name[N], lock_held[N];
byte lock_life[N];
#ifdef DOUBT_LATE
byte look_age[N];                                   /* ticks since the look                                        */
#endif

#define LEADING(c) (valid[c] > 0)

inline pass(x, most) { if :: x < most -> x++ :: else fi }
inline lapse(x) { if :: x > 0 -> x-- :: else fi }

inline fresh_dir(d) {                               /* an inode that nobody has open may come again                */
    d = 1;
    do
    :: d == at || d == away -> d++
    :: d != at && d != away && (base_dir[0] == d || base_dir[1] == d || base_dir[N - 1] == d) -> d++
    :: else -> break
    od;
    assert(d < DIRS)
}

inline new_name(x, from) {
    used++;
#ifdef NAMES_RETURN
    x = from + 1;
#else
    last++;
    x = last;
#endif
}

inline tidy() {                                     /* what no name and no look refers to any more means nothing   */
    i = 1;
    do
    :: i <= NAMES + 1 ->
        if
        :: i != base[0] && i != base[1] && i != base[N - 1] && i != record[1] && i != record[2] && i != record[3] ->
            holder[i] = 0; life[i] = 0; age[i] = 0; doubt[i] = false
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline say(x, who, off) {
    holder[x] = who; age[x] = sent[me]; doubt[x] = off;
    if :: who > 0 -> life[x] = lives[me] :: else -> life[x] = 0 fi
}

/* One write from base[me] in base_dir[me]; 0: there was no record. ok: it counts. */
inline write(who, off) {
    ok = false;
    if
    :: base[me] == 0 -> atomic {
#ifdef CREATE_LATE
        if
        :: at == 0 -> fresh_dir(d); record[d] = 0; at = d
        :: else -> d = at
        fi;
        base_dir[me] = d;
        new_name(mine, record[d]); say(mine, who, off); record[d] = mine; ok = true
#else
        if
        :: at == 0 || record[at] == 0 ->
            fresh_dir(d); at = d; base_dir[me] = d;
            new_name(mine, 0); say(mine, who, off); record[d] = mine; ok = true
        :: else
        fi
#endif
        d = 0
        }
    :: base[me] > 0 ->
#ifdef LINK_UNLINK
        atomic { new_name(mine, base[me]); say(mine, who, off); ok = (record[base_dir[me]] > 0) }
        atomic { if :: ok -> record[base_dir[me]] = mine :: else fi }
#else
        atomic {
            if
            :: record[base_dir[me]] == base[me] ->
                new_name(mine, base[me]); say(mine, who, off); record[base_dir[me]] = mine; ok = true
            :: else
            fi
        }
#endif
    fi;
#ifndef NO_PATH_CHECK
    ok = ok && (at == base_dir[me]);
#endif
    d_step { if :: ok -> base[me] = mine :: else -> base[me] = 0 fi; mine = 0; tidy() }
}

inline over() {                                     /* what belonged to one request means nothing to the next      */
    ok = false; off = false; dead = false; other = 0; sent[me] = L + 1;
#ifdef DOUBT_LATE
    look_age[me] = 0;
#endif
    tidy()
}

inline settle_lock() {                              /* every life has a lock file of its own                       */
    lock_name[me] = true; lock_held[me] = true; lock_life[me] = lives[me]
}

proctype candidate(byte me) {
    byte mine, d, i;
    bool ok, off, dead, mine_now;
    byte other;
    do
    :: atomic { used < NAMES && !mine_now ->        /* look: the name, and the directory, kept open                */
        base_dir[me] = at; off = false;
#ifdef DOUBT_LATE
        look_age[me] = 0;
#endif
        if :: at > 0 -> base[me] = record[at] :: else -> base[me] = 0 fi;
        if
        :: base[me] == 0 -> off = true              /* seen a record before, or cautious_start                     */
        :: else
        fi;
#ifdef NO_DOUBT
        off = false;
#endif
        skip
       }
       if
       :: atomic { base[me] > 0 && holder[base[me]] > 0 && LOCKS == 1 && holder[base[me]] != me + 1 -> other = holder[base[me]] }
            dead = lock_name[other - 1] && lock_life[other - 1] == life[base[me]];      /* open it by its name         */
            dead = dead && !lock_held[other - 1];
#ifndef ONE_LOOK
            dead = dead && lock_name[other - 1] && lock_life[other - 1] == life[base[me]];
#endif
       :: else
       fi;
       if
       :: base[me] == 0 || holder[base[me]] == 0 || dead || age[base[me]] > L ->
            if :: base[me] > 0 && holder[base[me]] > 0 && age[base[me]] <= L && doubt[base[me]] -> off = true :: else fi;
            if :: used < NAMES -> skip :: else -> break fi;
            atomic { sent[me] = 0; settle_lock() }
#ifdef DOUBT_LATE
            if :: look_age[me] > L -> off = false :: else fi;
#endif
            write(me + 1, off);
            atomic {
                if
                :: ok && off -> hold[me] = L + 1; mine_now = true
                :: ok && !off && sent[me] < D -> valid[me] = D - sent[me]; mine_now = true
                :: ok && !off && sent[me] >= D -> mine_now = false; base_dir[me] = 0; base[me] = 0
                :: else -> mine_now = false; base_dir[me] = 0; base[me] = 0
                fi;
                over()
            }
       :: else -> atomic { base_dir[me] = 0; base[me] = 0; over() }
       fi
    :: used < NAMES && mine_now ->                  /* renew                                                       */
       atomic { sent[me] = 0; off = hold[me] > 0 }
       write(me + 1, off);
       atomic {
            if
            :: ok && !off && sent[me] < D -> valid[me] = D - sent[me]
            :: ok && off -> skip
            :: else -> valid[me] = 0; hold[me] = 0; mine_now = false; base_dir[me] = 0; base[me] = 0
            fi;
            over()
       }
    :: atomic { mine_now && valid[me] == 0 && hold[me] == 0 -> mine_now = false; base_dir[me] = 0; base[me] = 0 }
    :: used < NAMES && mine_now && hold[me] == 0 -> /* release: the work is over first                             */
       atomic { valid[me] = 0; sent[me] = 0 }
       write(0, false);
       atomic { mine_now = false; base_dir[me] = 0; base[me] = 0; over() }
    :: atomic { lives[me] == 0 && mine_now ->       /* crash, and a new process of that name                       */
       valid[me] = 0; hold[me] = 0; mine_now = false; lock_held[me] = false; base_dir[me] = 0; base[me] = 0; lives[me]++ }
    :: lives[me] == 0 && mine_now ->                /* close without a release: work may still go on               */
#ifdef LOCK_FIRST
       lock_held[me] = false;
       lock_name[me] = false;
#else
       lock_name[me] = false;
       lock_held[me] = false;
#endif
       atomic { LEADING(me) == false; hold[me] = 0; mine_now = false; base_dir[me] = 0; base[me] = 0; lives[me]++ }
    :: used >= NAMES -> break
    od
}

proctype operator() {
    do
    :: atomic { meddles > 0 && at > 0 && record[at] > 0 -> meddles--; record[at] = 0 }
    :: atomic { meddles > 0 && at > 0 -> meddles--; record[at] = 0; at = 0 }
    :: atomic { meddles > 0 && at > 0 && away == 0 -> meddles--; away = at; at = 0 }
    :: meddles == 0 -> break
    od
}

proctype clock() {
    byte i;
end:
    do
    :: d_step {
        i = 0;
        do
        :: i < N -> lapse(valid[i]); lapse(hold[i]); pass(sent[i], L + 1);
#ifdef DOUBT_LATE
            pass(look_age[i], L + 1);
#endif
            i++
        :: else -> break
        od;
        i = 1;
        do
        :: i <= NAMES + 1 -> pass(age[i], L + 1); i++
        :: else -> break
        od;
        i = 0
       }
    od
}

init { atomic { byte c = 0; do :: c < N -> sent[c] = L + 1; run candidate(c); c++ :: else -> break od; run operator(); run clock() } }

#if N == 2
#define TWO (LEADING(0) && LEADING(1))
#else
#define TWO ((LEADING(0) && LEADING(1)) || (LEADING(0) && LEADING(2)) || (LEADING(1) && LEADING(2)))
#endif
active proctype watcher() { atomic { TWO -> assert(false) } }
