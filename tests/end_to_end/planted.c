/* Holds a variable whose value is a pattern that a capture can be searched for, and hands it round: argv[1] is a text,
 * repeated over the whole of it. */
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 65536 };

static ls_status use(ls_strategy *strategy, float *value) {
    ls_variable *variable;
    ls_status st =
        ls_variable_new(strategy, "planted", LS_VARIABLE(.shape = LS_SHAPE(COUNT), .initial = value), &variable);
    if (!st) st = ls_variable_read(variable, value);
    return st;
}

int main(int argc, char **argv) {
    ls_strategy *strategy = NULL;
    float *value = calloc(COUNT, sizeof(*value));
    if (argc != 2 || !value) return 2;
    size_t length = strlen(argv[1]);
    for (size_t i = 0; i < COUNT * sizeof(*value); i++) ((char *)value)[i] = argv[1][i % length];
    ls_status st = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.communication = LS_AUTO), &strategy);
    if (!st) st = use(strategy, value);
    st = ls_strategy_close(strategy, st);
    free(value);
    return ls_exit(st);
}
