/* Device memory, of which every allocation has pages of its own that exist while a stream works; no address is used
 * twice. Pinned host memory is ordinary memory that is known here. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulated.h"

#define PAGE         ((size_t)4096)
#define ALIGN        ((size_t)256)     /* of device memory */
#define ADDRESS      ((size_t)1 << 40) /* bytes of address space */
#define MOST_DEVICES 64

struct block {
    char *pages, *data; /* data ends, rounded up, where the pages end */
    size_t paged, size;
    int device;
};
static struct {
    char *base;
    size_t used; /* of the address space */
    struct block *blocks;
    struct pinned {
        char *data;
        size_t size;
        bool registered; /* by cudaHostRegister */
    } * pinned;
    size_t count, pinned_count, capacity, pinned_capacity;
    bool visible;
    size_t most[MOST_DEVICES]; /* bytes that were in use at once */
} memory;

static _Noreturn void die(const char *what) {
    (void)fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}

/* One row more of a list. */
static void *append(void *list, size_t *count, size_t *capacity, size_t size) {
    if (*count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 64;
        list = realloc(list, *capacity * size);
        if (!list) die("no memory");
    }
    ++*count;
    return list;
}

static void protect(const struct block *block, bool visible) {
    if (mprotect(block->pages, block->paged, visible ? PROT_READ | PROT_WRITE : PROT_NONE)) die("mprotect");
}

void ls_emulated_show(bool visible) {
    if (memory.visible == visible) return;
    memory.visible = visible;
    for (size_t i = 0; i < memory.count; i++) protect(&memory.blocks[i], visible);
}

static const struct block *find(const void *data) {
    const char *at = data;
    for (size_t i = 0; i < memory.count; i++)
        if (at >= memory.blocks[i].pages && at < memory.blocks[i].pages + memory.blocks[i].paged)
            return &memory.blocks[i];
    return NULL;
}

static const struct pinned *find_pinned(const void *data, size_t size) {
    const char *at = data;
    for (size_t i = 0; i < memory.pinned_count; i++) {
        const struct pinned *row = &memory.pinned[i];
        if (at >= row->data && at + size <= row->data + row->size) return row;
    }
    return NULL;
}

enum ls_emulated_place ls_emulated_place_of(const void *data, size_t size) {
    const char *at = data;
    if (memory.base && at >= memory.base && at < memory.base + ADDRESS) {
        const struct block *block = find(data);
        bool inside = block && at >= block->data && at + size <= block->data + block->size;
        return inside ? LS_EMULATED_DEVICE : LS_EMULATED_BAD;
    }
    return find_pinned(data, size) ? LS_EMULATED_PINNED : LS_EMULATED_PAGEABLE;
}

int ls_emulated_memory_device(const void *data) {
    return ls_emulated_place_of(data, 1) == LS_EMULATED_DEVICE ? find(data)->device : -1;
}

bool ls_emulated_is_device(const void *data, size_t size) {
    return ls_emulated_place_of(data, size) == LS_EMULATED_DEVICE;
}

/* ---- device memory ---- */

static size_t limit(void) {
    const char *text = getenv("LOCKSTEP_EMULATED_MEMORY");
    return text ? (size_t)strtoull(text, NULL, 10) : (size_t)4 << 30;
}

static size_t used(int device) {
    size_t sum = 0;
    for (size_t i = 0; i < memory.count; i++)
        if (memory.blocks[i].device == device) sum += memory.blocks[i].size;
    return sum;
}

static void note_most(int device) {
    size_t now = used(device);
    if (device < MOST_DEVICES && now > memory.most[device]) memory.most[device] = now;
}

static void reserve(void) {
    if (memory.base) return;
    void *base = mmap(NULL, ADDRESS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) die("no address space");
    memory.base = base;
}

static cudaError_t allocate(void **data, size_t size) {
    size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN, paged = (rounded + PAGE - 1) / PAGE * PAGE;
    *data = NULL;
    if (!size) return cudaSuccess;
    if (size > limit() || used(ls_emulated_current()) + size > limit()) return cudaErrorMemoryAllocation;
    reserve();
    if (memory.used + paged + PAGE > ADDRESS) die("the address space is used up");
    memory.blocks = append(memory.blocks, &memory.count, &memory.capacity, sizeof(*memory.blocks));
    struct block *made = &memory.blocks[memory.count - 1];
    *made = (struct block){memory.base + memory.used, NULL, paged, size, ls_emulated_current()};
    made->data = made->pages + paged - rounded;
    memory.used += paged + PAGE; /* the next page is never there */
    protect(made, true);
    memset(made->pages, 0xFF, paged); /* no numbers; and what watches the ends */
    if (!memory.visible) protect(made, false);
    note_most(made->device);
    *data = made->data;
    return cudaSuccess;
}

static bool all_watched(const char *from, const char *to) {
    for (; from < to; from++)
        if (*from != (char)0xFF) return false;
    return true;
}

