//! The stored form of a block: compressed or not, and checksummed.
//!
//! ```text
//!   payload | type u8 | crc32 u32 LE of payload and type
//! ```
//!
//! The checksum is over the stored bytes, so damage is found before the
//! decompressor sees it. See the book, Formats: SSTable.

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use serde::{Deserialize, Serialize};

use super::damage::Damage;
use crate::mutation::{self, Mutation};

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: cheap enough to pay for itself on almost every disk. A block that
    /// it makes less than an eighth smaller is stored as it is.
    #[default]
    Lz4,
}

/// Bytes of type and checksum after a payload.
pub(super) const TRAILER_BYTES: usize = 5;

/// Largest payload before compression: the largest value (256 MiB) with its key
/// and its block's overhead. A compressed block that claims more is damaged.
pub(super) const PAYLOAD_BYTES_MAX: usize = (256 << 20) + (1 << 20);

const TYPE_NONE: u8 = 0;
const TYPE_LZ4: u8 = 1;
/// Width of the uncompressed length before LZ4 data.
const LENGTH_BYTES: usize = 4;
/// Memory for a payload is a multiple of this, so that the next one may fit too.
const MEMORY_STEP_BYTES: usize = 128;
/// A byte of LZ4 data stands for at most this many bytes.
const LZ4_RATIO_MAX: usize = 255;

/// Turns payloads into stored blocks; keeps its work memory from one to the next.
#[derive(Default)]
pub(super) struct Sealer {
    lz4_table: CompressTable,
}

impl Sealer {
    /// Appends the stored form of `payload` to `out` and returns its length.
    pub(super) fn seal(
        &mut self,
        payload: &[u8],
        compression: Compression,
        out: &mut Vec<u8>,
    ) -> usize {
        let start = out.len();
        let lz4 = compression == Compression::Lz4 && self.put_lz4(payload, out);
        if lz4 {
            out.push(TYPE_LZ4);
        } else {
            out.extend_from_slice(payload);
            out.push(TYPE_NONE);
        }
        let crc = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.len() - start
    }

    /// Appends `payload` compressed, or leaves `out` alone when that saves too
    /// little.
    fn put_lz4(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let data = out.len();
        out.resize(data + get_maximum_output_size(payload.len()), 0);
        let len = compress_into_with_table(payload, &mut out[data..], &mut self.lz4_table)
            .expect("the output has LZ4's own upper bound");
        let worth_it = LENGTH_BYTES + len <= payload.len() - payload.len() / 8;
        out.truncate(if worth_it { data + len } else { start });
        worth_it
    }
}

/// Checks a stored block and returns its payload, without a copy when it is not
/// compressed.
pub(super) fn unseal(stored: Bytes) -> Result<Bytes, Damage> {
    match check(&stored)? {
        (Compression::None, payload) => {
            let payload_bytes = payload.len();
            Ok(stored.slice(..payload_bytes))
        }
        (Compression::Lz4, packed) => unpack_lz4(packed, |_| Vec::new()).map(Bytes::from),
    }
}

/// The same of bytes that are about to be overwritten, in the memory of `spare`, if nobody else has that any more and it is at
/// most an eighth too large: a cache takes what is returned for as large as it is.
pub(super) fn unseal_into(stored: &[u8], spare: Bytes) -> Result<Bytes, Damage> {
    let memory = |len: usize| match spare.try_into_mut().map(Vec::from) {
        Ok(memory) if (len..=len + len / 8).contains(&memory.capacity()) => memory,
        _ => Vec::new(),
    };
    match check(stored)? {
        (Compression::None, payload) => {
            let mut out = memory(payload.len());
            out.clear();
            if out.capacity() < payload.len() {
                out.reserve_exact(payload.len().next_multiple_of(MEMORY_STEP_BYTES));
            }
            out.extend_from_slice(payload);
            Ok(out.into())
        }
        (Compression::Lz4, packed) => unpack_lz4(packed, memory).map(Bytes::from),
    }
}

/// Checks a stored block; returns its payload as it is stored.
fn check(stored: &[u8]) -> Result<(Compression, &[u8]), Damage> {
    let Some(payload_bytes) = stored.len().checked_sub(TRAILER_BYTES) else {
        return Err(Damage(format!(
            "a stored block of {} bytes; at least {TRAILER_BYTES} expected",
            stored.len()
        )));
    };
    let (checked, crc) = stored.split_at(payload_bytes + 1);
    let found = crc32fast::hash(checked);
    let expected = u32::from_le_bytes(crc.try_into().expect("four bytes after the type"));
    if found != expected && !mutation::is(Mutation::TrustBlocks) {
        return Err(Damage(format!(
            "block checksum is {found:#010x}, {expected:#010x} is recorded"
        )));
    }
    let payload = &checked[..payload_bytes];
    match checked[payload_bytes] {
        TYPE_NONE => Ok((Compression::None, payload)),
        TYPE_LZ4 => Ok((Compression::Lz4, payload)),
        other => Err(Damage(format!("unknown compression type {other}"))),
    }
}

