/* What CUDA's headers expect from NVIDIA's compiler, for a plain C compiler: enough to
   read their declarations. The wheels of CUDA's libraries do not contain it. */
#ifndef PLANNER_HOST_DEFINES_H
#define PLANNER_HOST_DEFINES_H
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __cudart_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __inline_hint__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __specialization_static static
#define __CUDA_ARCH_HAS_FEATURE__(f) 0
#define __thread__ __thread
#define __import__
#define __export__
#endif
