/* A second unit of the program in use.c: sees the declarations only, or has a private copy of everything
   with LEADER_STATIC. */
#include "leader.h"

#ifdef __cplusplus
extern "C"
#endif
bool other_unit_agrees(const leader_t *me);

bool other_unit_agrees(const leader_t *me) {
    return leader_is_leader(me) && leader_token(me) != 0 && leader_get_state(me) == LEADER_STATE_LEADER
           && leader_get_view(me).leading;
}
