/* gpt2 and llama with the weights of tiny models of Hugging Face's transformers: its logits, and back to its file
 * (tests/golden/huggingface.py). */
#define _GNU_SOURCE
#include <lockstep/tools.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/shape.h"
#include "checkpoint/safetensors.h"
#include "data/files.h"
#include "golden/golden.h"
#include "harness.h"

enum { EXAMPLES = 3, POSITIONS = 6, CLASSES = 11, OUTPUTS = EXAMPLES * POSITIONS * CLASSES };

static const struct known {
    const char *name, *application;
    int kv_heads;
    bool tied; /* the file has no head, which ours has */
} models[] = {{"gpt2", "gpt2", 0, false}, {"llama", "llama", 1, false}, {"tied", "llama", 2, true}};

static int32_t ids[EXAMPLES][POSITIONS];

static ls_dataset *new_data(void) {
    ls_dataset *data = NULL;
    for (int i = 0; i < EXAMPLES * POSITIONS; i++) ids[i / POSITIONS][i % POSITIONS] = i * 7 % CLASSES;
    assert_ok(ls_dataset_from_arrays(
        &(ls_arrays){.size = sizeof(ls_arrays), .ids = ids[0], .shape = LS_SHAPE(POSITIONS), .count = EXAMPLES},
        LS_DATASET(.batch_size = 2, .shuffle = LS_SHUFFLE_NEVER), &data));
    return data;
}

static void path_of(const struct known *known, char path[256]) {
    (void)snprintf(path, 256, WEIGHTS_GOLDEN "/huggingface_%s.safetensors", known->name);
}

static ls_model *new_model(ls_strategy *strategy, const struct known *known, const char *path) {
    ls_layer *layers = NULL;
    size_t count = 0;
    ls_model *model = NULL;
    assert_ok(ls_application(
        known->application,
        LS_APPLICATION(.classes = CLASSES, .layers = 2, .heads = 2, .kv_heads = known->kv_heads, .width = 8), &layers,
        &count));
    assert_ok(ls_model_new(strategy, layers, count, &model));
    assert_ok(ls_model_load_weights(model, path, NULL));
    ls_memory_free(layers);
    return model;
}

static float *predict(ls_model *model) {
    ls_dataset *data = new_data();
    float *outputs = NULL;
    ls_shape shape;
    assert_ok(ls_model_predict(model, data, &outputs, &shape));
    ck_assert_int_eq(ls_shape_count(&shape), OUTPUTS);
    ls_dataset_free(data);
    return outputs;
}

static void check_logits(const struct known *known, const float *outputs) {
    struct golden *golden = golden_open("huggingface.txt");
    const struct golden_tensor *wanted = golden_find(golden, "%s/logits", known->name);
    ck_assert_int_eq(wanted->count, OUTPUTS);
    for (int i = 0; i < OUTPUTS; i++)
        ck_assert_msg(fabsf(outputs[i] - wanted->values[i]) <= 1e-5F * fmaxf(1, fabsf(wanted->values[i])),
                      "%s: logit %d is %.9g, but must be %.9g", known->name, i, (double)outputs[i],
                      (double)wanted->values[i]);
    golden_close(golden);
}

struct file {
    uint8_t *bytes;
    struct ls_safetensors parsed;
};

static struct file read_file(const char *path) {
    struct file file;
    size_t size;
    assert_ok(ls_file_read(path, &file.bytes, &size));
    assert_ok(ls_safetensors_parse(file.bytes, size, &file.parsed));
    return file;
}

static void free_file(struct file *file) {
    ls_safetensors_free(&file->parsed);
    ls_free(file->bytes);
}

/* The same names, shapes and bytes. */
static void compare_files(const struct known *known, const char *path, const char *golden) {
    struct file is = read_file(path), wanted = read_file(golden);
    ck_assert_uint_eq(is.parsed.tensor_count, wanted.parsed.tensor_count + known->tied);
    ck_assert_str_eq(ls_safetensors_text(&is.parsed, "format"), "pt");
    for (size_t i = 0; i < wanted.parsed.tensor_count; i++) {
        const struct ls_safetensor *one = &wanted.parsed.tensors[i];
        const struct ls_safetensor *other = ls_safetensors_find(&is.parsed, one->name);
        ck_assert_msg(other != NULL, "%s", one->name);
        ck_assert_str_eq(one->type, other->type);
        ck_assert(ls_shape_equal(&one->shape, &other->shape));
        ck_assert_mem_eq(wanted.bytes + wanted.parsed.data + one->begin, is.bytes + is.parsed.data + other->begin,
                         one->end - one->begin);
    }
    free_file(&is);
    free_file(&wanted);
}

TEST_EACH(a_model_of_transformers_has_its_logits_and_goes_back, COUNT_OF(models)) {
    const struct known *known = &models[_i];
    char golden[256], folder[] = "/tmp/lockstep-hugging-XXXXXX", ours[64], theirs[64], *text = NULL;
    ls_strategy *strategy = NULL;
    ls_model *again = NULL;
    path_of(known, golden);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(ours, sizeof(ours), "%s/ours.safetensors", folder);
    (void)snprintf(theirs, sizeof(theirs), "%s/theirs.safetensors", folder);
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    ls_model *model = new_model(strategy, known, golden);
    float *outputs = predict(model);
    check_logits(known, outputs);
    assert_ok(ls_model_save(model, ours));
    assert_ok(ls_tools_convert_weights(ours, theirs, true, &text));
    compare_files(known, theirs, golden);
    assert_ok(ls_model_open(strategy, theirs, &again)); /* it says its layers as ours does */
    float *same = predict(again);
    ck_assert_mem_eq(outputs, same, sizeof(float) * OUTPUTS);
    assert_refused(ls_tools_convert_weights(ours, "x.npz", true, &text),
                   "'x.npz': Hugging Face's weights are written as");
    ls_memory_free(outputs);
    ls_memory_free(same);
    ls_memory_free(text);
    ls_model_free(model);
    ls_model_free(again);
    ls_strategy_free(strategy);
    (void)unlink(ours);
    (void)unlink(theirs);
    (void)rmdir(folder);
}

/* Another model than the file's is told by our names. */
TEST(another_model_is_told) {
    char golden[256];
    float *outputs = NULL;
    ls_shape shape;
    ls_strategy *strategy = NULL;
    ls_dataset *data = new_data();
    path_of(&models[0], golden);
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    ls_model *model = new_model(strategy, &models[1], golden);
    assert_refused(ls_model_predict(model, data, &outputs, &shape),
                   "huggingface_gpt2.safetensors' has no variable 'block_0_norm_1/scale'");
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

TESTS("weights of Hugging Face", .seconds = 60)
