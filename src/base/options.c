/* Reading option structs of this and older versions. */
#include "base/options.h"

#include <string.h>

#include "base/status.h"

ls_status ls_options_copy(const char *name, void *copy, size_t known, const void *options) {
    size_t size = 0;
    memset(copy, 0, known);
    if (!options) return LS_OK;
    memcpy(&size, options, sizeof(size));
    if (size < sizeof(size) || size > known)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s.size is %zu, this library knows %zu bytes: fill the struct with its macro and use the "
                       "header of this version (%s)",
                       name, size, known, LS_VERSION);
    memcpy(copy, options, size);
    return LS_OK;
}
