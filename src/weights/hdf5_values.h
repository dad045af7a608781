/* Arrays and attributes. */
#pragma once
#include "weights/hdf5.h"

ls_status ls_hdf5_values_read(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_array *array);
/* The object's attribute of that name, one text or an array of them, behind what texts holds already. *present tells
 * whether there is one. */
ls_status ls_hdf5_values_attribute(struct ls_hdf5 *file, uint64_t object, const char *name, bool *present,
                                   struct ls_hdf5_texts *texts);
void ls_hdf5_values_free_texts(struct ls_hdf5_texts *texts);
