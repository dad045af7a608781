/* The order of tables in memory is that of struct ls_store. */
#include "train/checkpointing.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "train/model_state.h"
#include "train/sparse.h"

ls_status ls_checkpoint_tables_new(const ls_model *model, float **tables) {
    size_t size = ls_sparse_floats(model) * sizeof(float);
    if (!size) return LS_OK;
    float *made = ls_alloc_aligned(size);
    if (!made) return ls_fail_memory("tables for a checkpoint", size);
    *tables = made;
    return LS_OK;
}

void ls_checkpoint_tables_describe(const ls_model *model, float *tables, char (*names)[128],
                                   struct ls_checkpoint_tensor *tensors) {
    for (int blob = 0; blob <= ls_optimizer_moments(&model->progress.step.rule); blob++)
        for (int t = 0; t < ls_network_table_count(model->built.network); t++, names++) {
            const struct ls_network_variable *from = ls_network_table(model->built.network, t);
            ls_model_state_name(model, blob, from->name, *names, sizeof(*names));
            *tensors++ = (struct ls_checkpoint_tensor){*names, from->shape, tables + ls_sparse_offset(model, t, blob)};
        }
}

void ls_checkpoint_tables_copy(const ls_model *model, float *tables) {
    if (tables) memcpy(tables, model->built.tables, ls_sparse_floats(model) * sizeof(*tables));
}
