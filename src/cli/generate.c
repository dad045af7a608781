/* lockstep generate: text from a saved model that predicts the next token. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/signals.h"

static const char about[] =
    "lockstep generate: let a language model go on with a text\n"
    "\n"
    "usage: lockstep generate --weights WHAT [OPTIONS]\n"
    "\n"
    "The weights are those of lockstep train --model gpt, gpt2 or llama, which say the model and its tokens. The "
    "prompt\n"
    "and what follows it go to standard output, each token as it is drawn. The same seed gives the same text.\n";
static const char more[] =
    "examples:\n"
    "  lockstep train --model gpt --dataset input.txt --tokens chars --context 64 --epochs 3 --checkpoint run\n"
    "  lockstep generate --weights run --prompt 'To be' --count 200 --temperature 0.8 --top-k 40\n"
    "\n"
    "exit status: 0 done; 2 a bad command line, or a model that makes no text; 1 anything else.\n";

struct generation {
    struct ls_saved_model saved;
    const char *prompt, *vocabulary;
    ls_generate_options options;
    ls_tokenizer *tokenizer; /* owns */
    bool begun;              /* the prompt is written */
};

/* ---- tokens ---- */

/* The names of the classes are the characters. */
static ls_status make_characters(struct generation *generation) {
    const ls_tools_about *said = generation->saved.about;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; out && i < said->class_count; i++) (void)fputs(said->classes[i], out);
    if (!out || fclose(out) != 0) return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for characters");
    ls_status status = ls_tokenizer_new_chars(text, size, &generation->tokenizer);
    free(text);
    return status;
}

/* The model's own folder may have them. Hugging Face calls OpenAI's encoder.json and vocab.bpe by other names. */
static ls_status make_gpt2(struct generation *generation) {
    const struct ls_saved_model *saved = &generation->saved;
    bool own = !generation->vocabulary && saved->about->tokenizer;
    const char *folder = own ? saved->model.weights : generation->vocabulary;
    char merges[4096], ids[4096];
    if (!folder)
        return ls_tools_fail(
            LS_INVALID_ARGUMENT,
            "'%s' was trained with tokens of a file: give --gpt2 FOLDER, of vocab.bpe and encoder.json",
            saved->model.weights);
    (void)snprintf(ids, sizeof(ids), "%.4000s/vocab.json", folder);
    bool theirs = own || access(ids, F_OK) == 0;
    (void)snprintf(ids, sizeof(ids), "%.4000s/%s.json", folder, theirs ? "vocab" : "encoder");
    (void)snprintf(merges, sizeof(merges), "%.4000s/%s", folder, theirs ? "merges.txt" : "vocab.bpe");
    return ls_tokenizer_new_gpt2(merges, ids, false, &generation->tokenizer);
}

static ls_status make_tokenizer(struct generation *generation) {
    switch (generation->saved.data.tokens) {
    case LS_TOKENS_BYTES:
        return ls_tokenizer_new_bytes(&generation->tokenizer);
    case LS_TOKENS_CHARS:
        return make_characters(generation);
    case LS_TOKENS_NONE:
        if (generation->vocabulary || generation->saved.about->tokenizer) return make_gpt2(generation);
        return ls_tools_fail(
            LS_INVALID_ARGUMENT,
            "'%s' does not say its tokens: it was not trained with --tokens; give --gpt2 FOLDER where they are GPT-2's",
            generation->saved.model.weights);
    default:
        return make_gpt2(generation);
    }
}

/* Before the first comes the prompt. */
static ls_status write_token(void *user, int32_t token) {
    struct generation *generation = user;
    char *text = NULL;
    size_t size = 0;
    ls_status status = ls_tokenizer_decode(generation->tokenizer, &token, 1, &text, &size);
    if (status) return status;
    if (!generation->begun) (void)fputs(generation->prompt, stdout);
    generation->begun = true;
    bool written = fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0;
    ls_memory_free(text);
    return written ? LS_OK : ls_tools_fail(LS_UNAVAILABLE, "standard output takes no more");
}

/* ---- the command ---- */

/* The model is made for windows of its context; its data has one, of zeros. */
static ls_status open_model(struct generation *generation, ls_strategy *strategy, ls_model **model) {
    struct ls_saved_model *saved = &generation->saved;
    if (!saved->data.context && saved->about->input.rank == 1) saved->data.context = saved->about->input.dims[0];
    int64_t context = saved->data.context;
    int32_t *zeros = calloc((size_t)context, sizeof(*zeros));
    ls_dataset *data = NULL;
    if (!zeros) return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for %lld tokens", (long long)context);
    saved->model.tokens = saved->data.tokens;
    saved->model.context = context;
    ls_rules_complete(&saved->model.rules);
    ls_status status = ls_dataset_from_arrays(
        &(ls_arrays){.size = sizeof(ls_arrays), .ids = zeros, .shape = {1, {context}}, .count = 1},
        LS_DATASET(.batch_size = 1, .shuffle = LS_SHUFFLE_NEVER), &data);
    if (!status) status = ls_train_model_make(&saved->model, strategy, data, model);
    ls_dataset_free(data);
    free(zeros);
    return status;
}

