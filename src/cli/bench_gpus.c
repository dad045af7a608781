/* lockstep bench with vectors on GPUs. Inputs, and the results of NCCL, go through one vector in host memory. */
#include "cli/bench.h"

ls_status bench_gpus_write(ls_tools_gpus *gpus, const void *vector, size_t bytes) {
    int first, here, total;
    ls_status status = LS_OK;
    ls_tools_gpus_count(gpus, &first, &here, &total);
    for (int i = 0; i < here && !status; i++) status = ls_tools_gpus_write(gpus, i, vector, bytes);
    return status;
}

ls_status bench_gpus_fill(ls_tools_gpus *gpus, const struct bench_check *check, size_t count, void *vector) {
    int first, here, total;
    ls_status status = LS_OK;
    ls_tools_gpus_count(gpus, &first, &here, &total);
    for (int i = 0; i < here && !status; i++) {
        bench_check_fill(check, first + i, 0, count, vector);
        status = ls_tools_gpus_write(gpus, i, vector, count * ls_dtype_size(check->options->dtype));
    }
    return status;
}

ls_status bench_gpus_result(ls_tools_gpus *gpus, const struct bench_check *check, size_t count, void *vector,
                            int64_t *wrong) {
    int first, here, total;
    ls_status status = LS_OK;
    int64_t all = 0;
    ls_tools_gpus_count(gpus, &first, &here, &total);
    for (int i = 0; i < here && all >= 0; i++) {
        status = ls_tools_gpus_read(gpus, i, vector, count * ls_dtype_size(check->options->dtype));
        if (status) return status;
        int64_t found = bench_check_result(check, count, vector);
        all = found < 0 ? found : all + found;
    }
    *wrong = all;
    return LS_OK;
}
