/* TF_CONFIG: every case of the corpus against the object that lockstep check prints and against the config itself;
 * then what a corpus of texts cannot say: the canonical text, sizes, and memory that runs out at the k-th call. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "resolver/tf_config.h"
#include "resolver/tf_config_corpus.h"
#include "resolver/tf_config_json.h"
#include "harness.h"

static struct corpus corpus;

/* ---- Memory that runs out: the linker sends these calls here ---- */

static long calls_left = -1; /* -1: never fails */

static bool fails_now(void) {
    return calls_left >= 0 && calls_left-- == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return fails_now() ? NULL : __real_calloc(count, size);
}

FILE *__real_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size) {
    return fails_now() ? NULL : __real_open_memstream(text, size);
}

void *__real_cJSON_ParseWithLengthOpts(const char *text, size_t size, const char **end, int whole);
void *__wrap_cJSON_ParseWithLengthOpts(const char *text, size_t size, const char **end, int whole);
void *__wrap_cJSON_ParseWithLengthOpts(const char *text, size_t size, const char **end, int whole) {
    return fails_now() ? NULL : __real_cJSON_ParseWithLengthOpts(text, size, end, whole);
}

/* ---- The corpus ---- */

static const cJSON *member(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    ck_assert_msg(item != NULL, "no key %s", key);
    return item;
}

/* "" of what is no text. */
static const char *text_of(const cJSON *value) {
    return cJSON_IsString(value) ? value->valuestring : "";
}

/* The keys of the object, in order, each with a space behind it. */
static void check_keys(const cJSON *object, const char *wanted) {
    char keys[256] = "";
    for (const cJSON *item = object->child; item; item = item->next) {
        strncat(keys, item->string, sizeof(keys) - strlen(keys) - 1);
        strncat(keys, " ", sizeof(keys) - strlen(keys) - 1);
    }
    ck_assert_str_eq(keys, wanted);
}

#define KEYS                                                                                                           \
    "valid mode task_type task_index is_chief num_workers id_in_cluster collective_leader cluster source ignored "     \
    "warnings "

/* A number or a text as the corpus writes it; null is none. */
static const char *plain(const cJSON *value, char text[64]) {
    if (cJSON_IsNull(value))
        (void)snprintf(text, 64, "none");
    else if (cJSON_IsNumber(value))
        (void)snprintf(text, 64, "%.0f", value->valuedouble);
    else
        (void)snprintf(text, 64, "%s", text_of(value));
    return text;
}

static void print_task(const cJSON *report, char text[64]) {
    char type[64], index[64];
    bool local = !strcmp(text_of(member(report, "mode")), "local");
    if (!local) ck_assert_str_eq(text_of(member(report, "mode")), "cluster");
    (void)plain(member(report, "task_type"), type);
    (void)plain(member(report, "task_index"), index);
    if (local) {
        ck_assert_str_eq(type, "none");
        ck_assert_str_eq(index, "none");
    }
    (void)snprintf(text, 64, local ? "local" : "%.20s:%.20s", type, index);
}

static void check_identity(const cJSON *report, const char *wanted) {
    char task[64], rank[64], workers[64], leader[64], line[512];
    print_task(report, task);
    bool chief = !strcmp(ls_tf_config_json_quote(member(report, "is_chief")).text, "true");
    (void)snprintf(line, sizeof(line), "%s rank=%s of=%s chief=%s leader=%s", task,
                   plain(member(report, "id_in_cluster"), rank), plain(member(report, "num_workers"), workers),
                   chief ? "yes" : "no", plain(member(report, "collective_leader"), leader));
    ck_assert_str_eq(line, wanted);
}

static void check_cluster(const cJSON *report, const char *wanted) {
    char line[4096] = "";
    size_t used = 0;
    const cJSON *cluster = member(report, "cluster");
    ck_assert(cJSON_IsObject(cluster));
    for (const cJSON *role = cluster->child; role; role = role->next) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s", used ? " " : "", role->string);
        char mark = '=';
        for (const cJSON *value = role->child; value; value = value->next, mark = ',')
            used += (size_t)snprintf(line + used, sizeof(line) - used, "%c%s", mark, text_of(value));
        ck_assert_uint_lt(used, sizeof(line));
    }
    ck_assert_str_eq(line, wanted);
}

