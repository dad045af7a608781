/* The chunks of an op's variables, one after the other. */
#include "device/cpu/cpu.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/norm.h"

/* The end of the chunk that holds element at. */
static size_t chunk_end(size_t at) {
    return (at / LS_NORM_CHUNK + 1) * LS_NORM_CHUNK;
}

static void add_chunks(const struct ls_op *op, const double *chunks, int kinds, double *squares, double *total) {
    for (size_t v = 0; v < op->variable_count; v++) {
        size_t count = ls_norm_chunks(op->variables[v].offset, op->variables[v].count);
        ls_norm_add(chunks, count, kinds, squares + v * (size_t)kinds);
        chunks += count * (size_t)kinds;
    }
    ls_norm_add(squares, op->variable_count, kinds, total);
}

ls_status ls_cpu_norms(const struct ls_op *op, int kinds, ls_cpu_square_fn *square, const void *context,
                       double *squares, double *total) {
    size_t count = 0, made = 0;
    for (size_t v = 0; v < op->variable_count; v++)
        count += ls_norm_chunks(op->variables[v].offset, op->variables[v].count);
    LS_CLEANUP(ls_free_pointer) double *chunks = ls_alloc_array(count * (size_t)kinds + 1, sizeof(*chunks));
    if (!chunks) return ls_fail_memory("norms", count * (size_t)kinds * sizeof(*chunks));
    for (size_t v = 0; v < op->variable_count; v++) {
        const struct ls_blob_part *part = &op->variables[v];
        size_t end = part->offset + part->count;
        for (size_t at = part->offset, next; at < end; at = next, made++) {
            next = chunk_end(at) < end ? chunk_end(at) : end;
            square(context, at, next - at, chunks + made * (size_t)kinds);
        }
    }
    if (op->norms) return op->norms->join(op->norms->context, chunks, count, kinds, squares, total);
    add_chunks(op, chunks, kinds, squares, total);
    return LS_OK;
}
