/* A CSV file of any bytes as examples: finite numbers and labels of classes that have names, or one error. Opened once
 * more with its own transform it has the same bits. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/shape.h"
#include "data/dataset.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static ls_dataset_options options_of(uint8_t choice) {
    static const char separators[] = {0, ',', ';', '\t'};
    return (ls_dataset_options){.size = sizeof(ls_dataset_options),
                                .target = "y",
                                .separator = separators[choice & 3],
                                .target_type = (ls_target_type)((choice >> 2 & 3) % 3),
                                .damage = choice & 16 ? LS_DAMAGE_SKIPPED : LS_DAMAGE_FAILS,
                                .without = choice & 32 ? "\"a\"" : NULL,
                                .validation_split = choice & 64 ? 0.5 : 0};
}

/* Its width floats, then what is to be said of it. */
static float *read_all(const ls_dataset *data) {
    int64_t width = ls_shape_count(&data->source->shape) + 1;
    float *all = ls_alloc_array((size_t)(width * data->count), sizeof(*all)), number = 0;
    for (int64_t i = 0; i < data->count; i++) {
        int32_t label = -1;
        float *row = all + i * width;
        const struct ls_targets targets = {.labels = &label, .numbers = &number};
        require(ls_dataset_read_source(data, i, row, &targets) == LS_OK);
        if (!data->source->targets.numbers) require(ls_dataset_class_name(data, label) != NULL);
        row[width - 1] = data->source->targets.numbers ? number : (float)label;
        for (int64_t j = 0; j < width; j++) require(isfinite(row[j]) || data->options.validation_split > 0);
    }
    return all;
}

static void open_twice(const char *path, ls_dataset_options options) {
    ls_dataset *data = NULL, *again = NULL;
    ls_status status = ls_dataset_csv(path, &options, &data);
    require(!status || ((status == LS_INVALID_ARGUMENT || status == LS_DATA_LOSS) && ls_error()[0] && !data));
    if (status) return;
    options.transform = ls_dataset_transform(data);
    require(ls_dataset_csv(path, &options, &again) == LS_OK);
    require(data->count == again->count && ls_shape_equal(&data->source->shape, &again->source->shape));
    require(!strcmp(options.transform, ls_dataset_transform(again)));
    float *one = read_all(data), *other = read_all(again);
    require(!memcmp(one, other, (size_t)(data->count * (ls_shape_count(&data->source->shape) + 1)) * sizeof(*one)));
    ls_free(one);
    ls_free(other);
    ls_dataset_free(data);
    ls_dataset_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    if (!size) return 0;
    int fd = memfd_create("input", 0);
    require(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    open_twice(path, options_of(*data));
    (void)close(fd);
    return 0;
}
