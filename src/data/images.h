/* A folder of images, a class each subfolder. */
#pragma once
#include "data/sources.h"

ls_status ls_images_present(const char *folder, bool *present);