static ls_status go_on(struct generation *generation, ls_model *model) {
    ls_generate_options *options = &generation->options;
    int32_t *prompt = NULL, *tokens = NULL, end = ls_tokenizer_end_of_text(generation->tokenizer);
    size_t count = 0;
    ls_status status = ls_tokenizer_encode(generation->tokenizer, generation->prompt, strlen(generation->prompt),
                                           &prompt, &options->prompt_count);
    options->prompt = prompt;
    options->context = generation->saved.data.context;
    if (end >= 0) options->stop_token = &end;
    if (!status) status = ls_generate(model, options, &tokens, &count);
    if (!status) (void)puts(generation->begun ? "" : generation->prompt);
    ls_memory_free(prompt);
    ls_memory_free(tokens);
    return status;
}

static ls_status generate(struct generation *generation, ls_strategy *strategy) {
    ls_model *model = NULL;
    ls_status status = ls_saved_model_ask(&generation->saved, strategy);
    if (!status) status = make_tokenizer(generation);
    if (!status) status = open_model(generation, strategy, &model);
    if (!status) status = go_on(generation, model);
    ls_model_free(model);
    return status;
}

static int run_generation(struct generation *generation) {
    ls_strategy *strategy = NULL;
    ls_signals_install(false);
    ls_status status = ls_mirrored_strategy_new(&generation->saved.strategy, &strategy);
    if (status) return ls_signals_exit(status);
    status = generate(generation, strategy);
    status = ls_strategy_close(strategy, status);
    ls_tokenizer_free(generation->tokenizer);
    ls_saved_model_end(&generation->saved);
    return ls_signals_exit(status);
}

#define AT(field) LS_OPTION_AT(struct generation, field)

static const struct ls_option rows[] = {
    {"weights", "WHAT",
     "a file of weights, a folder of checkpoints, whose newest is taken, or a model's folder of Hugging Face",
     AT(saved.weights)},
    {"prompt", "TEXT", "what the text begins with (default: a new line)", AT(prompt)},
    {"count", "N", "tokens to make (default 100)", AT(options.count), 1, INT64_C(1) << 40},
    {"greedy", NULL, "always the likeliest token", AT(options.greedy), true},
    {"temperature", "X", "below 1 likely tokens come more often, above 1 less (default 1)", AT(options.temperature),
     1e-6, 1e6},
    {"top-k", "N", "draw from the N likeliest tokens alone", AT(options.top_k), 1, 1 << 24},
    {"top-p", "P", "draw from the likeliest tokens whose probabilities reach P", AT(options.top_p), 1e-6, 1},
    {"seed", "N", "another seed gives another text (default 0)", AT(options.seed), 0, INT64_MAX},
    {"no-cache", NULL, "run the whole window for each token, and keep no keys and values", AT(options.no_cache), true},
    {"gpt2", "FOLDER",
     "of vocab.bpe and encoder.json, or merges.txt and vocab.json, where the tokens are GPT-2's; a folder of Hugging "
     "Face's GPT-2 may have them itself",
     AT(vocabulary)},
    {0}};
static const struct ls_option training_rows[] = {
    {"tokens", NULL, "of the training", AT(saved.data.tokens), LS_TOKENS_BYTES, .words = ls_token_formats},
    {"context", "N", "tokens in an example of the training", AT(saved.data.context), 1, INT64_C(1) << 31},
    {"vocabulary", "N", "of the training", AT(saved.data.vocabulary), 1, 1 << 24},
    {"loss", NULL, "of the training", AT(saved.model.rules.loss), LS_SPARSE_CATEGORICAL_CROSSENTROPY,
     .words = ls_rules_losses},
    {0}};
static const struct ls_option_table tables[] = {
    {"text", rows, 0},
    {"model, where the weights do not say it", ls_model_options, offsetof(struct generation, saved.model)},
    {NULL, training_rows, 0},
    {"distribution", ls_devices_option, offsetof(struct generation, saved.strategy.devices)},
    {0}};

int generate_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep generate", argc, argv, about, more, tables, 0};
    struct generation generation = {.prompt = "\n", .options = {.size = sizeof(ls_generate_options)}};
    ls_saved_model_begin(&generation.saved);
    generation.options.on_token = write_token;
    generation.options.user = &generation;
    int code = ls_options_read(&line, &generation);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line) || !ls_check_saved_options(&line, &generation.saved)) return LS_EXIT_USAGE;
    if (!*generation.prompt) return ls_usage_error(&line, "--prompt is empty: give one character at least");
    if (!ls_check_weights(&line, generation.saved.weights)) return LS_EXIT_USAGE;
    return run_generation(&generation);
}