static void check_warnings(const cJSON *report, const struct corpus_case *test) {
    int count = 0;
    for (const cJSON *value = member(report, "warnings")->child; value; value = value->next) {
        ck_assert_msg(count < test->warning_count, "%s: unexpected warning: %s", test->name, text_of(value));
        ck_assert_msg(strstr(text_of(value), test->warnings[count]) != NULL, "%s: warning: %s", test->name,
                      text_of(value));
        count++;
    }
    ck_assert_int_eq(count, test->warning_count);
}

static void check_error(const cJSON *report, const struct corpus_case *test) {
    check_keys(report, KEYS "error ");
    const cJSON *error = member(report, "error");
    check_keys(error, "code message ");
    ck_assert_str_eq(text_of(member(error, "code")), "INVALID_ARGUMENT");
    const char *message = text_of(member(error, "message"));
    ck_assert_ptr_eq(strstr(message, "TF_CONFIG"), message);
    ck_assert_str_eq(message, ls_error());
    for (int i = 0; i < test->error_count; i++)
        ck_assert_msg(strstr(message, test->errors[i]) != NULL, "%s: %s", test->name, message);
}

TEST_EACH(case_of_the_corpus, corpus.count) {
    const struct corpus_case *test = &corpus.cases[_i];
    LS_CLEANUP(ls_free_pointer) char *json = NULL, *text = NULL;
    ls_status status = ls_tools_check_json(test->text, &json);
    ck_assert_msg((status == LS_OK) == (test->error_count == 0), "%s: status %s: %s", test->name,
                  ls_status_name(status), status ? ls_error() : json);
    ck_assert_ptr_null(strchr(json, '\n'));
    cJSON *report = ls_tf_config_json_parse(json, strlen(json));
    ck_assert_ptr_nonnull(report);
    ck_assert_str_eq(ls_tf_config_json_quote(member(report, "valid")).text, status ? "false" : "true");
    if (status) {
        ck_assert_int_eq(status, LS_INVALID_ARGUMENT);
        check_error(report, test);
    } else {
        check_keys(report, KEYS);
        check_identity(report, test->is);
        check_cluster(report, test->cluster ? test->cluster : "");
        check_warnings(report, test);
    }
    ck_assert_int_eq(ls_tools_check_text(test->text, &text), status);
    ck_assert_ptr_nonnull(strstr(text, status ? ls_error() : "TF_CONFIG  valid\n"));
    cJSON_Delete(report);
}

/* The texts are read and every file of the corpus contributes. */
TEST(corpus_is_whole) {
    size_t valid = 0;
    for (size_t i = 0; i < corpus.count; i++) {
        valid += !corpus.cases[i].error_count;
        for (size_t k = 0; k < i; k++) ck_assert_str_ne(corpus.cases[i].name, corpus.cases[k].name);
    }
    ck_assert_uint_ge(corpus.count, 300);
    ck_assert_uint_ge(valid, 100);
}

/* ---- What is behind the object ---- */

static struct ls_cluster_view *parse(const char *text) {
    struct ls_cluster_view *config = NULL;
    ls_status status = ls_tf_config_parse(text, &config);
    assert_ok(status);
    return config;
}

static const char two_workers[] =
    "{\"cluster\":{\"chief\":[\"C.x.:1\"],\"worker\":[\"w0:2\",\"[FD00::0:7]:3\"],"
    "\"ps\":[\"p:4\"],\"evaluator\":[\"e:5\"]},\"task\":{\"type\":\"worker\",\"index\":1}}";

TEST(tasks_are_in_order_and_split) {
    struct ls_cluster_view *config = parse(two_workers);
    const struct ls_task wanted[] = {{LS_TASK_CHIEF, 0, (char[]){"C.x.:1"}, (char[]){"C.x."}, 1},
                                     {LS_TASK_WORKER, 0, (char[]){"w0:2"}, (char[]){"w0"}, 2},
                                     {LS_TASK_WORKER, 1, (char[]){"[FD00::0:7]:3"}, (char[]){"FD00::0:7"}, 3},
                                     {LS_TASK_PS, 0, (char[]){"p:4"}, (char[]){"p"}, 4},
                                     {LS_TASK_EVALUATOR, 0, (char[]){"e:5"}, (char[]){"e"}, 5}};
    ck_assert_int_eq(config->task_count, 5);
    for (int i = 0; i < 5; i++) {
        const struct ls_task *task = &config->tasks[i];
        ck_assert_int_eq(task->type, wanted[i].type);
        ck_assert_int_eq(task->index, wanted[i].index);
        ck_assert_str_eq(task->address, wanted[i].address);
        ck_assert_str_eq(task->host, wanted[i].host);
        ck_assert_int_eq(task->port, wanted[i].port);
    }
    ls_cluster_view_free(config);
}

