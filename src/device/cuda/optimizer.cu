/* Optimizers: a block takes a chunk of a variable, so values that differ between variables are the same for all its
 * threads. Regularisers, clipping and weight decay are applied on the way, so that a step without norms is one pass:
 * each blob is read once, and all but the gradients are written once (Adam: 28 bytes a parameter). Norms are summed in
 * double, over chunks, then over a part's chunks, in a fixed order; they never leave the device. */
#include "device/cuda/kernels_elements.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/reduce.cuh"

#define PACK 4 /* floats */

namespace {

/* ---- a chunk, and the few elements of it that a thread takes at once ---- */

struct chunk {
    int64_t offset;
    int count;
    bool aligned;
    struct ls_cuda_part part;
    float factor; /* of the gradient, by clipping */
};

__device__ struct chunk find_chunk(const struct ls_cuda_update &u) {
    const struct ls_cuda_chunk at = u.chunks[blockIdx.x];
    uintptr_t all = reinterpret_cast<uintptr_t>(u.w) | reinterpret_cast<uintptr_t>(u.g);
    for (int i = 0; i < LS_MAX_MOMENTS; i++) all |= reinterpret_cast<uintptr_t>(u.moments[i]);
    bool clips = u.rule && (u.rule->clipnorm > 0 || u.rule->global_clipnorm > 0);
    return {at.offset, at.count, all % 16 == 0 && at.offset % PACK == 0, u.parts[at.part],
            clips ? u.factors[at.part] : 1};
}

/* With the rate of the chunk's variable. */
__device__ struct ls_cuda_rule rule_for(const struct ls_cuda_update &u, const struct chunk &chunk) {
    struct ls_cuda_rule rule = *u.rule;
    rule.rate *= chunk.part.rate;
    rule.alpha *= chunk.part.rate;
    return rule;
}

struct span {
    int64_t at;
    int count;
    bool packed;
};

/* Spans of a chunk begin at 0, PACK, ... A pack needs 16-byte alignment of all blobs at once, so that one test decides
 * for all of them; the last elements of a chunk go one by one. */
__device__ struct span span_of(const struct chunk &chunk, int begin) {
    int rest = chunk.count - begin;
    return {chunk.offset + begin, rest < PACK ? rest : PACK, chunk.aligned && rest >= PACK};
}

__device__ void read_span(const float *blob, const struct span &span, float values[PACK]) {
    if (span.packed)
        ls_read_pack<float, PACK>(blob + span.at, values);
    else
        for (int k = 0; k < PACK; k++) values[k] = k < span.count ? blob[span.at + k] : 0;
}

__device__ void write_span(float *blob, const struct span &span, const float values[PACK]) {
    if (span.packed)
        ls_write<float, PACK>(blob + span.at, values);
    else
        for (int k = 0; k < PACK; k++)
            if (k < span.count) blob[span.at + k] = values[k];
}

__device__ int first_span() {
    return static_cast<int>(threadIdx.x) * PACK;
}
#define NEXT_SPAN (LS_THREADS * PACK)

/* ---- what comes before a rule ---- */

/* With the regularisers' gradients. */
__device__ float whole_gradient(const struct ls_cuda_rule &rule, const struct ls_cuda_part &part, float g, float w) {
    g *= rule.unscale;
    if (!(part.l1 > 0 || part.l2 > 0)) return g;
    float sign = static_cast<float>(w > 0) - static_cast<float>(w < 0);
    return g + (part.l2 * (2 * w) + part.l1 * sign);
}

__device__ float clipped_gradient(const struct ls_cuda_rule &rule, const struct chunk &chunk, float g, float w) {
    g = whole_gradient(rule, chunk.part, g, w) * chunk.factor;
    if (rule.clipvalue > 0) g = g > rule.clipvalue ? rule.clipvalue : g < -rule.clipvalue ? -rule.clipvalue : g;
    return g;
}

__device__ float decayed(const struct ls_cuda_rule &rule, const struct chunk &chunk, float w) {
    return chunk.part.decays && rule.weight_decay > 0 ? w - w * rule.weight_decay * rule.rate : w;
}

/* ---- norms ---- */

__device__ double square_of(float value) {
    return static_cast<double>(value) * static_cast<double>(value);
}

__global__ void add_gradients(struct ls_cuda_update u) {
    const struct ls_cuda_rule rule = *u.rule;
    const struct chunk chunk = find_chunk(u);
    double sum = 0;
    for (int i = first_span(); i < chunk.count; i += NEXT_SPAN) {
        const struct span span = span_of(chunk, i);
        float w[PACK], g[PACK];
        read_span(u.w, span, w);
        read_span(u.g, span, g);
        for (int k = 0; k < PACK; k++) sum += square_of(whole_gradient(rule, chunk.part, g[k], w[k]));
    }
    sum = ls_block_sum(sum);
    if (threadIdx.x == 0) u.partials[blockIdx.x] = sum;
}

/* Over the chunks of a part. */
__device__ double add_partials(const double *partials, const struct ls_cuda_part &part) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < part.chunks; i += LS_THREADS) sum += partials[part.first + i];
    return ls_block_sum(sum);
}

