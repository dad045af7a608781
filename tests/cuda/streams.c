/* Streams and events: queues of what is to be done, and points in them. */
#define _GNU_SOURCE
#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulated.h"

static struct {
    long long done;    /* things that streams did */
    cudaError_t stays; /* after a fault */
} state;
static _Thread_local struct CUstream_st *captured; /* by this thread */

static _Noreturn void die(const char *what) {
    (void)fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}

void ls_emulated_yield(void) {
    ls_emulated_unlock();
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    ls_emulated_lock();
}

cudaError_t ls_emulated_refusal(bool captures_may) {
    if (state.stays != cudaSuccess) return state.stays;
    if (captures_may || !captured) return cudaSuccess;
    captured->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t ls_emulated_check_stream(cudaStream_t stream, bool of_device) {
    if ((uintptr_t)stream <= 2) return cudaErrorInvalidResourceHandle; /* the legacy stream waits for all others */
    if (stream->watch != LS_EMULATED_WATCH) die("a stream that is none, or not any more");
    return of_device && stream->device != ls_emulated_current() ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

int ls_emulated_stream_device(cudaStream_t stream) {
    return (uintptr_t)stream <= 2 || stream->watch != LS_EMULATED_WATCH ? -1 : stream->device;
}

bool ls_emulated_is_captured(cudaStream_t stream) {
    return stream->graph != NULL;
}

/* ---- items ---- */

struct ls_emulated_item *ls_emulated_item_new(ls_emulated_run_fn *run, const void *work, size_t size) {
    struct ls_emulated_item *item = aligned_alloc(64, (sizeof(*item) + size + 63) / 64 * 64);
    if (!item) die("no memory");
    *item = (struct ls_emulated_item){.run = run, .size = size};
    if (size) memcpy(item->work, work, size);
    return item;
}

void ls_emulated_append(struct ls_emulated_list *list, struct ls_emulated_item *item) {
    *(list->first ? &list->last->next : &list->first) = item;
    list->last = item;
}

static void drop_ticket(struct ls_emulated_ticket *ticket) {
    if (ticket && !--ticket->references) free(ticket);
}

static void reach(struct ls_emulated_ticket *ticket) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    ticket->when = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    ticket->done = true;
}

static void pop(struct CUstream_st *stream) {
    struct ls_emulated_item *item = stream->list.first;
    stream->list.first = item->next;
    if (item->marks) reach(item->marks);
    drop_ticket(item->marks);
    drop_ticket(item->awaits);
    free(item);
}

static void count_fault(void) {
    const char *text = getenv("LOCKSTEP_EMULATED_FAULT");
    if (text && ++state.done >= atoll(text)) state.stays = cudaErrorIllegalAddress;
}

static bool drive_until(struct CUstream_st *stream, const struct ls_emulated_ticket *until);

/* false: it has to wait. */
static bool do_item(struct ls_emulated_item *item) {
    if (item->awaits && !item->awaits->done) return drive_until(item->awaits->stream, item->awaits);
    if (!item->run) return true;
    ls_emulated_show(true);
    if (!item->run(item->work)) return false;
    count_fault();
    return true;
}

/* Until the ticket is reached, NULL: the end. */
static bool drive_until(struct CUstream_st *stream, const struct ls_emulated_ticket *until) {
    while (stream->list.first && !(until && until->done)) {
        if (getenv("LOCKSTEP_EMULATED_HANG") || state.stays != cudaSuccess) return false;
        if (stream->busy) die("streams wait for each other");
        stream->busy = true;
        bool done = do_item(stream->list.first);
        stream->busy = false;
        if (!done) return false;
        pop(stream);
    }
    return true;
}

static bool drive(struct CUstream_st *stream, const struct ls_emulated_ticket *until) {
    bool done = drive_until(stream, until);
    ls_emulated_show(false);
    return done;
}

bool ls_emulated_drive(cudaStream_t stream) {
    return drive(stream, NULL);
}

cudaError_t ls_emulated_put(cudaStream_t stream, ls_emulated_run_fn *run, const void *work, size_t size) {
    cudaError_t error = ls_emulated_refusal(true);
    if (error == cudaSuccess) error = ls_emulated_check_stream(stream, false);
    if (error != cudaSuccess) return error;
    if (stream->graph && captured != stream) return cudaErrorIllegalState;
    ls_emulated_append(stream->graph ? stream->graph : &stream->list, ls_emulated_item_new(run, work, size));
    return cudaSuccess;
}

cudaError_t ls_emulated_queue(cudaStream_t stream, ls_emulated_run_fn *run, const void *work, size_t size) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_put(stream, run, work, size);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    if (flags != cudaStreamNonBlocking)
        return ls_emulated_answer(cudaErrorInvalidValue); /* none that waits for others */
    struct CUstream_st *made = calloc(1, sizeof(*made));
    if (!made) return ls_emulated_answer(cudaErrorMemoryAllocation);
    made->watch = LS_EMULATED_WATCH;
    made->device = ls_emulated_current();
    *stream = made;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return cudaSuccess;
}

