/* Sums are those of the tree over two or three workers. */
#include "sync/local_simulation.h"

#include <stdio.h>
#include <string.h>

#include "model/optimizer.h"

bool has_fragments(const struct draft *draft) {
    return draft->local.fragments > 1 || draft->local.fragment_delay > 0 || draft->local.fragment_alpha > 0;
}

ls_status open_model(struct draft *draft, ls_strategy *strategy, ls_model **model) {
    ls_status status = ls_model_new(strategy, draft->layers, draft->count, model);
    if (!status) status = ls_model_seed(*model, draft->seed);
    return status ? status : ls_model_compile(*model, draft->optimizer, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

ls_status open_data(struct toy *toy, int first, int rows, int batch, ls_dataset **data) {
    return ls_dataset_arrays(&toy->features[first][0], LS_SHAPE(WIDTH), toy->labels + first, rows, 3,
                             LS_DATASET(.batch_size = batch, .shuffle = LS_SHUFFLE_NEVER), data);
}

/* The worker's rows of the round's steps, side by side: of each batch those of its replicas. */
static int collect(const struct draft *draft, const struct toy *toy, int worker, int step, int steps, struct toy *own) {
    int before = 0, part = draft->batch / draft->replicas, rows = 0;
    for (int w = 0; w < worker; w++) before += draft->devices[w];
    for (int s = step; s < step + steps; s++)
        for (int i = 0; i < part * draft->devices[worker]; i++, rows++) {
            int from = s * draft->batch + before * part + i;
            memcpy(own->features[rows], toy->features[from], sizeof(own->features[rows]));
            own->labels[rows] = toy->labels[from];
        }
    return rows;
}

/* Returns the sum of the losses of its rows. */
static double train_alone(struct simulated *worker, struct toy *own, int rows, int steps) {
    ls_dataset *data = NULL;
    ls_result result;
    assert_ok(open_data(own, 0, rows, rows / steps, &data));
    assert_ok(ls_model_fit(worker->model, data, LS_FIT(.verbose = -1), &result));
    assert_ok(ls_model_state_get(worker->model, LS_PARTS_HERE, worker->state));
    ls_dataset_free(data);
    return result.loss * rows;
}

/* The tree over two or three workers, then the division. */
static float mean(const struct draft *draft, const float *values) {
    float sum = values[0];
    for (int w = 1; w < draft->workers; w++) sum += values[w];
    return sum / (float)draft->workers;
}

static float step_outer(const struct draft *draft, float before, float change, float *momentum) {
    float rate = draft->local.outer_learning_rate, kept = draft->local.outer_momentum;
    if (kept > 0) {
        *momentum = kept * *momentum + change;
        change += kept * *momentum;
    }
    return before - rate * change;
}

/* before: the variables at the last meeting, then those of this one. */
static void meet(const struct draft *draft, struct simulated *workers, float *before, float *momentum) {
    const ls_model *model = workers[0].model;
    size_t trained = ls_network_trainable_count(model->built.network), blob = model->built.blob_count;
    size_t floats = ls_model_state_count(model, LS_PARTS_HERE);
    bool outer = draft->local.outer_learning_rate > 0;
    float values[MOST];
    for (size_t i = 0; i < floats; i++) {
        bool changes = i < trained && outer;
        if (i >= blob && (draft->local.local_moments || i % blob >= trained)) continue;
        for (int w = 0; w < draft->workers; w++)
            values[w] = changes ? before[i] - workers[w].state[i] : workers[w].state[i];
        float met = mean(draft, values);
        if (changes) met = step_outer(draft, before[i], met, &momentum[i]);
        for (int w = 0; w < draft->workers; w++) workers[w].state[i] = met;
        if (i < blob) before[i] = met;
    }
    for (int w = 0; w < draft->workers; w++)
        assert_ok(ls_model_state_set(workers[w].model, LS_PARTS_HERE, LS_FROM_PROGRAM, workers[w].state));
}

/* ---- its fragments ---- */

struct exchange {
    int begun; /* after which step; 0: none is under way */
    size_t begin, end;
    float mean[FLOATS];
};

/* Of all divisions of the variables from part on into so many fragments one whose largest is smallest; its first ones
 * take as much as that allows. ends: the variables behind each. Returns the largest. */
static size_t divide(const struct ls_model_built *built, size_t part, int fragments, size_t *ends) {
    size_t trained = ls_network_trainable_count(built->network), best = SIZE_MAX, later[FRAGMENTS] = {0};
    if (fragments == 1) {
        ends[0] = built->part_count;
        return trained - built->parts[part].offset;
    }
    for (size_t end = built->part_count - (size_t)fragments + 1; end > part; end--) {
        size_t first = built->parts[end].offset - built->parts[part].offset;
        size_t rest = divide(built, end, fragments - 1, later), largest = first > rest ? first : rest;
        if (largest >= best) continue;
        best = largest;
        ends[0] = end;
        memcpy(ends + 1, later, ((size_t)fragments - 1) * sizeof(*later));
    }
    return best;
}

/* The first fragments take as much as the largest of all allows, not as the largest from there on does. */
static void find_range(const struct draft *draft, const struct ls_model_built *built, int fragment,
                       struct exchange *x) {
    size_t ends[FRAGMENTS], part = 0, none[FRAGMENTS];
    int fragments = draft->local.fragments ? draft->local.fragments : 1;
    size_t most = divide(built, 0, fragments, ends);
    for (int f = 0;; f++) {
        size_t left = (size_t)(fragments - f - 1), end = built->part_count - left;
        while (left && (built->parts[end].offset - built->parts[part].offset > most ||
                        divide(built, end, (int)left, none) > most))
            end--;
        x->begin = built->parts[part].offset;
        x->end = left ? built->parts[end].offset : ls_network_trainable_count(built->network);
        part = end;
        if (f == fragment) return;
    }
}

static bool meets(const struct draft *draft, size_t array) {
    return !array || !draft->local.local_moments;
}

static void begin_exchange(const struct draft *draft, const struct simulated *workers, const float *before, int done,
                           struct exchange *x) {
    const ls_model *model = workers[0].model;
    size_t blob = model->built.blob_count, arrays = ls_model_state_count(model, LS_PARTS_HERE) / blob;
    int fragments = draft->local.fragments ? draft->local.fragments : 1;
    int every = draft->local.sync_every / fragments;
    float values[MOST];
    x->begun = done;
    find_range(draft, &model->built, (done / every - 1) % fragments, x);
    for (size_t a = 0; a < arrays; a++)
        for (size_t i = a * blob + x->begin; i < a * blob + x->end; i++) {
            bool changes = !a && draft->local.outer_learning_rate > 0;
            for (int w = 0; w < draft->workers; w++)
                values[w] = changes ? before[i] - workers[w].state[i] : workers[w].state[i];
            x->mean[i] = mean(draft, values);
        }
}

static void end_exchange(const struct draft *draft, struct simulated *workers, float *before, float *momentum,
                         struct exchange *x) {
    const ls_model *model = workers[0].model;
    size_t blob = model->built.blob_count, arrays = ls_model_state_count(model, LS_PARTS_HERE) / blob;
    float alpha = draft->local.fragment_alpha;
    x->begun = 0;
    for (size_t a = 0; a < arrays; a++)
        for (size_t i = a * blob + x->begin; meets(draft, a) && i < a * blob + x->end; i++) {
            float met = x->mean[i];
            if (!a && draft->local.outer_learning_rate > 0)
                before[i] = met = step_outer(draft, before[i], met, &momentum[i]);
            for (int w = 0; w < draft->workers; w++)
                workers[w].state[i] = alpha > 0 ? alpha * workers[w].state[i] + (1 - alpha) * met : met;
        }
    for (int w = 0; w < draft->workers; w++)
        assert_ok(ls_model_state_set(workers[w].model, LS_PARTS_HERE, LS_FROM_PROGRAM, workers[w].state));
}

/* After a step that is not the epoch's last one. */
static void exchange(const struct draft *draft, struct simulated *workers, float *before, float *momentum, int done,
                     struct exchange *x) {
    int fragments = draft->local.fragments ? draft->local.fragments : 1;
    if (done % (draft->local.sync_every / fragments) == 0) begin_exchange(draft, workers, before, done, x);
    if (x->begun && done == x->begun + draft->local.fragment_delay) end_exchange(draft, workers, before, momentum, x);
}

void simulate(struct draft *draft, struct simulated *workers, double *loss) {
    struct toy toy, own;
    static float before[FLOATS], momentum[FLOATS];
    memset(momentum, 0, sizeof(momentum));
    fill_toy(&toy);
    for (int w = 0; w < draft->workers; w++) {
        char devices[8];
        (void)snprintf(devices, sizeof(devices), "%d", draft->devices[w]);
        assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices), &workers[w].strategy));
        assert_ok(open_model(draft, workers[w].strategy, &workers[w].model));
        ls_result result;
        ls_dataset *data = NULL;
        assert_ok(open_data(&toy, 0, draft->batch, draft->batch, &data));
        assert_ok(ls_model_evaluate(workers[w].model, data, &result)); /* makes the variables */
        ls_dataset_free(data);
    }
    assert_ok(ls_model_state_get(workers[0].model, LS_PARTS_HERE, before));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        *loss = 0;
        static struct exchange under_way;
        under_way.begun = 0;
        for (int step = 0, steps; step < draft->steps; step += steps) {
            steps = draft->steps - step < draft->local.sync_every ? draft->steps - step : draft->local.sync_every;
            if (has_fragments(draft)) steps = 1;
            for (int w = 0; w < draft->workers; w++) {
                int rows = collect(draft, &toy, w, step, steps, &own);
                *loss += train_alone(&workers[w], &own, rows, steps);
            }
            if (has_fragments(draft) && step + steps < draft->steps)
                exchange(draft, workers, before, momentum, step + steps, &under_way);
            else
                meet(draft, workers, before, momentum);
        }
    }
    *loss /= draft->batch * draft->steps;
    const struct outcome *outcome = &draft->outcome;
    size_t floats = ls_model_state_count(workers[0].model, LS_PARTS_HERE);
    ck_assert_msg(!memcmp(outcome->state, workers[0].state, floats * sizeof(float)), "another state");
    if (draft->local.outer_momentum > 0)
        for (size_t i = 0; i < ls_network_trainable_count(workers[0].model->built.network); i++)
            ck_assert(outcome->state[floats + i] == momentum[i]);
    for (int w = 0; w < draft->workers; w++) {
        ls_model_free(workers[w].model);
        ls_strategy_free(workers[w].strategy);
    }
}
