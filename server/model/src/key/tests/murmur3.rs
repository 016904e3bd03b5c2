use crate::key::{PartitionKey, Token, hash3_x64_128};

/// The expected values come from Cassandra and from the tests of drivers. Cassandra's hash differs
/// from the usual Murmur3 if one of the bytes after the last whole block of 16 is above 127.
#[test]
fn tokens_are_cassandras() {
    for (key, token) in [
        (&b"123"[..], -7468325962851647638),
        (&b"\x00\xff\x10\xfa\x99".repeat(10), 5837342703291459765),
        (&[0xfe; 8], -8927430733708461935),
        (&[0x10; 8], 1446172840243228796),
        (b"9223372036854775807", 7162290910810015547),
        (
            b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10",
            -5563837382979743776,
        ),
        (&[0; 16], 5457549051747178710),
        (&[0xff; 16], -2824192546314762522),
        (&[0xfe; 17], -1672437813826982685),
        (&[0xfe; 4], 4566408979886474012),
        (&[0; 4], -3485513579396041028),
        (b"\x00\x01\x7f\x7f", 6573459401642635627),
        (b"\x00\xff\xff\xff", 123573637386978882),
        (b"\xff\x01\x02\x03", -2839127690952877842),
        (b"\xe2\xe7", -8582699461035929883),
        (b"\xe2\xe7\xe2\xe7\xe2\xe7\x01", 2222373981930033306),
        (&[0xff; 15], -2195530867418009455),
        (b"\x80", -5284281814142962636),
        (b"a\x80\xff", 4062592316835150272),
        ("ключ".as_bytes(), 1182936647932017555),
        (
            b"\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff\xc3\xa9\x00\x9f",
            3204409033193096409,
        ),
    ] {
        assert_eq!(Token::of(key), Token(token), "{key:x?}");
        assert_eq!(hash3_x64_128(key).0 as i64, token);
    }
    assert_eq!(Token::of(b""), Token::MIN);
}

#[test]
fn composite_keys_are_hashed_in_their_serialized_form() {
    let key = PartitionKey::new(&[b"ab", b"", &[0, 0, 0, 7]]).unwrap();
    assert_eq!(key.as_bytes(), b"\0\x02ab\0\0\0\0\0\x04\0\0\0\x07\0");
    assert_eq!(key.token(), Token::of(key.as_bytes()));
}

/// For each hash, a key of 16 bytes exists that has this hash. The hash of this test's key is the
/// least one. It cannot be the token of the key, because `Token::MIN` means "before all
/// partitions".
#[test]
fn the_least_hash_is_the_greatest_token() {
    let key = key_that_hashes_to(1 << 63);
    assert_eq!(hash3_x64_128(&key).0, 1 << 63);
    assert_eq!(Token::of(&key), Token::MAX);
}

/// Returns a key of 16 bytes, one block, whose 128-bit hash has the first half `h1`. Many keys do:
/// this one results if the hash is computed backwards from a second half that is 0 before the last
/// addition.
fn key_that_hashes_to(h1: u64) -> [u8; 16] {
    let inverse = |odd: u64| {
        (0..6).fold(odd, |x, _| {
            x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)))
        })
    };
    let unmix = |k: u64, first: u64, turn: u32, second: u64| {
        k.wrapping_mul(inverse(second))
            .rotate_right(turn)
            .wrapping_mul(inverse(first))
    };
    let unfinish = |mut k: u64| {
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        k ^ k >> 33
    };
    let (c1, c2) = (0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f);
    // The last step is h1 += h2; h2 += h1. Choose h2 = 0 before it.
    let (mut h1, mut h2) = (unfinish(h1), unfinish(0));
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (h1 ^ 16, h2 ^ 16);
    h2 = h2
        .wrapping_sub(0x3849_5ab5)
        .wrapping_mul(inverse(5))
        .wrapping_sub(h1)
        .rotate_right(31);
    h1 = h1
        .wrapping_sub(0x52dc_e729)
        .wrapping_mul(inverse(5))
        .rotate_right(27);
    let (k1, k2) = (unmix(h1, c1, 31, c2), unmix(h2, c2, 33, c1));
    (u128::from(k2) << 64 | u128::from(k1)).to_le_bytes()
}
