#include "tests/store/single.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
