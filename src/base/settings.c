/* The table of settings. A row: variable, default as text, where it goes, how it is read, help. */
#include "base/settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/plain.h"

enum setting_type { SECONDS, SECONDS_OR_0, BYTES, BYTES_OR_0, COUNT, COUNT_OR_0, WORD, SWITCH, TEXT, SECRET };

/* The words that a setting may be; its value is the place of the word. */
struct words {
    const char *words[5]; /* end with NULL */
    const char *want;
    bool exact; /* else in any case */
};
static const struct words levels = {{"error", "warning", "info", "debug"}, "one of error, warning, info, debug"};
static const struct words transports = {{"auto", "shm", "tcp"},
                                        "one of auto, shm, tcp; data over gRPC is gone, and auto takes its place"};
static const struct words servers = {{"auto", "off", "required"}, "one of auto, off, required"};
static const struct words switches = {{"0", "1"}, "0 or 1", true};
static const struct words formats = {{"text", "json"}, "text or json", true};

#define AT(field) offsetof(struct ls_settings, field)

static const struct setting {
    const char *name, *default_text, *help;
    size_t offset;
    enum setting_type type;
    const struct words *words; /* of a WORD, whose value is an enum's, and of a SWITCH */
} table[] = {
    {"LOCKSTEP_JOIN_TIMEOUT", "300", "seconds that a starting worker waits for all others", AT(join_timeout), SECONDS},
    {"LOCKSTEP_COLLECTIVE_TIMEOUT", "300", "seconds that one collective may take", AT(collective_timeout), SECONDS},
    {"LOCKSTEP_DATA_TIMEOUT", "300", "seconds that the examples of one step may take to be read and mapped",
     AT(data_timeout), SECONDS},
    {"LOCKSTEP_EXIT_TIMEOUT", "30", "seconds that a finished worker waits for the others to finish", AT(exit_timeout),
     SECONDS},
    {"LOCKSTEP_REJOIN_TIMEOUT", "600",
     "seconds that the others wait for a lost worker to be started anew; 0: its loss ends them at once",
     AT(rejoin_timeout), SECONDS_OR_0},
    {"LOCKSTEP_ELASTIC", "",
     "MIN:MAX workers, such as 2:4: when LOCKSTEP_REJOIN_TIMEOUT has passed after a loss, those who are left go on, if "
     "they are MIN or more and most of those before; MAX is all tasks of TF_CONFIG; who comes back is taken in again. "
     "They keep the batch and the replicas; with 2:4,scaled both become fewer",
     AT(elastic), TEXT},
    {"LOCKSTEP_ELASTIC_START", "0",
     "elastic: the first workers of TF_CONFIG, so many, begin without the others, who come in later; set by lockstep "
     "run; 0: all begin together",
     AT(elastic_start), COUNT_OR_0},
    {"LOCKSTEP_ADDRESSES", "",
     "a file that says where workers are now: lines RANK HOST:PORT, which count before TF_CONFIG; set by lockstep run",
     AT(addresses), TEXT},
    {"LOCKSTEP_PS", "auto",
     "parameter servers (ps of TF_CONFIG): auto (those that are there help), off, or required (an error without them)",
     AT(servers), WORD, &servers},
    {"LOCKSTEP_RECORD", "",
     "asynchronous training: the first parameter server appends the order of all updates to this file", AT(record),
     TEXT},
    {"LOCKSTEP_REPLAY", "", "asynchronous training: the order is that of this record, and so are the bits", AT(replay),
     TEXT},
    {"LOCKSTEP_PS_WAIT", "10",
     "seconds that workers who are all there wait for parameter servers, with LOCKSTEP_PS=auto", AT(servers_wait),
     SECONDS},
    {"LOCKSTEP_STOP_GRACE", "25",
     "seconds that a parameter server that is asked to stop (SIGTERM) serves on at most, until its workers have left",
     AT(stop_grace), SECONDS},
    {"LOCKSTEP_REQUIRE_CLUSTER", "0",
     "1: without the tasks of a cluster in TF_CONFIG a worker is an error, where it would train alone",
     AT(require_cluster), SWITCH, &switches},
    {"LOCKSTEP_CLUSTER", "",
     "where the cluster is read from, whatever else is set: tf_config, horovod, torchrun, openmpi, pmi, slurm, "
     "cluster_spec, sagemaker, aws_batch, pytorchjob, jax, indexed_job, or none, which works alone",
     AT(cluster), TEXT},
    {"LOCKSTEP_RENDEZVOUS", "",
     "HOST:PORT where rank 0 listens and hands out the addresses of the workers; default: what the variables of the "
     "launcher say. For mpirun and horovodrun on several hosts",
     AT(rendezvous), TEXT},
    {"LOCKSTEP_NUM_WORKERS", "", "the completions of the Kubernetes Indexed Job whose pods are the workers",
     AT(num_workers), TEXT},
    {"LOCKSTEP_SUBDOMAIN", "",
     "the headless service of an Indexed Job's pods, where /etc/hosts has no full name of the pod", AT(subdomain),
     TEXT},
    {"LOCKSTEP_MAX_CLASSES", "100000", "classes that the labels of a dataset may make: a greater label is an error",
     AT(max_classes), COUNT},
    {"LOCKSTEP_REPORT_INTERVAL", "5", "seconds between the lines that a wait prints", AT(report_interval), SECONDS},
    {"LOCKSTEP_HEARTBEAT_INTERVAL", "0.2", "seconds between the signs of life that each worker sends to each",
     AT(heartbeat_interval), SECONDS},
    {"LOCKSTEP_HEARTBEAT_LIMIT", "3",
     "seconds of silence after which a worker, frozen or cut off, is lost; more than twice the interval; longer where "
     "a host has more than 16 workers a core",
     AT(heartbeat_limit), SECONDS},
    {"LOCKSTEP_CONTROL_WINDOW", "3",
     "lowest ranks that each worker keeps control streams with: who coordinates, and deputies that take its place",
     AT(control_window), COUNT},
    {"LOCKSTEP_FIRST_BUCKET", "1M", "bytes of the first gradient bucket", AT(first_bucket), BYTES},
    {"LOCKSTEP_BUCKET", "25M",
     "bytes of the later gradient buckets; a sixteenth of all gradients where that is less, but no less than the first",
     AT(bucket), BYTES},
    {"LOCKSTEP_SEGMENT", "256K", "bytes that a pipelined collective moves and adds at a time", AT(segment), BYTES},
    {"LOCKSTEP_MAIL_LIMIT", "1G",
     "bytes of messages between two ranks that a rank keeps before it receives them; then their senders wait",
     AT(mail_limit), BYTES},
    {"LOCKSTEP_MEMORY_LIMIT", "0",
     "bytes that a task may have, below what its cgroup and the machine allow; a worker, or a parameter server, whose "
     "part of a model needs more ends before training; 0: those limits alone",
     AT(memory_limit), BYTES_OR_0},
    {"LOCKSTEP_DIRECT_LIMIT", "32",
     "workers up to which AUTO may exchange directly, each with each: every pair then has a data connection",
     AT(direct_limit), COUNT},
    {"LOCKSTEP_LOG", "info", "error, warning, info or debug", AT(log_level), WORD, &levels},
    {"LOCKSTEP_LOG_FORMAT", "text",
     "text, or json: each line of stderr is an object with time, level, task and message", AT(log_json), SWITCH,
     &formats},
    {"LOCKSTEP_TRANSPORT", "auto", "auto, shm (an error where not all workers can share memory) or tcp", AT(transport),
     WORD, &transports},
    {"LOCKSTEP_ALGORITHM", "auto",
     "that all-reduces with AUTO: auto (measured), shared, two-level, exchange, direct, halving-doubling, assist (with "
     "parameter servers); never changes the bits",
     AT(algorithm), TEXT},
    {"LOCKSTEP_DEVICES", "auto",
     "devices of this process: auto (all GPUs, or one CPU where there are none), gpu (all GPUs), a number of CPU "
     "devices, or a list such as gpu:0,gpu:1",
     AT(devices), TEXT},
    {"LOCKSTEP_PLUGIN", "", "a file: the GPU plugin, where it is not where it was installed", AT(plugin), TEXT},
    {"LOCKSTEP_DEVICE_TIMEOUT", "300", "seconds that what is queued on a GPU may take", AT(device_timeout), SECONDS},
    {"LOCKSTEP_CUDA_SYNC", "0", "1: GPUs are waited for after each op, so that an error names the op that failed",
     AT(cuda_sync), SWITCH, &switches},
    {"LOCKSTEP_TRACE", "",
     "a file for the timeline of a training or of a communicator in Chrome's trace format; %r in it becomes the rank, "
     "else several workers write NAME.rank0.EXT, NAME.rank1.EXT, ...",
     AT(trace), TEXT},
    {"LOCKSTEP_HTTP", "",
     "HOST:PORT where this worker serves /metrics, /livez and /readyz; the further tasks of a host take the ports "
     "after it",
     AT(http), TEXT},
    {"LOCKSTEP_METRICS_FILE", "",
     "a file for the text of /metrics, for node_exporter's textfile collector; %r in it becomes the rank, else several "
     "workers write NAME.rank0.EXT, NAME.rank1.EXT, ...",
     AT(metrics_file), TEXT},
    {"LOCKSTEP_FLIGHT_RECORD", "1024", "collectives that each worker remembers, for a failure's post-mortem",
     AT(flight_record), COUNT},
    {"LOCKSTEP_FLIGHT_RECORD_FOLDER", "",
     "a folder into which each worker that fails writes its last collectives, for lockstep timeline",
     AT(flight_record_folder), TEXT},
    {"LOCKSTEP_TOKEN_FILE", "",
     "a file that holds a token of 16 bytes or more, the same for all workers: only who knows it may join",
     AT(token_file), TEXT},
    {"LOCKSTEP_TOKEN", "", "the token itself, where no file can be had", AT(token), SECRET},
    {"LOCKSTEP_TLS_CERTIFICATE", "",
     "a PEM file: this task's certificate, for the name worker-1.lockstep or the like; with the next two everything "
     "between workers is encrypted (lockstep certs makes all three)",
     AT(tls_certificate), TEXT},
    {"LOCKSTEP_TLS_KEY", "", "a PEM file: the certificate's private key", AT(tls_key), TEXT},
    {"LOCKSTEP_TLS_CA", "", "a PEM file: who signs the certificates of all tasks", AT(tls_ca), TEXT},
    {"LOCKSTEP_COLUMNS", "0",
     "columns of the terminal that rank 0's output goes to through lockstep run, which sets it; 0: it goes to none",
     AT(columns), COUNT_OR_0},
    {"LOCKSTEP_RUN_ID", "", "set by lockstep run, the same for all its workers", AT(run_id), TEXT},
    {"LOCKSTEP_RESTART_COUNT", "0", "set by lockstep run: how often this worker was started anew", AT(restart_count),
     COUNT_OR_0},
};
#define SETTING_COUNT (sizeof(table) / sizeof(table[0]))