/* Queued work is done before. */
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_check_stream(stream, false);
    if (error == cudaSuccess && stream->graph) error = cudaErrorStreamCaptureUnsupported;
    if (error == cudaSuccess) {
        (void)drive(stream, NULL);
        while (stream->list.first) pop(stream); /* after a fault, or where it hangs */
        stream->watch = 0;
        free(stream);
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

static cudaError_t refuse_captured(cudaStream_t stream) {
    cudaError_t error = ls_emulated_check_stream(stream, false);
    if (error != cudaSuccess || !stream->graph) return error;
    stream->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    ls_emulated_lock();
    cudaError_t error = refuse_captured(stream);
    while (error == cudaSuccess && !drive(stream, NULL)) {
        error = state.stays;
        ls_emulated_yield();
    }
    if (error == cudaSuccess) error = state.stays;
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* The third question is worked for. */
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    ls_emulated_lock();
    cudaError_t error = refuse_captured(stream);
    if (error == cudaSuccess) error = state.stays;
    if (error == cudaSuccess && stream->list.first) {
        error = cudaErrorNotReady;
        if (++stream->questions >= 3) (void)drive(stream, NULL), stream->questions = 0;
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* ---- events ---- */

static bool is_event(cudaEvent_t event) {
    return event && event->watch == LS_EMULATED_WATCH;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    if (flags & ~7U) return ls_emulated_answer(cudaErrorInvalidValue);
    struct CUevent_st *made = calloc(1, sizeof(*made));
    if (!made) return ls_emulated_answer(cudaErrorMemoryAllocation);
    made->watch = LS_EMULATED_WATCH;
    made->device = ls_emulated_current();
    made->untimed = flags & cudaEventDisableTiming;
    *event = made;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!is_event(event)) return ls_emulated_answer(cudaErrorInvalidResourceHandle);
    ls_emulated_lock();
    drop_ticket(event->ticket);
    event->watch = 0;
    free(event);
    ls_emulated_unlock();
    return cudaSuccess;
}

static void record(cudaEvent_t event, cudaStream_t stream) {
    struct ls_emulated_item *item = ls_emulated_item_new(NULL, NULL, 0);
    struct ls_emulated_ticket *ticket = malloc(sizeof(*ticket));
    if (!ticket) die("no memory");
    *ticket = (struct ls_emulated_ticket){.references = 2, .stream = stream};
    drop_ticket(event->ticket);
    event->ticket = item->marks = ticket;
    ls_emulated_append(&stream->list, item);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ls_emulated_lock();
    cudaError_t error = is_event(event) ? ls_emulated_refusal(true) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) error = refuse_captured(stream);
    if (error == cudaSuccess && stream->device != event->device) error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) record(event, stream);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* An event that was never recorded holds nobody. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    ls_emulated_lock();
    cudaError_t error = is_event(event) && !flags ? ls_emulated_refusal(true) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) error = refuse_captured(stream);
    if (error == cudaSuccess && event->ticket) {
        struct ls_emulated_item *item = ls_emulated_item_new(NULL, NULL, 0);
        item->awaits = event->ticket;
        event->ticket->references++;
        ls_emulated_append(&stream->list, item);
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    ls_emulated_lock();
    cudaError_t error = is_event(event) ? ls_emulated_refusal(false) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && event->ticket && !event->ticket->done) {
        error = cudaErrorNotReady;
        if (++event->questions >= 3) (void)drive(event->ticket->stream, event->ticket), event->questions = 0;
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    ls_emulated_lock();
    cudaError_t error = is_event(event) ? ls_emulated_refusal(false) : cudaErrorInvalidResourceHandle;
    while (error == cudaSuccess && event->ticket && !event->ticket->done) {
        if (!drive(event->ticket->stream, event->ticket)) ls_emulated_yield();
        error = state.stays;
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* The emulation's device has the host's clock. */
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (!is_event(start) || !is_event(end)) return ls_emulated_answer(cudaErrorInvalidResourceHandle);
    ls_emulated_lock();
    bool timed = !start->untimed && !end->untimed && start->ticket && end->ticket;
    cudaError_t error = timed ? ls_emulated_refusal(true) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && !(start->ticket->done && end->ticket->done)) error = cudaErrorNotReady;
    if (error == cudaSuccess) *milliseconds = (float)((double)(end->ticket->when - start->ticket->when) / 1e6);
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    ls_emulated_lock();
    cudaError_t error = ls_emulated_refusal(false);
    if (error == cudaSuccess) error = refuse_captured(stream);
    if (error == cudaSuccess && mode != cudaStreamCaptureModeThreadLocal) error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        stream->graph = calloc(1, sizeof(*stream->graph));
        if (!stream->graph) die("no memory");
        stream->invalid = false;
        captured = stream;
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    *status = !stream->graph    ? cudaStreamCaptureStatusNone
              : stream->invalid ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    ls_emulated_lock();
    *graph = NULL;
    cudaError_t error = ls_emulated_check_stream(stream, false);
    if (error == cudaSuccess && (!stream->graph || captured != stream)) error = cudaErrorIllegalState;
    if (error == cudaSuccess) {
        struct ls_emulated_list *list = stream->graph;
        stream->graph = NULL;
        captured = NULL;
        if (stream->invalid) ls_emulated_free_list(list), error = cudaErrorStreamCaptureInvalidated;
        if (error == cudaSuccess) *graph = (cudaGraph_t)list;
    }
    ls_emulated_unlock();
    return ls_emulated_answer(error);
}

void ls_emulated_free_list(struct ls_emulated_list *list) {
    struct ls_emulated_item *next;
    for (struct ls_emulated_item *item = list->first; item; item = next) {
        next = item->next;
        free(item);
    }
    free(list);
}
