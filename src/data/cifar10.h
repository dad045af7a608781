/* CIFAR-10's binary version: records of one label byte and 3 planes of 32 x 32 bytes. */
#pragma once
#include "data/sources.h"
#include <lockstep/lockstep.h>

#define LS_CIFAR10_PIXELS 1024
#define LS_CIFAR10_RECORD (1 + 3 * LS_CIFAR10_PIXELS)

/* Checks the whole contents of a file and counts its records; name is for messages. DATA_LOSS naming the offset. */
ls_status ls_cifar10_parse(const char *name, const uint8_t *bytes, size_t size, int64_t *records);
ls_status ls_cifar10_present(const char *folder, ls_split split, bool *present);
