/* Which split a name means. */
#include "data/role.h"

#include <string.h>

#include "base/plain.h"

enum { MOST_WORDS = 6 };
static const char *const words[LS_ROLES][MOST_WORDS] = {
    [LS_TRAIN] = {"train", "training"},
    [LS_TEST] = {"test", "testing"},
    [LS_VALIDATION] = {"validation", "val", "valid", "dev", "eval"},
};

const char *ls_role_name(ls_split split) {
    return words[split][0];
}

const char *ls_role_word(ls_split split, size_t index) {
    return index < MOST_WORDS ? words[split][index] : NULL;
}

int ls_role_of_word(const char *text, size_t size) {
    for (int role = 0; role < LS_ROLES; role++)
        for (const char *const *word = words[role]; *word; word++)
            if (ls_plain_same_piece(text, size, *word)) return role;
    return LS_ROLE_NONE;
}

int ls_role_of_name(const char *name) {
    int last = LS_ROLE_NONE;
    while (*name) {
        size_t size = 0;
        while (ls_plain_is_letter(name[size])) size++;
        int role = size ? ls_role_of_word(name, size) : LS_ROLE_NONE;
        if (role != LS_ROLE_NONE) last = role;
        name += size ? size : 1;
    }
    return last;
}

ls_split ls_role_choose(ls_split wanted, const char *const there[LS_ROLES]) {
    if (wanted == LS_TRAIN || there[wanted]) return wanted;
    ls_split other = wanted == LS_TEST ? LS_VALIDATION : LS_TEST;
    return there[other] ? other : wanted;
}

ls_split ls_role_of_two(ls_split wanted) {
    return wanted == LS_VALIDATION ? LS_TEST : wanted;
}
