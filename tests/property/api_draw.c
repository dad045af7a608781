/* Handles, slots and blocks of memory for the calls of api.c. */
#include "property/api_draw.h"

struct objects objects;
struct slots slots;

static struct block { _Alignas(64) unsigned char bytes[16384]; } blocks[4];

static float features[16 * 4];
static int32_t labels[16];

/* ---- objects ---- */

static void must(ls_status status) {
    if (status) trial_fail("an object is not made: %s", ls_error());
}

static ls_status take_replica(ls_replica *replica, void *context) {
    (void)context;
    objects.replica = replica;
    return LS_OK;
}

static ls_dataset *new_dataset(void) {
    ls_dataset *dataset = NULL;
    for (int i = 0; i < 16; i++) labels[i] = i % 3;
    must(ls_dataset_arrays(features, LS_SHAPE(4), labels, 16, 3, LS_DATASET(.batch_size = 8, .workers = -1), &dataset));
    return dataset;
}

static ls_model *new_model(void) {
    ls_model *model = NULL;
    must(ls_model_new(objects.strategy, LS_LAYERS(ls_dense(3)), &model));
    return model;
}

static void be_silent(void *context, ls_log_level level, const char *line) {
    (void)context;
    (void)level;
    (void)line;
}

static ls_strategy *new_strategy(void) {
    ls_strategy *strategy = NULL;
    must(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "1", .log = be_silent), &strategy));
    return strategy;
}

static ls_communicator *new_communicator(void) {
    ls_communicator *communicator = NULL;
    must(ls_communicator_new(LS_STRATEGY(.log = be_silent), &communicator));
    return communicator;
}

/* An all-reduce of one rank, of a communicator that is closed before. */
static ls_pending *new_pending(void) {
    static float number;
    ls_pending *pending = NULL;
    ls_communicator *communicator = new_communicator();
    must(ls_communicator_negotiate(communicator));
    must(ls_all_reduce_begin(communicator, LS_ALL_REDUCE("one", &number, &number, 1), &pending));
    ls_communicator_free(communicator);
    return pending;
}

static ls_communicator *gradients_communicator; /* of objects.gradients */

static ls_gradients *new_gradients(void) {
    static float number;
    static void *const arrays[1] = {&number};
    const size_t counts[1] = {1};
    const ls_dtype dtypes[1] = {LS_FLOAT32};
    ls_gradients *gradients = NULL;
    must(ls_gradients_new(gradients_communicator, LS_GRADIENTS(arrays, counts, dtypes, 1), &gradients));
    return gradients;
}

static ls_cluster_spec *new_spec(void) {
    ls_cluster_spec *spec = NULL;
    must(ls_cluster_spec_new("{\"out\": [\"a:1\", \"b:2\"], \"loss\": {\"7\": \"c:3\"}}", &spec));
    return spec;
}

/* It waits for nobody. */
static ls_server *new_server(void) {
    ls_cluster_spec *spec = NULL;
    ls_server *server = NULL;
    must(ls_cluster_spec_new("{\"worker\": [\"a:1\"], \"ps\": [\"b:2\"]}", &spec));
    (void)setenv("LOCKSTEP_PS", "off", 1);
    must(ls_server_new(spec, "ps", 0, LS_STRATEGY(.log = be_silent), &server));
    (void)unsetenv("LOCKSTEP_PS");
    ls_cluster_spec_free(spec);
    return server;
}

