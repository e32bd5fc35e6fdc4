/* libcuda: the driver that Triton, FlashInfer and NCCL call. */
#include "device.h"

static char context[4096];

/* ---- devices ---- */

EXPORT(int, cuDriverGetVersion, int *version) {
  *version = CUDA_MAJOR * 1000;
  return SUCCESS;
}
EXPORT(int, cuDeviceGet, int *device, int ordinal) {
  *device = ordinal;
  return SUCCESS;
}
EXPORT(int, cuDeviceGetCount, int *count) {
  *count = gpu()->devices;
  return SUCCESS;
}
EXPORT(int, cuDeviceGetAttribute, int *value, int attribute, int device) {
  *value = gpu_attribute(attribute);
  return SUCCESS;
}
EXPORT(int, cuDeviceGetName, char *name, int length, int device) {
  snprintf(name, (size_t)length, "%s", gpu()->name);
  return SUCCESS;
}
EXPORT(int, cuDeviceTotalMem_v2, size_t *bytes, int device) {
  device_memory(NULL, bytes);
  return SUCCESS;
}
static int uuid(char *bytes, int device) {
  memset(bytes, device + 1, 16);
  return SUCCESS;
}
EXPORT(int, cuDeviceGetUuid, char *bytes, int device) { return uuid(bytes, device); }
EXPORT(int, cuDeviceGetUuid_v2, char *bytes, int device) { return uuid(bytes, device); }
EXPORT(int, cuDeviceComputeCapability, int *major, int *minor, int device) {
  *major = gpu()->major;
  *minor = gpu()->minor;
  return SUCCESS;
}
EXPORT(int, cuDeviceCanAccessPeer, int *can, int device, int peer) {
  *can = 1;
  return SUCCESS;
}
EXPORT(int, cuGetErrorString, int error, const char **text) {
  *text = error == OUT_OF_MEMORY ? "out of memory" : "error of the false GPU";
  return SUCCESS;
}
EXPORT(int, cuGetErrorName, int error, const char **text) {
  *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
  return SUCCESS;
}

/* ---- contexts ---- */

EXPORT(int, cuCtxGetCurrent, void **made) {
  *made = context;
  return SUCCESS;
}
EXPORT(int, cuCtxCreate_v2, void **made, unsigned flags, int device) {
  *made = context;
  return SUCCESS;
}
EXPORT(int, cuCtxGetDevice, int *device) {
  *device = current_device();
  return SUCCESS;
}
EXPORT(int, cuCtxGetApiVersion, void *made, unsigned *version) {
  *version = CUDA_MAJOR * 1000;
  return SUCCESS;
}
EXPORT(int, cuDevicePrimaryCtxRetain, void **made, int device) {
  *made = context;
  return SUCCESS;
}
EXPORT(int, cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *is_active) {
  if (flags) *flags = 0;
  if (is_active) *is_active = 1;
  return SUCCESS;
}

/* ---- memory ---- */

