#include "tests/store/etcd.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
