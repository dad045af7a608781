/* Functions of the lockstep command alone, beside lockstep.h: TF_CONFIG, settings and devices without training. */
#ifndef LOCKSTEP_TOOLS_H
#define LOCKSTEP_TOOLS_H

#include <lockstep/lockstep.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Looks at tf_config, a text as TF_CONFIG has it, or (NULL) at the environment, without opening a port. *json receives one object of one line:
 * valid, mode, task_type, task_index, is_chief, num_workers, id_in_cluster, collective_leader, cluster, source, ignored,
 * warnings, and error {code, message} when it is invalid; freed with ls_memory_free. Returns the status of reading:
 * INVALID_ARGUMENT for a bad TF_CONFIG or a launcher's variables that are bad or contradict, with *json written all the
 * same. */
LS_API ls_status ls_tools_check_json(const char *tf_config, char **json);
/* The same as text for people, several lines. */
LS_API ls_status ls_tools_check_text(const char *tf_config, char **text);
/* Asks every task of TF_CONFIG's cluster, for so many seconds at most, who it is: *text receives a table or a JSON object
 * of what was found, freed with ls_memory_free, *fine whether all are there as TF_CONFIG says. Takes part in nothing: it
 * may be called before, during and after training. */
LS_API ls_status ls_tools_check_connect(const char *tf_config, double seconds, bool json, char **text, bool *fine);
/* Asks the worker at address ("host:port") for its cluster, and all of that twice, so many seconds apart: *text receives
 * a table or a JSON object of what they did meanwhile, freed with ls_memory_free. The table fits a terminal of so many columns
 * and lines (0: any number), and has bars of letters or of UTF-8's blocks. Takes part in nothing, likewise.
 * UNAVAILABLE when no worker answers at address. */
LS_API ls_status ls_tools_top(const char *address, double seconds, bool json, int columns, int lines, bool ascii, char **text);
/* Makes an authority and a certificate and key for each chief and worker below folder: of tasks ("chief,worker:3"), or, where
 * that is NULL, of tf_config. *text says what was made and what to set; freed with ls_memory_free. INVALID_ARGUMENT where
 * a file is there already. */
LS_API ls_status ls_tools_certificates(const char *folder, const char *tf_config, const char *tasks, int days, char **text);
/* A host of a launcher's list. */
typedef struct ls_tools_slots {
    char target[512]; /* as the remote shell takes it: "user@name" */
    char name[256];   /* the name or address alone, an IPv6 address without brackets */
    int slots;        /* how many processes it takes; 1 where the list says nothing */
} ls_tools_slots;
/* Reads a list as -H has it ("a:4,user@b:4"), or NULL, and a hostfile, or NULL, but one of them: *hosts [*count], freed
 * with ls_memory_free, in the order of their first mention. A fault, or a file that cannot
 * be read, is INVALID_ARGUMENT with the file and the line. Forms: docs/launchers.md. */
LS_API ls_status ls_tools_hosts(const char *list, const char *hostfile, ls_tools_slots **hosts, int *count);
/* Settings in force, one line each with value, unit, where it is from, help and default; freed with ls_memory_free. */
LS_API ls_status ls_tools_settings(char **text);
/* A wait that has a limit. */
typedef struct ls_tools_deadline {
    const char *name;
    const char *setting; /* that sets the limit; NULL if the limit is fixed */
    double seconds;
    const char *waits, *then; /* for what is waited, and what happens when the limit has passed */
} ls_tools_deadline;
/* All waits of the library that have a limit, with the limits in force, and then the count more ones of the caller;
 * freed with ls_memory_free. */
LS_API ls_status ls_tools_deadlines(const ls_tools_deadline *more, size_t count, char **text);
/* Both as one JSON object of one line: settings [{name, value, unit, from, default, help}] and deadlines [{name, setting,
 * seconds, waits, then}]; freed with ls_memory_free. */
LS_API ls_status ls_tools_settings_json(const ls_tools_deadline *more, size_t count, char **json);
/* Devices that this build and machine offer, and why not the rest; and the communication kinds likewise. */
LS_API ls_status ls_tools_devices(char **text);
/* Explains AUTO's all-reduce in this group: hosts, transports, and the times that were measured. Freed with
 * ls_memory_free. */
