/* Numbers are written with all their digits: what is read back scales to the same bits. */
#include "data/dataset.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/plain.h"
#include "base/text.h"

static void put_column(FILE *out, const struct ls_column *column, bool scaled) {
    ls_json_print(out, "{'name': %s", column->name);
    if (!column->words && scaled)
        ls_json_print(out, ", 'mean': %.17g, 'deviation': %.17g", column->mean, column->deviation);
    for (int64_t i = 0; i < column->categories.count; i++)
        ls_json_print(out, "%-s%s", i ? ", " : ", \"categories\": [", column->categories.list[i]->name);
    (void)fputs(column->words ? "]}" : "}", out);
}

static void put_columns(FILE *out, const struct ls_transform *transform) {
    (void)fputs("{\"columns\": [", out);
    for (int64_t i = 0; i < transform->count; i++) {
        if (i) (void)fputs(", ", out);
        put_column(out, &transform->columns[i], true);
    }
    (void)fputc(']', out);
    if (transform->target.name) {
        (void)fputs(", \"target\": ", out);
        put_column(out, &transform->target, false);
    }
    (void)fputc('}', out);
}

ls_status ls_transform_write(const struct ls_transform *transform, char **text) {
    return LS_TEXT(out, put_columns(out, transform), "a transform", text);
}

static ls_status fail_parse(const char *what) {
    return ls_fail(LS_INVALID_ARGUMENT, "transform: %s; it is what ls_dataset_transform gives", what);
}

static ls_status read_categories(const cJSON *list, struct ls_column *column) {
    const cJSON *item;
    ls_status status = cJSON_GetArraySize(list) ? LS_OK : fail_parse("categories are empty");
    column->words = true;
    cJSON_ArrayForEach(item, list) {
        int32_t number;
        if (!status && !cJSON_IsString(item)) status = fail_parse("a category is no text");
        if (!status) status = ls_categories_add(&column->categories, item->valuestring, &number);
    }
    return status;
}

static ls_status read_column(const cJSON *object, bool scaled, struct ls_column *column) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(object, "name");
    const cJSON *mean = cJSON_GetObjectItemCaseSensitive(object, "mean");
    const cJSON *deviation = cJSON_GetObjectItemCaseSensitive(object, "deviation");
    const cJSON *categories = cJSON_GetObjectItemCaseSensitive(object, "categories");
    if (!cJSON_IsString(name)) return fail_parse("a column has no name");
    column->name = ls_strdup(name->valuestring);
    if (!column->name) return ls_fail_memory("a column", 1);
    if (cJSON_IsArray(categories)) return read_categories(categories, column);
    if (!scaled) return LS_OK;
    if (!cJSON_IsNumber(mean) || !cJSON_IsNumber(deviation) || !isfinite(mean->valuedouble) ||
        !(deviation->valuedouble > 0) || !isfinite(deviation->valuedouble))
        return fail_parse("a column has no mean and deviation");
    column->mean = mean->valuedouble;
    column->deviation = deviation->valuedouble;
    return LS_OK;
}

static ls_status read_object(const cJSON *object, struct ls_transform *transform) {
    const cJSON *columns = cJSON_GetObjectItemCaseSensitive(object, "columns"), *item;
    const cJSON *target = cJSON_GetObjectItemCaseSensitive(object, "target");
    int count = cJSON_IsArray(columns) ? cJSON_GetArraySize(columns) : 0;
    if (!count) return fail_parse("it has no columns");
    transform->columns = ls_alloc_array((size_t)count, sizeof(*transform->columns));
    if (!transform->columns) return ls_fail_memory("columns", (size_t)count * sizeof(*transform->columns));
    ls_status status = LS_OK;
    cJSON_ArrayForEach(item, columns) {
        if (!status) status = read_column(item, true, &transform->columns[transform->count++]);
    }
    return status || !target ? status : read_column(target, false, &transform->target);
}

ls_status ls_transform_read(const char *text, struct ls_transform *transform) {
    LS_PLAIN;
    cJSON *object = cJSON_Parse(text);
    ls_status status = object ? read_object(object, transform) : fail_parse("it is no JSON");
    cJSON_Delete(object);
    return status;
}

void ls_transform_free(struct ls_transform *transform) {
    for (int64_t i = 0; i < transform->count; i++) ls_column_free(&transform->columns[i]);
    ls_free(transform->columns);
    ls_column_free(&transform->target);
    *transform = (struct ls_transform){0};
}
