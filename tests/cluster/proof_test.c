/* Tests of base/proof: HMAC-SHA256 as in RFC 4231, and comparing. */
#include "base/random.h"
#include "cluster/security/proof.h"

#include <string.h>

#include "harness.h"

TEST(as_in_the_rfc) {
    static const uint8_t expected[LS_PROOF_SIZE] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                                    0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                                    0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    static const char text[] = "what do ya want for nothing?";
    uint8_t proof[LS_PROOF_SIZE];
    assert_ok(ls_proof_make((struct ls_secret){"Jefe", 4}, text, strlen(text), proof));
    ck_assert_mem_eq(proof, expected, sizeof(proof));
    ck_assert(ls_proof_equal(proof, expected, sizeof(proof)));
    proof[31] ^= 1;
    ck_assert(!ls_proof_equal(proof, expected, sizeof(proof)));
}

TEST(random_and_forgotten) {
    uint8_t a[32] = {0}, b[32] = {0}, zero[32] = {0};
    assert_ok(ls_entropy_fill(a, sizeof(a)));
    assert_ok(ls_entropy_fill(b, sizeof(b)));
    ck_assert_mem_ne(a, b, sizeof(a));
    ls_proof_forget(a, sizeof(a));
    ck_assert_mem_eq(a, zero, sizeof(a));
}

TESTS("proof")
