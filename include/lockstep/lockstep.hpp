/* The macros of the public API for C++17: a C program's LS_FIT(.epochs = 5) and ls_conv2d(16, 3, .padding = LS_SAME) read
 * the same. The C headers include this file in C++. Differences from C:
 *
 * - The structs of LS_FIT and its kin live until the end of the statement, not of the block: pass them as arguments.
 * - Named fields of options, optimizers, metrics and maps stand in the order of their declaration; those of layers in
 *   any order.
 * - LS_LAYERS is one argument, of the ls_model_new below. */
#include <lockstep/lockstep.h>

/* The last of the headers to end includes this with all of their macros defined. */
#if __cplusplus >= 201703L && defined(LS_CALLBACKS) && defined(LS_GRADIENTS) && defined(LS_LOCAL_SGD) && defined(LS_MAPS) && defined(LS_METRICS) && !defined(LOCKSTEP_LOCKSTEP_HPP)
#define LOCKSTEP_LOCKSTEP_HPP
#pragma GCC system_header /* designators and __VA_OPT__ are C++20, and in C++17 extensions of g++ and clang++ */
#include <initializer_list>

namespace lockstep {

/* The address of a temporary, valid until the end of the statement. */
template <class T> const T *address(const T &value) { return &value; }
template <class T, size_t count> T const *array(T const (&values)[count]) { return values; }

template <class T, class Field> Field type_of(Field T::*);

/* A struct that is being filled: by values for the fields in turn, and by the fields of structs that are not zero. */
template <class T, auto... fields> struct filling {
    T made;
    filling operator()(const T &named) const {
        filling next{made};
        auto *to = reinterpret_cast<unsigned char *>(&next.made);
        auto *from = reinterpret_cast<const unsigned char *>(&named);
        for (size_t i = 0; i < sizeof(T); i++)
            if (from[i]) to[i] = from[i];
        return next;
    }
    operator T() const { return made; }
};
template <class T, auto field, auto... fields> struct filling<T, field, fields...> {
    T made;
    filling<T, fields...> operator()(decltype(type_of(field)) value) const {
        filling<T, fields...> next{made};
        next.made.*field = value;
        return next;
    }
    filling<T> operator()(const T &named) const { return filling<T>{made}(named); }
    operator T() const { return made; }
};

template <class... Extents> ls_shape shape(Extents... extents) {
    static_assert(sizeof...(extents) >= 1 && sizeof...(extents) <= LS_MAX_RANK, "a shape has 1 to 8 extents");
    return {sizeof...(extents), {static_cast<int64_t>(extents)...}};
}
template <class... Names> ls_layer joined(ls_layer_kind kind, Names... names) {
    ls_layer layer{};
    const char *others[LS_MAX_OTHER_INPUTS] = {names...};
    layer.kind = kind;
    for (int i = 0; i < LS_MAX_OTHER_INPUTS; i++) layer.others[i] = others[i];
    return layer;
}
inline ls_layer zero_padding(int top, int bottom, int left, int right) {
    ls_layer layer{};
    layer.kind = LS_LAYER_ZERO_PADDING2D;
    layer.zeros[0] = top, layer.zeros[1] = bottom, layer.zeros[2] = left, layer.zeros[3] = right;
    return layer;
}

} // namespace lockstep

inline ls_status ls_model_new(ls_strategy *strategy, std::initializer_list<ls_layer> layers, ls_model **model) {
    return ls_model_new(strategy, layers.begin(), layers.size(), model);
}

/* Warnings that a C++17 program gets for the designators, and the braces, that these macros let it write. */
#ifdef __clang__
#define LS_QUIET_(...)                                                                                                    \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wc++20-designator\"")                           \
    _Pragma("clang diagnostic ignored \"-Wbraced-scalar-init\"")                                                          \
    _Pragma("clang diagnostic ignored \"-Wmissing-field-initializers\"") __VA_ARGS__ _Pragma("clang diagnostic pop")
#else
#define LS_QUIET_(...) __extension__ __VA_ARGS__
#endif

/* ({a})({b})({c}): each argument a call, so that a value and a named field may stand in one list. An empty last argument
 * ends the lists. */
