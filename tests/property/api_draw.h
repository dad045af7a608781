/* Arguments of every type of the public functions: right ones, those at their edge and none. The results of a function
 * are kept in slots, and freed after the call. */
#pragma once
#include <limits.h>
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "property/draw.h"

enum { CELLS = 64 }; /* of an array; counts that are drawn are far below, or more than memory can hold */

/* One of each handle, alive through a round. */
struct objects {
    ls_strategy *strategy;
    ls_replica *replica;
    ls_communicator *communicator;
    ls_dataset *dataset;
    ls_model *model;
    ls_iterator *iterator;
    ls_variable *variable;
    void *memory; /* of ls_communicator_allocate */
    ls_pending *pending;
    ls_gradients *gradients;
    ls_cluster_spec *spec;
    ls_server *server;
    ls_tokenizer *tokenizer;
};
extern struct objects objects;
void objects_make(void);
void objects_free(void);

/* The results of a call. */
struct slots {
    ls_strategy *strategy;
    ls_communicator *communicator;
    ls_dataset *dataset;
    ls_model *model;
    ls_iterator *iterator;
    ls_variable *variable;
    ls_callback *callback;
    ls_layer *layers;
    ls_tools_gpus *gpus;
    ls_pending *pending;
    ls_gradients *gradients;
    ls_cluster_spec *spec;
    ls_server *server;
    ls_tools_slots *hosts;
    ls_tools_about *about;
    ls_tools_events *events;
    ls_tokenizer *tokenizer;
    int32_t *ids;
    char *text;
    void *memory;
    float *outputs;
};
extern struct slots slots;
/* True if any holds something. */
bool slots_filled(void);
void slots_clear(void);

/* ---- numbers ---- */

#define DRAW_ONE_OF(type, ...)                                                                                         \
    static const type values[] = {__VA_ARGS__};                                                                        \
    return values[draw_below(draw, sizeof(values) / sizeof(values[0]))]
#define DRAW_NUMBER(type, name, ...)                                                                                   \
    static inline type draw_##name(struct draw *draw) {                                                                \
        DRAW_ONE_OF(type, __VA_ARGS__);                                                                                \
    }
DRAW_NUMBER(int, int, INT_MIN, -1, 0, 0, 1, 1, 2, 7, INT_MAX)
DRAW_NUMBER(size_t, size_t, 0, 1, 1, 2, 5, 8, SIZE_MAX, SIZE_MAX / 2 + 1)
DRAW_NUMBER(int64_t, int64_t, INT64_MIN, -1, 0, 1, 1, 3, INT64_MAX)
DRAW_NUMBER(uint64_t, uint64_t, 0, 1, UINT64_MAX)
DRAW_NUMBER(float, float, 0.1F, 1, 0, -1, NAN, INFINITY, 1e-42F)
DRAW_NUMBER(double, double, 0.01, 0, -1, (double)NAN, (double)INFINITY)
DRAW_NUMBER(bool, bool, false, true)
#define DRAW_ENUM(name)                                                                                                \
    static inline name draw_##name(struct draw *draw) {                                                                \
        static const int values[] = {0, 0, 1, 1, 2, 3, 4, 5, 6, -1, 99, INT_MAX};                                      \
        return (name)values[draw_below(draw, sizeof(values) / sizeof(values[0]))];                                     \
    }
DRAW_ENUM(ls_status)
DRAW_ENUM(ls_dtype)
DRAW_ENUM(ls_reduce_op)
DRAW_ENUM(ls_compression)
DRAW_ENUM(ls_consistency)
DRAW_ENUM(ls_loss)
DRAW_ENUM(ls_file_format)
DRAW_NUMBER(ls_status, ls_exit__status, LS_OK)
DRAW_NUMBER(double, ls_pending_wait__seconds, 0, -1, 0.01)
DRAW_NUMBER(size_t, ls_tools_sha256__size, 0, 1, 100, 16384)
DRAW_NUMBER(size_t, ls_tools_deadlines__count, 0, 1, 5)
DRAW_NUMBER(size_t, ls_tools_settings_json__count, 0, 1, 5)
DRAW_NUMBER(int, ls_tools_timeline__count, INT_MIN, -1, 0, 1, 5)
DRAW_NUMBER(int, ls_split_counts__size, INT_MIN, -1, 0, 1, 7, CELLS)
DRAW_NUMBER(double, ls_tools_top__seconds, 0, -1, 0.01)
DRAW_NUMBER(double, ls_tools_check_connect__seconds, 0, -1, 0.01)

/* ---- texts ---- */

