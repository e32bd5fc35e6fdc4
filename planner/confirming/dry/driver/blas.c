/* libcublas: handles and versions; a product computes nothing. */
#include "device.h"

EXPORT(int, cublasCreate_v2, void **made) {
  *made = handle();
  return SUCCESS;
}
EXPORT(int, cublasGetVersion_v2, void *blas, int *version) {
  *version = CUDA_MAJOR * 10000 + 100;
  return SUCCESS;
}
EXPORT(int, cublasGetMathMode, void *blas, int *mode) {
  *mode = 0;
  return SUCCESS;
}
EXPORT(int, cublasGetPointerMode_v2, void *blas, int *mode) {
  *mode = 0;
  return SUCCESS;
}
EXPORT(int, cublasGetStream_v2, void *blas, void **stream) {
  *stream = NULL;
  return SUCCESS;
}
EXPORT(const char *, cublasGetStatusString, int status) {
  return "error of the false GPU";
}
EXPORT(const char *, cublasGetStatusName, int status) {
  return "error of the false GPU";
}