#define LS_EACH_(...) __VA_OPT__(LS_SCAN_(LS_SCAN_(LS_NEXT_(__VA_ARGS__, ))))
#define LS_SCAN_(...) LS_SCAN2_(LS_SCAN2_(LS_SCAN2_(__VA_ARGS__)))
#define LS_SCAN2_(...) LS_SCAN3_(LS_SCAN3_(LS_SCAN3_(__VA_ARGS__)))
#define LS_SCAN3_(...) __VA_ARGS__
#define LS_NEXT_(first, ...) ({first}) __VA_OPT__(LS_AGAIN_ LS_NOTHING_()()(__VA_ARGS__))
#define LS_AGAIN_() LS_NEXT_
#define LS_NOTHING_()
/* ({a})({the others}) */
#define LS_FIRST_(...) LS_FIRST2_(__VA_ARGS__, )
#define LS_FIRST2_(first, ...) ({first}) __VA_OPT__(({__VA_ARGS__}))

#define LS_FILL_(type, kind, fields, calls) LS_QUIET_((type(lockstep::filling<type LS_UNPACK_ fields>{{kind}} calls)))
#define LS_UNPACK_(...) __VA_OPT__(, ) __VA_ARGS__
#define LS_LAYER_(kind, fields, ...) LS_FILL_(ls_layer, kind, fields, LS_EACH_(__VA_ARGS__))
#define LS_OPTIMIZER_(kind, ...)                                                                                         \
    LS_FILL_(ls_optimizer, kind, (&ls_optimizer::learning_rate, &ls_optimizer::momentum), LS_FIRST_(__VA_ARGS__))
#define LS_OPTIONS_(type, ...) LS_QUIET_((lockstep::address(type{.size = sizeof(type), __VA_ARGS__})))

#undef LS_SHAPE
#define LS_SHAPE(...) lockstep::shape(__VA_ARGS__)

#undef LS_STRATEGY
#undef LS_CENTRAL_STORAGE
#undef LS_CHECKPOINT
#undef LS_FIT
#undef LS_APPLICATION
#undef LS_LOAD
#undef LS_GENERATE
#undef LS_VARIABLE
#undef LS_COMPILE
#undef LS_EARLY_STOPPING
#undef LS_REDUCE_ON_PLATEAU
#undef LS_MODEL_CHECKPOINT
#undef LS_CSV_LOGGER
#undef LS_TENSORBOARD
#undef LS_KUBEFLOW
#undef LS_DATASET
#undef LS_ARRAYS
#undef LS_WRITE
#define LS_STRATEGY(...) LS_OPTIONS_(ls_strategy_options, __VA_ARGS__)
#define LS_CENTRAL_STORAGE(...) LS_OPTIONS_(ls_central_storage_options, __VA_ARGS__)
#define LS_PARAMETER_SERVER(...) LS_OPTIONS_(ls_parameter_server_options, __VA_ARGS__)
#define LS_LOCAL_SGD(...) LS_OPTIONS_(ls_local_sgd_options, __VA_ARGS__)
#define LS_CHECKPOINT(...) LS_OPTIONS_(ls_checkpoint_options, __VA_ARGS__)
#define LS_FIT(...) LS_OPTIONS_(ls_fit_options, __VA_ARGS__)
#define LS_APPLICATION(...) LS_OPTIONS_(ls_application_options, __VA_ARGS__)
#define LS_LOAD(...) LS_OPTIONS_(ls_load_options, __VA_ARGS__)
#define LS_GENERATE(...) LS_OPTIONS_(ls_generate_options, __VA_ARGS__)
#define LS_VARIABLE(...) LS_OPTIONS_(ls_variable_options, __VA_ARGS__)
#define LS_COMPILE(...) LS_OPTIONS_(ls_compile_options, __VA_ARGS__)
#define LS_EARLY_STOPPING(...) LS_OPTIONS_(ls_early_stopping_options, __VA_ARGS__)
#define LS_REDUCE_ON_PLATEAU(...) LS_OPTIONS_(ls_reduce_on_plateau_options, __VA_ARGS__)
#define LS_MODEL_CHECKPOINT(...) LS_OPTIONS_(ls_model_checkpoint_options, __VA_ARGS__)
#define LS_CSV_LOGGER(...) LS_OPTIONS_(ls_csv_logger_options, __VA_ARGS__)
#define LS_TENSORBOARD(...) LS_OPTIONS_(ls_tensorboard_options, __VA_ARGS__)
#define LS_KUBEFLOW(...) LS_OPTIONS_(ls_kubeflow_options, __VA_ARGS__)
#define LS_ARRAYS(...) LS_OPTIONS_(ls_arrays, __VA_ARGS__)
#define LS_DATASET(...) LS_OPTIONS_(ls_dataset_options, __VA_ARGS__)
#define LS_WRITE(...) LS_OPTIONS_(ls_write_options, __VA_ARGS__)

