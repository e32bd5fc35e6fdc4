/* libcudart: the runtime that PyTorch and vLLM's kernels call. */
#include "device.h"
#include <cuda_runtime_api.h>
#undef cudaGetDeviceProperties

/* ---- devices ---- */

EXPORT(int, cudaGetDeviceCount, int *count) {
  *count = gpu()->devices;
  return SUCCESS;
}
EXPORT(int, cudaGetDevice, int *device) {
  *device = current_device();
  return SUCCESS;
}
EXPORT(int, cudaSetDevice, int device) {
  select_device(device);
  return SUCCESS;
}

static int properties(struct cudaDeviceProp *p, int device) {
  const gpu_facts *g = gpu();
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", g->name);
  p->uuid.bytes[0] = (char)(device + 1);
  p->totalGlobalMem = (size_t)g->total;
  p->sharedMemPerBlock = (size_t)gpu_attribute(8);
  p->regsPerBlock = gpu_attribute(12);
  p->warpSize = gpu_attribute(10);
  p->memPitch = (size_t)gpu_attribute(11);
  p->maxThreadsPerBlock = gpu_attribute(1);
  for (int i = 0; i < 3; i++) {
    p->maxThreadsDim[i] = gpu_attribute(2 + i);
    p->maxGridSize[i] = gpu_attribute(5 + i);
  }
  p->totalConstMem = (size_t)gpu_attribute(9);
  p->major = g->major;
  p->minor = g->minor;
  p->textureAlignment = (size_t)gpu_attribute(14);
  p->multiProcessorCount = g->sms;
  p->integrated = g->is_integrated;
  p->canMapHostMemory = 1;
  p->concurrentKernels = 1;
  p->pciBusID = device + 1;
  p->asyncEngineCount = gpu_attribute(40);
  p->unifiedAddressing = 1;
  p->memoryBusWidth = g->bus_width;
  p->l2CacheSize = (int)g->l2;
  p->maxThreadsPerMultiProcessor = g->threads_per_sm;
  p->streamPrioritiesSupported = 1;
  p->sharedMemPerMultiprocessor = (size_t)g->shared_per_sm;
  p->regsPerMultiprocessor = gpu_attribute(82);
  p->managedMemory = 1;
  p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = (size_t)g->shared_per_block;
  p->maxBlocksPerMultiProcessor = gpu_attribute(106);
  p->reservedSharedMemPerBlock = (size_t)gpu_attribute(111);
  p->hostRegisterSupported = 1;
  p->memoryPoolsSupported = 1;
  return SUCCESS;
}
EXPORT(int, cudaGetDeviceProperties, struct cudaDeviceProp *p, int device) {
  return properties(p, device);
}
EXPORT(int, cudaGetDeviceProperties_v2, struct cudaDeviceProp *p, int device) {
  return properties(p, device);
}
EXPORT(int, cudaDeviceGetAttribute, int *value, int attribute, int device) {
  *value = gpu_attribute(attribute);
  return SUCCESS;
}
EXPORT(int, cudaDeviceGetPCIBusId, char *text, int length, int device) {
  snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1);
  return SUCCESS;
}
EXPORT(int, cudaDeviceGetStreamPriorityRange, int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return SUCCESS;
}
EXPORT(int, cudaDeviceCanAccessPeer, int *can, int device, int peer) {
  *can = 1;
  return SUCCESS;
}
EXPORT(int, cudaDriverGetVersion, int *version) {
  *version = CUDART_VERSION;
  return SUCCESS;
}
EXPORT(int, cudaRuntimeGetVersion, int *version) {
  *version = CUDART_VERSION;
  return SUCCESS;
}
EXPORT(const char *, cudaGetErrorString, int error) {
  return error == OUT_OF_MEMORY ? "out of memory" : "error of the false GPU";
}
EXPORT(const char *, cudaGetErrorName, int error) {
  return error == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}

/* ---- memory ---- */

