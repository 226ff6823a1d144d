/* The kit on the store that make test-store STORE=path/to/their.c names. */
#include STORE_FILE
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
