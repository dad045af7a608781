/* The one function that every fuzz_<name>.c defines; libFuzzer or replay.c calls it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