LS_API ls_status ls_tools_explain(const ls_communicator *communicator, char **text);
/* The algorithm by which an all-reduce with compression runs count elements of dtype. Lives as long as the library. */
LS_API const char *ls_tools_algorithm(const ls_communicator *communicator, ls_dtype dtype, ls_compression compression,
                                      size_t count);
/* True if compression has an effect between these ranks: not where they share memory. */
LS_API bool ls_tools_compresses(const ls_communicator *communicator);
/* The transport of a call of that name ("all-reduce", "broadcast", "all-gather", "reduce-scatter", "barrier"): "shm",
 * "tcp", or, with several hosts of which some have several ranks, "shm+tcp"; "none" for one rank. Lives as long as the
 * communicator. */
LS_API const char *ls_tools_transport(const ls_communicator *communicator, const char *collective);
/* The number of rank's host, as AUTO sees it: ranks of one host share memory. */
LS_API int ls_tools_host(const ls_communicator *communicator, int rank);
/* Writes the 64 hex digits of the SHA-256 of size bytes, and a zero. */
LS_API ls_status ls_tools_sha256(const void *data, size_t size, char hex[65]);
/* A vector of as many bytes on each GPU of all workers, which NCCL adds in place. Every worker calls these alike, as it does
 * the bare collectives; options are a strategy's, with LS_NCCL. */
typedef struct ls_tools_gpus ls_tools_gpus;
LS_API ls_status ls_tools_gpus_new(const ls_strategy_options *options, size_t size, ls_tools_gpus **gpus);
/* As ls_communicator_close. */
LS_API ls_status ls_tools_gpus_close(ls_tools_gpus *gpus, ls_status status);
/* The workers, for what lies in host memory; the GPUs' own. */
LS_API ls_communicator *ls_tools_gpus_workers(ls_tools_gpus *gpus);
/* The first one here, how many are here, and of all workers. */
LS_API void ls_tools_gpus_count(const ls_tools_gpus *gpus, int *first, int *here, int *total);
/* The vector of the index-th GPU here, from and to host memory. */
LS_API ls_status ls_tools_gpus_write(ls_tools_gpus *gpus, int index, const void *data, size_t size);
LS_API ls_status ls_tools_gpus_read(ls_tools_gpus *gpus, int index, void *data, size_t size);
/* Returns when it is done on the GPUs of this worker. */
LS_API ls_status ls_tools_gpus_all_reduce(ls_tools_gpus *gpus, ls_reduce_op op, ls_dtype dtype, size_t count);
/* Lays the timelines and flight records of a run's ranks beside each other. Writes one Chrome trace to output, unless
 * it is NULL. *text, freed with ls_memory_free, receives the findings, for people or as one JSON object. A file that
 * cannot be read or written, or is not of the same run, is INVALID_ARGUMENT. */
LS_API ls_status ls_tools_timeline(const char *const *paths, int count, const char *output, bool json, char **text);
/* Writes the same files as one HTML page to output, with the clocks aligned. */
LS_API ls_status ls_tools_timeline_page(const char *const *paths, int count, const char *output);
/* Draws the columns of CSV logs, those of list ("loss,val_loss") or all (NULL), as one SVG file at output. Without output
 * (NULL) *text, freed with ls_memory_free, receives them for a terminal of 80 columns: in Braille of UTF-8 or in letters, with
 * colours or without. */
LS_API ls_status ls_tools_plot(const char *const *paths, int count, const char *list, const char *output, bool ascii, bool colour,
                               char **text);
/* Writes format, in which ' stands for ", as JSON: %s is a text of any UTF-8 in quotes, or null, %-s one as it is; %i is true or
 * false; a %f or %g that is not finite is null. %d, %lld, %llu and %zu are those of printf. */
