/* libnvidia-ml: what vLLM reads of a GPU before it initialises CUDA. */
#include "device.h"

typedef unsigned long long bytes_t;

static void *device_handle(unsigned index) { return (void *)(uintptr_t)(index + 1); }
static unsigned index_of(void *device) { return (unsigned)(uintptr_t)device - 1; }

EXPORT(const char *, nvmlErrorString, int error) { return "error of the false GPU"; }
EXPORT(int, nvmlDeviceGetCount_v2, unsigned *count) {
  *count = (unsigned)gpu()->devices;
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetHandleByIndex_v2, unsigned index, void **device) {
  *device = device_handle(index);
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetHandleByUUID, const char *uuid, void **device) {
  *device = device_handle(0);
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetHandleByPciBusId_v2, const char *bus, void **device) {
  unsigned number = 1; /* the runtime numbers devices 0000:01:00.0, 0000:02:00.0, ... */
  sscanf(bus, "%*x:%x", &number);
  *device = device_handle(number - 1);
  return SUCCESS;
}
/* PyTorch names the processes that fill a device which has no memory left. */
EXPORT(int, nvmlDeviceGetComputeRunningProcesses, void *device, unsigned *count,
       void *processes) {
  *count = 0;
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetIndex, void *device, unsigned *index) {
  *index = index_of(device);
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetCudaComputeCapability, void *device, int *major, int *minor) {
  *major = gpu()->major;
  *minor = gpu()->minor;
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetName, void *device, char *name, unsigned length) {
  snprintf(name, length, "%s", gpu()->name);
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetUUID, void *device, char *uuid, unsigned length) {
  snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012u", index_of(device) + 1);
  return SUCCESS;
}
/* Source: nvml.h, nvmlMemory_t {total, free, used}. */
EXPORT(int, nvmlDeviceGetMemoryInfo, void *device, bytes_t *memory) {
  size_t free_bytes, total_bytes;
  device_memory(&free_bytes, &total_bytes);
  memory[0] = total_bytes;
  memory[1] = free_bytes;
  memory[2] = total_bytes - free_bytes;
  return SUCCESS;
}
/* Source: nvml.h, nvmlMemory_v2_t {version, total, reserved, free, used}. */
EXPORT(int, nvmlDeviceGetMemoryInfo_v2, void *device, bytes_t *memory) {
  size_t free_bytes, total_bytes;
  device_memory(&free_bytes, &total_bytes);
  memory[1] = total_bytes;
  memory[2] = 0;
  memory[3] = free_bytes;
  memory[4] = total_bytes - free_bytes;
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetP2PStatus, void *one, void *other, int kind, int *status) {
  *status = 0;
  return SUCCESS;
}
EXPORT(int, nvmlSystemGetDriverVersion, char *version, unsigned length) {
  snprintf(version, length, "580.95.05");
  return SUCCESS;
}
EXPORT(int, nvmlSystemGetCudaDriverVersion, int *version) {
  *version = CUDA_MAJOR * 1000;
  return SUCCESS;
}
EXPORT(int, nvmlSystemGetCudaDriverVersion_v2, int *version) {
  *version = CUDA_MAJOR * 1000;
  return SUCCESS;
}
EXPORT(int, nvmlDeviceGetNumaNodeId, void *device, unsigned *node) {
  *node = 0;
  return 3; /* not supported */
}
EXPORT(int, nvmlDeviceGetNvLinkState, void *device, unsigned link, int *state) {
  *state = 1;
  return SUCCESS;
}
