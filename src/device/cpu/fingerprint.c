/* The fingerprint of the bits that a CPU device computes, apart from its threads. oneDNN picks kernels by instruction
 * set; oneDNN and the C library's exp and log may change from version to version. */
#include <dnnl.h>
#include <gnu/libc-version.h>
#include <stdio.h>

#include "device/cpu/cpu.h"

void ls_cpu_fingerprint(char *text, size_t size) {
    const dnnl_version_t *version = dnnl_version();
    (void)snprintf(text, size, "cpu isa 0x%x oneDNN %d.%d.%d libc %s norms by chunks",
                   (unsigned)dnnl_get_effective_cpu_isa(), version->major, version->minor, version->patch,
                   gnu_get_libc_version());
}
