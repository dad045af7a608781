/* A group of the cluster's ranks over two channels: its links, and its messages between two ranks. */
#include "runtime/runtime.h"

#include "cluster/cluster.h"

static void close_source(struct ls_link_source *source) {
    if (source) source->ops->close(source);
}

ls_status ls_channels_open(struct ls_runtime *runtime, struct ls_cluster *cluster, uint32_t channel,
                           struct ls_group_config config, struct ls_group **group) {
    const struct ls_settings *settings = &runtime->settings;
    ls_status status = LS_OK;
    config.log = &runtime->log;
    config.timeout = settings->collective_timeout;
    config.report_interval = settings->report_interval;
    config.transport = settings->transport;
    config.segment = (size_t)settings->segment;
    config.flight_record = (size_t)settings->flight_record;
    if (cluster) status = ls_cluster_links(cluster, channel, config.members, config.size, &config.source);
    if (cluster && !status) status = ls_cluster_links(cluster, channel + 1, config.members, config.size, &config.mail);
    if (!status) status = ls_group_new(&config, group);
    if (!status) return LS_OK;
    close_source(config.source);
    close_source(config.mail);
    return status;
}
