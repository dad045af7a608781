/* A list of --augment from any bytes: it is known stages with factors that are numbers, or one error that quotes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common_options.h"
#include "fuzz/fuzz.h"

static const struct ls_option_table tables[] = {
    {"augmentation", ls_augment_option, 0}, {NULL, ls_symmetric_option, 0}, {0}};

static void require(bool condition) {
    if (!condition) abort();
}

/* The command's exit status, -1 where it goes on; an error is printed where there is one, and only there. */
static int parse(char **argv, struct ls_augment *augment) {
    struct ls_command_line line = {"fuzz", 3, argv, "", "", tables, 0};
    FILE *terminal = stderr;
    char *printed = NULL;
    size_t length = 0;
    stderr = open_memstream(&printed, &length);
    require(stderr != NULL);
    int code = ls_options_read(&line, augment);
    require(!fclose(stderr));
    stderr = terminal;
    require(code == -1 ? !length : code == LS_EXIT_USAGE && !strncmp(printed, "fuzz: --augment ", 16));
    free(printed);
    return code;
}

static bool is_number(const float range[2]) {
    return !isnan(range[0]) && !isnan(range[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_augment augment = {0};
    char list[600] = "--augment=", symmetric[] = "--symmetric", name[] = "fuzz";
    char *argv[] = {name, symmetric, list, NULL};
    size_t begin = strlen(list);
    if (size > sizeof(list) - begin - 1 || memchr(data, 0, size)) return 0;
    memcpy(list + begin, data, size);
    if (parse(argv, &augment) >= 0) return 0;
    require(augment.count >= 0 && augment.count <= LS_AUGMENT_MAX);
    for (int i = 0; i < augment.count; i++) {
        const ls_map *map = &augment.train[i];
        require(map->kind != 0 && map->kind != LS_MAP_RESCALE && map->padding >= 0 && map->amount >= 0);
        require(is_number(map->factor) && is_number(map->height_factor) && is_number(map->width_factor));
    }
    require(augment.train[augment.count].kind == LS_MAP_RESCALE && augment.test[0].kind == LS_MAP_RESCALE);
    return 0;
}
