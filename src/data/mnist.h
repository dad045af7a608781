/* MNIST and its kin (Fashion-MNIST, EMNIST, KMNIST). */
#pragma once
#include "data/sources.h"

/* *present is true if folder holds the images of that split. */
ls_status ls_mnist_present(const char *folder, ls_split split, bool *present);
