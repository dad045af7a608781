/* Strings as JSON has them. */
#include "base/json.h"

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

void ls_json_put_exact(FILE *stream, double value) {
    (void)ls_plain_print(stream, "%.17g", value);
}
