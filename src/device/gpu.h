/* The row of GPUs in the table of device kinds, and what else their plugin has. The plugin is looked for when something
 * here is asked for the first time, once a process. */
#pragma once
#include "device/device.h"
#include "device/device_group.h"

extern const struct ls_device_kind ls_gpu_kind;
/* Collectives between GPUs. Returns NULL without any; then *why says why. */
const struct ls_device_group_ops *ls_gpu_group(const char **why);
/* NULL, or what hinders GPUs although somebody has installed them or named a plugin: for a warning to who falls back to
 * the CPU. */
const char *ls_gpu_trouble(void);
/* Writes the versions that fix the bits of GPUs; empty without GPUs. */
void ls_gpu_fingerprint(char *text, size_t size);
