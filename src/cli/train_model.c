/* The models that lockstep train knows. */
#include "cli/train_model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { WORDS = 10000, WIDTH = 16 };

/* The models that begin with a table, and the layer that makes one row of an example's. */
static const struct reader {
    const char *name;
    ls_layer_kind kind;
} readers[] = {{"embedding", LS_LAYER_GLOBAL_AVERAGE_POOLING1D}, {"lstm", LS_LAYER_LSTM}, {"gru", LS_LAYER_GRU}, {0}};

/* NULL: it has no table. */
static const struct reader *reader_of(const struct ls_train_model *choice) {
    for (const struct reader *reader = readers; reader->name; reader++)
        if (!strcmp(choice->name, reader->name)) return reader;
    return NULL;
}

bool ls_train_model_is_transformer(const struct ls_train_model *choice) {
    return !strcmp(choice->name, "gpt") || !strcmp(choice->name, "gpt2") || !strcmp(choice->name, "llama");
}

/* A depthwise convolution has its own kind of kernel, which Keras' kernel_regularizer is not for. */
static void set_regularizers(const struct ls_train_model *choice, ls_layer *layers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (layers[i].kind != LS_LAYER_DENSE && layers[i].kind != LS_LAYER_CONV2D) continue;
        if (choice->rules.kernel_l1 > 0) layers[i].kernel_l1 = choice->rules.kernel_l1;
        if (choice->rules.kernel_l2 > 0) layers[i].kernel_l2 = choice->rules.kernel_l2;
    }
}

/* The first layers give the mean of the rows of an example's words, or what a recurrent layer makes of them. In a file
 * of tokens each position says which token comes next: by its own row, without a mean, or by those before it too. */
static ls_status make_dense(const struct ls_train_model *choice, ls_strategy *strategy, int classes, ls_model **model) {
    size_t count = 0;
    ls_layer layers[LS_MAX_HIDDEN + 3];
    bool each = choice->tokens != LS_TOKENS_NONE;
    int words = choice->words ? choice->words : each ? classes : WORDS, width = choice->width ? choice->width : WIDTH;
    const struct reader *reader = reader_of(choice);
    bool pools = reader && reader->kind == LS_LAYER_GLOBAL_AVERAGE_POOLING1D;
    if (reader) layers[count++] = ls_embedding(words, width, .sparse = true);
    if (pools && !each) layers[count++] = ls_global_average_pooling1d();
    if (reader && !pools) layers[count++] = (ls_layer){.kind = reader->kind, .units = width, .return_sequences = each};
    for (int i = 0; i < choice->hidden_count; i++)
        layers[count++] = ls_dense(choice->hidden[i], LS_RELU, .per_position = each);
    layers[count++] = ls_dense(classes, .per_position = each);
    set_regularizers(choice, layers, count);
    return ls_model_new(strategy, layers, count, model);
}

static void set_batch_norm(const struct ls_train_model *choice, ls_layer *layers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (layers[i].kind != LS_LAYER_BATCH_NORMALIZATION) continue;
        if (choice->norm_momentum > 0) layers[i].momentum = choice->norm_momentum;
        layers[i].synchronized |= choice->synchronized;
        layers[i].fused |= choice->fused;
    }
}

static ls_status make_layers(const struct ls_train_model *choice, ls_strategy *strategy, ls_layer *layers, size_t count,
                             ls_model **model) {
    set_batch_norm(choice, layers, count);
    set_regularizers(choice, layers, count);
    ls_status status = ls_model_new(strategy, layers, count, model);
    ls_memory_free(layers);
    return status;
}

/* Of who is said by a file. */
static ls_status make_saved(const struct ls_train_model *choice, ls_strategy *strategy, int classes, ls_model **model) {
    ls_layer *layers = NULL;
    size_t count = 0;
    (void)classes; /* the last layer has as many outputs as it had */
    ls_status status = ls_tools_about_layers(choice->said, choice->said_by, &layers, &count);
    return status ? status : make_layers(choice, strategy, layers, count, model);
}

static ls_status make_application(const struct ls_train_model *choice, ls_strategy *strategy, int classes,
                                  ls_model **model) {
    ls_layer *layers = NULL;
    size_t count = 0;
    ls_application_options options = choice->sizes;
    options.size = sizeof(options);
    options.classes = classes;
    options.alpha = choice->alpha;
    ls_status status = ls_application(choice->name, &options, &layers, &count);
    return status ? status : make_layers(choice, strategy, layers, count, model);
}

static ls_status freeze(const struct ls_train_model *choice, ls_model *model) {
    ls_status status = LS_OK;
    if (choice->trained) status = ls_model_set_frozen(model, "*", true);
    if (!status && choice->trained) status = ls_model_set_frozen(model, choice->trained, false);
    return status || !choice->frozen ? status : ls_model_set_frozen(model, choice->frozen, true);
}