static cudaError_t release(void *data) {
    const struct block *block = find(data);
    if (!data) return cudaSuccess;
    if (!block || block->data != data) return cudaErrorInvalidValue;
    protect(block, true);
    if (!all_watched(block->pages, block->data) || !all_watched(block->data + block->size, block->pages + block->paged))
        die("something was written beside an allocation of device memory");
    if (madvise(block->pages, block->paged, MADV_DONTNEED)) die("madvise");
    protect(block, false);
    memory.blocks[block - memory.blocks] = memory.blocks[--memory.count];
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **data, size_t size) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess) error = allocate(data, size);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaFree(void *data) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess) error = release(data);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaMallocAsync(void **data, size_t size, cudaStream_t stream) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess) error = ls_emulated_check_stream(stream, false);
    if (error == cudaSuccess) error = allocate(data, size);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

static int run_free(void *work) {
    if (release(*(void **)work) != cudaSuccess) die("a stream frees what is no device memory, or not any more");
    return 1;
}

cudaError_t cudaFreeAsync(void *data, cudaStream_t stream) {
    ls_emulated_lock();
    bool known = ls_emulated_place_of(data, 1) == LS_EMULATED_DEVICE;
    cudaError_t error = ls_emulated_refusal(false);
    ls_emulated_unlock();
    if (error == cudaSuccess && !known) error = cudaErrorInvalidValue;
    if (error == cudaSuccess) error = ls_emulated_queue(stream, run_free, &data, sizeof(data));
    return ls_emulated_answer(error);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    ls_emulated_lock();
    if (left) *left = limit() - used(ls_emulated_current());
    *total = limit();
    ls_emulated_unlock();
    return cudaSuccess;
}

/* ---- pools: there is one a device, and nothing to set ---- */

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    *pool = (cudaMemPool_t)(uintptr_t)(device + 1);
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    (void)attribute;
    return ls_emulated_answer(pool && value ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    uintptr_t device = (uintptr_t)pool - 1;
    if (!pool || device >= MOST_DEVICES || !value || attribute != cudaMemPoolAttrUsedMemHigh)
        return ls_emulated_answer(cudaErrorInvalidValue);
    ls_emulated_lock();
    *(uint64_t *)value = memory.most[device];
    ls_emulated_unlock();
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (rows[i].location.type != cudaMemLocationTypeDevice || rows[i].location.id + 1 == (int)(uintptr_t)pool)
            return ls_emulated_answer(cudaErrorInvalidValue);
    return cudaSuccess;
}

/* ---- pinned host memory ---- */

static cudaError_t pin(void *data, size_t size, bool registered) {
    const char *from = data, *to = from + size;
    for (size_t i = 0; i < memory.pinned_count; i++)
        if (from < memory.pinned[i].data + memory.pinned[i].size && to > memory.pinned[i].data)
            return cudaErrorHostMemoryAlreadyRegistered;
    memory.pinned = append(memory.pinned, &memory.pinned_count, &memory.pinned_capacity, sizeof(*memory.pinned));
    memory.pinned[memory.pinned_count - 1] = (struct pinned){data, size, registered};
    return cudaSuccess;
}

static cudaError_t unpin(void *data, bool registered) {
    for (size_t i = 0; i < memory.pinned_count; i++) {
        if (memory.pinned[i].data != data || memory.pinned[i].registered != registered) continue;
        memory.pinned[i] = memory.pinned[--memory.pinned_count];
        return cudaSuccess;
    }
    return registered ? cudaErrorHostMemoryNotRegistered : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void **data, size_t size, unsigned flags) {
    void *made = NULL;
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess && flags & ~7U) error = cudaErrorInvalidValue;
    if (error == cudaSuccess && size > limit()) error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess && posix_memalign(&made, PAGE, size ? size : 1)) error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) error = pin(made, size, false);
    if (error == cudaSuccess) memset(made, 0xFF, size);
    ls_emulated_unlock();
    if (error == cudaSuccess) *data = made;
    return ls_emulated_answer(error);
}

static bool never_ends;

void ls_emulated_never_ends(void) {
    ls_emulated_lock();
    never_ends = true;
    ls_emulated_unlock();
}

/* It waits for all that runs. */
cudaError_t cudaFreeHost(void *data) {
    ls_emulated_lock();
    while (never_ends) ls_emulated_yield();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess && data) error = unpin(data, false);
    if (error == cudaSuccess) free(data);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaHostRegister(void *data, size_t size, unsigned flags) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess && (!data || !size || flags & ~15U)) error = cudaErrorInvalidValue;
    if (error == cudaSuccess) error = pin(data, size, true);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaHostUnregister(void *data) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess) error = unpin(data, true);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *data) {
    static const enum cudaMemoryType types[] = {[LS_EMULATED_PAGEABLE] = cudaMemoryTypeUnregistered,
                                                [LS_EMULATED_PINNED] = cudaMemoryTypeHost,
                                                [LS_EMULATED_DEVICE] = cudaMemoryTypeDevice,
                                                [LS_EMULATED_BAD] = cudaMemoryTypeUnregistered};
    ls_emulated_lock();
    *attributes = (struct cudaPointerAttributes){.type = types[ls_emulated_place_of(data, 1)], .device = -2};
    if (attributes->type == cudaMemoryTypeDevice) attributes->device = find(data)->device;
    ls_emulated_unlock();
    return cudaSuccess;
}
