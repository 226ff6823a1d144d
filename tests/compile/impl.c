/* The implementation in a file of its own, the way most programs have it. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#ifndef LEADER_IMPLEMENTATION_DONE
#  error "leader.h did not compile its implementation"
#endif