static const char *unit_of(enum setting_type type) {
    return type <= SECONDS_OR_0 ? "s" : type <= BYTES_OR_0 ? "bytes" : "";
}

static ls_status refuse_setting(const struct setting *setting, const char *text, const char *want) {
    return ls_fail(LS_INVALID_ARGUMENT, "%s='%s' is not %s (%s; default %s)", setting->name, text, want, setting->help,
                   setting->default_text);
}

static ls_status read_seconds(const struct setting *setting, const char *text, double *seconds) {
    char *end;
    errno = 0;
    double value = ls_plain_number(text, &end);
    bool zero = setting->type == SECONDS_OR_0 && value == 0;
    if (end == text || *end || errno || !isfinite(value) || (value <= 0 && !zero) || value > 1e6)
        return refuse_setting(setting, text,
                              setting->type == SECONDS_OR_0 ? "a number of seconds from 0 to 1000000"
                                                            : "a number of seconds above 0 and up to 1000000");
    *seconds = value;
    return LS_OK;
}

/* Bytes may end with K, M or G. */
static ls_status read_setting_number(const struct setting *setting, const char *text, int64_t *number) {
    bool bytes = setting->type == BYTES || setting->type == BYTES_OR_0;
    int least = setting->type == BYTES || setting->type == COUNT, shift = 0;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (bytes && (*end == 'K' || *end == 'M' || *end == 'G')) shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 30, end++;
    if (end == text || *end || errno || value < least || value > 1LL << (bytes ? 40 : 20) >> shift)
        return refuse_setting(setting, text,
                              bytes   ? "a size in bytes such as 65536, 256K, 25M or 1G"
                              : least ? "a number from 1 to 1048576"
                                      : "a number from 0 to 1048576");
    *number = (int64_t)value << shift;
    return LS_OK;
}

