#include "tests/store/pg.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
