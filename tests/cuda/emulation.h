/* The view of a .cu file that a C++ compiler compiles: the words of CUDA's language, as far as the plugin's kernels use
 * them, over threads.h, which runs a kernel's threads on the CPU. CUDA's own headers give the vector types and the
 * 16-bit types with their conversions. Kernels may use only the words here. Others are to be added. */
#pragma once
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tuple>

#include "runtime.h"
#include "threads.h"

#undef __shared__
#define __shared__ static /* one block runs at a time */
#define __launch_bounds__(...)
#define threadIdx (ls_emulated_here.thread)
#define blockIdx  (ls_emulated_here.block)
#define blockDim  (ls_emulated_here.block_size)
#define gridDim   (ls_emulated_here.grid_size)
#define warpSize  32

#define LS_SHARED(type, name) type *name = static_cast<type *>(ls_emulated_here.shared)
#define LS_LAUNCH(kernel, grid, block, stream, ...)                                                                    \
    ls_emulated_launch({dim3(grid), dim3(block), 0, false}, stream, kernel, __VA_ARGS__)
#define LS_LAUNCH_SYNC(kernel, grid, block, bytes, stream, ...)                                                        \
    ls_emulated_launch({dim3(grid), dim3(block), static_cast<size_t>(bytes), true}, stream, kernel, __VA_ARGS__)

/* ---- launches ---- */

template <typename... P> struct ls_emulated_call {
    struct ls_emulated_grid grid;
    void (*kernel)(P...);
    std::tuple<P...> arguments;
};

template <typename... P> void ls_emulated_run_thread(void *call) {
    auto *made = static_cast<ls_emulated_call<P...> *>(call);
    std::apply(made->kernel, made->arguments);
}

template <typename... P> int ls_emulated_run_call(void *call) {
    auto *made = static_cast<ls_emulated_call<P...> *>(call);
    ls_emulated_run_blocks(&made->grid, ls_emulated_run_thread<P...>, call);
    return 1;
}

/* The arguments are taken now, the kernel runs later. */
template <typename... P, typename... A>
cudaError_t ls_emulated_launch(struct ls_emulated_grid grid, cudaStream_t stream, void (*kernel)(P...),
                               A... arguments) {
    cudaError_t error = ls_emulated_check_grid(&grid, stream);
    if (error != cudaSuccess) return error;
    ls_emulated_call<P...> call = {grid, kernel, std::tuple<P...>(static_cast<P>(arguments)...)};
    return ls_emulated_queue(stream, ls_emulated_run_call<P...>, &call, sizeof(call));
}

/* ---- where threads meet ---- */

static inline void __syncthreads() {
    ls_emulated_meet_block();
}
static inline int __syncthreads_count(int value) {
    return ls_emulated_count_block(value != 0);
}
static inline int __syncthreads_or(int value) {
    return ls_emulated_count_block(value != 0) > 0;
}
static inline int __syncthreads_and(int value) {
    return ls_emulated_count_block(value == 0) == 0;
}
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
    (void)ls_emulated_meet_warp(mask, 0, ls_emulated_lane());
}
/* value of the lane that the calling thread names, as the hardware does it in groups of width lanes. */
template <typename T> T ls_emulated_shuffle(unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(value));
    bits = ls_emulated_meet_warp(mask, bits, source);
    memcpy(&value, &bits, sizeof(value));
    return value;
}
template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    int lane = ls_emulated_lane();
    return ls_emulated_shuffle(mask, value, (lane & ~(width - 1)) + (source & (width - 1)));
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    int lane = ls_emulated_lane(), source = lane ^ lanes;
    return ls_emulated_shuffle(mask, value, source / width == lane / width ? source : lane);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    int lane = ls_emulated_lane(), source = lane + static_cast<int>(delta);
    return ls_emulated_shuffle(mask, value, source / width == lane / width ? source : lane);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    int lane = ls_emulated_lane(), within = lane % width - static_cast<int>(delta);
    return ls_emulated_shuffle(mask, value, within >= 0 ? lane - static_cast<int>(delta) : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int value) {
    return ls_emulated_ballot(mask, value != 0);
}
static inline int __any_sync(unsigned mask, int value) {
    return ls_emulated_ballot(mask, value != 0) != 0;
}
static inline int __all_sync(unsigned mask, int value) {
    return ls_emulated_ballot(mask, value == 0) == 0;
}

/* ---- memory ---- */

template <typename T> T __ldg(const T *from) {
    return *from;
}
template <typename T> T __ldcs(const T *from) {
    return *from;
}
template <typename T> T __ldcg(const T *from) {
    return *from;
}
template <typename T> void __stcs(T *to, T value) {
    *to = value;
}
template <typename T> void __stcg(T *to, T value) {
    *to = value;
}
static inline void __threadfence() {
}
static inline void __threadfence_block() {
}
static inline void __threadfence_system() {
}

