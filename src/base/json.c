/* Strings as JSON has them. */
#include "base/json.h"

#include <string.h>

#include "base/plain.h"

void ls_json_put(FILE *stream, const char *text) {
    (void)fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fprintf(stream, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            (void)fprintf(stream, "\\u%04x", (unsigned char)*text);
        else
            (void)fputc(*text, stream);
    }
    (void)fputc('"', stream);
}

void ls_json_put_ascii(FILE *stream, const char *text) {
    (void)fputc('"', stream);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7E)
            (void)fprintf(stream, "\\u%04x", c);
        else
            (void)fputc(c, stream);
    }
    (void)fputc('"', stream);
}

void ls_json_put_number(FILE *stream, double value) {
    (void)ls_plain_print(stream, "%.9g", value);
}

void ls_json_put_exact(FILE *stream, double value) {
    (void)ls_plain_print(stream, "%.17g", value);
}
