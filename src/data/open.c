/* Which kind of source a name means. */
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "data/sources.h"
#include "data/files.h"
#include "data/images.h"
#include "data/reader.h"
#include "data/dataset.h"
#include "data/role.h"

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text);
    return length >= strlen(end) && !strcmp(text + length - strlen(end), end);
}

/* Pictures that lie in no folder of a class. */
static ls_status refuse_flat(const char *folder) {
    LS_CLEANUP(ls_files_names_free) struct ls_names names = {0};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &names);
    int64_t images = 0;
    for (int64_t i = 0; i < names.count; i++) images += ls_images_name(names.names[i]);
    if (status || !images) return status;
    return ls_fail(LS_NOT_FOUND,
                   "folder '%s' holds %lld images and no folder of a class with images in it: put them into one each "
                   "class; only lockstep predict (ls_dataset_paths) takes them without",
                   folder, (long long)images);
}

static ls_status open_folder(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    bool mnist = false, cifar10 = false, numpy = false, tfrecord = false, images = false, table = false,
         test = options->split != LS_TRAIN;
    ls_split of_two = ls_role_of_two(options->split);
    ls_status status = ls_mnist_present(folder, of_two, &mnist);
    if (!status) status = ls_cifar10_present(folder, of_two, &cifar10);
    if (!status) status = ls_numpy_present(folder, options->split, &numpy);
    if (!status) status = ls_tfrecord_present(folder, &tfrecord);
    if (!status) status = ls_images_present(folder, &images);
    if (!status) status = ls_table_files_present(folder, &table);
    if (status) return status;
    if (mnist) return ls_dataset_mnist(folder, options, dataset);
    if (cifar10) return ls_dataset_cifar10(folder, options, dataset);
    if (numpy) return ls_dataset_numpy(folder, options, dataset);
    if (tfrecord) return ls_dataset_tfrecord(folder, options, dataset);
    if (images) return ls_dataset_images(folder, options, dataset);
    if (table) return ls_dataset_csv(folder, options, dataset);
    status = refuse_flat(folder);
    if (status) return status;
    return ls_fail(LS_NOT_FOUND,
                   "folder '%s' holds neither %s-images-idx3-ubyte (or .gz) nor %s, nor NumPy arrays, nor "
                   "NAME.tfrecord, nor folders of images, nor train.csv",
                   folder, test ? "t10k" : "train", test ? "test_batch.bin" : "data_batch_1.bin");
}

ls_status ls_dataset_open(const char *name, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status) return status;
    if (name && !strcmp(name, "digits")) return ls_dataset_digits(&filled, dataset);
    if (name && !strcmp(name, "shapes")) return ls_dataset_shapes(&filled, dataset);
    if (name && !strcmp(name, "words")) return ls_dataset_words(&filled, dataset);
    if (name && filled.tokens) return ls_dataset_tokens(name, &filled, dataset);
    bool archive = false, table = false;
    status = ls_table_meant(name, &filled, &table);
    if (table) return ls_dataset_csv(name, &filled, dataset);
    if (!status && name && ends_with(name, ".npz")) status = ls_file_is(name, LS_NAMES_FILES, &archive);
    if (archive) return ls_dataset_numpy(name, &filled, dataset);
    if (!status) status = ls_reader_folder_check(name);
    bool file = false;
    if (status == LS_NOT_FOUND && name && !ls_file_is(name, LS_NAMES_FILES, &file) && file)
        return ls_fail(status,
                       "'%s' is a file, and neither .csv nor .npz: set tokens (--tokens) for one of tokens, or "
                       "name a folder of data",
                       name);
    if (status == LS_NOT_FOUND)
        return ls_fail_context(status, "no dataset '%s' is built in (digits, shapes and words are)", name);
    return status ? status : open_folder(name, &filled, dataset);
}
