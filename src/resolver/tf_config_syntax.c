/* A scanner over RFC 8259's grammar. It builds nothing: cJSON makes the tree. It is here because cJSON gives no reason
 * and lets pass what Python's json module refuses (control bytes, 01, 1.), and because most broken TF_CONFIGs come from
 * a shell or a Python print and can be recognised. */
#include "resolver/tf_config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "resolver/tf_config_json.h"
#include "base/plain.h"

#define NUMBER_SIZE 62 /* characters; cJSON cuts longer ones */

struct scanner {
    const char *text, *at;
    char closers[LS_JSON_DEPTH]; /* ']' or '}' of each open list and object */
    int depth;
};

struct position {
    size_t line, column; /* from 1; the column counts characters, not bytes */
};

static struct position locate(const char *text, const char *at) {
    struct position position = {1, 1};
    for (const char *c = text; c < at; c++) {
        if (*c == '\n')
            position = (struct position){position.line + 1, 1};
        else
            position.column += (*c & 0xC0) != 0x80; /* not the rest of a UTF-8 sequence */
    }
    return position;
}

static ls_status refuse_at(const struct scanner *scanner, const char *at, const char *why) {
    struct position position = locate(scanner->text, at);
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG is bad JSON at line %zu, column %zu: %s", position.line,
                   position.column, why);
}

static ls_status refuse_next(const struct scanner *scanner, const char *why) {
    return refuse_at(scanner, scanner->at, why);
}

static const char *shown(char c, char text[8]) {
    bool plain = c > ' ' && c <= '~';
    (void)snprintf(text, 8, plain ? "'%c'" : "0x%02x", (unsigned char)c);
    return text;
}

/* Frequent mistakes where JSON wants a value or a key. */
static const struct {
    const char *start, *hint;
} hints[] = {
    {"'", "a single quote; strings stand in double quotes (a Python dict? write it with json.dumps)"},
    {"\xE2\x80\x98", "a typographic quote; type plain double quotes"},
    {"\xE2\x80\x99", "a typographic quote; type plain double quotes"},
    {"\xE2\x80\x9C", "a typographic quote; type plain double quotes"},
    {"\xE2\x80\x9D", "a typographic quote; type plain double quotes"},
    {"\xEF\xBB\xBF", "a UTF-8 byte order mark; save the text without BOM"},
    {"True", "Python's True; JSON writes true"},
    {"False", "Python's False; JSON writes false"},
    {"None", "Python's None; JSON writes null"},
    {"//", "a comment; JSON has none, remove it"},
    {"/*", "a comment; JSON has none, remove it"},
    {"#", "a comment; JSON has none, remove it"},
    {"$", "a shell variable that was not expanded; put its value here"},
    {"\\", "a backslash outside a string; the text is escaped once too often"},
    {"NaN", "NaN is no JSON"},
    {"Infinity", "Infinity is no JSON"},
};

static const char *find_hint(const char *at) {
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (!strncmp(at, hints[i].start, strlen(hints[i].start))) return hints[i].hint;
    if (ls_plain_is_letter(*at) || *at == '_')
        return "a word without double quotes (removed by a shell? put the whole text in single quotes there)";
    return NULL;
}

static ls_status refuse_here(const struct scanner *scanner, const char *wanted) {
    char why[256], byte[8];
    const char *hint = find_hint(scanner->at);
    if (!*scanner->at)
        (void)snprintf(why, sizeof(why), "the text ends where %s should stand; it was cut off", wanted);
    else if (hint)
        return refuse_next(scanner, hint);
    else
        (void)snprintf(why, sizeof(why), "%s where %s should stand", shown(*scanner->at, byte), wanted);
    return refuse_next(scanner, why);
}

static void skip_space(struct scanner *scanner) {
    scanner->at += strspn(scanner->at, " \t\r\n");
}

/* The four digits of \uXXXX; -1 if they are not there. */
static int read_unit(const char *digits) {
    int unit = 0;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)digits[i])) return -1;
        int digit = isdigit((unsigned char)digits[i]) ? digits[i] - '0' : (digits[i] | 0x20) - 'a' + 10;
        unit = unit << 4 | digit;
    }
    return unit;
}

static ls_status scan_unicode(struct scanner *scanner) {
    int unit = read_unit(scanner->at + 2);
    if (unit < 0) return refuse_next(scanner, "\\u without four hexadecimal digits");
    if (unit == 0) return refuse_next(scanner, "\\u0000, a zero character; remove it");
    if (unit >= 0xDC00 && unit <= 0xDFFF) return refuse_next(scanner, "the second half of a surrogate pair alone");
    if (unit >= 0xD800 && unit <= 0xDBFF) {
        int low = scanner->at[6] == '\\' && scanner->at[7] == 'u' ? read_unit(scanner->at + 8) : -1;
        if (low < 0xDC00 || low > 0xDFFF) return refuse_next(scanner, "the first half of a surrogate pair alone");
        scanner->at += 6;
    }
    scanner->at += 6;
    return LS_OK;
}