__device__ float length_of(double squares) {
    return sqrtf(static_cast<float>(squares));
}

/* Runs a block a part: computes the variable's norm, squared after clipping, and the factor of its gradient. A norm
 * that is no number makes the gradient none either, as in Keras. */
__global__ void clip_parts(struct ls_cuda_update u) {
    const struct ls_cuda_part part = u.parts[blockIdx.x];
    double sum = add_partials(u.partials, part);
    float norm = length_of(sum), limit = u.rule->clipnorm;
    float factor = limit > 0 && part.variable && !(norm <= limit) ? limit / norm : 1;
    if (threadIdx.x != 0) return;
    u.factors[blockIdx.x] = factor;
    u.squares[blockIdx.x] = sum * square_of(factor);
}

/* One block: the norm of all. One that is not finite makes everything NaN, as in Keras, so that it is seen. u.squares
 * has the variables' norms after clipnorm; the rule allows only one of the two kinds of clipping, so factors are 1
 * before. */
__global__ void clip_all(struct ls_cuda_update u) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < u.part_count; i += LS_THREADS) sum += u.squares[i];
    float norm = length_of(ls_block_sum(sum)), limit = u.rule->global_clipnorm;
    float factor = limit * fminf(1 / norm, 1 / limit) + (norm - norm);
    for (int64_t i = threadIdx.x; i < u.part_count; i += LS_THREADS) u.factors[i] *= factor;
}

unsigned grid(int64_t count) {
    return static_cast<unsigned>(count);
}

cudaError_t find_factors(const struct ls_cuda_update *u, cudaStream_t stream) {
    if (!(u->known->clipnorm > 0 || u->known->global_clipnorm > 0)) return cudaSuccess;
    cudaError_t error = LS_LAUNCH_SYNC(add_gradients, grid(u->chunk_count), LS_THREADS, 0, stream, *u);
    if (!error) error = LS_LAUNCH_SYNC(clip_parts, grid(u->part_count), LS_THREADS, 0, stream, *u);
    if (!error && u->known->global_clipnorm > 0) error = LS_LAUNCH_SYNC(clip_all, 1, LS_THREADS, 0, stream, *u);
    return error;
}

/* ---- rules: w and its moments m are changed by g ---- */

struct plain {
    static constexpr int moments = 0;
    __device__ static void apply(const struct ls_cuda_rule &rule, float &w, float g, float *) {
        w -= g * rule.rate;
    }
};
struct heavy_ball {
    static constexpr int moments = 1;
    __device__ static void apply(const struct ls_cuda_rule &rule, float &w, float g, float *m) {
        float move = g * rule.rate;
        m[0] = m[0] * rule.momentum - move;
        w += rule.nesterov ? m[0] * rule.momentum - move : m[0];
    }
};
struct adam {
    static constexpr int moments = 2;
    __device__ static void apply(const struct ls_cuda_rule &rule, float &w, float g, float *m) {
        m[0] += (g - m[0]) * rule.rest_1;
        m[1] += (g * g - m[1]) * rule.rest_2;
        w -= m[0] * rule.alpha / (sqrtf(m[1]) + rule.epsilon);
    }
};
/* Moments: the mean square, the mean if centered, the velocity if there is momentum. */
template <bool centered, bool momentum> struct rmsprop {
    static constexpr int moments = 1 + centered + momentum;
    __device__ static void apply(const struct ls_cuda_rule &rule, float &w, float g, float *m) {
        m[0] = rule.rho * m[0] + rule.rest_rho * (g * g);
        float spread = m[0];
        if (centered) {
            m[centered] = rule.rho * m[centered] + rule.rest_rho * g;
            spread -= m[centered] * m[centered];
        }
        float move = rule.rate * g / sqrtf(spread + rule.epsilon);
        if (momentum) m[moments - 1] = move = rule.momentum * m[moments - 1] + move;
        w -= move;
    }
};

