/* Strings as JSON has them. */
#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

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

/* By powers of ten; numbers for which there are none stay as they are. */
double ls_json_rounded(double value, int digits) {
    double size = fabs(value) > 0 ? floor(log10(fabs(value))) : 0, unit = pow(10, size + 1 - digits);
    bool fits = fabs(value) > 1e-300 && fabs(value) < 1e300;
    return fits ? round(value / unit) * unit : value;
}

/* One conversion of a format. */
static void put_value(FILE *stream, const char *conversion, va_list *arguments) {
    char kind = conversion[strlen(conversion) - 1];
    if (kind == 's') {
        const char *text = va_arg(*arguments, const char *);
        if (text && conversion[1] != '-')
            ls_json_put(stream, text);
        else
            (void)fputs(text ? text : "null", stream);
    } else if (kind == 'i') {
        (void)fputs(va_arg(*arguments, int) ? "true" : "false", stream);
    } else if (kind == 'f' || kind == 'g') {
        double value = va_arg(*arguments, double);
        (void)ls_plain_print(stream, isfinite(value) ? conversion : "null", value);
    } else if (strchr(conversion, 'z') || strchr(conversion, 'l')) {
        (void)fprintf(stream, conversion, va_arg(*arguments, long long));
    } else {
        (void)fprintf(stream, conversion, va_arg(*arguments, int));
    }
}

void ls_json_print_list(FILE *stream, const char *format, va_list *arguments) {
    for (; *format; format++) {
        char conversion[16];
        size_t length = *format == '%' ? strcspn(format, "sifgdu") + 1 : 0;
        if (length)
            (void)snprintf(conversion, sizeof(conversion), "%.*s", (int)length, format);
        else
            (void)fputc(*format == '\'' ? '"' : *format, stream);
        if (length) put_value(stream, conversion, arguments);
        if (length) format += length - 1;
    }
}

void ls_json_print(FILE *stream, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    ls_json_print_list(stream, format, &arguments);
    va_end(arguments);
}
