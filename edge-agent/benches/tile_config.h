/* Included first when llama.cpp is built as the peer of `make bench-agent`. GCC before 13 says of _tile_loadconfig that it reads eight
   bytes, so it leaves away the stores to the other 56, and llama.cpp's AMX code ends with an illegal instruction. */
#ifdef __AMX_TILE__
#include <immintrin.h>
#undef _tile_loadconfig
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg %0" : : "m"(*(const char(*)[64])(config)))
#endif
