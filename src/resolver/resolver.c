/* The first reader whose variable is set reads it. */
#include "resolver/resolver.h"

#include <stdlib.h>

#include "resolver/tf_config.h"

static const struct reader {
    const char *variable;
    ls_status (*read)(const char *text, struct ls_cluster_spec **spec);
} readers[] = {
    {"TF_CONFIG", ls_tf_config_parse},
};

ls_status ls_resolver_read(const char *tf_config, struct ls_cluster_spec **spec) {
    if (tf_config) return ls_tf_config_parse(tf_config, spec);
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        const char *text = getenv(readers[i].variable);
        if (text) return readers[i].read(text, spec);
    }
    return ls_tf_config_parse(NULL, spec);
}
