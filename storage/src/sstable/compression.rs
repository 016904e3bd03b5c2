//! The stored form of a block: compressed or not, and checksummed.
//!
//! ```text
//!   payload | type u8 | crc32 u32 LE of file id, offset, payload and type
//! ```
//!
//! The checksum is over the stored bytes, and where they belong, so damage is found before the
//! decompressor sees it. See the book, Formats: SSTable.

use std::cell::RefCell;

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use serde::{Deserialize, Serialize};
use zstd::bulk::{Compressor, Decompressor};

use super::damage::Damage;
use super::file_id::BlockPlace;
use crate::mutation::{self, Mutation};

/// The compression of blocks. The default is LZ4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4: cheap enough to pay for itself on almost every disk. A block that LZ4 makes less than
    /// an eighth smaller is stored uncompressed.
    #[default]
    Lz4,
    /// Zstandard, at its usual level: a quarter to a third smaller than LZ4, and several times as
    /// expensive to write and to read. A block that Zstandard makes less than an eighth smaller is
    /// stored uncompressed.
    Zstd,
}

/// The number of bytes behind a payload: one for the compression type, four for the checksum.
pub(super) const TRAILER_BYTES: usize = 5;

/// Largest payload before compression: the largest value (256 MiB) with its key
/// and its block's overhead. A compressed block that claims more is damaged.
pub(super) const PAYLOAD_BYTES_MAX: usize = (256 << 20) + (1 << 20);

const TYPE_NONE: u8 = 0;
const TYPE_LZ4: u8 = 1;
const TYPE_ZSTD: u8 = 2;
/// The greatest number of a compression type in a stored block.
pub(super) const TYPE_MAX: u8 = TYPE_ZSTD;
/// The number of bytes of the uncompressed length, which stands before compressed data.
const LENGTH_BYTES: usize = 4;
/// New memory for a payload has a multiple of this number of bytes, so that the next payload may
/// fit into it, too.
const MEMORY_STEP_BYTES: usize = 128;
/// A byte of LZ4 data stands for at most this many bytes.
const LZ4_RATIO_MAX: usize = 255;
/// A byte of zstd data stands for at most this many bytes: a block of at most 128 KiB has a head of
/// three bytes, and at least one more.
const ZSTD_RATIO_MAX: usize = 32 << 10;

