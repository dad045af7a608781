/* TFRecord files of tf.train.Example, as tensorflow_datasets writes them. */
#pragma once
#include "data/sources.h"

ls_status ls_tfrecord_present(const char *folder, bool *present);
