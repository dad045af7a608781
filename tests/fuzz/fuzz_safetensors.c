/* Safetensors from any bytes: parsing ends with tensors that fill the data without holes, or with one error; what was
 * read is read alike when it is written again. The manifest is read from whatever texts there are. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/manifest.h"
#include "fuzz/fuzz.h"
#include "train/training_progress.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void check_places(const struct ls_safetensors *file, size_t size) {
    size_t end = 0;
    require(file->data <= size && file->size == size - file->data);
    for (size_t i = 0; i < file->tensor_count; end = file->tensors[i++].end) {
        const struct ls_safetensor *tensor = &file->tensors[i];
        require(tensor->begin == end && tensor->end >= end && tensor->end <= file->size);
        require(tensor->shape.rank >= 0 && tensor->shape.rank <= LS_MAX_RANK);
        require(ls_safetensors_find(file, tensor->name) == tensor);
    }
    require(end == file->size);
}

/* Writing brings the tensors in the format's order and keeps their number and bytes. */
static void write_again(struct ls_safetensors *file) {
    struct ls_safetensors back;
    LS_CLEANUP(ls_free_pointer) char *header = NULL;
    size_t size = file->size;
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (!file->tensors[i].unread) continue;
        require(ls_safetensors_header(file, &header) == LS_INVALID_ARGUMENT && !header);
        return;
    }
    require(ls_safetensors_header(file, &header) == LS_OK && file->size == size);
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc(file->data + file->size);
    require(bytes != NULL);
    memcpy(bytes, header, file->data);
    require(ls_safetensors_parse(bytes, file->data + file->size, &back) == LS_OK);
    check_places(&back, file->data + file->size);
    require(back.tensor_count == file->tensor_count && back.text_count == file->text_count);
    for (size_t i = 0; i < file->text_count; i++) require(!strcmp(back.texts[i].value, file->texts[i].value));
    ls_safetensors_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_safetensors file;
    struct ls_training_progress progress = {.step = -1};
    const struct ls_manifest manifest = ls_training_progress_manifest(&progress);
    ls_status status = ls_safetensors_parse(data, size, &file);
    if (status) {
        require(status == LS_DATA_LOSS && ls_error()[0]);
        return 0;
    }
    check_places(&file, size);
    status = ls_manifest_read(&file, &manifest);
    require(status == LS_OK || (status == LS_INVALID_ARGUMENT && progress.step == -1));
    require(status || (progress.fit.position >= 0 && progress.facts.steps_per_epoch >= 0));
    if (!status) require(ls_manifest_compare(progress.facts.description, progress.facts.description) == LS_OK);
    if (file.size < 1 << 20) write_again(&file);
    ls_safetensors_free(&file);
    return 0;
}
