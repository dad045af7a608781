/* Matrix products by oneDNN. */
#include "device/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

#include "base/status.h"

static ls_status translate(dnnl_status_t code, const struct ls_gemm *gemm) {
    if (code == dnnl_success) return LS_OK;
    return ls_fail(code == dnnl_out_of_memory ? LS_RESOURCE_EXHAUSTED : LS_INTERNAL,
                   "oneDNN's sgemm of (%lld, %lld) by (%lld, %lld) failed with status %d%s", (long long)gemm->rows,
                   (long long)gemm->depth, (long long)gemm->depth, (long long)gemm->columns, (int)code,
                   code == dnnl_out_of_memory ? " (out of memory)" : "");
}

ls_status ls_gemm_run(const struct ls_gemm *gemm) {
    int64_t a_pitch = gemm->a_pitch ? gemm->a_pitch : gemm->transpose_a ? gemm->rows : gemm->depth;
    int64_t b_pitch = gemm->b_pitch ? gemm->b_pitch : gemm->transpose_b ? gemm->depth : gemm->columns;
    int64_t c_pitch = gemm->c_pitch ? gemm->c_pitch : gemm->columns;
    dnnl_status_t code =
        dnnl_sgemm(gemm->transpose_a ? 'T' : 'N', gemm->transpose_b ? 'T' : 'N', gemm->rows, gemm->columns, gemm->depth,
                   1.0F, gemm->a, a_pitch, gemm->b, b_pitch, gemm->adds ? 1.0F : 0.0F, gemm->c, c_pitch);
    return translate(code, gemm);
}

static const char *instruction_set(void) {
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_sse41, "sse41"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
    };
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].isa == isa) return names[i].name;
    return "baseline instruction set";
}

void ls_gemm_describe(char *text, size_t size) {
    const dnnl_version_t *version = dnnl_version();
    (void)snprintf(text, size, "%s; oneDNN %d.%d.%d", instruction_set(), version->major, version->minor,
                   version->patch);
}