const char *draw_const_char_p(struct draw *draw);
#define draw_ls_tools_print_json__format(draw) "%s"
#define draw_ls_tools_fail__format(draw)       "%s"
#define draw_char_p(draw)                      ((char *)draw_void_p(draw))

/* ---- arrays: one block of memory, in which everything is read and written ---- */

void *draw_void_p(struct draw *draw);
#define DRAW_ARRAY(type, name)                                                                                         \
    static inline type *draw_##name(struct draw *draw) {                                                               \
        return draw_void_p(draw);                                                                                      \
    }
DRAW_ARRAY(const void, const_void_p)
DRAW_ARRAY(int, int_p)
DRAW_ARRAY(const int, const_int_p)
DRAW_ARRAY(bool, bool_p)
DRAW_ARRAY(float, float_p)
DRAW_ARRAY(double, double_p)
DRAW_ARRAY(int32_t, int32_t_p)
DRAW_ARRAY(int64_t, int64_t_p)
DRAW_ARRAY(size_t, size_t_p)
DRAW_ARRAY(const float, const_float_p)
DRAW_ARRAY(const int32_t, const_int32_t_p)
DRAW_ARRAY(ls_batch, ls_batch_p)
DRAW_ARRAY(ls_result, ls_result_p)
DRAW_ARRAY(ls_shape, ls_shape_p)
DRAW_ARRAY(const char *, const_char_p_p)
DRAW_ARRAY(const float *, const_float_p_p)
void *draw_ls_communicator_release__memory(struct draw *draw);
ls_status *draw_ls_status_p(struct draw *draw);
ls_shape draw_ls_shape(struct draw *draw);
const ls_shape *draw_const_ls_shape_p(struct draw *draw);
const size_t *draw_const_size_t_p(struct draw *draw);
const void *const *draw_const_void_p_const_p(struct draw *draw);
#define draw_void_p_const_p(draw) ((void *const *)draw_const_void_p_const_p(draw))
const char *const *draw_const_char_p_const_p(struct draw *draw);

/* ---- structs ---- */

ls_optimizer draw_ls_optimizer(struct draw *draw);
const ls_layer *draw_const_ls_layer_p(struct draw *draw);
const ls_callback_call *draw_const_ls_callback_call_p(struct draw *draw);
const ls_input_context *draw_const_ls_input_context_p(struct draw *draw);
const ls_tools_deadline *draw_const_ls_tools_deadline_p(struct draw *draw);
ls_replica_fn *draw_ls_replica_fn_p(struct draw *draw);
ls_dataset_fn *draw_ls_dataset_fn_p(struct draw *draw);
ls_tools_write_fn *draw_ls_tools_write_fn_p(struct draw *draw);
ls_tools_plan_fn *draw_ls_tools_plan_fn_p(struct draw *draw);

/* ---- options: none, the default, those below with something drawn, or of another size ---- */

void *draw_options(struct draw *draw, void *options, size_t known);
#define DRAW_OPTIONS(name, ...)                                                                                        \
    static inline const name *draw_const_##name##_p(struct draw *draw) {                                               \
        static name options;                                                                                           \
        options = (name){.size = sizeof(options), __VA_ARGS__};                                                        \
        return draw_options(draw, &options, sizeof(options));                                                          \
    }
DRAW_OPTIONS(ls_strategy_options, .devices = draw_const_char_p(draw), .communication = (ls_communication)draw_int(draw),
             .cross_device_ops = (ls_cross_device_ops)draw_int(draw), .bytes_per_pack = draw_size_t(draw),
             .timeout_seconds = draw_double(draw), .join_timeout_seconds = draw_double(draw),
             .tf_config = draw_const_char_p(draw), .elastic = draw_const_char_p(draw),
             .compression = draw_ls_compression(draw), .shard = (ls_sharding)draw_int(draw),
             .shard_copies = draw_int(draw), .stages = draw_int(draw))
DRAW_OPTIONS(ls_central_storage_options, .parameter_device = draw_const_char_p(draw))
DRAW_OPTIONS(ls_parameter_server_options, .replicas = draw_int(draw), .consistency = draw_ls_consistency(draw),
             .delay = draw_int(draw))
DRAW_OPTIONS(ls_local_sgd_options, .sync_every = draw_int(draw), .outer_learning_rate = draw_float(draw),
             .outer_momentum = draw_float(draw), .local_moments = draw_bool(draw), .fragments = draw_int(draw),
             .fragment_delay = draw_int(draw), .fragment_alpha = draw_float(draw))
