/* Far memory: pages that nobody may touch but the far device while it works; and the host memory that it reaches. */
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/status.h"
#include "far.h"

#define PAGE 4096U

enum { GPUS = 16 };

/* With far_lock. */
static struct {
    struct far_block *blocks;
    int opened; /* how often this memory is open now */
} gpus[GPUS];

static size_t whole_pages(size_t size) {
    return (size + PAGE) / PAGE * PAGE; /* one byte at least */
}

ls_status far_allocate(struct far_device *far, size_t size, void **memory) {
    struct far_block *block = ls_alloc(sizeof(*block));
    if (!block) return ls_fail_memory("a far block", sizeof(*block));
    block->size = whole_pages(size);
    block->wanted = size;
    void *made = mmap(NULL, block->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        ls_free(block);
        return ls_fail_memory("far memory", size);
    }
    block->memory = made;
    far_lock();
    if (gpus[far->index].opened) (void)mprotect(made, block->size, PROT_READ | PROT_WRITE);
    block->next = gpus[far->index].blocks;
    gpus[far->index].blocks = block;
    far->used += size;
    if (far->used > far->most) far->most = far->used;
    far_unlock();
    *memory = made;
    return LS_OK;
}

void far_release(struct far_device *far, void *memory) {
    far_lock();
    far_counts.hasty += far->ending > 0;
    for (struct far_block **at = &gpus[far->index].blocks; *at; at = &(*at)->next) {
        struct far_block *found = *at;
        if (found->memory != memory) continue;
        *at = found->next;
        far->used -= found->wanted;
        (void)munmap(found->memory, found->size);
        ls_free(found);
        break;
    }
    far_unlock();
}

/* Openings are counted: the first one opens, the last closing closes. */
void far_open_memory(struct far_device *far, bool open) {
    gpus[far->index].opened += open ? 1 : -1;
    if (gpus[far->index].opened != (open ? 1 : 0)) return;
    for (const struct far_block *b = gpus[far->index].blocks; b; b = b->next)
        (void)mprotect(b->memory, b->size, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool far_owns(const struct far_device *far, const void *memory, size_t size) {
    const char *begin = memory;
    for (const struct far_block *b = gpus[far->index].blocks; b; b = b->next)
        if (begin >= b->memory && begin + size <= b->memory + b->size) return true;
    return false;
}

/* ---- the host's ---- */

static struct {
    pthread_mutex_t lock;
    struct far_block *blocks; /* of all devices */
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

ls_status far_pin(void *memory, size_t size) {
    struct far_block *block = ls_alloc(sizeof(*block));
    if (!block) return ls_fail_memory("a pinned block", sizeof(*block));
    (void)pthread_mutex_lock(&host.lock);
    *block = (struct far_block){host.blocks, memory, size};
    host.blocks = block;
    (void)pthread_mutex_unlock(&host.lock);
    return LS_OK;
}

void far_unpin(void *memory) {
    (void)pthread_mutex_lock(&host.lock);
    for (struct far_block **at = &host.blocks; *at; at = &(*at)->next) {
        struct far_block *found = *at;
        if (found->memory != memory) continue;
        *at = found->next;
        ls_free(found);
        break;
    }
    (void)pthread_mutex_unlock(&host.lock);
}

ls_status far_allocate_host(size_t size, void **memory) {
    void *made = ls_alloc_aligned(size ? size : 1);
    if (!made) return ls_fail_memory("pinned memory", size);
    ls_status status = far_pin(made, size);
    if (status)
        ls_free(made);
    else
        *memory = made;
    return status;
}

void far_release_host(void *memory) {
    if (memory) far_unpin(memory);
    ls_free(memory);
}

bool far_reaches(const void *memory, size_t size) {
    const char *begin = memory;
    bool found = false;
    (void)pthread_mutex_lock(&host.lock);
    for (const struct far_block *b = host.blocks; b && !found; b = b->next)
        found = begin >= b->memory && begin + size <= b->memory + b->size;
    (void)pthread_mutex_unlock(&host.lock);
    return found;
}
