/* Folders as transformers writes them (tests/golden/huggingface_folders.py): their logits as models, as they are and
 * after the way through a file of Lockstep and a folder of its own; and what is wrong with one is one error. */
#define _GNU_SOURCE
#include <lockstep/saving.h>
#include <lockstep/tools.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/shape.h"
#include "data/files.h"
#include "folder.h"
#include "golden/golden.h"
#include "harness.h"

enum { EXAMPLES = 2, POSITIONS = 7, CLASSES = 13, OUTPUTS = EXAMPLES * POSITIONS * CLASSES };

static const char *const folders[] = {"gpt2_untied",   "gpt2_sharded", "llama_theta",
                                      "llama_sharded", "mistral",      "qwen2"};

static void path_of(const char *folder, char path[256]) {
    (void)snprintf(path, 256, WEIGHTS_GOLDEN "/../folders/%s", folder);
}

/* Freed with ls_memory_free. */
static float *predict(ls_strategy *strategy, const char *path) {
    int32_t ids[EXAMPLES * POSITIONS];
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    float *outputs = NULL;
    ls_shape shape;
    for (int i = 0; i < EXAMPLES * POSITIONS; i++) ids[i] = i * 5 % CLASSES;
    assert_ok(ls_dataset_from_arrays(
        &(ls_arrays){.size = sizeof(ls_arrays), .ids = ids, .shape = LS_SHAPE(POSITIONS), .count = EXAMPLES},
        LS_DATASET(.batch_size = 2, .shuffle = LS_SHUFFLE_NEVER), &data));
    assert_ok(ls_model_open(strategy, path, &model));
    assert_ok(ls_model_predict(model, data, &outputs, &shape));
    ck_assert_int_eq(ls_shape_count(&shape), OUTPUTS);
    ls_model_free(model);
    ls_dataset_free(data);
    return outputs;
}

static void check_logits(const char *name, const float *outputs) {
    struct golden *golden = golden_open("huggingface_folders.txt");
    const struct golden_tensor *wanted = golden_find(golden, "%s/logits", name);
    ck_assert_int_eq(wanted->count, OUTPUTS);
    for (int i = 0; i < OUTPUTS; i++)
        ck_assert_msg(fabsf(outputs[i] - wanted->values[i]) <= 2e-5F * fmaxf(1, fabsf(wanted->values[i])),
                      "%s: logit %d is %.9g, but must be %.9g", name, i, (double)outputs[i], (double)wanted->values[i]);
    golden_close(golden);
}

TEST_EACH(a_folder_is_a_model_and_becomes_one_again, COUNT_OF(folders)) {
    char golden[256], ours[256], theirs[256], single[256], *text = NULL;
    ls_strategy *strategy = NULL;
    char folder[] = "/tmp/lockstep-hugging-XXXXXX";
    path_of(folders[_i], golden);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(ours, sizeof(ours), "%s/ours.safetensors", folder);
    (void)snprintf(single, sizeof(single), "%s/single.safetensors", folder);
    (void)snprintf(theirs, sizeof(theirs), "%s/theirs", folder);
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    float *outputs = predict(strategy, golden);
    check_logits(folders[_i], outputs);
    const struct {
        const char *from, *to;
        bool huggingface;
    } ways[] = {{golden, ours, false}, {ours, theirs, true}, {theirs, single, true}};
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        assert_ok(ls_tools_convert_weights(ways[i].from, ways[i].to, ways[i].huggingface, &text));
        ls_memory_free(text);
        float *same = predict(strategy, ways[i].to);
        ck_assert_mem_eq(outputs, same, sizeof(float) * OUTPUTS);
        ls_memory_free(same);
    }
    ls_memory_free(outputs);
    ls_strategy_free(strategy);
    ck_assert_int_eq(folder_remove(folder), 0);
}

/* ---- what is wrong ---- */

#define LLAMA                                                                                                          \
    "\"model_type\": \"llama\", \"vocab_size\": 13, \"hidden_size\": 8, \"num_hidden_layers\": 1, "                    \
    "\"num_attention_heads\": 2"
#define WHOLE LLAMA ", \"intermediate_size\": 12"

static void write_text(const char *folder, const char *name, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_ok(ls_file_write(path, text, strlen(text)));
}