#undef LS_ALL_REDUCE
#undef LS_BROADCAST
#undef LS_ALL_GATHER
#undef LS_REDUCE_SCATTER
#undef LS_ALL_TO_ALL
#undef LS_SEND
#undef LS_RECEIVE
#undef LS_GRADIENTS
#define LS_CALL_(type, a, b, c, d, e, more, ...)                                                                         \
    LS_QUIET_((lockstep::address(LS_FILL_(                                                                               \
        type, sizeof(type), (&type::a, &type::b, &type::c, &type::d, &type::e LS_UNPACK_ more), LS_EACH_(__VA_ARGS__)))))
#define LS_ALL_REDUCE(...)                                                                                               \
    LS_CALL_(ls_all_reduce_options, name, input, output, count, dtype, (&ls_all_reduce_options::op), __VA_ARGS__)
#define LS_BROADCAST(...) LS_CALL_(ls_broadcast_options, name, data, count, dtype, root, (), __VA_ARGS__)
#define LS_ALL_GATHER(...) LS_CALL_(ls_all_gather_options, name, input, output, counts, dtype, (), __VA_ARGS__)
#define LS_REDUCE_SCATTER(...)                                                                                           \
    LS_CALL_(ls_reduce_scatter_options, name, input, output, counts, dtype, (&ls_reduce_scatter_options::op), __VA_ARGS__)
#define LS_ALL_TO_ALL(...)                                                                                               \
    LS_CALL_(ls_all_to_all_options, name, input, counts, allocated, received, (&ls_all_to_all_options::dtype), __VA_ARGS__)
#define LS_SEND(...) LS_CALL_(ls_send_options, name, data, count, dtype, to, (), __VA_ARGS__)
#define LS_RECEIVE(...) LS_CALL_(ls_receive_options, name, data, count, dtype, from, (), __VA_ARGS__)
#define LS_GRADIENTS(...) LS_CALL_(ls_gradients_options, arrays, counts, dtypes, array_count, sum, (), __VA_ARGS__)