/* Of whole numbers only: sums of others must not depend on the order of threads. */
#define LS_ATOMIC(name, expression)                                                                                    \
    template <typename T> T name(T *at, T value) {                                                                     \
        static_assert(T(0.5F) == T(0), "atomics are for whole numbers");                                               \
        T old = *at;                                                                                                   \
        *at = (expression);                                                                                            \
        return old;                                                                                                    \
    }
LS_ATOMIC(atomicAdd, static_cast<T>(old + value))
LS_ATOMIC(atomicMax, old > value ? old : value)
LS_ATOMIC(atomicMin, old < value ? old : value)
LS_ATOMIC(atomicOr, static_cast<T>(old | value))
LS_ATOMIC(atomicExch, value)
#undef LS_ATOMIC
template <typename T> T atomicCAS(T *at, T expected, T value) {
    T old = *at;
    if (old == expected) *at = value;
    return old;
}

/* ---- arithmetic ---- */

#define LS_LEAST_AND_MOST(T)                                                                                           \
    static inline T min(T a, T b) {                                                                                    \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    static inline T max(T a, T b) {                                                                                    \
        return a > b ? a : b;                                                                                          \
    }
LS_LEAST_AND_MOST(int)
LS_LEAST_AND_MOST(unsigned)
LS_LEAST_AND_MOST(long)
LS_LEAST_AND_MOST(unsigned long)
LS_LEAST_AND_MOST(long long)
LS_LEAST_AND_MOST(unsigned long long)
#undef LS_LEAST_AND_MOST
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline double min(double a, double b) {
    return fmin(a, b);
}
static inline double max(double a, double b) {
    return fmax(a, b);
}

/* The C library has declared these. */
#define __expf  expf
#define __logf  logf
#define __log2f log2f
#define __sinf  sinf
#define __cosf  cosf
#define __tanhf tanhf
#define __powf  powf

#define LS_ONE(name, T, expression)                                                                                    \
    static inline T name(T x) {                                                                                        \
        return (expression);                                                                                           \
    }
#define LS_TWO(name, T, expression)                                                                                    \
    static inline T name(T x, T y) {                                                                                   \
        return (expression);                                                                                           \
    }
LS_ONE(rsqrtf, float, 1.0F / sqrtf(x))
LS_ONE(rsqrt, double, 1.0 / sqrt(x))
LS_ONE(__frsqrt_rn, float, 1.0F / sqrtf(x))
LS_ONE(__fsqrt_rn, float, sqrtf(x))
LS_ONE(__frcp_rn, float, 1.0F / x)
LS_ONE(__saturatef, float, fminf(fmaxf(x, 0.0F), 1.0F))
LS_ONE(sinpif, float, static_cast<float>(sin(3.14159265358979323846 * static_cast<double>(x))))
LS_ONE(cospif, float, static_cast<float>(cos(3.14159265358979323846 * static_cast<double>(x))))
LS_ONE(sinpi, double, sin(3.14159265358979323846 * x))
LS_ONE(cospi, double, cos(3.14159265358979323846 * x))
LS_TWO(__fadd_rn, float, x + y)
LS_TWO(__fsub_rn, float, x - y)
LS_TWO(__fmul_rn, float, x *y)
LS_TWO(__fdiv_rn, float, x / y)
LS_TWO(__dadd_rn, double, x + y)
LS_TWO(__dmul_rn, double, x *y)
LS_TWO(__ddiv_rn, double, x / y)
LS_TWO(__fdividef, float, x / y)
LS_TWO(__umulhi, unsigned, static_cast<unsigned>((static_cast<unsigned long long>(x) * y) >> 32))
LS_TWO(__umul64hi, unsigned long long, static_cast<unsigned long long>((static_cast<unsigned __int128>(x) * y) >> 64))
#undef LS_ONE
#undef LS_TWO
static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
static inline double __fma_rn(double x, double y, double z) {
    return fma(x, y, z);
}

template <typename To, typename From> To ls_emulated_bits(From from) {
    To to;
    static_assert(sizeof(to) == sizeof(from), "as many bits");
    memcpy(&to, &from, sizeof(to));
    return to;
}
static inline unsigned __float_as_uint(float x) {
    return ls_emulated_bits<unsigned>(x);
}
static inline int __float_as_int(float x) {
    return ls_emulated_bits<int>(x);
}
static inline float __uint_as_float(unsigned x) {
    return ls_emulated_bits<float>(x);
}
static inline float __int_as_float(int x) {
    return ls_emulated_bits<float>(x);
}
static inline long long __double_as_longlong(double x) {
    return ls_emulated_bits<long long>(x);
}
static inline double __longlong_as_double(long long x) {
    return ls_emulated_bits<double>(x);
}
static inline float __double2float_rn(double x) {
    return static_cast<float>(x);
}
static inline float __int2float_rn(int x) {
    return static_cast<float>(x);
}
static inline float __uint2float_rn(unsigned x) {
    return static_cast<float>(x);
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline void __trap() {
    __builtin_trap();
}