TEST(members_are_chief_workers_and_servers) {
    struct ls_cluster_view *config = parse(two_workers);
    ck_assert_int_eq(config->id_in_cluster, 2);
    for (int rank = 0; rank < 4; rank++) ck_assert_ptr_eq(ls_cluster_view_member(config, rank), &config->tasks[rank]);
    ck_assert_ptr_null(ls_cluster_view_member(config, 4)); /* the evaluator */
    ck_assert_ptr_null(ls_cluster_view_member(config, -1));
    ls_cluster_view_free(config);
    config = parse(NULL);
    ck_assert(!config->cluster_mode && config->type == LS_TASK_NONE && config->is_chief);
    ck_assert_ptr_null(ls_cluster_view_member(config, 0));
    ck_assert_ptr_null(config->canonical);
    ls_cluster_view_free(config);
    ls_cluster_view_free(NULL);
}

/* Order of keys, maps, case, dots, spellings of IPv6 and of ports, evaluator or not, and the task make no difference.
 */
TEST(canonical_is_one_text) {
    static const char other[] =
        "{\"task\":{\"index\":\"0\",\"type\":\"chief\"},\"cluster\":{\"ps\":{\"0\":\"P:4\"},"
        "\"worker\":{\"1\":\"[fd00:0:0:0::7]:03\",\"0\":\"W0.:2\"},\"chief\":[\"c.X:1\"]},\"environment\":\"cloud\"}";
    static const char wanted[] =
        "cluster.chief=1 tasks\ncluster.worker=2 tasks\ncluster.ps=1 tasks\ncluster.chief[0]=c.x:1\n"
        "cluster.worker[0]=w0:2\ncluster.worker[1]=[fd00::7]:3\ncluster.ps[0]=p:4\n";
    struct ls_cluster_view *first = parse(two_workers), *second = parse(other);
    ck_assert_str_eq(first->canonical, wanted);
    ck_assert_str_eq(second->canonical, wanted);
    ls_cluster_view_free(first);
    ls_cluster_view_free(second);
}

TEST(an_address_makes_a_difference) {
    struct ls_cluster_view *a =
        parse("{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}");
    struct ls_cluster_view *b =
        parse("{\"cluster\":{\"worker\":[\"b:1\",\"a:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}");
    struct ls_cluster_view *c =
        parse("{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}");
    ck_assert_str_ne(a->canonical, b->canonical);
    ck_assert_str_ne(a->canonical, c->canonical);
    ls_cluster_view_free(a);
    ls_cluster_view_free(b);
    ls_cluster_view_free(c);
}

/* head, then count times unit, then tail; freed with ls_free. */
static char *repeated(const char *head, const char *unit, size_t count, const char *tail) {
    size_t one = strlen(unit), size = strlen(head) + count * one + strlen(tail) + 1, used = strlen(head);
    char *text = ls_alloc(size);
    ck_assert_ptr_nonnull(text);
    memcpy(text, head, used);
    for (size_t i = 0; i < count; i++, used += one) memcpy(text + used, unit, one);
    memcpy(text + used, tail, strlen(tail));
    return text;
}

static const char worker_and_job[] =
    "{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\",\"index\":0},\"job\":";

TEST(a_large_job_is_ignored) {
    char head[256];
    (void)snprintf(head, sizeof(head), "%s[", worker_and_job);
    char *text = repeated(head, "{\"args\":[\"--flag\",1.5]},", 200000, "null]}"); /* 4.8 MB */
    struct ls_cluster_view *config = parse(text);
    ck_assert_int_eq(config->num_workers, 1);
    ls_cluster_view_free(config);
    ls_free(text);
}

TEST(too_large_a_text_is_refused) {
    char *text = repeated(worker_and_job, " ", (size_t)16 << 20, "1}");
    struct ls_cluster_view *config = NULL;
    assert_refused(ls_tf_config_parse(text, &config), "more than 16 MiB");
    ck_assert_ptr_null(config);
    ls_free(text);
}

static ls_status parse_nested(size_t depth) {
    char *open = repeated(worker_and_job, "[", depth, ""), *text = repeated(open, "]", depth, "}");
    struct ls_cluster_view *config = NULL;
    ls_status status = ls_tf_config_parse(text, &config);
    ls_cluster_view_free(config);
    ls_free(open);
    ls_free(text);
    return status;
}

