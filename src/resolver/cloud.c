/* Training services of clouds. Vertex' CLUSTER_SPEC has TF_CONFIG's form, and TF_CONFIG's reader. */
#include "resolver/readers.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "resolver/tf_config_json.h"

#define SAGEMAKER_PORT 7777 /* of its own torchrun */

/* A rank is a host's place in the list as it stands: SageMaker has sorted the names as text. */
static ls_status read_hosts(struct ls_launcher *launch, const cJSON *hosts, const char *own) {
    int place = 0;
    launch->rank = -1;
    launch->size = cJSON_GetArraySize(hosts);
    if (!cJSON_IsArray(hosts)) return ls_fail(LS_INVALID_ARGUMENT, "SM_HOSTS is no list of names");
    for (const cJSON *host = hosts->child; host; host = host->next, place++) {
        if (!cJSON_IsString(host))
            return ls_fail(LS_INVALID_ARGUMENT, "SM_HOSTS[%d] is %s, not a name", place,
                           ls_tf_config_json_quote(host).text);
        if (!strcmp(host->valuestring, own)) launch->rank = place;
        ls_status status = launch->size > 1 ? ls_launcher_put(launch, place, host->valuestring, SAGEMAKER_PORT) : LS_OK;
        if (status) return status;
    }
    if (launch->rank < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "SM_CURRENT_HOST='%.100s' is not among the %d of SM_HOSTS", own,
                       launch->size);
    (void)snprintf(launch->says, sizeof(launch->says), "SM_CURRENT_HOST=%.80s, number %d of %d in SM_HOSTS", own,
                   launch->rank, launch->size);
    return LS_OK;
}

ls_status ls_cloud_read_sagemaker(struct ls_launcher *launch) {
    const char *text = ls_launcher_variable("SM_HOSTS"), *own = ls_launcher_variable("SM_CURRENT_HOST");
    if (!text || !own) return LS_OK;
    LS_CLEANUP(ls_tf_config_json_free) cJSON *hosts = NULL;
    ls_status status = ls_tf_config_json_read(text, &hosts);
    if (status == LS_INVALID_ARGUMENT) return ls_fail(status, "SM_HOSTS='%.200s' is no JSON", text);
    return status ? status : read_hosts(launch, hosts, own);
}

/* A multi-node parallel job names the main node's address to the other nodes. The main node is rank 0. */
ls_status ls_cloud_read_aws_batch(struct ls_launcher *launch) {
    const char *address = ls_launcher_variable("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
    const char *id = ls_launcher_variable("AWS_BATCH_JOB_ID");
    char job[LS_LAUNCHER_TEXT];
    int first = 0;
    ls_status status = ls_launcher_count(launch, "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES");
    if (!status && launch->size > 1 && ls_launcher_variable("AWS_BATCH_JOB_MAIN_NODE_INDEX"))
        status = ls_launcher_number("AWS_BATCH_JOB_MAIN_NODE_INDEX", 0, launch->size - 1, &first);
    if (status || launch->size <= 1) return status;
    launch->rank = (launch->rank - first + launch->size) % launch->size;
    if (launch->rank && !address)
        return ls_fail(LS_INVALID_ARGUMENT, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set, and this is not "
                                            "the main node: it is the address where the main node is found");
    (void)snprintf(job, sizeof(job), "aws_batch %.*s", id ? (int)strcspn(id, "#") : 0, id ? id : "");
    ls_launcher_meet(launch, address && launch->rank ? address : "", 0, job);
    return LS_OK;
}