static const struct {
    const char *config, *error;
} refusals[] = {
    {"[1]", "config.json' is no JSON object of fields"},
    {"{\"model_type\": \"bert\"}", "field 'model_type' is \"bert\": gpt2, llama, mistral and qwen2 are read"},
    {"{" LLAMA "}", "config.json': field 'intermediate_size' is missing"},
    {"{" WHOLE ", \"attention_bias\": true}", "field 'attention_bias' is true: models are computed with false alone"},
    {"{" WHOLE ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
     "field 'rope_scaling.rope_type' is \"llama3\": models are computed with \"default\" alone"},
    {"{" WHOLE ", \"rope_parameters\": {\"factor\": 8}}", "field 'rope_parameters.factor' is 8: it is unknown here"},
    {"{" WHOLE ", \"rope_theta\": 0.5}", "field 'rope_theta' is 0.5: it must be 1 or more"},
    {"{" WHOLE ", \"rope_theta\": -1}", "field 'rope_theta' is -1: it must be a number above 0"},
    {"{" WHOLE ", \"hidden_act\": \"tanh\"}", "field 'hidden_act' is \"tanh\": it must be one of gelu_new,"},
    {"{" WHOLE ", \"rms_norm_eps\": \"small\"}", "field 'rms_norm_eps' is \"small\": it must be a number above 0"},
    {"{" WHOLE ", \"hidden_size\": 9}", "field 'hidden_size' is 9: it is there twice"},
    {"{" WHOLE ", \"head_dim\": 2.5}", "field 'head_dim' is 2.5: it must be a whole number from 1 to 1048576"},
    {"{" WHOLE ", \"num_key_value_heads\": 3}", "kv_heads 3 must divide heads 2"},
    {"{" WHOLE ", \"tie_word_embeddings\": 1}", "field 'tie_word_embeddings' is 1: it must be true or false"},
    {"{" WHOLE ", \"experts\": 4}", "field 'experts' is 4: it is unknown here, and may change what the model computes"},
    {"{" WHOLE ", \"head_dim\": 3}", "rope turns pairs, and a head has 3 channels"},
    {"{\"model_type\": \"gpt2\", \"vocab_size\": 13, \"n_embd\": 9, \"n_layer\": 1, \"n_head\": 2}",
     "field 'n_embd' is 9, which 'n_head' 2 does not divide"},
};

static void assert_open_fails(const char *folder, ls_status status, const char *error) {
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    assert_fails(ls_model_open(strategy, folder, &model), status, error);
    ck_assert_ptr_null(model);
    ls_strategy_free(strategy);
}

TEST(a_field_that_is_not_computed_is_named) {
    char folder[] = "/tmp/lockstep-hugging-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    assert_open_fails(folder, LS_NOT_FOUND, "has no config.json: it is no model of Hugging Face's");
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        write_text(folder, "config.json", refusals[i].config);
        assert_open_fails(folder, LS_INVALID_ARGUMENT, refusals[i].error);
    }
    write_text(folder, "config.json", "{" WHOLE ", \"experts\": null, \"more\": false, \"none\": []}");
    assert_open_fails(folder, LS_NOT_FOUND, "has neither model.safetensors nor model.safetensors.index.json");
    write_text(folder, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b/../c.safetensors\"}}");
    assert_open_fails(folder, LS_INVALID_ARGUMENT,
                      "field 'weight_map.a' is \"b/../c.safetensors\": it must be a file ending in");
    write_text(folder, "model.safetensors.index.json", "{\"weight_map\": 3}");
    assert_open_fails(folder, LS_INVALID_ARGUMENT, "has no 'weight_map' of tensors and their files");
    write_text(folder, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"c.safetensors\"}}");
    assert_open_fails(folder, LS_NOT_FOUND, "/c.safetensors'");
    ck_assert_int_eq(folder_remove(folder), 0);
}

/* Other layers than the numbers give are no model of transformers. */
TEST_EACH(what_transformers_lacks_is_named, 4) {
    static const struct {
        const char *application;
        size_t layer; /* from the end */
        ls_layer changed;
        const char *error;
    } rows[] = {
        {"gpt", 2, ls_rms_normalization(), "layer 'final_norm' has another kind than layer 'final_norm'"},
        {"llama", 2, ls_rms_normalization(.epsilon = 0.5F), "layer 'final_norm' has another epsilon than"},
        {"llama", 1, ls_dense(13, .per_position = true), "layer 'predictions' has another no_bias than"},
        {"gpt", 1, ls_dense(13, LS_RELU, .per_position = true, .no_bias = true), "has another activation than"},
    };
    char folder[] = "/tmp/lockstep-hugging-XXXXXX", ours[256], theirs[256], *text = NULL;
    ls_strategy *strategy = NULL;
    ls_layer *layers = NULL;
    ls_model *model = NULL;
    ls_shape shape;
    float *outputs = NULL;
    size_t count = 0;
    int32_t ids[POSITIONS] = {0};
    ls_dataset *data = NULL;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(ours, sizeof(ours), "%s/ours.safetensors", folder);
    (void)snprintf(theirs, sizeof(theirs), "%s/theirs", folder);
    assert_ok(ls_application(rows[_i].application, LS_APPLICATION(.classes = 13, .layers = 1, .heads = 2, .width = 8),
                             &layers, &count));
    ls_layer *changed = &layers[count - rows[_i].layer];
    const char *name = changed->name;
    *changed = rows[_i].changed;
    changed->name = name;
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    assert_ok(ls_model_new(strategy, layers, count, &model));
    assert_ok(ls_dataset_from_arrays(
        &(ls_arrays){.size = sizeof(ls_arrays), .ids = ids, .shape = LS_SHAPE(POSITIONS), .count = 1},
        LS_DATASET(.batch_size = 1, .shuffle = LS_SHUFFLE_NEVER), &data));
    assert_ok(ls_model_predict(model, data, &outputs, &shape));
    assert_ok(ls_model_save(model, ours));
    assert_refused(ls_tools_convert_weights(ours, theirs, true, &text), rows[_i].error);
    ls_memory_free(outputs);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    ls_memory_free(layers);
    ck_assert_int_eq(folder_remove(folder), 0);
}

TESTS("folders of Hugging Face", .seconds = 60)