#undef ls_dense
#undef ls_flatten
#undef ls_activation
#undef ls_conv2d
#undef ls_depthwise_conv2d
#undef ls_batch_normalization
#undef ls_layer_normalization
#undef ls_rms_normalization
#undef ls_max_pooling2d
#undef ls_average_pooling2d
#undef ls_global_max_pooling2d
#undef ls_global_average_pooling2d
#undef ls_add
#undef ls_multiply
#undef ls_concatenate
#undef ls_zero_padding2d
#undef ls_rescaling
#undef ls_dropout
#undef ls_embedding
#undef ls_global_average_pooling1d
#undef ls_tied_dense
#undef ls_attention
#undef ls_position_embedding
#undef ls_global_max_pooling1d
#undef ls_conv1d
#undef ls_max_pooling1d
#undef ls_average_pooling1d
#undef ls_lstm
#undef ls_gru
#undef LS_LAYERS
#define LS_WINDOW_ &ls_layer::kernel_size, &ls_layer::strides, &ls_layer::padding
#define ls_dense(...) LS_LAYER_(LS_LAYER_DENSE, (&ls_layer::units, &ls_layer::activation), __VA_ARGS__)
#define ls_flatten() LS_LAYER_(LS_LAYER_FLATTEN, (), )
#define ls_activation(...) LS_LAYER_(LS_LAYER_ACTIVATION, (&ls_layer::activation), __VA_ARGS__)
#define ls_conv2d(...) LS_LAYER_(LS_LAYER_CONV2D, (&ls_layer::units, LS_WINDOW_), __VA_ARGS__)
#define ls_depthwise_conv2d(...) LS_LAYER_(LS_LAYER_DEPTHWISE_CONV2D, (LS_WINDOW_), __VA_ARGS__)
#define ls_batch_normalization(...) LS_LAYER_(LS_LAYER_BATCH_NORMALIZATION, (), __VA_ARGS__)
#define ls_layer_normalization(...) LS_LAYER_(LS_LAYER_LAYER_NORMALIZATION, (), __VA_ARGS__)
#define ls_rms_normalization(...) LS_LAYER_(LS_LAYER_RMS_NORMALIZATION, (), __VA_ARGS__)
#define ls_max_pooling2d(...) LS_LAYER_(LS_LAYER_MAX_POOLING2D, (LS_WINDOW_), __VA_ARGS__)
#define ls_average_pooling2d(...) LS_LAYER_(LS_LAYER_AVERAGE_POOLING2D, (LS_WINDOW_), __VA_ARGS__)
#define ls_global_max_pooling2d() LS_LAYER_(LS_LAYER_GLOBAL_MAX_POOLING2D, (), )
#define ls_global_average_pooling2d() LS_LAYER_(LS_LAYER_GLOBAL_AVERAGE_POOLING2D, (), )
#define ls_add(...) lockstep::joined(LS_LAYER_ADD, __VA_ARGS__)
#define ls_multiply(...) lockstep::joined(LS_LAYER_MULTIPLY, __VA_ARGS__)
#define ls_concatenate(...) lockstep::joined(LS_LAYER_CONCATENATE, __VA_ARGS__)
#define ls_zero_padding2d(top, bottom, left, right) lockstep::zero_padding(top, bottom, left, right)
#define ls_rescaling(...) LS_LAYER_(LS_LAYER_RESCALING, (&ls_layer::scale, &ls_layer::offset), __VA_ARGS__)
#define ls_dropout(...) LS_LAYER_(LS_LAYER_DROPOUT, (&ls_layer::rate), __VA_ARGS__)
#define ls_embedding(...) LS_LAYER_(LS_LAYER_EMBEDDING, (&ls_layer::input_dim, &ls_layer::units), __VA_ARGS__)
#define ls_global_average_pooling1d() LS_LAYER_(LS_LAYER_GLOBAL_AVERAGE_POOLING1D, (), )
#define ls_tied_dense(...) LS_LAYER_(LS_LAYER_TIED_DENSE, (&ls_layer::tied), __VA_ARGS__)
#define ls_attention(...) LS_LAYER_(LS_LAYER_ATTENTION, (&ls_layer::heads), __VA_ARGS__)
#define ls_position_embedding(...) LS_LAYER_(LS_LAYER_POSITION_EMBEDDING, (), __VA_ARGS__)
#define ls_global_max_pooling1d() LS_LAYER_(LS_LAYER_GLOBAL_MAX_POOLING1D, (), )
#define ls_conv1d(...) LS_LAYER_(LS_LAYER_CONV1D, (&ls_layer::units, LS_WINDOW_), __VA_ARGS__)
#define ls_max_pooling1d(...) LS_LAYER_(LS_LAYER_MAX_POOLING1D, (LS_WINDOW_), __VA_ARGS__)
#define ls_average_pooling1d(...) LS_LAYER_(LS_LAYER_AVERAGE_POOLING1D, (LS_WINDOW_), __VA_ARGS__)
#define ls_lstm(...) LS_LAYER_(LS_LAYER_LSTM, (&ls_layer::units), __VA_ARGS__)
#define ls_gru(...) LS_LAYER_(LS_LAYER_GRU, (&ls_layer::units), __VA_ARGS__)
#define LS_LAYERS(...) std::initializer_list<ls_layer>{__VA_ARGS__}

#undef ls_sgd
#undef ls_adam
#undef ls_adamw
#undef ls_rmsprop
#undef ls_lamb
#define ls_sgd(...) LS_OPTIMIZER_(LS_OPTIMIZER_SGD, __VA_ARGS__)
#define ls_adam(...) LS_OPTIMIZER_(LS_OPTIMIZER_ADAM, __VA_ARGS__)
#define ls_adamw(...) LS_OPTIMIZER_(LS_OPTIMIZER_ADAMW, __VA_ARGS__)
#define ls_rmsprop(...) LS_OPTIMIZER_(LS_OPTIMIZER_RMSPROP, __VA_ARGS__)
#define ls_lamb(...) LS_OPTIMIZER_(LS_OPTIMIZER_LAMB, __VA_ARGS__)

