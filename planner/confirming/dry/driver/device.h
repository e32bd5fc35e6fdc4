/* A GPU that is not there: its facts, its address space and the account of its memory.

   The libraries beside this file give programs the functions of CUDA's own libraries.
   Functions that matter are written out; all others report success and do nothing. */
#ifndef PLANNER_DEVICE_H
#define PLANNER_DEVICE_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Defines a function under a name of CUDA's: CUDA's headers declare some of these names
   with types that change between releases, so the C name is another one. */
#define EXPORT(type, name, ...)                       \
  type planner_##name(__VA_ARGS__) __asm__(#name);    \
  __attribute__((visibility("default"))) type planner_##name(__VA_ARGS__)

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };

#define MAX_DEVICES 64

typedef struct {
  int devices, major, minor, sms;
  int shared_per_block, shared_per_sm, threads_per_sm, bus_width, is_integrated;
  int64_t total, used_by_others, l2;
  char name[128];
} gpu_facts;

/* Facts of the GPU, from the variables PLANNER_GPU_*. */
const gpu_facts *gpu(void);

/* An attribute by CUDA's number (cudaDeviceAttr and CUdevice_attribute agree). */
int gpu_attribute(int attribute);

/* The device that this thread has selected. */
int current_device(void);
void select_device(int device);

/* Device memory: addresses without memory behind them. NULL: none is left. */
void *device_allocate(size_t bytes);
int device_free(void *address);
int device_owns(const void *address);
int device_range(const void *address, void **begin, size_t *bytes);
/* Addresses that count nothing: memory is mapped to them later. */
void *device_reserve(size_t bytes);
void device_memory(size_t *free_bytes, size_t *total_bytes);

/* Memory that no tensor holds: counts against the device, has no address. */
void device_charge(int64_t bytes);

/* What was allocated and freed, in its order, if PLANNER_GPU_RECORD is set: signed bytes
   and address; memory without an address has 0. Returns how many there are. */
typedef struct {
  int64_t bytes, address;
} change;
size_t device_changes(const change **found);

/* Pinned memory of the host: real. */
void *host_allocate(size_t bytes);
void host_register(void *address, size_t bytes);
int host_free(void *address);
int host_owns(const void *address);

/* Copies what both sides hold on the host; the device's side reads as zeros. */
void copy(void *to, const void *from, size_t bytes);

/* An address that identifies a stream, an event, a graph, a library ... */
void *handle(void);

int is_capturing(void);
void set_capturing(int value);

/* A function of libcuda by name, its newer form (_v2, _v3) first. */
void *driver_function(const char *name);

/* What every function does that is not written out. */
int succeed(const char *name);

#endif
