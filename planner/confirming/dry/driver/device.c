/* The account of the device's memory, shared by all libraries of the false GPU. */
#include "device.h"
#include <pthread.h>
#include <sys/mman.h>

#define REGION (1ull << 46)
#define PAGE ((size_t)2 << 20) /* cudaMalloc hands out memory in units of 2 MiB */
#define HOST_PAGE ((size_t)4096)

typedef struct {
  char *begin;
  size_t bytes;
  int device;
} block;

typedef struct {
  block *blocks;
  size_t count, capacity;
} block_list;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *region, *next_address;
static block_list on_device, on_host;
static int64_t used[MAX_DEVICES];
static int capturing;
static __thread int selected;

static int64_t number(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoll(text) : otherwise;
}

static void read_facts(gpu_facts *facts) {
  const char *name = getenv("PLANNER_GPU_NAME");
  facts->devices = (int)number("PLANNER_GPU_DEVICES", 1);
  if (facts->devices > MAX_DEVICES) facts->devices = MAX_DEVICES;
  facts->major = (int)number("PLANNER_GPU_MAJOR", 9);
  facts->minor = (int)number("PLANNER_GPU_MINOR", 0);
  facts->sms = (int)number("PLANNER_GPU_SMS", 132);
  facts->shared_per_block = (int)number("PLANNER_GPU_SHARED_BYTES", 232448);
  facts->shared_per_sm = facts->shared_per_block + 1024;
  facts->threads_per_sm = (int)number("PLANNER_GPU_THREADS_PER_SM", 2048);
  facts->bus_width = (int)number("PLANNER_GPU_BUS_WIDTH", 5120);
  facts->is_integrated = (int)number("PLANNER_GPU_INTEGRATED", 0);
  facts->l2 = number("PLANNER_GPU_L2_BYTES", (int64_t)50 << 20);
  facts->total = number("PLANNER_GPU_TOTAL_BYTES", (int64_t)80 << 30);
  facts->used_by_others = number("PLANNER_GPU_USED_BYTES", 0);
  snprintf(facts->name, sizeof facts->name, "%s", name ? name : "false GPU");
}

static gpu_facts facts;
static pthread_once_t facts_once = PTHREAD_ONCE_INIT;
static void fill_facts(void) { read_facts(&facts); }

const gpu_facts *gpu(void) {
  pthread_once(&facts_once, fill_facts);
  return &facts;
}

/* Source: CUDA driver API, enum CUdevice_attribute; the limits that all architectures
   from 7.0 on share. */
int gpu_attribute(int attribute) {
  const gpu_facts *g = gpu();
  switch (attribute) {
    case 1: return 1024;                 /* threads per block */
    case 2: case 3: return 1024;         /* block dimensions x, y */
    case 4: return 64;                   /* block dimension z */
    case 5: return 2147483647;           /* grid dimension x */
    case 6: case 7: return 65535;        /* grid dimensions y, z */
    case 8: return 49152;                /* static shared memory per block */
    case 9: return 65536;                /* constant memory */
    case 10: return 32;                  /* warp size */
    case 11: return 2147483647;          /* pitch */
    case 12: case 82: return 65536;      /* registers per block, per SM */
    case 13: return 1980000;             /* clock, kHz */
    case 14: return 512;                 /* texture alignment */
    case 15: return 1;                   /* copies beside kernels */
    case 16: return g->sms;
    case 18: return g->is_integrated;
    case 19: return 1;                   /* host memory can be mapped */
    case 31: return 1;                   /* concurrent kernels */
    case 33: return 1;                   /* PCI bus */
    case 36: return 2619000;             /* memory clock, kHz */
    case 37: return g->bus_width;
    case 38: return (int)g->l2;
    case 39: return g->threads_per_sm;
    case 40: return 3;                   /* copy engines */
    case 41: return 1;                   /* unified addressing */
    case 75: return g->major;
    case 76: return g->minor;
    case 78: case 79: case 80: return 1; /* stream priorities, L1 caches */
    case 81: return g->shared_per_sm;
    case 83: return 1;                   /* managed memory */
    case 91: return 1;                   /* compute preemption */
    case 95: return 1;                   /* cooperative launch */
    case 97: return g->shared_per_block;
    case 99: return 1;                   /* host memory can be registered */
    case 102: case 103: return 1;        /* virtual memory, shareable handles */
    case 105: case 106: return 32;       /* blocks per SM; persisting L2 */
    case 111: return 1024;               /* reserved shared memory per block */
    case 115: return 1;                  /* memory pools */
    default: return 0;
  }
}

int current_device(void) { return selected; }

void select_device(int device) {
  if (device >= 0 && device < gpu()->devices) selected = device;
}

static void add(block_list *list, block one) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 256;
    list->blocks = realloc(list->blocks, list->capacity * sizeof(block));
    if (!list->blocks) abort();
  }
  list->blocks[list->count++] = one;
}

/* The newest blocks are freed first. */
static block *find(block_list *list, const void *address) {
  const char *wanted = address;
  for (size_t i = list->count; i-- > 0;) {
    block *one = &list->blocks[i];
    if (wanted >= one->begin && wanted < one->begin + one->bytes) return one;
  }
  return NULL;
}

static void drop(block_list *list, block *one) { *one = list->blocks[--list->count]; }

static change *changes;
static size_t num_changes, room_for_changes;