TEST(nesting_has_a_limit) {
    assert_ok(parse_nested(999)); /* and the object around it */
    assert_refused(parse_nested(1000), "nested more than 1000 deep");
    ck_assert_int_eq(parse_nested(1000000), LS_INVALID_ARGUMENT);
}

/* Twenty thousand workers: nothing here may be quadratic in them. */
TEST(a_large_cluster) {
    LS_CLEANUP(ls_free_pointer) char *text = ls_alloc(1 << 20);
    ck_assert_ptr_nonnull(text);
    size_t used = (size_t)sprintf(text, "{\"cluster\":{\"worker\":[");
    for (int i = 0; i < 20000; i++) used += (size_t)sprintf(text + used, "%s\"worker-%d:2222\"", i ? "," : "", i);
    (void)sprintf(text + used, "]},\"task\":{\"type\":\"worker\",\"index\":19999}}");
    struct ls_cluster_view *config = parse(text);
    ck_assert_int_eq(config->id_in_cluster, 19999);
    ck_assert_str_eq(ls_cluster_view_member(config, 19999)->host, "worker-19999");
    ls_cluster_view_free(config);
}

TEST(long_values_are_cut_in_messages) {
    char *text = repeated("{\"cluster\":{\"", "\\u00e9", 100000, "\":[]}}");
    struct ls_cluster_view *config = NULL;
    assert_refused(ls_tf_config_parse(text, &config), "\\xc3\\xa9...'; use one of");
    ck_assert_uint_lt(strlen(ls_error()), 300);
    ls_free(text);
}

/* ---- Memory that runs out ---- */

enum { PARSE, CHECK_JSON, CHECK_TEXT };

static ls_status run(int what, const char *text, void **result) {
    if (what == PARSE) return ls_tf_config_parse(text, (struct ls_cluster_view **)result);
    return what == CHECK_JSON ? ls_tools_check_json(text, (char **)result) : ls_tools_check_text(text, (char **)result);
}

static void drop(int what, void *result) {
    if (what == PARSE)
        ls_cluster_view_free(result);
    else
        ls_memory_free(result);
}

/* Lets the k-th call fail for k = 0, 1, ... until none fails; returns how many there were. */
static long fail_each_call(int what, const char *text, ls_status wanted) {
    for (long k = 0;; k++) {
        void *result = NULL;
        calls_left = k;
        ls_status status = run(what, text, &result);
        bool failed = calls_left < 0;
        calls_left = -1;
        if (!failed) {
            ck_assert_int_eq(status, wanted);
            drop(what, result);
            return k;
        }
        ck_assert_msg(status == LS_RESOURCE_EXHAUSTED, "call %ld: %s: %s", k, ls_status_name(status), ls_error());
        ck_assert_ptr_nonnull(strstr(ls_error(), "no memory"));
        ck_assert_ptr_null(result);
    }
}

TEST(every_allocation_may_fail) {
    static const char warned[] =
        "{\"Task\":1,\"cluster\":{\"worker\":{\"0\":\"localhost:1\"},\"ps\":[\"p:1\",\"q:1\"]},"
        "\"task\":{\"type\":\"worker\",\"index\":0}}";
    ck_assert_int_ge(fail_each_call(PARSE, two_workers, LS_OK), 20);
    ck_assert_int_ge(fail_each_call(PARSE, warned, LS_OK), 15);
    ck_assert_int_eq(fail_each_call(PARSE, NULL, LS_OK), 1);
    ck_assert_int_ge(fail_each_call(CHECK_JSON, warned, LS_OK), 16);
    ck_assert_int_ge(fail_each_call(CHECK_TEXT, warned, LS_OK), 16);
    ck_assert_int_ge(fail_each_call(CHECK_JSON, "{\"cluster\":{\"worker\":[\"a:1\",\"b\"]}}", LS_INVALID_ARGUMENT), 5);
    ck_assert_int_eq(fail_each_call(CHECK_TEXT, "[", LS_INVALID_ARGUMENT), 2);
}

/* The one argument is the folder of the corpus. */
int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return EXIT_FAILURE;
    }
    corpus_read(argv[1], &corpus);
    int result = RUN_TESTS("resolver/tf_config", .seconds = 60);
    corpus_free(&corpus);
    return result;
}
