/* The CPU as a kind of device: its row in the table of kinds. Every process has it, whatever else computes. */
#pragma once
#include "device/device.h"

extern const struct ls_device_kind ls_cpu_kind;
/* Writes what fixes the CPU's bits: instruction set and library, but not the number of threads. */
void ls_cpu_fingerprint(char *text, size_t size);