template <typename Rule>
__device__ void update_span(const struct ls_cuda_update &u, const struct ls_cuda_rule &rule, const struct chunk &chunk,
                            const struct span &span) {
    constexpr int moments = Rule::moments, room = moments ? moments : 1;
    float w[PACK], g[PACK], m[room][PACK];
    read_span(u.w, span, w);
    read_span(u.g, span, g);
    for (int j = 0; j < moments; j++) read_span(u.moments[j], span, m[j]);
    for (int k = 0; k < PACK; k++) {
        float own[room];
        for (int j = 0; j < moments; j++) own[j] = m[j][k];
        float gradient = clipped_gradient(rule, chunk, g[k], w[k]);
        w[k] = decayed(rule, chunk, w[k]);
        Rule::apply(rule, w[k], gradient, own);
        for (int j = 0; j < moments; j++) m[j][k] = own[j];
    }
    write_span(u.w, span, w);
    for (int j = 0; j < moments; j++) write_span(u.moments[j], span, m[j]);
}

template <typename Rule> __global__ void update_chunks(struct ls_cuda_update u) {
    const struct chunk chunk = find_chunk(u);
    const struct ls_cuda_rule rule = rule_for(u, chunk);
    for (int i = first_span(); i < chunk.count; i += NEXT_SPAN) update_span<Rule>(u, rule, chunk, span_of(chunk, i));
}

template <typename Rule> cudaError_t update(const struct ls_cuda_update *u, cudaStream_t stream) {
    cudaError_t error = find_factors(u, stream);
    auto *kernel = update_chunks<Rule>;
    return error ? error : LS_LAUNCH(kernel, grid(u->chunk_count), LS_THREADS, stream, *u);
}

/* ---- LAMB: Adam's direction, its length in each variable made that of the variable ---- */

__device__ float direction(const struct ls_cuda_rule &rule, float m, float v) {
    return m / rule.correction_1 / (sqrtf(v / rule.correction_2) + rule.epsilon);
}

/* Averages the moments; adds the squares of the variable and of its direction. The variable's norm is that after weight
 * decay, as on the CPU, where the decay is written before. Here it is computed again in lamb_move, which costs nothing
 * beside the reading of w. */
__global__ void lamb_average(struct ls_cuda_update u) {
    const struct chunk chunk = find_chunk(u);
    const struct ls_cuda_rule rule = rule_for(u, chunk);
    double own = 0, moves = 0;
    if (!chunk.part.variable) return;
    for (int i = first_span(); i < chunk.count; i += NEXT_SPAN) {
        const struct span span = span_of(chunk, i);
        float w[PACK], g[PACK], m[PACK], v[PACK];
        read_span(u.w, span, w);
        read_span(u.g, span, g);
        read_span(u.moments[0], span, m);
        read_span(u.moments[1], span, v);
        for (int k = 0; k < span.count; k++) {
            float gradient = clipped_gradient(rule, chunk, g[k], w[k]);
            m[k] += (gradient - m[k]) * rule.rest_1;
            v[k] += (gradient * gradient - v[k]) * rule.rest_2;
            own += square_of(decayed(rule, chunk, w[k]));
            moves += square_of(direction(rule, m[k], v[k]));
        }
        write_span(u.moments[0], span, m);
        write_span(u.moments[1], span, v);
    }
    own = ls_block_sum(own);
    moves = ls_block_sum(moves);
    if (threadIdx.x != 0) return;
    u.partials[blockIdx.x] = own;
    u.partials[u.chunk_count + blockIdx.x] = moves;
}