thread_local! {
    /// The zstd context of the thread, kept because it takes 100 KB, and making one takes longer
    /// than decompressing a block.
    static ZSTD: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Turns payloads into stored blocks; reuses its working memory from one payload to the next.
#[derive(Default)]
pub(super) struct Sealer {
    lz4_table: CompressTable,
    zstd: Option<Compressor<'static>>,
}

impl Sealer {
    /// Appends the stored form of `payload` to `out`, and returns its length. The stored form ends
    /// with a checksum, which includes `place`, the file and the offset of the block.
    pub(super) fn seal(
        &mut self,
        payload: &[u8],
        compression: Compression,
        place: BlockPlace,
        out: &mut Vec<u8>,
    ) -> usize {
        let start = out.len();
        match compression {
            Compression::Lz4 if self.put_packed(payload, out, Self::lz4) => out.push(TYPE_LZ4),
            Compression::Zstd if self.put_packed(payload, out, Self::zstd) => out.push(TYPE_ZSTD),
            Compression::None | Compression::Lz4 | Compression::Zstd => {
                out.extend_from_slice(payload);
                out.push(TYPE_NONE);
            }
        }
        let crc = place.checksum(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.len() - start
    }

    /// Appends `payload` to `out`, compressed by `pack`, and returns true. If that saves too
    /// little, leaves `out` unchanged and returns false.
    fn put_packed(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
        pack: fn(&mut Self, &[u8], &mut Vec<u8>),
    ) -> bool {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        pack(self, payload, out);
        let worth_it = out.len() - start <= payload.len() - payload.len() / 8;
        if !worth_it {
            out.truncate(start);
        }
        worth_it
    }

    fn lz4(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let data = out.len();
        out.resize(data + get_maximum_output_size(payload.len()), 0);
        let len = compress_into_with_table(payload, &mut out[data..], &mut self.lz4_table)
            .expect("the output has LZ4's own upper bound");
        out.truncate(data + len);
    }

    fn zstd(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let compressor = self.zstd.get_or_insert_with(|| {
            Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).expect("the level is one of zstd's")
        });
        let data = out.len();
        out.resize(data + zstd::zstd_safe::compress_bound(payload.len()), 0);
        let len = compressor
            .compress_to_buffer(payload, &mut out[data..])
            .expect("the output has zstd's own upper bound");
        out.truncate(data + len);
    }
}

/// Checks the block that is stored at a place and returns its payload, without a copy when it
/// is not compressed.
pub(super) fn unseal(stored: Bytes, place: BlockPlace) -> Result<Bytes, Damage> {
    match check(&stored, place)? {
        (Compression::None, payload) => {
            let payload_bytes = payload.len();
            Ok(stored.slice(..payload_bytes))
        }
        (packing, packed) => unpack(packing, packed, |_| Vec::new()).map(Bytes::from),
    }
}

/// Like [`unseal`], for bytes in a buffer that the caller will overwrite: the payload is always a
/// copy. It is put into the memory of `spare` if nothing else refers to this memory and it is at
/// most an eighth larger than the payload: a cache counts the length of the payload, not of its
/// memory.
pub(super) fn unseal_into(stored: &[u8], place: BlockPlace, spare: Bytes) -> Result<Bytes, Damage> {
    let memory = |len: usize| match spare.try_into_mut().map(Vec::from) {
        Ok(memory) if (len..=len + len / 8).contains(&memory.capacity()) => memory,
        _ => Vec::new(),
    };
    match check(stored, place)? {
        (Compression::None, payload) => {
            let mut out = memory(payload.len());
            out.clear();
            if out.capacity() < payload.len() {
                out.reserve_exact(payload.len().next_multiple_of(MEMORY_STEP_BYTES));
            }
            out.extend_from_slice(payload);
            Ok(out.into())
        }
        (packing, packed) => unpack(packing, packed, memory).map(Bytes::from),
    }
}

/// Checks a stored block against its checksum, and does not unpack it.
pub(super) fn check_stored(stored: &[u8], place: BlockPlace) -> Result<(), Damage> {
    let _payload = check(stored, place)?;
    Ok(())
}

/// Checks a stored block against its checksum. Returns its compression, and its payload as it is
/// stored (not decompressed).
fn check(stored: &[u8], place: BlockPlace) -> Result<(Compression, &[u8]), Damage> {
    let Some(payload_bytes) = stored.len().checked_sub(TRAILER_BYTES) else {
        return Err(Damage(format!(
            "a stored block of {} bytes; at least {TRAILER_BYTES} expected",
            stored.len()
        )));
    };
    let (checked, crc) = stored.split_at(payload_bytes + 1);
    let found = place.checksum(checked);
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
        TYPE_ZSTD => Ok((Compression::Zstd, payload)),
        other => Err(Damage(format!("unknown compression type {other}"))),
    }
}

/// Unpacks a payload that begins with its unpacked length. `memory` gets that length, and returns a
/// buffer to be reused; a buffer that is too small is not used.
fn unpack(
    packing: Compression,
    packed: &[u8],
    memory: impl FnOnce(usize) -> Vec<u8>,
) -> Result<Vec<u8>, Damage> {
    let Some((len, data)) = packed.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(Damage(format!("{packing:?} block without its length")));
    };
    let len = u32::from_le_bytes(*len) as usize;
    let ratio_max = match packing {
        Compression::None => 1,
        Compression::Lz4 => LZ4_RATIO_MAX,
        Compression::Zstd => ZSTD_RATIO_MAX,
    };
    let len_max = PAYLOAD_BYTES_MAX.min(data.len().saturating_mul(ratio_max));
    if len > len_max {
        return Err(Damage(format!(
            "{} bytes of {packing:?} claim to hold {len}; at most {len_max} expected",
            data.len()
        )));
    }
    let mut out = memory(len);
    if out.capacity() < len {
        // Zeros as they come from the system, where they do.
        out = vec![0; len.next_multiple_of(MEMORY_STEP_BYTES)];
    }
    out.resize(len, 0);
    let found = match packing {
        Compression::None => Err("it is not packed".to_string()),
        Compression::Lz4 => {
            lz4_flex::block::decompress_into(data, &mut out).map_err(|error| error.to_string())
        }
        Compression::Zstd => unpack_zstd(data, &mut out),
    };
    match found {
        Ok(found) if found == len => Ok(out),
        Ok(found) => Err(Damage(format!(
            "{packing:?} block holds {found} bytes, {len} are recorded"
        ))),
        Err(why) => Err(Damage(format!(
            "{packing:?} block does not decompress: {why}"
        ))),
    }
}