/* Called with the lock held. The first device alone: it is the one that is filmed. */
static void count(int device, int64_t bytes, const void *address) {
  used[device] += bytes;
  if (device || !getenv("PLANNER_GPU_RECORD")) return;
  if (num_changes == room_for_changes) {
    room_for_changes = room_for_changes ? 2 * room_for_changes : 1024;
    changes = realloc(changes, room_for_changes * sizeof(change));
    if (!changes) abort();
  }
  changes[num_changes++] = (change){bytes, (int64_t)(intptr_t)address};
}

__attribute__((visibility("default"))) size_t device_changes(const change **found) {
  *found = changes;
  return num_changes;
}

static int64_t left(int device) {
  return gpu()->total - gpu()->used_by_others - used[device];
}

/* Addresses of the region, with a gap behind them: neighbours never become one segment.
   Called with the lock held. */
static void *take_addresses(size_t rounded) {
  if (!region) {
    region = mmap(NULL, REGION, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) abort();
    next_address = (char *)(((uintptr_t)region + PAGE - 1) / PAGE * PAGE);
  }
  if (next_address + rounded + PAGE >= region + REGION) return NULL;
  void *address = next_address;
  next_address += rounded + PAGE;
  return address;
}

static size_t device_rounded(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

void *device_allocate(size_t bytes) {
  size_t rounded = device_rounded(bytes);
  void *address = NULL;
  pthread_mutex_lock(&lock);
  if ((int64_t)rounded <= left(selected)) address = take_addresses(rounded);
  if (address) {
    add(&on_device, (block){address, rounded, selected});
    count(selected, (int64_t)rounded, address);
  }
  pthread_mutex_unlock(&lock);
  return address;
}

void *device_reserve(size_t bytes) {
  pthread_mutex_lock(&lock);
  void *address = take_addresses(device_rounded(bytes));
  pthread_mutex_unlock(&lock);
  return address;
}

int device_free(void *address) {
  int found = 0;
  pthread_mutex_lock(&lock);
  block *one = find(&on_device, address);
  if (one && one->begin == address) {
    count(one->device, -(int64_t)one->bytes, address);
    drop(&on_device, one);
    found = 1;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

int device_owns(const void *address) {
  const char *wanted = address;
  return region && wanted >= region && wanted < region + REGION;
}

int device_range(const void *address, void **begin, size_t *bytes) {
  pthread_mutex_lock(&lock);
  block *one = find(&on_device, address);
  if (one && begin) *begin = one->begin;
  if (one && bytes) *bytes = one->bytes;
  pthread_mutex_unlock(&lock);
  return one != NULL;
}

void device_memory(size_t *free_bytes, size_t *total_bytes) {
  pthread_mutex_lock(&lock);
  int64_t remaining = left(selected);
  pthread_mutex_unlock(&lock);
  if (free_bytes) *free_bytes = remaining > 0 ? (size_t)remaining : 0;
  if (total_bytes) *total_bytes = (size_t)gpu()->total;
}

__attribute__((visibility("default"))) void device_charge(int64_t bytes) {
  pthread_mutex_lock(&lock);
  count(selected, bytes, NULL);
  pthread_mutex_unlock(&lock);
}

static size_t host_rounded(size_t bytes) {
  size_t rounded = (bytes + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
  return rounded ? rounded : HOST_PAGE;
}

/* Pages that nobody writes take no memory. */
void *host_allocate(size_t bytes) {
  size_t rounded = host_rounded(bytes);
  void *address = mmap(NULL, rounded, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return NULL;
  host_register(address, rounded);
  return address;
}

void host_register(void *address, size_t bytes) {
  pthread_mutex_lock(&lock);
  add(&on_host, (block){address, bytes, -1});
  pthread_mutex_unlock(&lock);
}

int host_free(void *address) {
  size_t bytes = 0;
  pthread_mutex_lock(&lock);
  block *one = find(&on_host, address);
  if (one && one->begin == address) {
    bytes = one->bytes;
    drop(&on_host, one);
  }
  pthread_mutex_unlock(&lock);
  if (bytes) munmap(address, bytes);
  return bytes != 0;
}

int host_owns(const void *address) {
  pthread_mutex_lock(&lock);
  int found = find(&on_host, address) != NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

void copy(void *to, const void *from, size_t bytes) {
  if (!bytes || device_owns(to)) return;
  if (device_owns(from))
    memset(to, 0, bytes);
  else
    memmove(to, from, bytes);
}

void *handle(void) { return calloc(1, 4096); }

int is_capturing(void) { return capturing; }
void set_capturing(int value) { capturing = value; }

void *driver_function(const char *name) {
  static const char *const forms[] = {"%s_v3", "%s_v2", "%s"};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  char form[256];
  for (size_t i = 0; library && i < 3; i++) {
    snprintf(form, sizeof form, forms[i], name);
    void *found = dlsym(library, form);
    if (found) return found;
  }
  return NULL;
}

/* PLANNER_GPU_TRACE=1 writes each function once, when it is first called. */
int succeed(const char *name) {
  static const char *seen[8192];
  static size_t count;
  if (!getenv("PLANNER_GPU_TRACE")) return SUCCESS;
  pthread_mutex_lock(&lock);
  size_t i = 0;
  while (i < count && seen[i] != name) i++;
  if (i == count && count < 8192) {
    seen[count++] = name;
    fprintf(stderr, "[false GPU] %s does nothing\n", name);
  }
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
