/* Chance, virtual time, the event queue and coroutines: what the rest of the simulator stands on.

   One 64-bit seed decides everything. Global time is counted in microseconds and passes only between
   events; each candidate sees it through a clock of its own, with its own offset and its own rate. */

enum { SIM_CANDIDATES_MAX = 9, SIM_STACK_BYTES = 256 * 1024 };
enum { SIM_RATE_ONE = 1 << 20 };  // clock rates are fixed-point numbers: whole runs stay exact

/* ---- chance ------------------------------------------------------------------------------------ */
typedef struct sim_rng { uint64_t s[4]; } sim_rng;

static uint64_t rng_split(uint64_t *state) {  // splitmix64: spreads a seed's bits
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void rng_seed(sim_rng *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) r->s[i] = rng_split(&seed);
}

static uint64_t rng_turn(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t rng_next(sim_rng *r) {  // xoshiro256**
    uint64_t *s = r->s, out = rng_turn(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rng_turn(s[3], 45);
    return out;
}

static int64_t rng_range(sim_rng *r, int64_t lo, int64_t hi) {  // both ends included
    return hi <= lo ? lo : lo + (int64_t)(rng_next(r) % (uint64_t)(hi - lo + 1));
}

static bool rng_percent(sim_rng *r, int percent) { return rng_range(r, 0, 99) < percent; }

static bool rng_permille(sim_rng *r, int permille) { return permille > 0 && rng_range(r, 0, 999) < permille; }

/* Spread evenly over orders of magnitude: as many values near lo as near hi. Integers only, so that a seed
   means the same on every machine. */
static int64_t rng_log(sim_rng *r, int64_t lo, int64_t hi) {
    int steps = 0;
    while ((lo << (steps + 1)) <= hi) steps++;
    int64_t from = lo << rng_range(r, 0, steps), to = from * 2 - 1;
    return rng_range(r, from, to < hi ? to : hi);
}

/* ---- events ------------------------------------------------------------------------------------ */
typedef enum event_kind {
    EV_WAKE,
    EV_START,
    EV_REQUEST,
    EV_REPLY,
    EV_NOTICE,
    EV_PACKET,
    EV_HTTP_REQUEST,
    EV_HTTP_REPLY,
    EV_PG_REQUEST,
    EV_PG_REPLY,
    EV_FAULT,
    EV_HEAL,
    EV_PHASE
} event_kind;

typedef struct event {
    int64_t    at_us;
    uint64_t   order;  // equal times run in the order in which they were planned
    event_kind kind;
    int        who;                                         // candidate, fault or phase number
    uint32_t   generation;  // a wake planned for an earlier sleep or process is void
    int        message;                                     // index into the message pool; -1: none
} event;

typedef struct event_queue { event *heap; size_t count, room; uint64_t planned; } event_queue;

static bool event_before(const event *a, const event *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void queue_push(event_queue *q, event e) {
    if (q->count == q->room) {
        q->room = q->room ? q->room * 2 : 256;
        q->heap = (event *)realloc(q->heap, q->room * sizeof *q->heap);
        if (!q->heap) abort();
    }
    e.order = ++q->planned;
    size_t at = q->count++;
    while (at > 0 && event_before(&e, &q->heap[(at - 1) / 2])) {
        q->heap[at] = q->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    q->heap[at] = e;
}

static bool queue_pop(event_queue *q, event *out) {
    if (q->count == 0) return false;
    *out = q->heap[0];
    event last = q->heap[--q->count];
    size_t at = 0;
    for (size_t child; (child = at * 2 + 1) < q->count; at = child) {
        if (child + 1 < q->count && event_before(&q->heap[child + 1], &q->heap[child])) child++;
        if (!event_before(&q->heap[child], &last)) break;
        q->heap[at] = q->heap[child];
    }
    q->heap[at] = last;
    return true;
}

/* ---- coroutines -----------------------------------------------------------------------------------
 * Every candidate runs on a stack of its own, so that it can be stopped at any point of a tick while the
 * others go on.
 * ucontext makes the stack; switching is _setjmp and _longjmp, which need no system call. */
typedef struct coroutine {
    jmp_buf    here;
    ucontext_t first;
    bool       entered;
} coroutine;

static char    coroutine_stacks[SIM_CANDIDATES_MAX][SIM_STACK_BYTES] __attribute__((aligned(64)));
static jmp_buf coroutine_home;

#if defined(__SANITIZE_ADDRESS__)
void __asan_unpoison_memory_region(void const volatile *at, size_t bytes);
#endif

static void coroutine_make(coroutine *co, int number, void (*entry)(void)) {
#if defined(__SANITIZE_ADDRESS__)
    // what a dead process left marked there
    __asan_unpoison_memory_region(coroutine_stacks[number], SIM_STACK_BYTES);
#endif
    if (getcontext(&co->first) != 0) abort();
    co->first.uc_stack.ss_sp   = coroutine_stacks[number];
    co->first.uc_stack.ss_size = SIM_STACK_BYTES;
    co->first.uc_link          = NULL;
    makecontext(&co->first, entry, 0);
    co->entered = false;
}

static void coroutine_resume(coroutine *co) {
    if (_setjmp(coroutine_home) != 0) return;
    if (co->entered) _longjmp(co->here, 1);
    co->entered = true;
    setcontext(&co->first);
    abort();
}

static void coroutine_leave(coroutine *co) {
    if (_setjmp(co->here) == 0) _longjmp(coroutine_home, 1);
}
