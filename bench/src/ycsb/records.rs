//! Records: the key and the value of record number i.
//!
//! ```text
//!   key    "user" | 20 digits of a one-to-one mix of the number
//!   value  number u64 | version u64 | body | seal u64        (little-endian)
//! ```
//!
//! Keys are mixed so that records that are loaded one after the other are spread over the key
//! space, as in YCSB's hashed insert order. The mix is one-to-one, so no two records share a key.
//! The body is half noise and half text, which LZ4 compresses to a little more than half. The seal
//! is a mix of number and version: a value that is torn, truncated or belongs to another record
//! does not pass the check.

/// Length of every key, in bytes.
pub const KEY_BYTES: usize = 24;
/// The shortest value, in bytes: the record's number, the version, and the seal, which is a hash of
/// both.
pub const VALUE_BYTES_MIN: usize = 24;
/// The default length of a value, in bytes: YCSB's record has ten fields of 100 bytes, rounded here
/// to 1 KiB.
pub const VALUE_BYTES_DEFAULT: usize = 1024;

const HEADER_BYTES: usize = 16;
const SEAL_BYTES: usize = 8;
/// The length, in bytes, of each of the alternating stretches of noise and text in a value: short
/// enough that every block of an SSTable has both.
const STRETCH_BYTES: usize = 64;
const TEXT: &[u8; STRETCH_BYTES] =
    b"the tide goes out, the jobs come in; the tide comes back again. ";

/// The record number and the version of a value, which are part of the value, so that readers can
/// check what they read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the record.
    pub number: u64,
    /// The version: 0 for loaded values, larger for every later write.
    pub version: u64,
}

/// Returns the key of a record.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user00000000000000000000";
    // Skips 0, which the mix maps to itself.
    let mut rest = mix(number.wrapping_add(GOLDEN_GAMMA));
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Writes the value of a record into `buffer`, and replaces its content.
///
/// # Panics
/// If `value_bytes` is below [`VALUE_BYTES_MIN`].
pub fn write_value(buffer: &mut Vec<u8>, stamp: Stamp, value_bytes: usize) {
    assert!(value_bytes >= VALUE_BYTES_MIN, "no room for the stamp");
    buffer.clear();
    buffer.extend_from_slice(&stamp.number.to_le_bytes());
    buffer.extend_from_slice(&stamp.version.to_le_bytes());
    let body_end = value_bytes - SEAL_BYTES;
    let mut noise = seal(stamp);
    while buffer.len() < body_end {
        for _ in 0..STRETCH_BYTES / 8 {
            noise = noise.wrapping_add(GOLDEN_GAMMA);
            buffer.extend_from_slice(&mix(noise).to_le_bytes());
        }
        buffer.extend_from_slice(TEXT);
    }
    buffer.truncate(body_end);
    buffer.extend_from_slice(&seal(stamp).to_le_bytes());
}

/// Returns the stamp of a value; `None` if the value is too short, or number, version and seal do
/// not fit together. The bytes between them are not checked.
pub fn read_stamp(value: &[u8]) -> Option<Stamp> {
    if value.len() < VALUE_BYTES_MIN {
        return None;
    }
    let number = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("8 bytes"));
    let stamp = Stamp {
        number: number(0),
        version: number(HEADER_BYTES / 2),
    };
    (number(value.len() - SEAL_BYTES) == seal(stamp)).then_some(stamp)
}

/// Returns the number of records, by a few calls of `exists`. Records are numbered without gaps, so
/// a binary search finds the first number that does not exist.
///
/// # Errors
/// The errors of `exists`.
pub fn count_records<E>(mut exists: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    if !exists(0)? {
        return Ok(0);
    }
    let (mut present, mut absent) = (0, 1);
    while exists(absent)? {
        (present, absent) = (absent, absent * 2);
    }
    while absent - present > 1 {
        let middle = present + (absent - present) / 2;
        if exists(middle)? {
            present = middle;
        } else {
            absent = middle;
        }
    }
    Ok(absent)
}

fn seal(stamp: Stamp) -> u64 {
    mix(stamp.number ^ mix(stamp.version.wrapping_add(GOLDEN_GAMMA)))
}

/// The increment of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Applies SplitMix64's finalizer: a bijection of 64-bit numbers whose results look random.
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const STAMP: Stamp = Stamp {
        number: 42,
        version: 7,
    };

    fn value(bytes: usize) -> Vec<u8> {
        let mut buffer = b"left over".to_vec();
        write_value(&mut buffer, STAMP, bytes);
        buffer
    }

    #[test]
    fn keys_are_distinct_and_keep_their_length() {
        let keys: BTreeSet<_> = (0..10_000).map(key).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().all(|key| key.starts_with(b"user")));
        let ascending = (0..9_999).filter(|i| key(*i) < key(i + 1)).count();
        assert!((4_500..5_500).contains(&ascending), "{ascending}");
    }

    #[test]
    fn a_value_carries_its_stamp_at_any_length() {
        for bytes in [24, 25, 63, 64, 100, 1024, 100_000] {
            let value = value(bytes);
            assert_eq!(value.len(), bytes);
            assert_eq!(read_stamp(&value), Some(STAMP));
        }
    }

    #[test]
    fn a_damaged_or_cut_value_has_no_stamp() {
        let whole = value(100);
        assert_eq!(read_stamp(&whole[..99]), None);
        assert_eq!(read_stamp(b""), None);
        for at in (0..16).chain(92..100) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(read_stamp(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn about_half_of_a_value_is_text() {
        let value = value(1024);
        let text = value.windows(STRETCH_BYTES).filter(|w| w == TEXT).count();
        assert_eq!(text * STRETCH_BYTES, 448);
    }

    #[test]
    fn records_are_counted_by_point_reads() {
        for records in [0, 1, 2, 3, 7, 8, 9, 1000, 1 << 20] {
            let mut reads = 0;
            let counted = count_records(|number| {
                reads += 1;
                Ok::<_, ()>(number < records)
            });
            assert_eq!(counted.unwrap(), records);
            assert!(reads < 50, "{reads}");
        }
    }
}