static int allocate(void **address, size_t bytes) {
  *address = bytes ? device_allocate(bytes) : NULL;
  return *address || !bytes ? SUCCESS : OUT_OF_MEMORY;
}
static int allocate_on_host(void **address, size_t bytes) {
  *address = host_allocate(bytes);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT(int, cudaMemGetInfo, size_t *free_bytes, size_t *total_bytes) {
  device_memory(free_bytes, total_bytes);
  return SUCCESS;
}
EXPORT(int, cudaMalloc, void **address, size_t bytes) {
  return allocate(address, bytes);
}
EXPORT(int, cudaMallocManaged, void **address, size_t bytes, unsigned flags) {
  return allocate(address, bytes);
}
EXPORT(int, cudaMallocAsync, void **address, size_t bytes, void *stream) {
  return allocate(address, bytes);
}
EXPORT(int, cudaFree, void *address) {
  device_free(address);
  return SUCCESS;
}
EXPORT(int, cudaFreeAsync, void *address, void *stream) {
  device_free(address);
  return SUCCESS;
}
EXPORT(int, cudaMallocHost, void **address, size_t bytes) {
  return allocate_on_host(address, bytes);
}
EXPORT(int, cudaHostAlloc, void **address, size_t bytes, unsigned flags) {
  return allocate_on_host(address, bytes);
}
EXPORT(int, cudaFreeHost, void *address) {
  host_free(address);
  return SUCCESS;
}
EXPORT(int, cudaHostRegister, void *address, size_t bytes, unsigned flags) {
  host_register(address, bytes);
  return SUCCESS;
}
EXPORT(int, cudaHostGetDevicePointer, void **on_device, void *on_host, unsigned flags) {
  *on_device = on_host;
  return SUCCESS;
}
EXPORT(int, cudaPointerGetAttributes, struct cudaPointerAttributes *a, const void *p) {
  memset(a, 0, sizeof *a);
  a->device = current_device();
  if (device_owns(p)) {
    a->type = cudaMemoryTypeDevice;
    a->devicePointer = (void *)p;
  } else if (host_owns(p)) {
    a->type = cudaMemoryTypeHost;
    a->devicePointer = a->hostPointer = (void *)p;
  } else {
    a->type = cudaMemoryTypeUnregistered;
    a->hostPointer = (void *)p;
    a->device = -2; /* cudaInvalidDeviceId */
  }
  return SUCCESS;
}

static void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                      size_t width, size_t rows) {
  for (size_t i = 0; i < rows; i++)
    copy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
}
static void fill(void *address, int value, size_t bytes) {
  if (!device_owns(address)) memset(address, value, bytes);
}
EXPORT(int, cudaMemcpy, void *to, const void *from, size_t bytes, int kind) {
  copy(to, from, bytes);
  return SUCCESS;
}
EXPORT(int, cudaMemcpyAsync, void *to, const void *from, size_t bytes, int kind,
       void *stream) {
  copy(to, from, bytes);
  return SUCCESS;
}
EXPORT(int, cudaMemcpy2D, void *to, size_t to_pitch, const void *from,
       size_t from_pitch, size_t width, size_t rows, int kind) {
  copy_rows(to, to_pitch, from, from_pitch, width, rows);
  return SUCCESS;
}
EXPORT(int, cudaMemcpy2DAsync, void *to, size_t to_pitch, const void *from,
       size_t from_pitch, size_t width, size_t rows, int kind, void *stream) {
  copy_rows(to, to_pitch, from, from_pitch, width, rows);
  return SUCCESS;
}
EXPORT(int, cudaMemset, void *address, int value, size_t bytes) {
  fill(address, value, bytes);
  return SUCCESS;
}
EXPORT(int, cudaMemsetAsync, void *address, int value, size_t bytes, void *stream) {
  fill(address, value, bytes);
  return SUCCESS;
}
EXPORT(int, cudaGetSymbolAddress, void **address, const void *symbol) {
  return allocate(address, 4096);
}
EXPORT(int, cudaIpcGetMemHandle, void *shared, void *address) {
  memset(shared, 0, 64);
  return SUCCESS;
}
/* Another process's memory: addresses that take nothing of this device. */
EXPORT(int, cudaIpcOpenMemHandle, void **address, struct cudaIpcMemHandle_st shared,
       unsigned flags) {
  *address = handle();
  return SUCCESS;
}
EXPORT(int, cudaDeviceGetDefaultMemPool, void **pool, int device) {
  *pool = handle();
  return SUCCESS;
}
EXPORT(int, cudaMemPoolGetAttribute, void *pool, int attribute, void *value) {
  memset(value, 0, 8);
  return SUCCESS;
}
EXPORT(int, cudaDeviceGetGraphMemAttribute, int device, int attribute, void *value) {
  memset(value, 0, 8);
  return SUCCESS;
}

/* ---- streams, events and graphs ---- */

#define NEW(name, ...)                   \
  EXPORT(int, name, __VA_ARGS__) {       \
    if (made) *made = handle();          \
    return SUCCESS;                      \
  }
