/* The host functions that the plugin's entry gives to status.c. */
#pragma once
#include "device/plugin.h"

void ls_cuda_set_host(const struct ls_plugin_host *host);
