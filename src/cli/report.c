/* Counts, and the area under the ROC curve by ranks: ties count half (Mann and Whitney). */
#include "cli/report.h"

#include <lockstep/tools.h>
#include <math.h>
#include <stdlib.h>

#include "cli/commands.h"

struct scored {
    float score;
    bool positive;
};

static int by_score(const void *a, const void *b) {
    float first = ((const struct scored *)a)->score, second = ((const struct scored *)b)->score;
    return (first > second) - (first < second);
}

/* scored is in order. */
static double area(const struct scored *scored, int64_t rows) {
    double ranks = 0, positives = 0;
    for (int64_t begin = 0, end; begin < rows; begin = end) {
        for (end = begin; end < rows && !(scored[end].score > scored[begin].score); end++) continue;
        double rank = (double)(begin + end + 1) / 2; /* of all that are equal */
        for (int64_t i = begin; i < end; i++) ranks += scored[i].positive ? rank : 0;
        for (int64_t i = begin; i < end; i++) positives += scored[i].positive;
    }
    double others = (double)rows - positives;
    return positives > 0 && others > 0 ? (ranks - positives * (positives + 1) / 2) / (positives * others) : (double)NAN;
}

static double auc_of(const float *values, const int32_t *labels, int64_t rows, int64_t width, int class,
                     struct scored *scored) {
    for (int64_t r = 0; r < rows; r++)
        scored[r] =
            (struct scored){(float)ls_outputs_probability(values + r * width, width, class), labels[r] == class};
    qsort(scored, (size_t)rows, sizeof(*scored), by_score);
    return area(scored, rows);
}

static double ratio_of(int64_t part, int64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

static void measure_class(struct ls_report_table *report, int class) {
    struct ls_class_report *of = &report->of[class];
    int64_t said = 0, right = report->confusion[class * report->classes + class];
    for (int i = 0; i < report->classes; i++) {
        of->examples += report->confusion[class * report->classes + i];
        said += report->confusion[i * report->classes + class];
    }
    of->precision = ratio_of(right, said);
    of->recall = ratio_of(right, of->examples);
    of->f1 = ratio_of(2 * right, said + of->examples);
}

static void take_mean(struct ls_report_table *report) {
    int occurring = 0, areas = 0;
    struct ls_class_report *mean = &report->mean;
    for (int c = 0; c < report->classes; c++) {
        const struct ls_class_report *of = &report->of[c];
        mean->examples += of->examples;
        if (!of->examples) continue;
        occurring++;
        mean->precision += of->precision;
        mean->recall += of->recall;
        mean->f1 += of->f1;
        areas += !isnan(of->auc);
        mean->auc += isnan(of->auc) ? 0 : of->auc;
    }
    if (occurring) mean->precision /= occurring, mean->recall /= occurring, mean->f1 /= occurring;
    mean->auc = areas ? mean->auc / areas : (double)NAN;
}

bool ls_report_make(const float *values, const int32_t *labels, int64_t rows, int64_t width, int classes,
                    struct ls_report_table *report) {
    struct scored *scored = calloc((size_t)rows, sizeof(*scored));
    *report = (struct ls_report_table){.classes = classes,
                                       .confusion = calloc((size_t)classes * (size_t)classes, sizeof(int64_t)),
                                       .of = calloc((size_t)classes, sizeof(struct ls_class_report))};
    bool good = scored && report->confusion && report->of;
    for (int64_t r = 0; good && r < rows; r++)
        report->confusion[labels[r] * classes + ls_outputs_class(values + r * width, width, false)]++;
    for (int c = 0; good && c < classes; c++) {
        measure_class(report, c);
        report->of[c].auc = auc_of(values, labels, rows, width, c, scored);
    }
    if (good) take_mean(report);
    free(scored);
    return good;
}

void ls_report_free(struct ls_report_table *report) {
    free(report->confusion);
    free(report->of);
}

/* ---- for people, and as JSON ---- */

static void print_row(const char *what, const struct ls_class_report *of) {
    (void)printf("%-20.20s %9.4f %9.4f %9.4f ", what, of->precision, of->recall, of->f1);
    if (isnan(of->auc))
        (void)printf("%9s %9lld\n", "-", (long long)of->examples);
    else
        (void)printf("%9.4f %9lld\n", of->auc, (long long)of->examples);
}

static const char *label_of(int class, ls_report_name_fn *name, const void *context, char *text, size_t size) {
    const char *found = name(context, class);
    (void)snprintf(text, size, found ? "%d %s" : "%d", class, found);
    return text;
}

void ls_report_print(const struct ls_report_table *report, ls_report_name_fn *name, const void *context) {
    enum { WIDEST = 20 }; /* classes whose confusion a terminal shows */
    char label[300];
    (void)printf("%-20s %9s %9s %9s %9s %9s\n", "class", "precision", "recall", "f1", "auc", "examples");
    for (int c = 0; c < report->classes; c++)
        print_row(label_of(c, name, context, label, sizeof(label)), &report->of[c]);
    print_row("mean", &report->mean);
    if (report->classes > WIDEST) return;
    (void)printf("\n%-20s", "is \\ said to be");
    for (int c = 0; c < report->classes; c++) (void)printf(" %6d", c);
    for (int row = 0; row < report->classes; row++) {
        (void)printf("\n%-20.20s", label_of(row, name, context, label, sizeof(label)));
        for (int c = 0; c < report->classes; c++)
            (void)printf(" %6lld", (long long)report->confusion[row * report->classes + c]);
    }
    (void)printf("\n");
}

static void put_numbers(const struct ls_class_report *of) {
    ls_tools_print_json(stdout, "'precision': %.9g, 'recall': %.9g, 'f1': %.9g, 'auc': %.9g, 'examples': %lld}",
                        of->precision, of->recall, of->f1, of->auc, (long long)of->examples);
}

void ls_report_json(const struct ls_report_table *report, ls_report_name_fn *name, const void *context) {
    (void)printf(", \"report\": {\"classes\": [");
    for (int c = 0; c < report->classes; c++) {
        const char *found = name(context, c);
        (void)printf("%s{\"class\": %d, ", c ? ", " : "", c);
        if (found) ls_tools_print_json(stdout, "'name': %s, ", found);
        put_numbers(&report->of[c]);
    }
    (void)printf("], \"mean\": {");
    put_numbers(&report->mean);
    (void)printf(", \"confusion\": [");
    for (int row = 0; row < report->classes; row++) {
        (void)printf(row ? ", [" : "[");
        for (int c = 0; c < report->classes; c++)
            (void)printf(c ? ", %lld" : "%lld", (long long)report->confusion[row * report->classes + c]);
        (void)printf("]");
    }
    (void)printf("]}");
}
