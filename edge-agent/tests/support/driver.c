/* Stands for a driver where there is no GPU: memory is the process's own, a launch runs nothing. It takes what a driver
   takes and refuses what a driver refuses: a module without its function, a launch past the device's limits. */
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ptr;

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "no GPU", size); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 8ull << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 1: case 2: case 3: *value = 1024; break;       /* threads of a block, its width and height */
    case 4: *value = 64; break;                          /* its depth */
    case 5: *value = 2147483647; break;                  /* a grid's width */
    case 6: case 7: *value = 65535; break;               /* its height and depth */
    case 10: *value = 32; break;                         /* warp */
    case 16: *value = 80; break;                         /* multiprocessors */
    case 75: *value = MAJOR; break;                      /* compute capability */
    case 76: *value = MINOR; break;
    case 97: *value = 99 << 10; break;                   /* shared memory of a block, if asked for */
    default: *value = 0;
  }
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &cuInit; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxGetCurrent(void **context) { *context = &cuInit; return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = &cuInit; return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = &cuInit; return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventSynchronize(void *event) { return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuMemAlloc_v2(ptr *memory, size_t bytes) { *memory = (ptr)aligned_alloc(512, (bytes + 511) / 512 * 512); return *memory ? 0 : 2; }
int cuMemAllocAsync(ptr *memory, size_t bytes, void *stream) { return cuMemAlloc_v2(memory, bytes); }
int cuMemFree_v2(ptr memory) { free((void *)memory); return 0; }
int cuMemFreeAsync(ptr memory, void *stream) { return cuMemFree_v2(memory); }
int cuMemAllocHost_v2(void **memory, size_t bytes) { *memory = malloc(bytes); return *memory ? 0 : 2; }
int cuMemFreeHost(void *memory) { free(memory); return 0; }
int cuMemcpyHtoDAsync_v2(ptr to, const void *from, size_t bytes, void *stream) { memcpy((void *)to, from, bytes); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, ptr from, size_t bytes, void *stream) { memcpy(to, (void *)from, bytes); return 0; }
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t bytes, void *stream) { memcpy((void *)to, (void *)from, bytes); return 0; }

/* CUDA_MEMCPY2D of cuda.h; a side is on the host (1) or on the device (2). */
struct side { size_t x, y; unsigned type; void *host; ptr device; void *array; size_t pitch; };
struct copy { struct side from, to; size_t width, height; };
static char *start(const struct side *side) {
  char *base = side->type == 1 ? (char *)side->host : (char *)side->device;
  return base + side->y * side->pitch + side->x;
}
int cuMemcpy2DAsync_v2(const struct copy *copy, void *stream) {
  for (size_t row = 0; row < copy->height; row++)
    memcpy(start(&copy->to) + row * copy->to.pitch, start(&copy->from) + row * copy->from.pitch, copy->width);
  return 0;
}

int cuModuleLoadData(void **module, const void *image) { *module = strdup(image); return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = strstr(module, name);
  return *function ? 0 : 500;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  if (!gx || !gy || !gz || gx > 2147483647 || gy > 65535 || gz > 65535) return 1;
  return bx * by * bz == 0 || bx * by * bz > 1024 || shared > 99 << 10 ? 1 : 0;
}
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR"; return 0; }
int cuGetErrorString(int code, const char **name) { *name = "an error"; return 0; }
