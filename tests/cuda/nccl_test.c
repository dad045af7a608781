/* An NCCL that is older than the header: what it lacks is told, instead of a plugin that does not load. */

#include "device/cuda/nccl.h"
#include "harness.h"

static int version = 21207;

ncclResult_t ncclGetVersion(int *found) {
    *found = version;
    return version ? ncclSuccess : ncclInternalError;
}

TEST(one_that_lacks_functions) {
    char why[200] = "";
    ck_assert(!ls_cuda_nccl_fits(why, sizeof(why)));
    ck_assert_str_eq(why,
                     "NCCL 2.12.7, which is installed, has no ncclCommInitRankConfig: 2.14 or a later one is needed");
}

TEST(the_version_that_runs) {
    ck_assert_int_eq(ls_cuda_nccl_version(), 21207);
    version = 0;
    ck_assert_int_eq(ls_cuda_nccl_version(), 0);
}

TESTS("nccl")
