/* Agreeing on lines "field=value\n": an exchange of digests, and where two differ a second exchange that fetches the
 * two texts. So N workers that agree move 65 N bytes each, however long the lines are. */
#include "cluster/join.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/kept_error.h"
#include "base/difference.h"
#include "base/new.h"
#include "cluster/cluster_private.h"
#include "cluster/exchange.h"

static void free_texts(const struct ls_cluster *cluster, struct ls_bytes *texts) {
    for (int i = 0; i < cluster->group.size; i++) {
        ls_free(texts[i].data);
        texts[i] = (struct ls_bytes){NULL, 0};
    }
}

static ls_status compare_texts(const struct ls_cluster *cluster, const struct ls_bytes *texts, int index) {
    const char *first = ls_cluster_task_name(cluster, 0), *other = ls_cluster_task_name(cluster, index);
    struct ls_difference difference;
    for (int i = 0; i <= index; i += index)
        if (!texts[i].size || ((const char *)texts[i].data)[texts[i].size - 1]) /* it ends with a zero */
            return ls_fail(LS_INVALID_ARGUMENT, "%s (rank %d) sent a fingerprint that is no text",
                           ls_cluster_task_name(cluster, i), cluster->group.members[i]);
    if (!ls_line_difference_find(texts[0].data, texts[index].data, &difference))
        return ls_fail(LS_INTERNAL, "the fingerprints of %s and %s differ, but their texts do not", first, other);
    return ls_fail(LS_INVALID_ARGUMENT,
                   "%s differs: '%s' on %s (rank %d), '%s' on %s (rank %d); start all workers alike", difference.field,
                   difference.first, first, cluster->group.members[0], difference.second, other,
                   cluster->group.members[index]);
}

/* The first member whose digest is another one than the first's; 0: there is none. */
static int find_different(const struct ls_cluster *cluster, const struct ls_bytes *digests) {
    for (int i = 1; i < cluster->group.size; i++)
        if (digests[i].size != digests[0].size || memcmp(digests[i].data, digests[0].data, digests[0].size) != 0)
            return i;
    return 0;
}

/* After a difference nobody goes before all have seen it: otherwise one would hear of another's end first. */
static void let_all_see(struct ls_cluster *cluster, double timeout, struct ls_bytes *texts) {
    struct ls_kept_error kept = ls_kept_error_of(LS_INVALID_ARGUMENT);
    if (ls_cluster_exchange(cluster, "difference", (struct ls_bytes){NULL, 0}, timeout, texts) == LS_OK)
        free_texts(cluster, texts);
    (void)ls_kept_error_raise(&kept);
}

/* The two whose digests differ send their texts, and all find the same difference. */
static ls_status find_difference(struct ls_cluster *cluster, const char *name, struct ls_bytes text, int index,
                                 double timeout, struct ls_bytes *texts) {
    bool concerned = cluster->group.rank == 0 || cluster->group.rank == index;
    struct ls_bytes own = concerned ? text : (struct ls_bytes){NULL, 0};
    ls_status status = ls_cluster_exchange(cluster, name, own, timeout, texts);
    if (status) return status;
    status = compare_texts(cluster, texts, index);
    free_texts(cluster, texts);
    let_all_see(cluster, timeout, texts);
    return status;
}

ls_status ls_agree_lines(struct ls_cluster *cluster, const char *name, const char *lines, double timeout) {
    struct ls_bytes own = {(char *)lines, strlen(lines) + 1};
    char digest[65];
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_bytes, received, (size_t)cluster->group.size, "fingerprints");
    ls_status status = ls_digest_sha256(own.data, own.size, digest);
    if (!status)
        status = ls_cluster_exchange(cluster, name, (struct ls_bytes){digest, sizeof(digest)}, timeout, received);
    if (status) return status;
    int different = find_different(cluster, received);
    free_texts(cluster, received);
    return different ? find_difference(cluster, name, own, different, timeout, received) : LS_OK;
}