NEW(cudaStreamCreate, void **made)
NEW(cudaStreamCreateWithFlags, void **made, unsigned flags)
NEW(cudaStreamCreateWithPriority, void **made, unsigned flags, int priority)
NEW(cudaEventCreate, void **made)
NEW(cudaEventCreateWithFlags, void **made, unsigned flags)
NEW(cudaGraphInstantiate, void **made, void *graph, unsigned long long flags)
NEW(cudaGraphInstantiateWithFlags, void **made, void *graph, unsigned long long flags)
NEW(cudaLibraryLoadData, void **made)
NEW(cudaLibraryGetKernel, void **made, void *library, const char *name)
NEW(__cudaGetKernel, void **made, const void *function)
EXPORT(int, cudaStreamGetPriority, void *stream, int *priority) {
  *priority = 0;
  return SUCCESS;
}
EXPORT(int, cudaEventElapsedTime, float *milliseconds, void *begin, void *end) {
  *milliseconds = 1.0f;
  return SUCCESS;
}
EXPORT(int, cudaEventElapsedTime_v2, float *milliseconds, void *begin, void *end) {
  *milliseconds = 1.0f;
  return SUCCESS;
}
EXPORT(int, cudaStreamIsCapturing, void *stream, int *status) {
  *status = is_capturing();
  return SUCCESS;
}
EXPORT(int, cudaStreamBeginCapture, void *stream, int mode) {
  set_capturing(1);
  return SUCCESS;
}
EXPORT(int, cudaStreamEndCapture, void *stream, void **graph) {
  set_capturing(0);
  if (graph) *graph = handle();
  return SUCCESS;
}
static int capture_info(int *status, unsigned long long *id, void **graph, void **nodes,
                        void **edges, size_t *count) {
  if (status) *status = is_capturing();
  if (id) *id = 1;
  if (graph) *graph = handle();
  if (nodes) *nodes = NULL;
  if (edges) *edges = NULL;
  if (count) *count = 0;
  return SUCCESS;
}
#if CUDART_VERSION >= 13000
EXPORT(int, cudaStreamGetCaptureInfo, void *stream, int *status, unsigned long long *id,
       void **graph, void **nodes, void **edges, size_t *count) {
  return capture_info(status, id, graph, nodes, edges, count);
}
#else
EXPORT(int, cudaStreamGetCaptureInfo, void *stream, int *status,
       unsigned long long *id) {
  return capture_info(status, id, NULL, NULL, NULL, NULL);
}
#endif
EXPORT(int, cudaStreamGetCaptureInfo_v2, void *stream, int *status,
       unsigned long long *id, void **graph, void **nodes, size_t *count) {
  return capture_info(status, id, graph, nodes, NULL, count);
}
EXPORT(int, cudaStreamGetCaptureInfo_v3, void *stream, int *status,
       unsigned long long *id, void **graph, void **nodes, void **edges,
       size_t *count) {
  return capture_info(status, id, graph, nodes, edges, count);
}
/* PyTorch warns about a graph without nodes. */
EXPORT(int, cudaGraphGetNodes, void *graph, void **nodes, size_t *count) {
  if (count) *count = 1;
  return SUCCESS;
}

/* ---- kernels ---- */

/* Kernels were compiled for some architectures only: one without its own (8.9, 10.3)
   runs the code of the nearest below. CUB refuses a version it was not built for. */
static int compiled_for(void) {
  int capability = gpu()->major * 10 + gpu()->minor;
  switch (capability) {
    case 87: case 89: return 86;
    case 103: return 100;
    case 121: return 120;
    default: return capability;
  }
}
EXPORT(int, cudaFuncGetAttributes, struct cudaFuncAttributes *a, const void *function) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = gpu_attribute(1);
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = compiled_for();
  a->maxDynamicSharedSizeBytes = gpu()->shared_per_block;
  return SUCCESS;
}
EXPORT(int, cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks,
       const void *function, int threads, size_t shared) {
  *blocks = 2;
  return SUCCESS;
}
EXPORT(int, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks,
       const void *function, int threads, size_t shared, unsigned flags) {
  *blocks = 2;
  return SUCCESS;
}
EXPORT(int, cudaOccupancyMaxActiveClusters, int *clusters, const void *function,
       const void *configuration) {
  *clusters = gpu()->sms / 2;
  return SUCCESS;
}
static int entry_point(const char *name, void **address, int *status) {
  *address = driver_function(name);
  if (status) *status = *address ? 0 : 1;
  return SUCCESS;
}
EXPORT(int, cudaGetDriverEntryPoint, const char *name, void **address,
       unsigned long long flags, int *status) {
  return entry_point(name, address, status);
}
EXPORT(int, cudaGetDriverEntryPoint_ptsz, const char *name, void **address,
       unsigned long long flags, int *status) {
  return entry_point(name, address, status);
}
EXPORT(int, cudaGetDriverEntryPointByVersion, const char *name, void **address,
       unsigned version, unsigned long long flags, int *status) {
  return entry_point(name, address, status);
}
EXPORT(void **, __cudaRegisterFatBinary, void *binary) { return handle(); }
