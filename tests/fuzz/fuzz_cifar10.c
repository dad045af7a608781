/* CIFAR-10 from any bytes: whole records with labels in range, or one error. */
#include <stdlib.h>

#include "data/sources.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t records = -1;
    ls_status status = ls_cifar10_parse("input", data, size, &records);
    require(status == LS_OK || (status == LS_DATA_LOSS && records == -1 && ls_error()[0]));
    if (status == LS_OK) require(records >= 1 && (size_t)records * LS_CIFAR10_RECORD == size);
    for (int64_t i = 0; i < records; i++) require(data[i * LS_CIFAR10_RECORD] < 10);
    return 0;
}
