/* libnccl: communicators of any size, of which this process is one member. */
#include "device.h"

typedef struct {
  int rank, size;
} communicator;

typedef struct {
  char bytes[128];
} unique_id;

static int new_communicator(void **made, int size, int rank) {
  communicator *one = handle();
  one->rank = rank;
  one->size = size;
  *made = one;
  return SUCCESS;
}
EXPORT(int, ncclGetVersion, int *version) {
  *version = 22800;
  return SUCCESS;
}
EXPORT(const char *, ncclGetErrorString, int error) { return "error of the false GPU"; }
EXPORT(const char *, ncclGetLastError, void *made) { return ""; }
EXPORT(int, ncclGetUniqueId, unique_id *id) {
  memset(id, 7, sizeof *id);
  return SUCCESS;
}
EXPORT(int, ncclCommInitRank, void **made, int size, unique_id id, int rank) {
  return new_communicator(made, size, rank);
}
EXPORT(int, ncclCommInitRankConfig, void **made, int size, unique_id id, int rank,
       void *configuration) {
  return new_communicator(made, size, rank);
}
EXPORT(int, ncclCommInitRankScalable, void **made, int size, int rank, int ids,
       void *id, void *configuration) {
  return new_communicator(made, size, rank);
}
EXPORT(int, ncclCommSplit, communicator *whole, int colour, int key, void **made,
       void *configuration) {
  return new_communicator(made, whole ? whole->size : 1, key);
}
EXPORT(int, ncclCommCount, communicator *made, int *size) {
  *size = made->size;
  return SUCCESS;
}
EXPORT(int, ncclCommUserRank, communicator *made, int *rank) {
  *rank = made->rank;
  return SUCCESS;
}
EXPORT(int, ncclCommCuDevice, communicator *made, int *device) {
  *device = current_device();
  return SUCCESS;
}
EXPORT(int, ncclCommGetAsyncError, communicator *made, int *error) {
  *error = 0;
  return SUCCESS;
}
EXPORT(int, ncclMemAlloc, void **address, size_t bytes) {
  *address = device_allocate(bytes);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
EXPORT(int, ncclMemFree, void *address) {
  device_free(address);
  return SUCCESS;
}
EXPORT(int, ncclCommRegister, void *made, void *buffer, size_t bytes, void **found) {
  *found = handle();
  return SUCCESS;
}
EXPORT(int, ncclCommWindowRegister, void *made, void *buffer, size_t bytes,
       void **found, int flags) {
  *found = handle();
  return SUCCESS;
}
EXPORT(int, ncclCommMemStats, void *made, int kind, uint64_t *value) {
  *value = 0;
  return SUCCESS;
}