static ls_status scan_escape(struct scanner *scanner) {
    char next = scanner->at[1];
    if (next == 'u') return scan_unicode(scanner);
    if (!next || !strchr("\"\\/bfnrt", next)) return refuse_next(scanner, "a backslash that escapes nothing");
    scanner->at += 2;
    return LS_OK;
}

static ls_status scan_string(struct scanner *scanner) {
    const char *start = scanner->at++;
    while (*scanner->at != '"') {
        if (!*scanner->at)
            return refuse_at(scanner, start, "a string that never ends; its closing double quote is missing");
        if ((unsigned char)*scanner->at < ' ')
            return refuse_next(scanner, "a raw line break or control byte inside a string; remove it");
        if (*scanner->at != '\\') {
            scanner->at++;
            continue;
        }
        ls_status status = scan_escape(scanner);
        if (status) return status;
    }
    scanner->at++;
    return LS_OK;
}

static size_t digits(const char *at) {
    return strspn(at, "0123456789");
}

/* The length of the number at at; 0 if there is none. */
static size_t number_length(const char *at) {
    const char *c = at + (*at == '-');
    if (!digits(c)) return 0;
    c += *c == '0' ? 1 : digits(c);
    if (*c == '.') {
        if (!digits(c + 1)) return 0;
        c += 1 + digits(c + 1);
    }
    if (*c == 'e' || *c == 'E') {
        c += 1 + (c[1] == '+' || c[1] == '-');
        if (!digits(c)) return 0;
        c += digits(c);
    }
    return (size_t)(c - at);
}

static ls_status scan_scalar(struct scanner *scanner) {
    static const char *const words[] = {"true", "false", "null"};
    if (*scanner->at == '"') return scan_string(scanner);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strncmp(scanner->at, words[i], strlen(words[i]))) {
            scanner->at += strlen(words[i]);
            return LS_OK;
        }
    size_t length = number_length(scanner->at);
    if (length > NUMBER_SIZE) return refuse_next(scanner, "a number of more than 62 characters");
    if (!length && (*scanner->at == '-' || isdigit((unsigned char)*scanner->at)))
        return refuse_next(scanner, "a number that is not finished");
    if (!length) return refuse_here(scanner, "a value");
    scanner->at += length;
    return LS_OK;
}

/* "key": inside an object; nothing inside a list. */
static ls_status scan_key(struct scanner *scanner) {
    if (!scanner->depth || scanner->closers[scanner->depth - 1] != '}') return LS_OK;
    skip_space(scanner);
    if (*scanner->at != '"') return refuse_here(scanner, "a key in double quotes");
    ls_status status = scan_string(scanner);
    if (status) return status;
    skip_space(scanner);
    if (*scanner->at != ':') return refuse_here(scanner, "the ':' after a key");
    scanner->at++;
    return LS_OK;
}

/* A scalar, or the opening of a list or object; *opened says which. An empty list or object is taken whole. */
static ls_status scan_value(struct scanner *scanner, bool *opened) {
    ls_status status = scan_key(scanner);
    if (status) return status;
    skip_space(scanner);
    *opened = *scanner->at == '[' || *scanner->at == '{';
    if (!*opened) return scan_scalar(scanner);
    if (scanner->depth == LS_JSON_DEPTH) return refuse_next(scanner, "lists and objects nested more than 1000 deep");
    scanner->closers[scanner->depth++] = *scanner->at == '[' ? ']' : '}';
    scanner->at++;
    skip_space(scanner);
    *opened = *scanner->at != scanner->closers[scanner->depth - 1];
    return LS_OK;
}

/* After a value: closes what ends here; *more says whether a comma and so another value follows. */
static ls_status scan_separator(struct scanner *scanner, bool *more) {
    for (skip_space(scanner); scanner->depth; skip_space(scanner)) {
        char closer = scanner->closers[scanner->depth - 1];
        if (*scanner->at == ',') break;
        if (*scanner->at != closer)
            return refuse_here(scanner, closer == ']' ? "',' or ']' in a list" : "',' or '}' in an object");
        scanner->at++;
        scanner->depth--;
    }
    *more = scanner->depth > 0;
    if (!*more) return LS_OK;
    const char *comma = scanner->at++;
    skip_space(scanner);
    if (*scanner->at == ']' || *scanner->at == '}')
        return refuse_at(scanner, comma, "a trailing comma before a closing bracket; remove it");
    return LS_OK;
}

static ls_status scan_start(const struct scanner *scanner) {
    const char *text = scanner->text;
    if (!text[strspn(text, " \t\r\n")])
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG is set but empty; unset it to train alone, or give it JSON with cluster and task");
    if (*text == '\'' && text[1] == '{')
        return refuse_next(scanner, "the value itself stands in single quotes (from an env file?); remove them");
    return LS_OK;
}

ls_status ls_tf_config_syntax_check(const char *text) {
    struct scanner scanner = {.text = text, .at = text};
    ls_status status = scan_start(&scanner);
    for (bool more = true, opened; !status && more;) {
        status = scan_value(&scanner, &opened);
        if (!status && !opened) status = scan_separator(&scanner, &more);
    }
    if (status) return status;
    return *scanner.at ? refuse_next(&scanner, "more text after the end of the JSON; remove it") : LS_OK;
}