/// Unpacks into what `memory` has for a length.
fn unpack_lz4(packed: &[u8], memory: impl FnOnce(usize) -> Vec<u8>) -> Result<Vec<u8>, Damage> {
    let Some((len, data)) = packed.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(Damage("LZ4 block without its length".into()));
    };
    let len = u32::from_le_bytes(*len) as usize;
    let len_max = PAYLOAD_BYTES_MAX.min(data.len().saturating_mul(LZ4_RATIO_MAX));
    if len > len_max {
        return Err(Damage(format!(
            "{} bytes of LZ4 claim to hold {len}; at most {len_max} expected",
            data.len()
        )));
    }
    let mut out = memory(len);
    if out.capacity() < len {
        // Zeros as they come from the system, where they do.
        out = vec![0; len.next_multiple_of(MEMORY_STEP_BYTES)];
    }
    out.resize(len, 0);
    match lz4_flex::block::decompress_into(data, &mut out) {
        Ok(found) if found == len => Ok(out),
        Ok(found) => Err(Damage(format!(
            "LZ4 block holds {found} bytes, {len} are recorded"
        ))),
        Err(e) => Err(Damage(format!("LZ4 block does not decompress: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(payload: &[u8], compression: Compression) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let len = Sealer::default().seal(payload, compression, &mut out);
        assert_eq!(out.len(), 6 + len);
        out.split_off(6)
    }

    /// A stored block with a right checksum over whatever is in it.
    fn stored(payload: &[u8], kind: u8) -> Bytes {
        let mut out = payload.to_vec();
        out.push(kind);
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out.into()
    }

    #[test]
    fn payloads_come_back() {
        for payload in [&b""[..], b"x", &[7; 5000], b"no repeats here"] {
            for compression in [Compression::None, Compression::Lz4] {
                let stored = seal(payload, compression);
                assert_eq!(
                    unseal_into(&stored, Bytes::new()).unwrap(),
                    payload,
                    "{compression:?}"
                );
                assert_eq!(unseal(stored.into()).unwrap(), payload, "{compression:?}");
            }
        }
    }

    #[test]
    fn memory_is_used_again_when_it_is_free_and_of_a_fit_size() {
        for compression in [Compression::None, Compression::Lz4] {
            let stored = seal(&[7; 5000], compression);
            for (spare_bytes, expected) in [(4999, 5120), (5000, 5000), (5625, 5625), (5626, 5120)]
            {
                let payload = unseal_into(&stored, vec![1; spare_bytes].into()).unwrap();
                assert_eq!(payload, [7; 5000][..]);
                let memory = payload.try_into_mut().unwrap();
                assert_eq!(memory.capacity(), expected, "{spare_bytes}");
            }
            let spare = Bytes::from(vec![1; 5000]);
            let value = spare.slice(10..20);
            let payload = unseal_into(&stored, spare).unwrap();
            assert_eq!((payload, value), (vec![7; 5000].into(), vec![1; 10].into()));
        }
    }

    #[test]
    fn lz4_that_saves_little_is_not_kept() {
        let noise: Vec<u8> = (0..500_u64)
            .flat_map(|i| xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes()).to_le_bytes())
            .collect();
        assert_eq!(
            seal(&noise, Compression::Lz4),
            seal(&noise, Compression::None)
        );
        assert!(seal(&[7; 5000], Compression::Lz4).len() < 100);
    }

    #[test]
    fn a_huge_claimed_length_is_refused_before_it_is_allocated() {
        let mut packed = u32::MAX.to_le_bytes().to_vec();
        packed.extend_from_slice(&[0; 20]);
        let damage = unseal(stored(&packed, TYPE_LZ4)).unwrap_err();
        assert!(damage.0.contains("claim"), "{}", damage.0);
    }

    #[test]
    fn wrong_lengths_types_and_lz4_are_damage() {
        let mut packed = seal(&[7; 5000], Compression::Lz4);
        packed.truncate(packed.len() - TRAILER_BYTES);
        for len in [4999_u32, 5001] {
            packed[..4].copy_from_slice(&len.to_le_bytes());
            assert!(unseal(stored(&packed, TYPE_LZ4)).is_err());
        }
        assert!(unseal(stored(b"abc", TYPE_LZ4)).is_err());
        assert!(unseal(stored(b"abc", 2)).is_err());
        assert!(unseal(Bytes::from_static(b"abcd")).is_err());
    }
}
