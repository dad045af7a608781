/* The program of the README: started once per task with its own TF_CONFIG it trains in lockstep with the others,
 * without TF_CONFIG alone. */
#include <lockstep/lockstep.h>

int main(void) {
    ls_strategy *strategy = NULL;
    ls_dataset *digits = NULL;
    ls_model *model = NULL;
    ls_status st;
    if ((st = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.communication = LS_AUTO), &strategy)))
        return ls_exit(st);
    if ((st = ls_dataset_digits(LS_DATASET(.batch_size = 64 * ls_num_replicas_in_sync(strategy)), &digits)))
        return ls_exit(st);
    if ((st = ls_model_new(strategy, LS_LAYERS(ls_dense(128, LS_RELU), ls_dense(64, LS_RELU), ls_dense(10)), &model)))
        return ls_exit(st);
    if ((st = ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY))) return ls_exit(st);
    st = ls_model_fit(model, digits, LS_FIT(.epochs = 2), NULL);
    ls_model_free(model);
    ls_dataset_free(digits);
    return ls_exit(ls_strategy_close(strategy, st));
}
