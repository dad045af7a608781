/* The promise of equal copies, checked: all parts of every replica here against
 * replica 0's, the variables of every worker, and copies of moments that workers own. */
#include "train/fit.h"

#include <string.h>

#include "base/memory.h"
#include "collective/collectives.h"
#include "train/model.h"
#include "train/shards.h"

/* The part in host memory: where it lies, or in copy. */
static ls_status view(const struct ls_model_replica *replica, const struct ls_shard_part *part, float *copy,
                      const float **values) {
    *values = copy ? copy : replica->blobs[part->blob];
    size_t size = part->count * sizeof(float);
    return copy ? replica->device->ops->copy_out(replica->device, copy, replica->blobs[part->blob], size) : LS_OK;
}

/* copies: room for two of them, or NULL where all devices have host memory. */
static ls_status compare_part(const ls_model *model, const struct ls_shard_part *part, float *copies) {
    const float *first = NULL, *other = NULL;
    ls_status status = view(&model->built.replicas[0], part, copies, &first);
    for (int i = 1; !status && i < model->strategy->local_count; i++) {
        if (model->built.replicas[i].shares) continue;
        status = view(&model->built.replicas[i], part, copies ? copies + part->count : NULL, &other);
        if (!status && memcmp(first, other, part->count * sizeof(float)) != 0)
            status = ls_fail(LS_DATA_LOSS, "the %s of replicas %d and %d differ after iteration %lld",
                             part->blob ? "moments" : "variables", model->strategy->replicas[0].id,
                             model->strategy->replicas[i].id, (long long)model->progress.step.iteration);
    }
    return status;
}

static ls_status verify_local(const ls_model *model) {
    LS_CLEANUP(ls_free_pointer) float *copies = NULL;
    bool far = false;
    for (int i = 0; i < model->strategy->local_count; i++) far = far || !model->built.replicas[i].device->host_memory;
    if (model->strategy->local_count == 1) return LS_OK;
    if (far && !(copies = ls_alloc_array(2 * model->built.blob_count, sizeof(*copies))))
        return ls_fail_memory("copies of a part", 2 * model->built.blob_count * sizeof(*copies));
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < model->built.state_count; i++)
        if (ls_part_is_on_devices(&model->built.state[i])) status = compare_part(model, &model->built.state[i], copies);
    return status;
}

#define HEX 64 /* digits of a digest, gathered as 8 words */

/* Within a worker the bytes themselves are compared, between workers their SHA-256: 64 hex digits a worker cross the
 * wire. It costs a pass over all variables, so the fit asks for it at the end of an epoch and not in each step. */
ls_status ls_replica_check(ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    size_t workers = (size_t)runtime->size;
    char hex[HEX + 1];
    ls_status status = verify_local(model);
    if (!status) status = ls_model_digest_here(model, hex);
    if (!status && ls_shards_are(model)) status = ls_shards_check(model);
    if (status || workers == 1) return status;
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array(workers, sizeof(*counts));
    LS_CLEANUP(ls_free_pointer) char *all = ls_alloc_array(workers, HEX);
    if (!counts || !all) return ls_fail_memory("digests", workers * HEX);
    for (size_t w = 0; w < workers; w++) counts[w] = HEX / sizeof(int64_t);
    status = ls_group_all_gather(runtime->group, LS_ALL_GATHER("weights digest", hex, all, counts, LS_INT64));
    if (status) return status;
    for (size_t w = 1; w < workers; w++)
        if (memcmp(all, all + w * HEX, HEX) != 0)
            return ls_fail(
                LS_DATA_LOSS,
                "after iteration %lld the variables differ: rank 0 has digest %.16s..., rank %zu has %.16s...",
                (long long)model->progress.step.iteration, all, w, all + w * HEX);
    return LS_OK;
}
