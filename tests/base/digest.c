/* Tests of base/digest: SHA-256 of the standard's messages, in one piece and in several. */
#include "base/digest.h"

#include <string.h>

#include "base/memory.h"
#include "harness.h"

TEST(known_digests) {
    static const struct {
        const char *message, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_ok(ls_digest_sha256(known[i].message, strlen(known[i].message), hex));
        ck_assert_str_eq(hex, known[i].hex);
    }
}

TEST(pieces) {
    struct ls_digest *digest;
    char hex[65];
    assert_ok(ls_digest_new(&digest));
    ls_digest_add(digest, "a", 1);
    ls_digest_add(digest, "", 0);
    ls_digest_add(digest, "bc", 2);
    assert_ok(ls_digest_hex(digest, hex));
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ls_digest_free(digest);
    ls_digest_free(NULL);
}

/* Whole pages of large memory are given back, and what lies beside stays. */
TEST(cleared_memory_is_zero) {
    static const size_t sizes[] = {1, 5000, (1 << 20) - 1, 1 << 20, (1 << 20) + 4097, 3 << 20};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (size_t at = 0; at < 9000; at += 2999) {
            size_t whole = at + sizes[i] + 3000, wrong = 0;
            unsigned char *bytes = ls_memory_untouched(whole);
            for (size_t k = 0; k < whole; k++) wrong += bytes[k] != 0;
            memset(bytes, 7, whole);
            ls_memory_clear(bytes + at, sizes[i]);
            for (size_t k = 0; k < whole; k++) wrong += bytes[k] != (k >= at && k < at + sizes[i] ? 0 : 7);
            ck_assert_uint_eq(wrong, 0);
            ls_free(bytes);
        }
}

TEST(memory) {
    unsigned char *bytes = ls_alloc_aligned(100);
    ck_assert_uint_eq((uintptr_t)bytes % LS_ALIGNMENT, 0);
    for (int i = 0; i < 100; i++) ck_assert_uint_eq(bytes[i], 0);
    ls_free(bytes);
    ck_assert_ptr_null(ls_alloc_array(SIZE_MAX, 2));
    ck_assert_ptr_null(ls_alloc_aligned(SIZE_MAX));
    char *text = ls_strdup("word"), *stolen = ls_steal(text);
    ck_assert_ptr_null(text);
    ck_assert_str_eq(stolen, "word");
    ls_free(stolen);
    void *empty = ls_alloc(0);
    ck_assert_ptr_nonnull(empty);
    ls_free(empty);
}

TESTS("digest")