static int allocate(void **address, size_t bytes) {
  *address = device_allocate(bytes);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
static int allocate_on_host(void **address, size_t bytes) {
  *address = host_allocate(bytes);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT(int, cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes) {
  device_memory(free_bytes, total_bytes);
  return SUCCESS;
}
EXPORT(int, cuMemAlloc_v2, void **address, size_t bytes) {
  return allocate(address, bytes);
}
EXPORT(int, cuMemFree_v2, void *address) {
  device_free(address);
  return SUCCESS;
}
EXPORT(int, cuMemAllocHost_v2, void **address, size_t bytes) {
  return allocate_on_host(address, bytes);
}
EXPORT(int, cuMemHostAlloc, void **address, size_t bytes, unsigned flags) {
  return allocate_on_host(address, bytes);
}
EXPORT(int, cuMemGetAddressRange_v2, void **begin, size_t *bytes, void *address) {
  return device_range(address, begin, bytes) ? SUCCESS : INVALID_VALUE;
}
EXPORT(int, cuMemGetAllocationGranularity, size_t *bytes, void *properties, int option) {
  *bytes = (size_t)2 << 20;
  return SUCCESS;
}

/* Virtual memory, as sleep mode and expandable segments use it: addresses are reserved
   without memory; a created handle counts against the device. */
typedef struct {
  size_t bytes;
  void *held;
} physical;

EXPORT(int, cuMemAddressReserve, void **address, size_t bytes, size_t alignment,
       void *wanted, unsigned long long flags) {
  *address = device_reserve(bytes);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT(int, cuMemCreate, void **made, size_t bytes, void *properties,
       unsigned long long flags) {
  physical *one = handle();
  one->bytes = bytes;
  one->held = device_allocate(bytes);
  *made = one;
  return one->held ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT(int, cuMemRelease, void *made) {
  physical *one = made;
  if (one && one->held) device_free(one->held);
  if (one) one->held = NULL;
  return SUCCESS;
}
EXPORT(int, cuPointerGetAttribute, void *value, int attribute, void *address) {
  switch (attribute) {
    case 2: /* memory type: host 1, device 2 */
      *(unsigned *)value = device_owns(address) ? 2 : 1;
      break;
    case 3: case 4: /* device pointer, host pointer */
      *(void **)value = address;
      break;
    default:
      *(int *)value = 0;
  }
  return SUCCESS;
}

/* ---- code ---- */

#define NEW(name, ...)             \
  EXPORT(int, name, __VA_ARGS__) { \
    if (made) *made = handle();    \
    return SUCCESS;                \
  }
NEW(cuModuleLoad, void **made, const char *path)
NEW(cuModuleLoadData, void **made, const void *image)
NEW(cuModuleLoadDataEx, void **made, const void *image)
NEW(cuModuleGetFunction, void **made, void *module, const char *name)
NEW(cuLibraryLoadData, void **made)
NEW(cuLibraryLoadFromFile, void **made)
NEW(cuLibraryGetKernel, void **made, void *library, const char *name)
NEW(cuLibraryGetModule, void **made, void *library)
NEW(cuKernelGetFunction, void **made, void *kernel)
NEW(cuStreamCreate, void **made, unsigned flags)
NEW(cuEventCreate, void **made, unsigned flags)
static int one(unsigned *count) {
  *count = 1;
  return SUCCESS;
}
EXPORT(int, cuLibraryGetKernelCount, unsigned *n, void *library) { return one(n); }
EXPORT(int, cuModuleGetFunctionCount, unsigned *n, void *module) { return one(n); }
static int enumerate(void **kernels, unsigned count) {
  for (unsigned i = 0; i < count; i++) kernels[i] = handle();
  return SUCCESS;
}
EXPORT(int, cuLibraryEnumerateKernels, void **kernels, unsigned count, void *library) {
  return enumerate(kernels, count);
}
EXPORT(int, cuModuleEnumerateFunctions, void **kernels, unsigned count, void *module) {
  return enumerate(kernels, count);
}
EXPORT(int, cuKernelGetName, const char **name, void *kernel) {
  *name = "kernel";
  return SUCCESS;
}
EXPORT(int, cuModuleGetGlobal_v2, void **address, size_t *bytes, void *module,
       const char *name) {
  if (bytes) *bytes = 4096;
  return address ? allocate(address, 4096) : SUCCESS;
}
/* Source: CUDA driver API, CUfunction_attribute: 0 threads per block, 4 registers. */
static int function_attribute(int *value, int attribute) {
  *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;
  return SUCCESS;
}
EXPORT(int, cuFuncGetAttribute, int *value, int attribute, void *function) {
  return function_attribute(value, attribute);
}
EXPORT(int, cuKernelGetAttribute, int *value, int attribute, void *kernel, int device) {
  return function_attribute(value, attribute);
}
EXPORT(int, cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, void *function,
       int threads, size_t shared) {
  *blocks = 2;
  return SUCCESS;
}
EXPORT(int, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks,
       void *function, int threads, size_t shared, unsigned flags) {
  *blocks = 2;
  return SUCCESS;
}
EXPORT(int, cuOccupancyMaxActiveClusters, int *clusters, void *function,
       void *configuration) {
  *clusters = gpu()->sms / 2;
  return SUCCESS;
}

/* ---- streams ---- */

EXPORT(int, cuStreamGetCtx, void *stream, void **made) {
  *made = context;
  return SUCCESS;
}
EXPORT(int, cuStreamGetDevice, void *stream, int *device) {
  *device = current_device();
  return SUCCESS;
}
EXPORT(int, cuStreamIsCapturing, void *stream, int *status) {
  *status = is_capturing();
  return SUCCESS;
}

/* ---- other functions ---- */

EXPORT(int, cuGetExportTable, const void **table, const void *id) {
  *table = NULL;
  return NOT_FOUND;
}
EXPORT(int, cuGetProcAddress, const char *name, void **address, int version,
       unsigned long long flags) {
  *address = driver_function(name);
  return *address ? SUCCESS : NOT_FOUND;
}
EXPORT(int, cuGetProcAddress_v2, const char *name, void **address, int version,
       unsigned long long flags, int *status) {
  *address = driver_function(name);
  if (status) *status = *address ? 0 : 1;
  return *address ? SUCCESS : NOT_FOUND;
}
