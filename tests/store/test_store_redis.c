#include "tests/store/redis.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
