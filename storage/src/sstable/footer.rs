//! The footer: the end of the file, which leads to everything else.
//!
//! ```text
//!   partitions: offset u64, length u64 | length of top level u64 | length of properties u64
//!   file id, 16 bytes | version u32 | crc32 u32 | magic "ebbSSTbl"
//! ```
//!
//! Top level and properties follow the partitions, up to the footer: no byte of the file is
//! outside of a checksum.
//!
//! See the book, Formats: SSTable.

use std::path::Path;

use super::damage::Damage;
use super::file_id::{FileId, HEADER_BYTES};
use super::handle::BlockHandle;
use crate::error::Result;
use crate::formats::SSTABLE;

const MAGIC: &[u8; 8] = b"ebbSSTbl";
/// The offset of the file id in the footer: four numbers stand before it.
const FILE_ID_AT: usize = 4 * size_of::<u64>();
const VERSION_AT: usize = FILE_ID_AT + FileId::BYTES;
const CRC_AT: usize = VERSION_AT + 4;
const MAGIC_AT: usize = CRC_AT + 4;

/// The format version, the id of the file, and handles of the parts that are not data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) version: u32,
    pub(super) file_id: FileId,
    /// The section with the stored filters and indexes, one pair for each partition of the SSTable.
    pub(super) partitions: BlockHandle,
    /// The top level of the index.
    pub(super) top: BlockHandle,
    pub(super) properties: BlockHandle,
}

impl Footer {
    /// Width of the footer in bytes. Later format versions have the same width, so that this build
    /// can name their version in an error.
    pub(super) const BYTES: usize = MAGIC_AT + MAGIC.len();

    fn handles(&self) -> [BlockHandle; 3] {
        [self.partitions, self.top, self.properties]
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.properties.offset + self.properties.len + Self::BYTES as u64
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let [partitions, top, properties] = self.handles();
        let numbers = [partitions.offset, partitions.len, top.len, properties.len];
        for (place, number) in out.chunks_exact_mut(size_of::<u64>()).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        out[FILE_ID_AT..VERSION_AT].copy_from_slice(&self.file_id.0);
        out[VERSION_AT..CRC_AT].copy_from_slice(&self.version.to_le_bytes());
        let crc = crc32fast::hash(&out[..CRC_AT]);
        out[CRC_AT..MAGIC_AT].copy_from_slice(&crc.to_le_bytes());
        out[MAGIC_AT..].copy_from_slice(MAGIC);
        out
    }

    /// Decodes `bytes`, the last bytes of the file `path`, which has `file_bytes` bytes.
    ///
    /// # Errors
    /// `Corruption` when magic, checksum or handles are wrong; `UnsupportedFormat` for an undamaged
    /// footer of another version.
    pub(super) fn decode(bytes: &[u8; Self::BYTES], path: &Path, file_bytes: u64) -> Result<Self> {
        let offset = file_bytes.saturating_sub(Self::BYTES as u64);
        let damage = |detail| Err(Damage(detail).at(path, offset));
        // Before the checksum: a file that is no SSTable at all gets an error of its own.
        if bytes[MAGIC_AT..] != *MAGIC {
            return damage(format!(
                "no SSTable footer: magic is {:02x?}, {MAGIC:02x?} expected",
                &bytes[MAGIC_AT..]
            ));
        }
        let number = |at: usize| {
            u32::from_le_bytes(
                bytes[at..at + 4]
                    .try_into()
                    .expect("four bytes of the footer"),
            )
        };
        let (found, expected) = (crc32fast::hash(&bytes[..CRC_AT]), number(CRC_AT));
        if found != expected {
            return damage(format!(
                "footer checksum is {found:#010x}, {expected:#010x} is recorded"
            ));
        }
        // After the checksum: a flipped bit in the version is damage.
        let version = number(VERSION_AT);
        SSTABLE.check(path, version)?;
        let (numbers, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
        let [at, partitions, top, properties] =
            [0, 1, 2, 3].map(|i| u64::from_le_bytes(numbers[i]));
        let mut end = Some(at);
        let mut next = |len: u64| {
            let offset = end?;
            end = offset.checked_add(len);
            Some(BlockHandle { offset, len })
        };
        let handles = (next(partitions), next(top), next(properties));
        let (Some(partitions), Some(top), Some(properties)) = handles else {
            return damage("its parts are too long for any file".into());
        };
        if at < HEADER_BYTES as u64 || end != Some(offset) {
            return damage(format!(
                "partitions {partitions:?}, top level {top:?} and properties {properties:?} \
                 do not lie between the header and the footer"
            ));
        }
        let id = bytes[FILE_ID_AT..VERSION_AT].first_chunk();
        Ok(Self {
            version,
            file_id: FileId(*id.expect("16 bytes of the footer")),
            partitions,
            top,
            properties,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const FOOTER: Footer = Footer {
        version: SSTABLE.version,
        file_id: FileId([7; FileId::BYTES]),
        partitions: BlockHandle {
            offset: 100,
            len: 20,
        },
        top: BlockHandle {
            offset: 120,
            len: 30,
        },
        properties: BlockHandle {
            offset: 150,
            len: 50,
        },
    };

    fn decode(bytes: &[u8; Footer::BYTES]) -> Result<Footer> {
        Footer::decode(bytes, Path::new("t"), 200 + Footer::BYTES as u64)
    }

    #[test]
    fn a_footer_comes_back() {
        assert_eq!(decode(&FOOTER.encode()).unwrap(), FOOTER);
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = FOOTER.encode();
        bytes[VERSION_AT] = 77;
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..MAGIC_AT].copy_from_slice(&crc.to_le_bytes());
        let error = decode(&bytes).unwrap_err();
        let is_named = matches!(
            error,
            Error::UnsupportedFormat { found: 77, supported, .. } if supported == SSTABLE.version
        );
        assert!(is_named, "{error}");
    }

    #[test]
    fn parts_that_leave_gaps_or_overflow_are_corruption() {
        let mut gap = FOOTER;
        gap.top.len -= 1;
        let mut early = FOOTER;
        (early.partitions.offset, early.partitions.len) = (19, 101);
        let mut overflow = FOOTER;
        overflow.partitions.len = u64::MAX;
        for footer in [gap, early, overflow] {
            let error = decode(&footer.encode()).unwrap_err();
            assert!(
                matches!(error, Error::Corruption { offset: 200, .. }),
                "{error}"
            );
        }
    }
}