static inline const ls_tools_plan_options *draw_const_ls_tools_plan_options_p(struct draw *draw) {
    static const char *const kinds[] = {"multi-worker", "parameter-server", "local-sgd", "central-storage", "", NULL};
    static ls_tools_plan_options options;
    options = (ls_tools_plan_options){.strategy = draw_const_ls_strategy_options_p(draw),
                                      .kind = kinds[draw_below(draw, 6)],
                                      .copies = draw_int(draw),
                                      .local = draw_const_ls_local_sgd_options_p(draw),
                                      .workers = draw_int(draw),
                                      .servers = draw_int(draw),
                                      .batch = draw_int(draw),
                                      .bits = draw_double(draw),
                                      .json = draw_bool(draw),
                                      .validates = draw_bool(draw),
                                      .memory_limit = draw_int(draw)};
    return &options;
}
static inline const ls_tools_tokens_options *draw_const_ls_tools_tokens_options_p(struct draw *draw) {
    static const char *const kinds[] = {"bytes", "bytes", "chars", "gpt2", "", NULL};
    static const char *const formats[] = {"text", "llmc", "uint16", "", NULL, NULL};
    static ls_tools_tokens_options options;
    options = (ls_tools_tokens_options){.kind = kinds[draw_below(draw, 6)],
                                        .vocabulary = draw_once_in(draw, 2) ? draw_const_char_p(draw) : NULL,
                                        .format = formats[draw_below(draw, 6)],
                                        .decode = draw_bool(draw),
                                        .special = draw_bool(draw),
                                        .documents = draw_bool(draw),
                                        .json = draw_bool(draw)};
    return &options;
}
DRAW_OPTIONS(ls_application_options, .classes = draw_once_in(draw, 4) ? -1 : 3, .alpha = draw_float(draw))
static const int32_t draw_prompt[4];
DRAW_OPTIONS(ls_generate_options, .prompt = draw_once_in(draw, 4) ? NULL : draw_prompt,
             .prompt_count = draw_below(draw, 4), .count = (int64_t)draw_below(draw, 4) - 1,
             .temperature = draw_float(draw), .top_k = draw_int(draw), .top_p = draw_float(draw),
             .context = (int64_t)draw_below(draw, 6) - 1)
DRAW_OPTIONS(ls_load_options, .skip_mismatch = draw_bool(draw))
DRAW_OPTIONS(ls_fit_options, .verbose = -1, .epochs = (int)draw_below(draw, 4) - 1,
             .steps_per_epoch = (int64_t)draw_below(draw, 4) - 1)
DRAW_OPTIONS(ls_variable_options, .dtype = draw_ls_dtype(draw), .shape = draw_ls_shape(draw),
             .initial = draw_once_in(draw, 2) ? draw_void_p(draw) : NULL,
             .synchronization = (ls_synchronization)draw_int(draw), .aggregation = (ls_aggregation)draw_int(draw))
DRAW_OPTIONS(ls_compile_options, .from_probabilities = draw_bool(draw), .label_smoothing = draw_float(draw),
             .precision = (ls_precision)draw_int(draw))
DRAW_OPTIONS(ls_early_stopping_options, .patience = draw_int(draw), .min_delta = draw_double(draw),
             .monitor = draw_const_char_p(draw))
DRAW_OPTIONS(ls_reduce_on_plateau_options, .patience = draw_int(draw), .factor = draw_float(draw),
             .monitor = draw_const_char_p(draw))
DRAW_OPTIONS(ls_model_checkpoint_options, .path = draw_const_char_p(draw))
DRAW_OPTIONS(ls_csv_logger_options, .path = draw_const_char_p(draw))
DRAW_OPTIONS(ls_tensorboard_options, .folder = draw_const_char_p(draw))
DRAW_OPTIONS(ls_kubeflow_options, .url = draw_const_char_p(draw))
DRAW_OPTIONS(ls_dataset_options, .batch_size = draw_int64_t(draw), .limit = draw_int64_t(draw),
             .repeat = draw_int64_t(draw), .skip = draw_int64_t(draw), .division = (ls_division)draw_int(draw),
             .auto_shard = (ls_auto_shard)draw_int(draw), .shuffle = (ls_shuffle)draw_int(draw),
             .workers = (int)draw_below(draw, 3) - 1, .prefetch = (int)draw_below(draw, 4) - 1,
             .image_channels = draw_int(draw), .image_height = (int)draw_below(draw, 10) - 1)
DRAW_OPTIONS(ls_arrays, .count = draw_int64_t(draw), .features = draw_float_p(draw), .shape = draw_ls_shape(draw),
             .labels = draw_once_in(draw, 2) ? draw_void_p(draw) : NULL, .classes = draw_int(draw),
             .targets = draw_once_in(draw, 2) ? draw_float_p(draw) : NULL, .target_shape = draw_ls_shape(draw),
             .sample_weights = draw_once_in(draw, 2) ? draw_float_p(draw) : NULL)