LS_API void ls_tools_print_json(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes the text the thread's error, and returns status: for what a command finds by itself. */
LS_API ls_status ls_tools_fail(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The facts that a file of weights, or a checkpoint, has of its model. Unknown ones are 0 or NULL. */
typedef struct ls_tools_about {
    ls_shape input; /* of an example */
    int outputs;    /* of a file that does not say: as the shapes of its last dense layer tell */
    char *loss;     /* Keras' name */
    char **classes; /* [class_count] names */
    int class_count;
    char *note; /* ls_model_note's */
    char *transform, *target; /* ls_dataset_transform's, and its target's name */
    char *tokenizer; /* of a folder of Hugging Face's: "gpt2", whose files are vocab.json and merges.txt there */
    char *text;    /* all that it says, a JSON object */
    bool integers; /* examples are ids */
    bool layered;  /* it says its layers */
} ls_tools_about;
/* Collective over strategy's workers: the chief reads path, and all get what it says. Freed with ls_tools_about_free. */
LS_API ls_status ls_tools_about_weights(ls_strategy *strategy, const char *path, ls_tools_about **about);
/* Of the first weights of a training on a table, which each worker reads by itself, also one that comes back: its columns are to
 * become what they were in the training that made path. NULL where dataset is no table, or path says nothing. */
LS_API ls_status ls_tools_about_table(const char *dataset, const char *path, ls_tools_about **about);
LS_API void ls_tools_about_free(ls_tools_about *about);
/* The same of a file that this process reads by itself. */
LS_API ls_status ls_tools_about_file(const char *path, ls_tools_about **about);
/* *layers, freed with ls_memory_free, are those that it says. INVALID_ARGUMENT where it says none; an error names path. */
LS_API ls_status ls_tools_about_layers(const ls_tools_about *about, const char *path, ls_layer **layers, size_t *count);
/* Describes the model of such a file, or a file's variables where it says no layers. *text is freed with ls_memory_free. */
LS_API ls_status ls_tools_describe_model(const char *path, char **text);
/* Describes what ls_dataset_open(name) reads, of each split: counts by class, shape, range of the values of so many examples that
 * are spread evenly, and hints. *text, freed with ls_memory_free, receives a table or one JSON object. split and part of options do
 * not count. */
LS_API ls_status ls_tools_data(const char *name, const ls_dataset_options *options, int64_t samples, bool json, char **text);
/* Hints where a training would stumble over NumPy's arrays, of so many examples: a line each, or "" for none. *text is freed with
 * ls_memory_free; NULL for other sources. */
LS_API ls_status ls_tools_hints(const ls_dataset *data, int64_t samples, char **text);
/* The classes of an example's count positions; 1 where it has one class. -1: it does not count. INVALID_ARGUMENT where examples have
 * no classes, or another number of them. count 0 asks no more than whether there are classes; labels may be NULL then. */
LS_API ls_status ls_tools_labels(const ls_dataset *data, int64_t example, size_t count, int32_t *labels);
/* Tells whether a training uses a checkpoint folder: *there: its lock is; *left: but the process that took it is gone, as far as this
 * host's file system tells. In seconds: *comes, for which a training may be awaited (LOCKSTEP_JOIN_TIMEOUT), and *returns, for which
 * one that is gone may (LOCKSTEP_REJOIN_TIMEOUT). */
LS_API ls_status ls_tools_folder_job(const char *folder, bool *there, bool *left, double *comes, double *returns);
/* An event file for TensorBoard with the numbers of evaluations, in folder/validation, as tf.keras.utils.SidecarEvaluator has it
 * written: evaluation_NAME_vs_iterations at step. put flushes it. */
typedef struct ls_tools_events ls_tools_events;
LS_API ls_status ls_tools_events_new(const char *folder, ls_tools_events **events);
LS_API ls_status ls_tools_events_put(ls_tools_events *events, const char *name, int64_t step, double value);
LS_API void ls_tools_events_free(ls_tools_events *events);
/* Writes what ls_model_load_weights reads from one file into another, .safetensors or .npz, under Keras' names; or, of a gpt, gpt2 or
 * llama, under those of Hugging Face's GPT2LMHeadModel and LlamaForCausalLM, as .safetensors, or else as a folder of config.json and
 * model.safetensors. *text says what was written; freed with ls_memory_free. */
LS_API ls_status ls_tools_convert_weights(const char *from, const char *to, bool huggingface, char **text);
/* A training that is to be planned. */
typedef struct ls_tools_plan_options {
    const ls_strategy_options *strategy; /* of each worker; may be NULL */
    const char *kind;                    /* as lockstep train --strategy has it */
    int copies;                          /* of each variable on servers; 0: 1 */
    bool hybrid;                         /* of kind "parameter-server": servers keep sparse tables alone */
    ls_sparse_tables sparse;             /* of that kind */
    const ls_local_sgd_options *local;   /* of kind "local-sgd" */
    int workers, servers;                /* at most 1024; workers 0: those of TF_CONFIG, or of a launcher, and its servers */
    int64_t batch;                       /* rows of all; 0: 64 a replica */
    ls_division division;
    double bits; /* of each task's link a second, each way; 0: no time is foretold */
    int measure; /* steps that are made to time computing; 0: none */
    bool json;
    ls_callback *const *callbacks; /* ends with NULL, or is NULL: their on_build is told, as before the first step */
    bool validates;                /* the training, which gives callbacks its numbers */
    int64_t memory_limit;          /* bytes that a worker may have: the least sharding with which they are enough is told; 0: it is not */
} ls_tools_plan_options;
/* Makes dataset and compiled model of one worker, whose batches have so many rows. */
typedef ls_status ls_tools_plan_fn(void *context, ls_strategy *strategy, int64_t batch, ls_dataset **data, ls_model **model);
/* Places a training on its tasks without starting any: *text, freed with ls_memory_free, receives a table for people or one JSON object
 * with replicas, what servers keep, bytes of a step, memory and, where bits is set, the time of a step. Builds one worker's model
 * here. RESOURCE_EXHAUSTED: no options of sharding make a worker as small as memory_limit. */
LS_API ls_status ls_tools_plan(const ls_tools_plan_options *options, ls_tools_plan_fn *make, void *context, char **text);
/* Options of lockstep tokens. */
typedef struct ls_tools_tokens_options {
    const char *kind;       /* "bytes", "chars" or "gpt2" */
    const char *vocabulary; /* gpt2: the folder of vocab.bpe and encoder.json. chars: a text that has the characters; NULL: the texts' own */
    const char *format;     /* of tokens: "text", "llmc" or "uint16"; NULL: as the file's name, or what it holds, tells */
    const char *output;     /* NULL: what is made goes to out, in text */
    bool decode;            /* files are of tokens, and text is made */
    bool special;           /* "<|endoftext|>" in a text is one token */
    bool documents;         /* an end of text comes before each block that a blank line ends (llm.c's tinyshakespeare.py) */
    bool json;
} ls_tools_tokens_options;
/* Encodes or decodes count files, of which "-" is standard input, one after the other. With output, or json, out receives a line a
 * file with its bytes of text, its tokens and the vocabulary. INVALID_ARGUMENT for options that do not go together, and what
 * ls_tokenizer_encode and its kin refuse; DATA_LOSS with the byte for a file of tokens that is none. */
LS_API ls_status ls_tools_tokens(const ls_tools_tokens_options *options, const char *const *paths, int count, FILE *out);
/* Tests that a file can be written at path, before its content is worked out. option ("--output") comes before the
 * error's message. Leaves nothing behind. */
LS_API ls_status ls_tools_try_file(const char *option, const char *path);
/* Writes a file, which is at path whole or not at all: write puts all of it into out. */
typedef void ls_tools_write_fn(void *context, FILE *out);
LS_API ls_status ls_tools_write_file(const char *option, const char *path, ls_tools_write_fn *write, void *context);
/* Opens standard streams that are closed, at /dev/null: a socket or a file that got such a number would receive what the process
 * prints. A strategy does so too. */
LS_API void ls_tools_open_streams(void);
/* "gcc 12.2.0, oneDNN 2.6.3, gRPC 1.51.1, ..." */
LS_API ls_status ls_tools_build(char **text);

#ifdef __cplusplus
}
#endif
#endif
