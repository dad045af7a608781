/* TF_CONFIG from any bytes: parsing ends with a config or with one error, and both check functions agree with it. A
 * ClusterSpec of the same bytes is one, or one error; its JSON gives it again. */
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "base/memory.h"
#include "resolver/tf_config.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void check_config(const struct ls_cluster_view *config) {
    require(config->cluster_mode == (config->type != LS_TASK_NONE));
    require(config->task_count == 0 || config->cluster_mode);
    for (int i = 0; i < config->task_count; i++) require(config->tasks[i].port > 0 && config->tasks[i].port < 65536);
    if (config->cluster_mode && (config->type == LS_TASK_CHIEF || config->type == LS_TASK_WORKER)) {
        const struct ls_task *own = ls_cluster_view_member(config, config->id_in_cluster);
        require(own && own->type == config->type && own->index == config->index);
        require(ls_cluster_view_member(config, config->num_workers - 1) &&
                !ls_cluster_view_member(config, config->num_workers + config->num_servers));
    }
}

static void check_spec(const char *text) {
    ls_cluster_spec *spec = NULL, *again = NULL;
    char *json = NULL;
    ls_status status = ls_cluster_spec_new(text, &spec);
    require(status == LS_OK || (status == LS_INVALID_ARGUMENT && !spec && ls_error()[0]));
    if (status) return;
    require(!ls_cluster_spec_json(spec, &json) && !ls_cluster_spec_new(json, &again));
    require(ls_cluster_spec_equal(spec, again));
    ls_memory_free(json);
    ls_cluster_spec_free(spec);
    ls_cluster_spec_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = ls_alloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    struct ls_cluster_view *config = NULL;
    ls_status status = ls_tf_config_parse(text, &config);
    require(status == LS_OK || (status == LS_INVALID_ARGUMENT && !config && ls_error()[0]));
    if (config) check_config(config);
    ls_cluster_view_free(config);
    check_spec(text);
    char *json = NULL, *words = NULL;
    require(ls_tools_check_json(text, &json) == status && json && !strchr(json, '\n'));
    require(ls_tools_check_text(text, &words) == status && words);
    ls_memory_free(json);
    ls_memory_free(words);
    ls_free(text);
    return 0;
}
