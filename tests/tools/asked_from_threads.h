/* Two elections on one lease, each ticked by a thread of its own, while two more threads ask both of them
   whatever may be asked from any thread, and this one makes them resign and, in the end, stop. What a
   backend must not do under the thread sanitizer: touch, outside its ticks, what others may read. */
#ifndef ASKED_FROM_THREADS_H
#define ASKED_FROM_THREADS_H

#include <pthread.h>

enum { ASKED_TERMS = 30, ASKED_LIMIT_MS = 60000 };
static int asked_enough;

static void *ticked_until_stopped(void *election) {
    leader_t *me = (leader_t *)election;
    while (!leader_is_stopped(me)) {
        leader_tick(me);
        leader_sleep(me, 5);
    }
    return NULL;
}

/* Answers NULL, or the pair of elections if one of them said something that cannot be. */
static void *asked_all_the_time(void *pair) {
    leader_t *me = (leader_t *)pair;
    void *wrong = NULL;
    while (!__atomic_load_n(&asked_enough, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 2; i++) {
            char name[LEADER_IDENTITY_MAX + 1];
            leader_view view = leader_get_view(&me[i]);
            if (view.leading && (view.token == 0 || view.leader[0] != (i ? 'b' : 'a'))) wrong = pair;
            (void)leader_get_leader(&me[i], name, sizeof name);
            (void)leader_is_leader(&me[i]);
            (void)leader_token(&me[i]);
            (void)leader_remaining_ms(&me[i]);
            (void)leader_due_ms(&me[i]);
            (void)leader_is_healthy(&me[i], 0);
            (void)leader_get_stats(&me[i]);
        }
    }
    return wrong;
}

/* me: both opened, called "a" and "b", without callbacks. Closes them. */
static void asked_from_threads(int *utest_result, leader_t me[2]) {
    pthread_t thread[4];
    const int64_t end = leader_clock_ms_() + ASKED_LIMIT_MS;
    uint64_t terms = 0;
    asked_enough = 0;
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(0, pthread_create(&thread[i], NULL, i < 2 ? ticked_until_stopped : asked_all_the_time,
                                    i < 2 ? &me[i] : me));
    while (terms < ASKED_TERMS && leader_clock_ms_() < end) {
        for (int i = 0; i < 2; i++) if (leader_is_leader(&me[i])) leader_resign(&me[i], 1);
        terms = leader_get_stats(&me[0]).terms + leader_get_stats(&me[1]).terms;
        poll(NULL, 0, 5);
    }
    for (int i = 0; i < 2; i++) leader_stop(&me[i]);
    for (int i = 0; i < 2; i++) EXPECT_EQ(0, pthread_join(thread[i], NULL));
    __atomic_store_n(&asked_enough, 1, __ATOMIC_RELEASE);
    for (int i = 2; i < 4; i++) {
        void *wrong = NULL;
        EXPECT_EQ(0, pthread_join(thread[i], &wrong));
        EXPECT_TRUE(wrong == NULL);
    }
    EXPECT_GE(terms, (uint64_t)ASKED_TERMS);
    for (int i = 0; i < 2; i++) EXPECT_EQ(LEADER_OK, leader_close(&me[i], 0));
}

#endif