/* Prints the summary to stderr: the last line on stdout is the result's. */
static ls_status print_summary(const ls_model *model, const ls_dataset *data) {
    char *text = NULL;
    ls_status status = ls_model_summary(model, ls_dataset_shape(data), &text);
    if (!status) (void)fputs(text, stderr);
    ls_memory_free(text);
    return status;
}

/* An output a class, or a number that is wanted. */
static int count_outputs(const struct ls_train_model *choice, const ls_dataset *data) {
    ls_shape shape;
    int64_t count = 1;
    if (choice->outputs) return choice->outputs;
    if (!ls_dataset_targets(data, &shape)) return ls_dataset_num_classes(data);
    if (choice->rules.loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY && ls_dataset_whole_classes(data))
        return ls_dataset_whole_classes(data);
    for (int i = 0; i < shape.rank; i++) count *= shape.dims[i];
    return count < 1 << 24 ? (int)count : 1 << 24;
}

/* A user of Keras may have meant the integers themselves. */
static void tell_of_classes(const struct ls_train_model *choice, const ls_dataset *data) {
    if (!ls_rules_compare_numbers(&choice->rules) || !ls_dataset_num_classes(data)) return;
    (void)fprintf(stderr,
                  "lockstep: y has classes: %s compares %d outputs with rows that have a 1 at the class; for a "
                  "regression save y as float32\n",
                  ls_rules_loss(&choice->rules), ls_dataset_num_classes(data));
}

void ls_train_model_suit(struct ls_train_model *choice, const ls_dataset *data) {
    ls_shape shape;
    bool regression = ls_dataset_transform(data) && ls_dataset_targets(data, &shape);
    if (choice->loss_implied && regression) choice->rules.loss = LS_MEAN_SQUARED_ERROR;
    if (choice->loss_implied && ls_dataset_num_classes(data) && ls_dataset_targets(data, &shape))
        choice->rules.loss = LS_CATEGORICAL_CROSSENTROPY; /* of classes that are mixed */
}

typedef ls_status make_fn(const struct ls_train_model *choice, ls_strategy *strategy, int classes, ls_model **model);

static make_fn *find_maker(const struct ls_train_model *choice) {
    if (choice->said) return make_saved;
    return !strcmp(choice->name, "mlp") || reader_of(choice) ? make_dense : make_application;
}

ls_status ls_train_model_make(const struct ls_train_model *choice, ls_strategy *strategy, const ls_dataset *data,
                              ls_model **model) {
    ls_status status = find_maker(choice)(choice, strategy, count_outputs(choice, data), model);
    if (ls_is_chief(strategy)) tell_of_classes(choice, data);
    if (!status) status = ls_model_seed(*model, choice->seed);
    if (!status) status = freeze(choice, *model);
    if (!status && choice->weights)
        status = ls_model_load_weights(*model, choice->weights, LS_LOAD(.skip_mismatch = choice->skip_mismatch));
    if (!status)
        status = ls_model_compile_with(*model, choice->rules.optimizer, choice->rules.loss, &choice->rules.compile);
    return status || !choice->summary || !ls_is_chief(strategy) ? status : print_summary(*model, data);
}

/* Both return how many characters there are. */
static int say_sizes(const ls_application_options *sizes, char *text, size_t size) {
    const struct {
        const char *name;
        int value;
    } rows[] = {
        {"layers", sizes->layers}, {"heads", sizes->heads}, {"kv-heads", sizes->kv_heads}, {"width", sizes->width}};
    int used = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value) used += snprintf(text + used, size - (size_t)used, " --%s %d", rows[i].name, rows[i].value);
    if (sizes->dropout > 0) used += snprintf(text + used, size - (size_t)used, " --dropout %g", (double)sizes->dropout);
    return used;
}

static int say_tokens(const struct ls_train_model *choice, char *text, size_t size) {
    static const char *const formats[] = {[LS_TOKENS_BYTES] = "bytes",
                                          [LS_TOKENS_CHARS] = "chars",
                                          [LS_TOKENS_UINT16] = "uint16",
                                          [LS_TOKENS_LLMC] = "llmc"};
    if (!choice->tokens) return 0;
    int used = snprintf(text, size, " --tokens %s --context %lld", formats[choice->tokens], (long long)choice->context);
    if (choice->vocabulary) used += snprintf(text + used, size - (size_t)used, " --vocabulary %d", choice->vocabulary);
    return used;
}

