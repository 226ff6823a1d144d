/* A backend's companion header, with its implementation: switched on by a define, or included after
   leader.h (AFTER). */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#ifdef AFTER
#  include AFTER
#endif
int main(void) { return 0; }