DRAW_OPTIONS(ls_write_options, .name = draw_const_char_p(draw), .shards = (int)draw_below(draw, 4) - 1,
             .quality = draw_int(draw))

/* ---- the structs of calls: mostly as drawn ---- */

#define DRAW_OR_NULL(drawn)  (draw_once_in(draw, 8) ? NULL : (drawn))
#define DRAW_OR_ZERO(drawn)  (draw_once_in(draw, 3) ? (drawn) : 0)
#define DRAW_ALLOCATED(odds) (draw_once_in(draw, odds) ? &slots.memory : NULL)
#define DRAW_CALL(type, ...)                                                                                           \
    static inline const type *draw_const_##type##_p(struct draw *draw) {                                               \
        static type options;                                                                                           \
        options = (type){.size = sizeof(options), __VA_ARGS__};                                                        \
        return draw_once_in(draw, 4) ? draw_options(draw, &options, sizeof(options)) : &options;                       \
    }
const ls_all_reduce_options *draw_const_ls_all_reduce_options_p(struct draw *draw);
const ls_gradients_options *draw_const_ls_gradients_options_p(struct draw *draw);
DRAW_CALL(ls_broadcast_options, .name = DRAW_OR_NULL(draw_const_char_p(draw)), .data = DRAW_OR_NULL(draw_void_p(draw)),
          .count = draw_size_t(draw), .dtype = draw_ls_dtype(draw), .root = DRAW_OR_ZERO(draw_int(draw)),
          .allocated = DRAW_ALLOCATED(3), .received = DRAW_OR_NULL(draw_size_t_p(draw)))
DRAW_CALL(ls_all_gather_options, .name = DRAW_OR_NULL(draw_const_char_p(draw)),
          .input = DRAW_OR_NULL(draw_void_p(draw)), .output = DRAW_OR_NULL(draw_void_p(draw)),
          .counts = DRAW_OR_NULL(draw_const_size_t_p(draw)), .dtype = draw_ls_dtype(draw), .count = draw_size_t(draw),
          .allocated = DRAW_ALLOCATED(3), .received = DRAW_OR_NULL(draw_size_t_p(draw)))
DRAW_CALL(ls_reduce_scatter_options, .name = DRAW_OR_NULL(draw_const_char_p(draw)),
          .input = DRAW_OR_NULL(draw_void_p(draw)), .output = DRAW_OR_NULL(draw_void_p(draw)),
          .counts = DRAW_OR_NULL(draw_const_size_t_p(draw)), .dtype = draw_ls_dtype(draw),
          .op = draw_ls_reduce_op(draw))
DRAW_CALL(ls_all_to_all_options, .name = DRAW_OR_NULL(draw_const_char_p(draw)),
          .input = DRAW_OR_NULL(draw_void_p(draw)), .counts = DRAW_OR_NULL(draw_const_size_t_p(draw)),
          .allocated = DRAW_ALLOCATED(1), .received = DRAW_OR_NULL(draw_size_t_p(draw)), .dtype = draw_ls_dtype(draw))
DRAW_CALL(ls_send_options, .name = DRAW_OR_NULL(draw_const_char_p(draw)), .data = DRAW_OR_NULL(draw_void_p(draw)),
          .count = draw_size_t(draw), .dtype = draw_ls_dtype(draw), .to = draw_int(draw))
DRAW_CALL(ls_receive_options, .name = DRAW_OR_NULL(draw_const_char_p(draw)), .data = DRAW_OR_NULL(draw_void_p(draw)),
          .count = draw_size_t(draw), .dtype = draw_ls_dtype(draw), .from = draw_int(draw))

/* ---- handles ---- */

#define DRAW_HANDLE(name, member)                                                                                      \
    static inline name *draw_##name##_p(struct draw *draw) {                                                           \
        (void)draw;                                                                                                    \
        return objects.member;                                                                                         \
    }                                                                                                                  \
    static inline const name *draw_const_##name##_p(struct draw *draw) {                                               \
        (void)draw;                                                                                                    \
        return objects.member;                                                                                         \
    }
#define DRAW_SLOT(type, name, member)                                                                                  \
    static inline type *draw_##name(struct draw *draw) {                                                               \
        (void)draw;                                                                                                    \
        return &slots.member;                                                                                          \
    }