void ls_train_model_words(const struct ls_train_model *choice, bool symmetric, char *text, size_t size) {
    bool embeds = reader_of(choice) != NULL, dense = embeds || !strcmp(choice->name, "mlp");
    int used = snprintf(text, size, "--model %s --loss %s", choice->name, ls_rules_loss(&choice->rules));
    if (dense) used += snprintf(text + used, size - (size_t)used, " --hidden %s", choice->hidden_count ? "" : "none");
    for (int i = 0; dense && i < choice->hidden_count; i++)
        used += snprintf(text + used, size - (size_t)used, i ? ",%d" : "%d", choice->hidden[i]);
    if (embeds && (choice->words || !choice->tokens))
        used += snprintf(text + used, size - (size_t)used, " --embedding %dx%d", choice->words ? choice->words : WORDS,
                         choice->width ? choice->width : WIDTH);
    used += say_sizes(&choice->sizes, text + used, size - (size_t)used);
    used += say_tokens(choice, text + used, size - (size_t)used);
    if (choice->alpha > 0) used += snprintf(text + used, size - (size_t)used, " --alpha %g", (double)choice->alpha);
    if (symmetric) (void)snprintf(text + used, size - (size_t)used, " --symmetric");
}

bool ls_train_model_takes_ids(const struct ls_train_model *choice) {
    return choice->said ? choice->said->integers : reader_of(choice) || ls_train_model_is_transformer(choice);
}

const char *ls_train_model_dataset(const struct ls_train_model *choice) {
    return ls_train_model_takes_ids(choice) ? "words" : "digits";
}

/* "10000x16": rows and what they hold. */
static bool read_table(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                       void *field) {
    (void)option;
    struct ls_train_model *choice = field;
    int length = 0;
    if (sscanf(text, "%9dx%9d%n", &choice->words, &choice->width, &length) == 2 && !text[length] && choice->words > 0 &&
        choice->width > 0)
        return true;
    return LS_REFUSE(line, "--embedding '%s' is no ROWSxWIDTH such as 10000x16", text);
}

static bool read_hidden(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    struct ls_train_model *choice = field;
    char copy[512], *list = copy;
    choice->hidden_count = 0;
    if (!strcasecmp(text, "none")) return true;
    if (!*text) return LS_REFUSE(line, "--hidden is empty; say 'none' for a linear model");
    if (strlen(text) >= sizeof(copy)) return LS_REFUSE(line, "--hidden '%.40s...' is too long", text);
    memcpy(copy, text, strlen(text) + 1);
    for (char *word; (word = ls_next_word(&list));) {
        int64_t units;
        if (choice->hidden_count == LS_MAX_HIDDEN)
            return LS_REFUSE(line, "--hidden '%s' has more than %d layers", text, LS_MAX_HIDDEN);
        if (!ls_option_integer(line, option, word, 1, 1 << 24, &units)) return false;
        choice->hidden[choice->hidden_count++] = (int)units;
    }
    return true;
}

/* No name of a model has a dot or a slash. */
static bool read_model(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                       void *field) {
    struct ls_train_model *choice = field;
    choice->file = strpbrk(text, "./") ? text : NULL;
    choice->name = LS_SAVED_NAME;
    if (choice->file) return true;
    int place = ls_option_word(line, "--model", text, option->words);
    if (place >= 0) choice->name = option->words[place];
    return place >= 0;
}

static const char *const models[] = {"mlp",      "embedding", "lstm", "gru",   "lenet", "mobilenet_v2",
                                     "resnet50", "gpt",       "gpt2", "llama", NULL};

#define SIZE(field) LS_OPTION_AT(struct ls_train_model, sizes.field)
const struct ls_option ls_model_options[] = {
    {"model", NULL,
     "(default mlp: layers of --hidden units with ReLU, then one unit a class); embedding: the mean of the rows of an "
     "example's integers in a table, then as mlp; lstm and gru: a recurrent layer in place of the mean, as wide as the "
     "table; gpt, gpt2 and llama predict the next of a file's --tokens; the "
     "others are for images of any size; or a FILE with a dot in its name, of --save-best, --checkpoint or "
     "ls_model_save: its layers, and its weights unless --weights is given; or so a FOLDER with a slash in its name, "
     "of "
     "Hugging Face's config.json",
     0, LS_OPTION_READ, .words = models, .read = read_model},
    {"hidden", "A,B,...",
     "units of hidden layers of mlp, embedding, lstm and gru; 'none' for a linear model (default 128,64)", 0,
     LS_OPTION_READ, .read = read_hidden},
    {"embedding", "ROWSxWIDTH", "the table of embedding, lstm and gru (default 10000x16)", 0, LS_OPTION_READ,
     .read = read_table},
    {"alpha", "X", "multiplier of mobilenet_v2's widths (default 1)", LS_OPTION_AT(struct ls_train_model, alpha), 0.01,
     16},
    {"layers", "N", "blocks of a transformer (default 4; gpt2 12)", SIZE(layers), 1, 512},
    {"heads", "N", "of its attention (default 4; gpt2 12)", SIZE(heads), 1, 1 << 16},
    {"kv-heads", "N", "of keys and values (default as many as --heads)", SIZE(kv_heads), 1, 1 << 16},
    {"width", "N", "of its layers, which --heads divides (default 128; gpt2 768)", SIZE(width), 1, 1 << 20},
    {"dropout", "RATE", "of what its blocks add (default 0)", SIZE(dropout), 1e-6, 0.999999},
    {0}};