/* Runs a block a part: computes the trust ratio, the variable's norm over the norm of its direction. */
__global__ void lamb_trust(struct ls_cuda_update u) {
    const struct ls_cuda_part part = u.parts[blockIdx.x];
    if (!part.variable) return;
    float length = length_of(add_partials(u.partials, part));
    float moved = length_of(add_partials(u.partials + u.chunk_count, part));
    if (threadIdx.x == 0) u.trusts[blockIdx.x] = length > 0 && moved > 0 ? length / moved : 1;
}

__global__ void lamb_move(struct ls_cuda_update u) {
    const struct chunk chunk = find_chunk(u);
    const struct ls_cuda_rule rule = rule_for(u, chunk);
    if (!chunk.part.variable) return;
    float rate = rule.rate * u.trusts[u.chunks[blockIdx.x].part];
    for (int i = first_span(); i < chunk.count; i += NEXT_SPAN) {
        const struct span span = span_of(chunk, i);
        float w[PACK], m[PACK], v[PACK];
        read_span(u.w, span, w);
        read_span(u.moments[0], span, m);
        read_span(u.moments[1], span, v);
        for (int k = 0; k < PACK; k++) w[k] = decayed(rule, chunk, w[k]) - direction(rule, m[k], v[k]) * rate;
        write_span(u.w, span, w);
    }
}

/* ---- what regularisers add to the loss ---- */

__global__ void add_penalties(struct ls_cuda_update u) {
    const struct chunk chunk = find_chunk(u);
    double magnitudes = 0, squares = 0;
    bool counts = chunk.part.l1 > 0 || chunk.part.l2 > 0;
    for (int i = first_span(); counts && i < chunk.count; i += NEXT_SPAN) {
        float w[PACK];
        read_span(u.w, span_of(chunk, i), w);
        for (int k = 0; k < PACK; k++) {
            magnitudes += static_cast<double>(fabsf(w[k]));
            squares += square_of(w[k]);
        }
    }
    double sum = 0;
    if (chunk.part.l1 > 0) sum += static_cast<double>(chunk.part.l1) * ls_block_sum(magnitudes);
    if (chunk.part.l2 > 0) sum += static_cast<double>(chunk.part.l2) * ls_block_sum(squares);
    if (threadIdx.x == 0) u.partials[blockIdx.x] = sum;
}

__global__ void add_chunks(const double *partials, int64_t count, double *value) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += LS_THREADS) sum += partials[i];
    sum = ls_block_sum(sum);
    if (threadIdx.x == 0) *value = sum;
}

} // namespace

cudaError_t ls_cuda_sgd(const struct ls_cuda_update *u, cudaStream_t stream) {
    return u->moments[0] ? update<heavy_ball>(u, stream) : update<plain>(u, stream);
}

cudaError_t ls_cuda_adam(const struct ls_cuda_update *u, cudaStream_t stream) {
    return update<adam>(u, stream);
}

cudaError_t ls_cuda_rmsprop(const struct ls_cuda_update *u, cudaStream_t stream) {
    if (u->known->momentum > 0)
        return u->known->centered ? update<rmsprop<true, true>>(u, stream) : update<rmsprop<false, true>>(u, stream);
    return u->known->centered ? update<rmsprop<true, false>>(u, stream) : update<rmsprop<false, false>>(u, stream);
}

cudaError_t ls_cuda_lamb(const struct ls_cuda_update *u, cudaStream_t stream) {
    cudaError_t error = find_factors(u, stream);
    if (!error) error = LS_LAUNCH_SYNC(lamb_average, grid(u->chunk_count), LS_THREADS, 0, stream, *u);
    if (!error) error = LS_LAUNCH_SYNC(lamb_trust, grid(u->part_count), LS_THREADS, 0, stream, *u);
    return error ? error : LS_LAUNCH(lamb_move, grid(u->chunk_count), LS_THREADS, stream, *u);
}

cudaError_t ls_cuda_penalty(const struct ls_cuda_update *u, double *value, cudaStream_t stream) {
    const double *partials = u->partials;
    cudaError_t error = LS_LAUNCH_SYNC(add_penalties, grid(u->chunk_count), LS_THREADS, 0, stream, *u);
    return error ? error : LS_LAUNCH_SYNC(add_chunks, 1, LS_THREADS, 0, stream, partials, u->chunk_count, value);
}