fn unpack_zstd(data: &[u8], out: &mut [u8]) -> Result<usize, String> {
    ZSTD.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new().map_err(|error| error.to_string())?),
        };
        let unpacked = context.decompress_to_buffer(data, out);
        unpacked.map_err(|error| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::file_id::FileId;

    const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];
    const PACKED: [(Compression, u8); 2] =
        [(Compression::Lz4, TYPE_LZ4), (Compression::Zstd, TYPE_ZSTD)];

    fn place() -> BlockPlace {
        FileId([7; FileId::BYTES]).at(4096)
    }

    fn seal(payload: &[u8], compression: Compression) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let len = Sealer::default().seal(payload, compression, place(), &mut out);
        assert_eq!(out.len(), 6 + len);
        out.split_off(6)
    }

    /// Returns a stored block of `payload` with a right checksum.
    fn stored(payload: &[u8], kind: u8) -> Bytes {
        let mut out = payload.to_vec();
        out.push(kind);
        out.extend_from_slice(&place().checksum(&out).to_le_bytes());
        out.into()
    }

    #[test]
    fn payloads_come_back() {
        for payload in [&b""[..], b"x", &[7; 5000], b"no repeats here"] {
            for compression in ALL {
                let stored = seal(payload, compression);
                assert_eq!(
                    unseal_into(&stored, place(), Bytes::new()).unwrap(),
                    payload,
                    "{compression:?}"
                );
                assert_eq!(
                    unseal(stored.into(), place()).unwrap(),
                    payload,
                    "{compression:?}"
                );
            }
        }
    }

    #[test]
    fn memory_is_used_again_when_it_is_free_and_of_a_fit_size() {
        for compression in ALL {
            let stored = seal(&[7; 5000], compression);
            for (spare_bytes, expected) in [(4999, 5120), (5000, 5000), (5625, 5625), (5626, 5120)]
            {
                let payload = unseal_into(&stored, place(), vec![1; spare_bytes].into()).unwrap();
                assert_eq!(payload, [7; 5000][..]);
                let memory = payload.try_into_mut().unwrap();
                assert_eq!(memory.capacity(), expected, "{spare_bytes}");
            }
            let spare = Bytes::from(vec![1; 5000]);
            let value = spare.slice(10..20);
            let payload = unseal_into(&stored, place(), spare).unwrap();
            assert_eq!((payload, value), (vec![7; 5000].into(), vec![1; 10].into()));
        }
    }

    #[test]
    fn compression_that_saves_little_is_not_kept() {
        let noise: Vec<u8> = (0..500_u64)
            .flat_map(|i| xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes()).to_le_bytes())
            .collect();
        for (compression, _) in PACKED {
            assert_eq!(seal(&noise, compression), seal(&noise, Compression::None));
            assert!(seal(&[7; 5000], compression).len() < 100);
        }
    }

    #[test]
    fn a_huge_claimed_length_is_refused_before_it_is_allocated() {
        let mut packed = u32::MAX.to_le_bytes().to_vec();
        packed.extend_from_slice(&[0; 20]);
        for (_, kind) in PACKED {
            let damage = unseal(stored(&packed, kind), place()).unwrap_err();
            assert!(damage.0.contains("claim"), "{}", damage.0);
        }
    }

    #[test]
    fn the_best_compression_of_zstd_is_unpacked() {
        let zeros = vec![0; PAYLOAD_BYTES_MAX];
        let stored = seal(&zeros, Compression::Zstd);
        assert!(zeros.len() / stored.len() <= ZSTD_RATIO_MAX);
        assert_eq!(unseal(stored.into(), place()).unwrap(), zeros);
    }

    #[test]
    fn wrong_lengths_types_and_packed_bytes_are_damage() {
        for (compression, kind) in PACKED {
            let mut packed = seal(&[7; 5000], compression);
            packed.truncate(packed.len() - TRAILER_BYTES);
            for len in [4999_u32, 5001] {
                packed[..4].copy_from_slice(&len.to_le_bytes());
                assert!(unseal(stored(&packed, kind), place()).is_err());
            }
            packed[..4].copy_from_slice(&5000_u32.to_le_bytes());
            packed.pop();
            assert!(unseal(stored(&packed, kind), place()).is_err());
            assert!(unseal(stored(b"abc", kind), place()).is_err());
        }
        assert!(unseal(stored(b"abc", 3), place()).is_err());
        assert!(unseal(Bytes::from_static(b"abcd"), place()).is_err());
    }
}
