/* Attention and positions a few at a time, behind those that are kept: against the oracle of all of them at once, and
 * the bits of it. */
#include "device/op_fixture.h"
#include "device/reference_attention.h"
#include "harness.h"

struct shape {
    int64_t rows, length, width;
    struct ls_attention asked;
};

static const struct shape shapes[] = {
    {1, 1, 1, {1, 1, true}},         {3, 9, 8, {2, 2, true}},           {1, 70, 8, {4, 2, true, 0, true}},
    {2, 130, 16, {3, 1, true}},      {2, 65, 6, {6, 3, true, 1, true}}, {1, 150, 8, {4, 2, true, 20}},
    {1, 40, 64, {2, 1, true, 1000}}, {2, 33, 2, {1, 1, true, 5, true}},
};

static int64_t pitch_of(const struct shape *s) {
    return (s->asked.heads + 2 * s->asked.kv_heads) * s->width;
}

/* All positions, and what comes of them at once and in pieces. Behind the positions kept has room. */
struct trial {
    struct shape shape;
    struct pair x, whole, pieces, kept;
    int64_t room;
};

static struct trial new_trial(const struct shape *s, int64_t room) {
    int64_t positions = s->rows * s->length, out = positions * s->asked.heads * s->width;
    int64_t kept = 2 * s->rows * s->asked.kv_heads * (s->length + room) * s->width;
    return (struct trial){*s,  make_random(1, positions * pitch_of(s)), make_pair(out), make_pair(out), make_pair(kept),
                          room};
}

static void free_trial(struct trial *t) {
    free_pair(&t->x), free_pair(&t->whole), free_pair(&t->pieces), free_pair(&t->kept);
}

static void run_whole(struct ls_device *device, const struct trial *t) {
    const struct shape *s = &t->shape;
    struct ls_op op = {.kind = LS_OP_ATTENTION_FORWARD, .attention = s->asked};
    op.tensors[LS_ARG_X] = tensor(&t->x, LS_SHAPE(s->rows, s->length, pitch_of(s)));
    op.tensors[LS_ARG_Y] = tensor(&t->whole, LS_SHAPE(s->rows, s->length, s->asked.heads * s->width));
    assert_ok(run_op(device, &op));
}

/* Positions [at, at + count) of all rows, one way or the other. */
static void move_rows(const struct shape *s, float *all, float *some, int64_t width, const int64_t range[2], bool out) {
    size_t size = (size_t)(range[1] * width) * sizeof(float);
    for (int64_t r = 0; r < s->rows; r++) {
        float *place = all + (r * s->length + range[0]) * width, *piece = some + r * range[1] * width;
        memcpy(out ? piece : place, out ? place : piece, size);
    }
}

static void run_piece(struct ls_device *device, const struct trial *t, int32_t at, int64_t count) {
    const struct shape *s = &t->shape;
    const int64_t range[2] = {at, count}, out = s->asked.heads * s->width;
    struct pair x = make_pair(s->rows * count * pitch_of(s)), y = make_pair(s->rows * count * out);
    struct ls_op op = {.kind = LS_OP_ATTENTION_DECODE, .attention = s->asked};
    move_rows(s, t->x.device, x.device, pitch_of(s), range, true);
    op.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(s->rows, count, pitch_of(s)));
    op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(s->rows, count, out));
    op.tensors[LS_ARG_AT] = (struct ls_tensor){&at, LS_INT32, LS_SHAPE(1)};
    op.tensors[LS_ARG_KEPT] = tensor(&t->kept, LS_SHAPE(s->rows, 2, s->asked.kv_heads, s->length + t->room, s->width));
    assert_ok(run_op(device, &op));
    move_rows(s, t->pieces.device, y.device, out, range, false);
    free_pair(&x), free_pair(&y);
}

/* Pieces of most positions at most, which stream draws; the first one longer: a prompt. */
static void run_pieces(struct ls_device *device, const struct trial *t, uint64_t most, uint64_t stream) {
    for (int64_t at = 0, count; at < t->shape.length; at += count) {
        count = 1 + (int64_t)(ls_random_bits(13, stream, (uint64_t)at) % (at ? most : 10 * most));
        if (count > t->shape.length - at) count = t->shape.length - at;
        run_piece(device, t, (int32_t)at, count);
    }
}

static void assert_bits(const struct pair *one, const struct pair *other) {
    for (int64_t i = 0; i < one->count; i++)
        if (memcmp(&one->device[i], &other->device[i], sizeof(float)) != 0)
            ck_abort_msg("element %lld is %.9g, and %.9g", (long long)i, (double)one->device[i],
                         (double)other->device[i]);
}

static void check_shape(const struct shape *s, uint64_t most, uint64_t stream) {
    struct ls_device *device = open_device();
    struct trial t = new_trial(s, (int64_t)(stream % 3));
    const struct reference_attention oracle = {s->asked,   s->rows,         s->length, s->width,
                                               t.x.oracle, t.pieces.oracle, NULL,      NULL};
    reference_attention_run(&oracle);
    run_pieces(device, &t, most, stream);
    assert_pair("y", &t.pieces);
    run_whole(device, &t);
    if (!device->host_memory) assert_bits(&t.whole, &t.pieces); /* a block has one query, however many there are */
    free_trial(&t);
    ls_device_close(device);
}

TEST_EACH(pieces_equal_the_oracle, 2 * (int)COUNT_OF(shapes)) {
    check_shape(&shapes[_i / 2], _i % 2 ? 7 : 1, (uint64_t)_i);
}

