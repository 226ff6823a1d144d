#include "tests/store/file.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