static ls_status read_word(const struct setting *setting, const char *text, int *place) {
    const struct words *words = setting->words;
    for (*place = 0; words->words[*place]; ++*place)
        if (words->exact ? !strcmp(text, words->words[*place]) : ls_plain_same(text, words->words[*place]))
            return LS_OK;
    return refuse_setting(setting, text, words->want);
}

const char *ls_settings_transport_name(enum ls_transport transport) {
    return transports.words[transport];
}

const char *ls_settings_servers_name(enum ls_servers_mode mode) {
    return servers.words[mode];
}

static ls_status read_setting(const struct setting *setting, const char *text, struct ls_settings *settings) {
    void *target = (char *)settings + setting->offset;
    int place = 0;
    ls_status status = setting->words ? read_word(setting, text, &place) : LS_OK;
    if (setting->type <= SECONDS_OR_0) return read_seconds(setting, text, target);
    if (setting->type <= COUNT_OR_0) return read_setting_number(setting, text, target);
    if (setting->type == WORD) *(int *)target = place;
    if (setting->type == SWITCH) *(bool *)target = place;
    if (setting->words) return status;
    if (setting->type == SECRET && strlen(text) >= LS_SETTING_TEXT)
        return ls_fail(LS_INVALID_ARGUMENT, "%s is not shorter than 256 bytes", setting->name);
    if (strlen(text) >= LS_SETTING_TEXT) return refuse_setting(setting, text, "shorter than 256 bytes");
    (void)snprintf(target, LS_SETTING_TEXT, "%s", text);
    return LS_OK;
}