TEST_EACH(random_pieces_equal_the_oracle, 20) {
    uint64_t drawn[6];
    for (uint64_t i = 0; i < 6; i++) drawn[i] = ls_random_bits(17, i, (uint64_t)_i);
    int64_t kv_heads = 1 + (int64_t)(drawn[0] % 3), length = 1 + (int64_t)(drawn[1] % 140);
    const struct shape shape = {1 + (int64_t)(drawn[4] % 2),
                                length,
                                2 + 2 * (int64_t)(drawn[5] % 20),
                                {kv_heads * (1 + (int64_t)(drawn[2] % 3)), kv_heads, true,
                                 drawn[3] % 2 ? 1 + (int64_t)(drawn[3] / 2 % (uint64_t)length) : 0,
                                 drawn[0] / 3 % 2 == 0}};
    check_shape(&shape, 1 + drawn[1] / 140 % 5, (uint64_t)_i);
}

TEST_EACH(all_positions_at_once_have_the_bits_of_forward, (int)COUNT_OF(shapes)) {
    struct ls_device *device = open_device();
    struct trial t = new_trial(&shapes[_i], _i % 2);
    run_whole(device, &t);
    run_piece(device, &t, 0, t.shape.length);
    assert_bits(&t.whole, &t.pieces);
    free_trial(&t);
    ls_device_close(device);
}

TEST_EACH(the_number_of_threads_changes_no_bit, (int)COUNT_OF(shapes)) {
    struct trial trials[3];
    for (int i = 0; i < 3; i++) {
        struct ls_device *device = NULL;
        int count = 0;
        assert_ok(ls_devices_open("cpu:0", 1 + i, &device, &count));
        assert_ok(device->ops->enter(device, &(struct ls_thread_state){0}));
        trials[i] = new_trial(&shapes[_i], 0);
        run_pieces(device, &trials[i], 4, 1);
        ls_device_close(device);
    }
    for (int i = 1; i < 3; i++) {
        assert_bits(&trials[0].pieces, &trials[i].pieces);
        assert_bits(&trials[0].kept, &trials[i].kept);
    }
    for (int i = 0; i < 3; i++) free_trial(&trials[i]);
}

/* Rows of a longer table, from any of them on. */
TEST_EACH(positions_begin_where_they_are_told, 6) {
    enum { ROWS = 3, LENGTH = 5, WIDTH = 7, TABLE = 11 };
    int32_t at = _i;
    struct ls_device *device = open_device();
    struct pair x = make_random(1, (int64_t)ROWS * LENGTH * WIDTH), b = make_random(2, (int64_t)TABLE * WIDTH);
    struct pair y = make_pair(x.count);
    struct ls_op op = {.kind = LS_OP_POSITION_FORWARD};
    op.tensors[LS_ARG_X] = tensor(&x, LS_SHAPE(ROWS, LENGTH, WIDTH));
    op.tensors[LS_ARG_Y] = tensor(&y, LS_SHAPE(ROWS, LENGTH, WIDTH));
    op.tensors[LS_ARG_B] = tensor(&b, LS_SHAPE(TABLE, WIDTH));
    op.tensors[LS_ARG_AT] = (struct ls_tensor){&at, LS_INT32, LS_SHAPE(1)};
    assert_ok(run_op(device, &op));
    for (int64_t i = 0; i < x.count; i++)
        ck_assert(y.device[i] == x.device[i] + b.device[at * WIDTH + i % (LENGTH * WIDTH)]);
    free_pair(&x), free_pair(&b), free_pair(&y);
    ls_device_close(device);
}

TEST(misuse_is_named) {
    static const struct {
        struct ls_attention asked;
        ls_shape kept;
        const char *text;
    } rows[] = {{{2, 2, false}, {5, {2, 2, 2, 6, 2}}, "attention decode: it is causal"},
                {{2, 2, true}, {5, {2, 2, 2, 4, 2}}, "x has 5 positions, and kept has 4"},
                {{2, 2, true}, {4, {2, 2, 2, 12}}, "argument kept has shape (2, 2, 2, 12), but must have 5 axes"},
                {{2, 2, true}, {5, {2, 2, 1, 6, 4}}, "argument kept has shape (2, 2, 1, 6, 4), but must have"},
                {{2, 1, true}, {5, {2, 2, 1, 6, 3}}, "argument y has shape (2, 5, 5), but must have (2, 5, 6)"},
                {{3, 2, true}, {5, {2, 2, 2, 6, 2}}, "2 kv_heads do not divide 3 heads"}};
    struct ls_device *device = open_device();
    struct pair memory = make_random(1, 200);
    int32_t at = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ls_op op = {.kind = LS_OP_ATTENTION_DECODE, .attention = rows[i].asked};
        op.tensors[LS_ARG_X] = tensor(&memory, LS_SHAPE(2, 5, 12));
        op.tensors[LS_ARG_Y] = tensor(&memory, LS_SHAPE(2, 5, 4 + (int64_t)(i == 4)));
        op.tensors[LS_ARG_AT] = (struct ls_tensor){&at, LS_INT32, LS_SHAPE(1)};
        op.tensors[LS_ARG_KEPT] = tensor(&memory, rows[i].kept);
        assert_refused(device->ops->build(device, &op), rows[i].text);
    }
    free_pair(&memory);
    ls_device_close(device);
}

TESTS("decode", .seconds = 60)
