/* Strings as JSON has them. */
#include "base/json.h"

#include <math.h>

#include "base/plain.h"

void ls_json_put(FILE *stream, const char *text) {
    (void)fputc('"', stream);
    for (size_t length; *text; text += length ? length : 1) {
        length = ls_plain_character(text);
        if (!length)
            (void)fputs("\\ufffd", stream); /* the replacement character */
        else if (*text == '"' || *text == '\\')
            (void)fprintf(stream, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            (void)fprintf(stream, "\\u%04x", (unsigned char)*text);
        else
            (void)fwrite(text, 1, length, stream);
    }
    (void)fputc('"', stream);
}

void ls_json_put_number(FILE *stream, double value) {
    (void)ls_plain_print(stream, "%.9g", value);
}

/* By powers of ten; numbers for which there are none are written as they are. */
void ls_json_put_rounded(FILE *stream, double value, int digits) {
    double size = fabs(value) > 0 ? floor(log10(fabs(value))) : 0, unit = pow(10, size + 1 - digits);
    bool fits = fabs(value) > 1e-300 && fabs(value) < 1e300;
    ls_json_put_number(stream, fits ? round(value / unit) * unit : value);
}

void ls_json_put_member(FILE *stream, const char *before, const char *name, const char *text) {
    (void)fprintf(stream, "%s\"%s\": ", before, name);
    if (text)
        ls_json_put(stream, text);
    else
        (void)fputs("null", stream);
}
