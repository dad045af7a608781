/* Versions of the fakes of cuBLASLt and cuDNN: those of the headers that they follow. */
#include <cublasLt.h>
#include <cudnn.h>

size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}

size_t cudnnGetVersion(void) {
    return CUDNN_VERSION;
}
