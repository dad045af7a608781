/* Strings as JSON has them. */
#include "base/json.h"

#include <stdbool.h>
#include <string.h>

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

/* The locale's point, of one byte or several, is all that is no digit, sign or exponent. */
static void put_digits(FILE *stream, int digits, double value) {
    char text[40];
    (void)snprintf(text, sizeof(text), "%.*g", digits, value);
    for (const char *c = text; *c; c++) {
        bool plain = strchr("0123456789+-e", *c) != NULL;
        if (plain || (c > text && strchr("0123456789", c[-1]))) (void)fputc(plain ? *c : '.', stream);
    }
}

void ls_json_put_number(FILE *stream, double value) {
    put_digits(stream, 9, value);
}

void ls_json_put_exact(FILE *stream, double value) {
    put_digits(stream, 17, value);
}
