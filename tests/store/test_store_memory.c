#include "tests/store/memory.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
