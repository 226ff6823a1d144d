/* As with a libpq before 14: one statement at a time. */
#define LEADER_PG_NO_PIPELINE
#include "tests/store/pg.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