/* NULL if the variable is absent or empty. Both mean the same. */
static const char *given(const struct setting *setting) {
    const char *text = getenv(setting->name);
    return text && *text ? text : NULL;
}

static ls_status check_heartbeat(const struct ls_settings *settings) {
    if (settings->heartbeat_limit > 2 * settings->heartbeat_interval) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "LOCKSTEP_HEARTBEAT_LIMIT='%g' is not more than twice LOCKSTEP_HEARTBEAT_INTERVAL='%g': one late "
                   "sign of life would be a loss",
                   settings->heartbeat_limit, settings->heartbeat_interval);
}

ls_status ls_settings_read(struct ls_settings *settings) {
    struct ls_settings read = {0};
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const char *text = given(&table[i]);
        ls_status status = read_setting(&table[i], text ? text : table[i].default_text, &read);
        if (status) return status;
    }
    ls_status status = check_heartbeat(&read);
    if (!status) *settings = read;
    return status;
}

const char *ls_settings_name(size_t index) {
    return index < SETTING_COUNT ? table[index].name : NULL;
}

bool ls_settings_describe(const struct ls_settings *settings, size_t index, struct ls_setting_info *info) {
    if (index >= SETTING_COUNT) return false;
    const struct setting *setting = &table[index];
    const void *source = (const char *)settings + setting->offset;
    *info = (struct ls_setting_info){
        setting->name, setting->default_text, setting->help, unit_of(setting->type), "", given(setting) != NULL};
    const char *text = source;
    if (setting->type == WORD) text = setting->words->words[*(const int *)source];
    if (setting->type == SWITCH) text = setting->words->words[*(const bool *)source];
    if (setting->type == SECRET) text = *text ? "(set)" : ""; /* never printed */
    if (setting->type <= SECONDS_OR_0)
        (void)ls_plain_text(info->value, sizeof(info->value), "%g", *(const double *)source);
    else if (setting->type <= COUNT_OR_0)
        (void)snprintf(info->value, sizeof(info->value), "%lld", (long long)*(const int64_t *)source);
    else
        (void)snprintf(info->value, sizeof(info->value), "%s", text);
    return true;
}
