/* Rounds by powers of ten; numbers for which there are none are written as they are. */
#include "tools/rounded.h"

#include <math.h>
#include <stdbool.h>

#include "base/json.h"

void ls_rounded_put(FILE *stream, double value, int digits) {
    double size = fabs(value) > 0 ? floor(log10(fabs(value))) : 0, unit = pow(10, size + 1 - digits);
    bool fits = fabs(value) > 1e-300 && fabs(value) < 1e300;
    ls_json_put_number(stream, fits ? round(value / unit) * unit : value);
}