#undef ls_sparse_categorical_accuracy
#undef ls_categorical_accuracy
#undef ls_binary_accuracy
#undef ls_top_k
#undef ls_mean_loss
#undef ls_mean_squared_error
#undef ls_mean_absolute_error
#undef ls_perplexity
#undef LS_METRICS
#undef LS_CLASS_WEIGHT
#define LS_METRIC_(...) LS_QUIET_((ls_metric{__VA_ARGS__}))
#define ls_sparse_categorical_accuracy() LS_METRIC_(.kind = LS_METRIC_SPARSE_CATEGORICAL_ACCURACY)
#define ls_categorical_accuracy() LS_METRIC_(.kind = LS_METRIC_CATEGORICAL_ACCURACY)
#define ls_binary_accuracy(...) LS_METRIC_(.kind = LS_METRIC_BINARY_ACCURACY, __VA_ARGS__)
#define ls_top_k(...) LS_METRIC_(.kind = LS_METRIC_TOP_K, .k = __VA_ARGS__)
#define ls_mean_loss() LS_METRIC_(.kind = LS_METRIC_MEAN_LOSS)
#define ls_mean_squared_error() LS_METRIC_(.kind = LS_METRIC_MEAN_SQUARED_ERROR)
#define ls_mean_absolute_error() LS_METRIC_(.kind = LS_METRIC_MEAN_ABSOLUTE_ERROR)
#define ls_perplexity() LS_METRIC_(.kind = LS_METRIC_PERPLEXITY)
#define LS_METRICS(...) lockstep::array<ls_metric>({__VA_ARGS__, {}})
#define LS_CLASS_WEIGHT(...) lockstep::array<ls_class_weight>({__VA_ARGS__, {-1, 0}})

#undef LS_CALLBACK
#undef LS_CALLBACKS
#define LS_CALLBACK(...) LS_QUIET_((ls_callback{.size = sizeof(ls_callback), __VA_ARGS__}))
#define LS_CALLBACKS(...) lockstep::array<ls_callback *>({__VA_ARGS__, nullptr})

#undef ls_random_flip
#undef ls_random_crop
#undef ls_central_crop
#undef ls_random_brightness
#undef ls_random_contrast
#undef ls_normalise
#undef ls_rescale
#undef ls_random_rotation
#undef ls_random_zoom
#undef ls_random_translation
#undef ls_random_hue
#undef ls_random_saturation
#undef ls_random_erasing
#undef ls_mix_up
#undef ls_map_function
#undef LS_MAPS
#define LS_CROP_(kind, ...)                                                                                              \
    LS_FILL_(ls_map, kind, (&ls_map::height, &ls_map::width, &ls_map::padding), LS_EACH_(__VA_ARGS__))
#define LS_MAP_(...) LS_QUIET_((ls_map{__VA_ARGS__}))
#define ls_random_flip() LS_MAP_(.kind = LS_MAP_FLIP)
#define ls_random_crop(...) LS_CROP_(LS_MAP_RANDOM_CROP, __VA_ARGS__)
#define ls_central_crop(...) LS_CROP_(LS_MAP_CENTRAL_CROP, __VA_ARGS__)
#define ls_random_brightness(delta) LS_MAP_(.kind = LS_MAP_BRIGHTNESS, .amount = (delta))
#define ls_random_contrast(delta) LS_MAP_(.kind = LS_MAP_CONTRAST, .amount = (delta))
#define ls_normalise(...) LS_MAP_(.kind = LS_MAP_NORMALISE, __VA_ARGS__)
#define ls_rescale(scale, shift) LS_MAP_(.kind = LS_MAP_RESCALE, .amount = (scale), .offset = (shift))
#define ls_random_rotation(...) LS_MAP_(.kind = LS_MAP_ROTATION, __VA_ARGS__)
#define ls_random_zoom(...) LS_MAP_(.kind = LS_MAP_ZOOM, __VA_ARGS__)
#define ls_random_translation(...) LS_MAP_(.kind = LS_MAP_TRANSLATION, __VA_ARGS__)
#define ls_random_hue(...) LS_MAP_(.kind = LS_MAP_HUE, __VA_ARGS__)
#define ls_random_saturation(...) LS_MAP_(.kind = LS_MAP_SATURATION, __VA_ARGS__)
#define ls_random_erasing(...) LS_MAP_(.kind = LS_MAP_ERASING, __VA_ARGS__)
#define ls_mix_up(alpha) LS_MAP_(.kind = LS_MAP_MIX_UP, .amount = (alpha))
#define ls_map_function(...) LS_FILL_(ls_map, LS_MAP_FUNCTION, (&ls_map::function), LS_FIRST_(__VA_ARGS__))
#define LS_MAPS(...) lockstep::array<ls_map>({__VA_ARGS__, {}})

#endif
