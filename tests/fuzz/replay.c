/* The main of a fuzzer without libFuzzer: gives every file of the folders (or files) named as arguments to
 * LLVMFuzzerTestOneInput once, so that the recorded inputs run in every test run, under any compiler and sanitizer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

static long file_size(FILE *file) {
    struct stat info;
    return fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) ? (long)info.st_size : -1;
}

/* The buffer is exactly as large as the file, so that a sanitizer sees any read past its end. */
static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = file ? file_size(file) : -1;
    uint8_t *bytes = size >= 0 ? malloc(size ? (size_t)size : 1) : NULL;
    int failed = !bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size;
    if (failed)
        (void)fprintf(stderr, "cannot read %s\n", path);
    else
        (void)LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    if (file) (void)fclose(file);
    return failed ? -1 : 1;
}

/* The number of inputs that were run, or -1 if one could not be read. */
static int replay_folder(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort), inputs = 0;
    if (count < 0) return replay_file(folder);
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (inputs >= 0 && entries[i]->d_name[0] != '.') inputs = replay_file(path) < 0 ? -1 : inputs + 1;
        free(entries[i]);
    }
    free(entries);
    return inputs;
}

int main(int argc, char **argv) {
    int inputs = 0;
    for (int i = 1; i < argc; i++) {
        int replayed = replay_folder(argv[i]);
        if (replayed < 0) return 1;
        inputs += replayed;
    }
    (void)printf("%d inputs\n", inputs);
    return inputs ? 0 : 1; /* an empty corpus tests nothing */
}
