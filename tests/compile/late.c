/* A system header before the implementation: with plain -std=c99 the names that it needs are out of reach
   by now, and leader.h has to say so. */
#include <stdio.h>
#define LEADER_IMPLEMENTATION
#include "leader.h"