DRAW_HANDLE(ls_strategy, strategy)
DRAW_HANDLE(ls_replica, replica)
DRAW_HANDLE(ls_communicator, communicator)
DRAW_HANDLE(ls_pending, pending)
DRAW_HANDLE(ls_gradients, gradients)
DRAW_HANDLE(ls_cluster_spec, spec)
DRAW_HANDLE(ls_server, server)
DRAW_HANDLE(ls_dataset, dataset)
DRAW_HANDLE(ls_model, model)
DRAW_HANDLE(ls_iterator, iterator)
DRAW_HANDLE(ls_variable, variable)
DRAW_HANDLE(ls_tokenizer, tokenizer)
DRAW_SLOT(ls_strategy *, ls_strategy_p_p, strategy)
DRAW_SLOT(ls_communicator *, ls_communicator_p_p, communicator)
DRAW_SLOT(ls_pending *, ls_pending_p_p, pending)
DRAW_SLOT(ls_gradients *, ls_gradients_p_p, gradients)
DRAW_SLOT(ls_cluster_spec *, ls_cluster_spec_p_p, spec)
DRAW_SLOT(ls_server *, ls_server_p_p, server)
DRAW_SLOT(ls_dataset *, ls_dataset_p_p, dataset)
DRAW_SLOT(ls_model *, ls_model_p_p, model)
DRAW_SLOT(ls_iterator *, ls_iterator_p_p, iterator)
DRAW_SLOT(ls_variable *, ls_variable_p_p, variable)
DRAW_SLOT(ls_tokenizer *, ls_tokenizer_p_p, tokenizer)
DRAW_SLOT(int32_t *, int32_t_p_p, ids)
DRAW_SLOT(ls_callback *, ls_callback_p_p, callback)
DRAW_SLOT(ls_layer *, ls_layer_p_p, layers)
DRAW_SLOT(ls_tools_gpus *, ls_tools_gpus_p_p, gpus)
DRAW_SLOT(ls_tools_slots *, ls_tools_slots_p_p, hosts)
DRAW_SLOT(ls_tools_about *, ls_tools_about_p_p, about)
DRAW_SLOT(ls_tools_events *, ls_tools_events_p_p, events)
DRAW_SLOT(char *, char_p_p, text)
DRAW_SLOT(void *, void_p_p, memory)
DRAW_SLOT(float *, float_p_p, outputs)
/* All that is written is lost. */
static inline FILE *draw_FILE_p(struct draw *draw) {
    static FILE *out;
    (void)draw;
    if (!out) out = fopen("/dev/null", "w");
    return out;
}
/* There are no GPUs here. */
static inline ls_tools_gpus *draw_ls_tools_gpus_p(struct draw *draw) {
    (void)draw;
    return NULL;
}
#define draw_const_ls_tools_gpus_p draw_ls_tools_gpus_p

/* For what frees it. */
ls_strategy *fresh_ls_strategy_p(struct draw *draw);
ls_communicator *fresh_ls_communicator_p(struct draw *draw);
ls_pending *fresh_ls_pending_p(struct draw *draw);
ls_gradients *fresh_ls_gradients_p(struct draw *draw);
const ls_dtype *draw_const_ls_dtype_p(struct draw *draw);
ls_cluster_spec *fresh_ls_cluster_spec_p(struct draw *draw);
ls_server *fresh_ls_server_p(struct draw *draw);
ls_dataset *fresh_ls_dataset_p(struct draw *draw);
ls_model *fresh_ls_model_p(struct draw *draw);
ls_iterator *fresh_ls_iterator_p(struct draw *draw);
ls_callback *fresh_ls_callback_p(struct draw *draw);
ls_tokenizer *fresh_ls_tokenizer_p(struct draw *draw);
void *fresh_void_p(struct draw *draw);
#define fresh_ls_tools_gpus_p draw_ls_tools_gpus_p
/* tests/cli/watch.py has files of events. */
static inline ls_tools_events *draw_ls_tools_events_p(struct draw *draw) {
    (void)draw;
    return NULL;
}
#define fresh_ls_tools_events_p draw_ls_tools_events_p
/* One that says nothing, or a layer. */
static inline const ls_tools_about *draw_const_ls_tools_about_p(struct draw *draw) {
    static char text[] = "{\"layers\": [{\"kind\": \"dense\", \"name\": \"a\", \"units\": 3}]}";
    static const ls_tools_about abouts[] = {{.text = NULL}, {.text = text}};
    return &abouts[draw_below(draw, 2)];
}
/* That of a file which says nothing. */
static inline ls_tools_about *fresh_ls_tools_about_p(struct draw *draw) {
    (void)draw;
    return NULL;
}
