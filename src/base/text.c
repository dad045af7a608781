/* A stream of open_memstream. That a write failed shows at its end at the latest. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

FILE *ls_text_open(struct ls_text *text, size_t bytes) {
    *text = (struct ls_text){.size = bytes};
    return text->out = open_memstream(&text->bytes, &text->size);
}

ls_status ls_text_close(struct ls_text *text, ls_status status, const char *what, char **output) {
    bool failed = !text->out || ferror(text->out);
    if (text->out && fclose(text->out)) failed = true;
    if (failed && !status) status = ls_fail_memory(what, text->size);
    if (status)
        free(text->bytes);
    else
        *output = text->bytes;
    return status;
}

void ls_text_list(char *list, size_t size, int number) {
    size_t used = strlen(list);
    if (used + sizeof(", -2147483648, ...") <= size)
        (void)snprintf(list + used, size - used, "%s%d", used ? ", " : "", number);
    else if (used && list[used - 1] != '.')
        (void)snprintf(list + used, size - used, ", ...");
}
