/* libcublasLt: one algorithm for every product, which needs no workspace of its own. */
#include "device.h"

/* Source: cublasLt.h, cublasLtMatmulHeuristicResult_t. */
typedef struct {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} heuristic;

#define NEW(name, ...)             \
  EXPORT(int, name, __VA_ARGS__) { \
    *made = handle();              \
    return SUCCESS;                \
  }
NEW(cublasLtCreate, void **made)
NEW(cublasLtMatmulDescCreate, void **made, int compute, int scale)
NEW(cublasLtMatmulPreferenceCreate, void **made)
NEW(cublasLtMatrixLayoutCreate, void **made, int type, uint64_t rows, uint64_t columns,
    int64_t leading)
EXPORT(size_t, cublasLtGetVersion, void) { return CUDA_MAJOR * 10000 + 100; }
EXPORT(size_t, cublasLtGetCudartVersion, void) { return CUDA_MAJOR * 1000; }
EXPORT(int, cublasLtMatmulAlgoGetHeuristic, void *blas, void *product, void *a, void *b,
       void *c, void *d, void *preference, int wanted, heuristic *results, int *found) {
  *found = wanted > 0;
  if (wanted > 0) {
    memset(results, 0, sizeof *results);
    results->waves = 1.0f;
  }
  return SUCCESS;
}
EXPORT(const char *, cublasLtGetStatusString, int status) {
  return "error of the false GPU";
}
EXPORT(const char *, cublasLtGetStatusName, int status) {
  return "error of the false GPU";
}
