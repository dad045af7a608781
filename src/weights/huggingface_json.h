/* The JSON of a folder of Hugging Face's: the fields of config.json by a table, and the files of an index. */
#pragma once
#include "data/files.h"

/* A field of an object: where its value goes, or the one value that it may have. */
struct ls_json_field {
    const char *name;
    enum {
        LS_JSON_COUNT, /* an int from 1 on; null: 0 */
        LS_JSON_REAL,  /* a float above 0 */
        LS_JSON_RATE,  /* a float from 0 to below 1 */
        LS_JSON_FLAG,
        LS_JSON_WORD,   /* an int: the place in words, or a value beside the word */
        LS_JSON_MUST,   /* another value than must changes what the model computes, as it is not computed here */
        LS_JSON_FIELDS, /* an object of further fields */
        LS_JSON_IDLE    /* it changes nothing */
    } kind;
    size_t offset;
    bool needed;
    const char *must; /* as JSON */
    const struct ls_json_word {
        const char *word;
        int value;
    } * words;                          /* ends with a row without word */
    const struct ls_json_field *fields; /* ends with a row without name */
};
/* The text of the object's field of that name; "" where there is none. INVALID_ARGUMENT where text is no object. path
 * is for messages. */
ls_status ls_huggingface_json_word(const char *path, const char *text, const char *name, char word[64]);
/* Fills in what the fields say; what is not there, or is null, stays as it is. INVALID_ARGUMENT names a field and its
 * value that is none of what it may be, one that is needed and missing, and an unknown one that says something. */
ls_status ls_huggingface_json_read(const char *path, const char *text, const struct ls_json_field *fields, void *into);
/* The files of "weight_map", each once. INVALID_ARGUMENT where text has none, or names what is no file of the folder.
 */
ls_status ls_huggingface_json_files(const char *path, const char *text, struct ls_names *files);
/* The only number of the object's list "input"; 0: it is another one. */
int ls_huggingface_json_positions(const char *text);
