/* Names that users bring along from other frameworks. */
#include <string.h>
#include <strings.h>

#include "cli/options.h"

/* The names of options and values elsewhere: torch's, Keras', Horovod's and their scripts'. */
static const struct {
    const char *there, *here;
} habits[] = {{"lr", "learning-rate"},
              {"wd", "weight-decay"},
              {"bs", "batch-size"},
              {"num-epochs", "epochs"},
              {"data", "dataset"},
              {"data-dir", "dataset"},
              {"val-split", "validation-split"},
              {"num-workers", "data-workers"},
              {"gpus", "devices"},
              {"device", "devices"},
              {"gradient-accumulation-steps", "accumulate"},
              {"nproc-per-node", "np"},
              {"num-proc", "np"},
              {"nnodes", "hosts"},
              {"mse", "mean_squared_error"},
              {"mae", "mean_absolute_error"},
              {"bce", "binary_crossentropy"},
              {"HierarchicalCopyAllReduce", "hierarchical"},
              {"NcclAllReduce", "nccl"},
              {"ReductionToOneDevice", "one-device"},
              {"MultiWorkerMirroredStrategy", "multi-worker"},
              {"MirroredStrategy", "mirrored"},
              {"ParameterServerStrategy", "parameter-server"},
              {"CentralStorageStrategy", "central-storage"},
              {"OneDeviceStrategy", "one-device"}};

/* Of a dotted name, such as CollectiveCommunication.RING or tf.distribute.MirroredStrategy, the last part counts. */
const char *ls_option_habit(const char *word) {
    const char *dot = strrchr(word, '.');
    if (dot) word = dot + 1;
    for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
        if (!strcasecmp(word, habits[i].there)) return habits[i].here;
    return word;
}

bool ls_option_alike(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, "-");
        b += strspn(b, "-");
        if (strncasecmp(a, b, 1) != 0) return false;
        if (!*a) return true;
    }
}
