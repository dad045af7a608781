/* A small training for the tests of option fields, and its outcome as one number. A field that is set must change that
 * number or be refused. An ignored field is a fault. tests/house/fields.py compares the rows here with the headers, so
 * that a new field without a row fails. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>

#include "harness.h"

/* One field of a struct that is a value, and something to set it to. */
struct change {
    const char *field; /* "ls_layer.units" */
    size_t offset, size;
    const void *value; /* a whole struct, of which the field is taken */
};
#define CHANGE(type, name, ...)                                                                                        \
    {                                                                                                                  \
#type "." #name, offsetof(type, name), sizeof(((type *)NULL)->name), &(const type) {                           \
            .name = __VA_ARGS__                                                                                        \
        }                                                                                                              \
    }
/* The test of one field of an option struct: a function that says whether it has an effect. */
#define FIELD(type, name)                                                                                              \
    static bool type##_##name(void);                                                                                   \
    TEST(type##_##name##_counts) {                                                                                     \
        ck_assert_msg(type##_##name(), "%s has no effect, and is not refused", #type "." #name);                       \
    }                                                                                                                  \
    static bool type##_##name(void)

/* Sets the one field of value, a struct of which change->value is another. */
void change_field(void *value, const struct change *change);

/* A folder of this program's. The name is valid until the next call. */
void make_scratch(void);
void remove_scratch(void);
const char *in_scratch(const char *name);

struct digest {
    uint64_t value;
    bool refused; /* by some call; value is of its message */
};
struct digest digest_bytes(struct digest so_far, const void *bytes, size_t size);
struct digest digest_refusal(ls_status status);
/* Different, or refused; base must not be. */
bool differs(struct digest base, struct digest changed);

struct trial {
    ls_layer layers[8];
    size_t count;
    bool sequences; /* the images' numbers as 12 positions of 6 channels */
    ls_optimizer optimizer;
    ls_loss loss;
    ls_compile_options compile;
    ls_fit_options fit;
};
/* A dense network, SGD, 2 epochs. */
struct trial trial_default(void);
/* Trains on a few images, on two devices: variables' names, shapes and values, the numbers, what is predicted. */
struct digest trial_run(const struct trial *trial);
ls_strategy *two_devices(void);
/* Images of 6 x 6 x 2 in 3 classes, of one memory. */
ls_status few_images_open(const ls_dataset_options *options, ls_dataset **data);
ls_dataset *few_images(const ls_dataset_options *options); /* which must be right */
#define FEW 20