void objects_make(void) {
    gradients_communicator = new_communicator();
    must(ls_communicator_negotiate(gradients_communicator));
    objects.gradients = new_gradients();
    objects.spec = new_spec();
    objects.server = new_server();
    objects.tokenizer = fresh_ls_tokenizer_p(NULL);
    objects.strategy = new_strategy();
    objects.communicator = new_communicator();
    objects.pending = new_pending();
    objects.dataset = new_dataset();
    objects.model = new_model();
    must(ls_model_compile(objects.model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    must(ls_iterator_new(objects.strategy, objects.dataset, &objects.iterator));
    must(ls_variable_new(objects.strategy, "v", LS_VARIABLE(.shape = LS_SHAPE(3), .aggregation = LS_AGGREGATE_SUM),
                         &objects.variable));
    must(ls_strategy_run(objects.strategy, take_replica, NULL));
}

void objects_free(void) {
    ls_iterator_free(objects.iterator);
    ls_model_free(objects.model);
    ls_dataset_free(objects.dataset);
    ls_communicator_release(objects.communicator, objects.memory);
    ls_pending_free(objects.pending);
    ls_gradients_free(objects.gradients);
    ls_cluster_spec_free(objects.spec);
    ls_server_free(objects.server);
    ls_tokenizer_free(objects.tokenizer);
    ls_communicator_free(gradients_communicator);
    ls_communicator_free(objects.communicator);
    ls_strategy_free(objects.strategy);
    objects = (struct objects){0};
}

/* ---- slots ---- */

bool slots_filled(void) {
    static const struct slots empty;
    return memcmp(&slots, &empty, sizeof(slots)) != 0;
}

void slots_clear(void) {
    ls_iterator_free(slots.iterator);
    ls_model_free(slots.model);
    ls_dataset_free(slots.dataset);
    ls_callback_free(slots.callback);
    ls_pending_free(slots.pending);
    ls_gradients_free(slots.gradients);
    ls_cluster_spec_free(slots.spec);
    ls_server_free(slots.server);
    ls_tokenizer_free(slots.tokenizer);
    ls_memory_free(slots.ids);
    ls_communicator_free(slots.communicator);
    ls_strategy_free(slots.strategy);
    (void)ls_tools_gpus_close(slots.gpus, LS_OK);
    ls_memory_free(slots.layers);
    ls_memory_free(slots.hosts);
    ls_tools_about_free(slots.about);
    ls_tools_events_free(slots.events);
    ls_memory_free(slots.text);
    ls_memory_free(slots.outputs);
    if (slots.memory) ls_communicator_release(objects.communicator, slots.memory); /* ls_gather's too is freed so */
    slots = (struct slots){0};
}

/* ---- texts and arrays ---- */

const char *draw_const_char_p(struct draw *draw) {
    static const char *const texts[] = {
        "",
        "cpu:0",
        "digits",
        "/nonexistent",
        "x\n",
        "a=b",
        "lenet",
        "loss",
        "\xff\xfe",
        "{}",
        "1",
        "1:2",
        "out",
        "-1",
        "gpu:0",
        "all-gather",
        "w.npz",
        "w.safetensors",
        "127.0.0.1:1",
        "chief,worker:1",
        "%s%n",
        NULL,
        "{\"cluster\": {\"worker\": [\"127.0.0.1:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 7}}"};
    const char *text = texts[draw_below(draw, sizeof(texts) / sizeof(texts[0]))];
    static char longer[5000];
    memset(longer, 'x', sizeof(longer) - 1);
    return text ? text : longer;
}

void *draw_void_p(struct draw *draw) {
    return blocks[draw_below(draw, 4)].bytes;
}

void *draw_ls_communicator_release__memory(struct draw *draw) {
    (void)draw;
    bool made = objects.memory || !ls_communicator_allocate(objects.communicator, 100, &objects.memory);
    return made ? objects.memory : NULL; /* it may be aborted */
}

ls_status *draw_ls_status_p(struct draw *draw) {
    static ls_status status;
    status = draw_ls_status(draw);
    return &status;
}

/* At most 4^3 elements, or more than there can be, or none at all. */
ls_shape draw_ls_shape(struct draw *draw) {
    ls_shape shape = {.rank = draw_once_in(draw, 6) ? draw_int(draw) : (int)draw_below(draw, 4)};
    for (int i = 0; i < LS_MAX_RANK; i++)
        shape.dims[i] = draw_once_in(draw, 8) ? draw_int64_t(draw) : (int64_t)draw_below(draw, 4);
    return shape;
}

const ls_shape *draw_const_ls_shape_p(struct draw *draw) {
    static ls_shape shapes[CELLS];
    ls_shape one = draw_ls_shape(draw);
    for (int i = 0; i < CELLS; i++) shapes[i] = draw_once_in(draw, 4) ? draw_ls_shape(draw) : one;
    return shapes;
}

const size_t *draw_const_size_t_p(struct draw *draw) {
    static size_t counts[CELLS];
    for (int i = 0; i < CELLS; i++) counts[i] = draw_size_t(draw);
    return counts;
}

const void *const *draw_const_void_p_const_p(struct draw *draw) {
    static const void *arrays[CELLS];
    for (int i = 0; i < CELLS; i++) arrays[i] = draw_once_in(draw, 8) ? NULL : draw_void_p(draw);
    return arrays;
}

const char *const *draw_const_char_p_const_p(struct draw *draw) {
    static const char *texts[CELLS];
    for (int i = 0; i < CELLS; i++) texts[i] = draw_once_in(draw, 8) ? NULL : draw_const_char_p(draw);
    return texts;
}

/* ---- structs ---- */

ls_optimizer draw_ls_optimizer(struct draw *draw) {
    ls_optimizer optimizer = ls_sgd(0.1F);
    if (draw_once_in(draw, 2)) return optimizer;
    optimizer.kind = (ls_optimizer_kind)draw_int(draw);
    optimizer.learning_rate = draw_float(draw);
    optimizer.momentum = draw_float(draw);
    optimizer.epsilon = draw_float(draw);
    optimizer.clipnorm = draw_float(draw);
    optimizer.gradient_accumulation_steps = draw_int(draw);
    optimizer.schedule.kind = (ls_rate_schedule_kind)draw_int(draw);
    optimizer.schedule.decay_steps = draw_int64_t(draw);
    optimizer.schedule.boundaries[0] = draw_int64_t(draw);
    return optimizer;
}

/* Layers of no kind follow, so that a count that is too large meets one. */
const ls_layer *draw_const_ls_layer_p(struct draw *draw) {
    static ls_layer layers[CELLS];
    memset(layers, 0, sizeof(layers));
    layers[0] = ls_dense(3);
    layers[1] = ls_dense(2);
    if (draw_once_in(draw, 2)) return layers;
    ls_layer *layer = &layers[draw_below(draw, 2)];
    layer->kind = (ls_layer_kind)draw_below(draw, 18);
    layer->units = draw_int(draw);
    layer->activation = (ls_activation)draw_int(draw);
    layer->kernel_size = draw_int(draw);
    layer->strides = draw_int(draw);
    layer->groups = draw_int(draw);
    layer->zeros[1] = draw_int(draw);
    layer->rate = draw_float(draw);
    layer->name = draw_const_char_p(draw);
    layer->input = draw_once_in(draw, 2) ? draw_const_char_p(draw) : NULL;
    layer->others[0] = draw_once_in(draw, 2) ? draw_const_char_p(draw) : NULL;
    return layers;
}

const ls_callback_call *draw_const_ls_callback_call_p(struct draw *draw) {
    static const ls_callback_log logs[] = {{"accuracy", 0.5}, {"loss", 1}};
    static ls_callback_call call;
    call = (ls_callback_call){.logs = logs, .log_count = draw_below(draw, 3)};
    return &call;
}

const ls_input_context *draw_const_ls_input_context_p(struct draw *draw) {
    static ls_input_context context;
    context = (ls_input_context){draw_int(draw), draw_int(draw), draw_int(draw)};
    return &context;
}

const ls_tools_deadline *draw_const_ls_tools_deadline_p(struct draw *draw) {
    static ls_tools_deadline deadlines[CELLS];
    for (int i = 0; i < CELLS; i++)
        deadlines[i] =
            (ls_tools_deadline){"name", draw_once_in(draw, 2) ? NULL : "setting", draw_double(draw), "x", "y"};
    return deadlines;
}

static ls_status replica_returns(ls_replica *replica, void *context) {
    (void)context;
    return ls_replica_id(replica) ? LS_INTERNAL : LS_OK;
}

static ls_status replica_fails(ls_replica *replica, void *context) {
    (void)replica;
    (void)context;
    return (ls_status)77;
}

ls_replica_fn *draw_ls_replica_fn_p(struct draw *draw) {
    return draw_once_in(draw, 2) ? replica_returns : replica_fails;
}

static ls_status make_dataset(void *context, const ls_input_context *input, ls_dataset **dataset) {
    (void)context;
    (void)input;
    *dataset = new_dataset();
    return LS_OK;
}

static ls_status make_nothing(void *context, const ls_input_context *input, ls_dataset **dataset) {
    (void)context;
    (void)input;
    (void)dataset;
    return LS_OK;
}

ls_dataset_fn *draw_ls_dataset_fn_p(struct draw *draw) {
    return draw_once_in(draw, 2) ? make_dataset : make_nothing;
}

static void write_nothing(void *context, FILE *out) {
    (void)context;
    (void)out;
}

static ls_status plan_nothing(void *context, ls_strategy *strategy, int64_t batch, ls_dataset **data,
                              ls_model **model) {
    (void)context, (void)strategy, (void)batch, (void)data, (void)model;
    return LS_OK;
}

static ls_status plan_and_fail(void *context, ls_strategy *strategy, int64_t batch, ls_dataset **data,
                               ls_model **model) {
    (void)plan_nothing(context, strategy, batch, data, model);
    return LS_UNAVAILABLE;
}

ls_tools_plan_fn *draw_ls_tools_plan_fn_p(struct draw *draw) {
    return draw_once_in(draw, 2) ? plan_nothing : plan_and_fail;
}

ls_tools_write_fn *draw_ls_tools_write_fn_p(struct draw *draw) {
    (void)draw;
    return write_nothing;
}

void *draw_options(struct draw *draw, void *options, size_t known) {
    static const size_t sizes[] = {0, 1, 7, SIZE_MAX};
    size_t way = draw_below(draw, 6);
    if (way == 0) return NULL;
    if (way > 3) memset(options, 0, known), memcpy(options, &known, sizeof(known));
    if (way == 1) memcpy(options, &sizes[draw_below(draw, 4)], sizeof(size_t));
    return options;
}

/* Of one array, or of several that are few. */
const ls_all_reduce_options *draw_const_ls_all_reduce_options_p(struct draw *draw) {
    static ls_all_reduce_options options;
    options = (ls_all_reduce_options){.size = sizeof(options),
                                      .name = DRAW_OR_NULL(draw_const_char_p(draw)),
                                      .dtype = draw_ls_dtype(draw),
                                      .op = draw_ls_reduce_op(draw),
                                      .compression = DRAW_OR_ZERO(draw_ls_compression(draw)),
                                      .prescale = DRAW_OR_ZERO(draw_double(draw)),
                                      .postscale = DRAW_OR_ZERO(draw_double(draw))};
    if (draw_once_in(draw, 3)) {
        options.inputs = DRAW_OR_NULL(draw_const_void_p_const_p(draw));
        options.outputs = DRAW_OR_NULL(draw_void_p_const_p(draw));
        options.counts = DRAW_OR_NULL(draw_const_size_t_p(draw));
        options.array_count = draw_below(draw, 4);
    }
    if (!options.array_count || draw_once_in(draw, 8)) {
        options.input = DRAW_OR_NULL(draw_void_p(draw));
        options.output = DRAW_OR_NULL(draw_void_p(draw));
        options.count = draw_size_t(draw);
    }
    return draw_once_in(draw, 4) ? draw_options(draw, &options, sizeof(options)) : &options;
}

const ls_gradients_options *draw_const_ls_gradients_options_p(struct draw *draw) {
    static ls_gradients_options options;
    options = (ls_gradients_options){.size = sizeof(options),
                                     .arrays = DRAW_OR_NULL(draw_void_p_const_p(draw)),
                                     .counts = DRAW_OR_NULL(draw_const_size_t_p(draw)),
                                     .dtypes = DRAW_OR_NULL(draw_const_ls_dtype_p(draw)),
                                     .array_count = draw_below(draw, 4),
                                     .sum = draw_bool(draw),
                                     .passes = DRAW_OR_ZERO(draw_int(draw)),
                                     .predivide = DRAW_OR_ZERO(draw_double(draw))};
    return draw_once_in(draw, 4) ? draw_options(draw, &options, sizeof(options)) : &options;
}

/* ---- what is to be freed ---- */

ls_strategy *fresh_ls_strategy_p(struct draw *draw) {
    (void)draw;
    return new_strategy();
}
ls_communicator *fresh_ls_communicator_p(struct draw *draw) {
    (void)draw;
    return new_communicator();
}
const ls_dtype *draw_const_ls_dtype_p(struct draw *draw) {
    static ls_dtype dtypes[CELLS];
    for (int i = 0; i < CELLS; i++) dtypes[i] = draw_ls_dtype(draw);
    return dtypes;
}

ls_gradients *fresh_ls_gradients_p(struct draw *draw) {
    (void)draw;
    return new_gradients();
}
ls_pending *fresh_ls_pending_p(struct draw *draw) {
    (void)draw;
    return new_pending();
}
ls_tokenizer *fresh_ls_tokenizer_p(struct draw *draw) {
    (void)draw;
    ls_tokenizer *tokenizer = NULL;
    must(ls_tokenizer_new_chars("characters", 10, &tokenizer));
    return tokenizer;
}

ls_cluster_spec *fresh_ls_cluster_spec_p(struct draw *draw) {
    (void)draw;
    return new_spec();
}
ls_server *fresh_ls_server_p(struct draw *draw) {
    (void)draw;
    return new_server();
}
ls_dataset *fresh_ls_dataset_p(struct draw *draw) {
    (void)draw;
    return new_dataset();
}
ls_model *fresh_ls_model_p(struct draw *draw) {
    (void)draw;
    return new_model();
}
ls_iterator *fresh_ls_iterator_p(struct draw *draw) {
    ls_iterator *iterator = NULL;
    (void)draw;
    (void)ls_iterator_new(objects.strategy, objects.dataset, &iterator); /* it may be aborted */
    return iterator;
}
ls_callback *fresh_ls_callback_p(struct draw *draw) {
    ls_callback *callback = NULL;
    (void)draw;
    must(ls_terminate_on_nan_new(&callback));
    return callback;
}
void *fresh_void_p(struct draw *draw) {
    char *text = NULL;
    (void)draw;
    must(ls_tools_build(&text));
    return text;
}
