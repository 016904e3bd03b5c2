//! The end of the file, from which everything else is found.
//!
//! ```text
//!   filter | index | properties      handles, 16 bytes each
//!   version u32 | crc32 u32 | magic "ebbSSTbl"
//! ```
//!
//! See the book, Formats: SSTable.

use std::path::Path;

use super::damage::Damage;
use super::handle::BlockHandle;
use crate::error::Result;
use crate::formats::SSTABLE;

const MAGIC: &[u8; 8] = b"ebbSSTbl";
const VERSION_AT: usize = 3 * BlockHandle::FIXED_BYTES;
const CRC_AT: usize = VERSION_AT + 4;
const MAGIC_AT: usize = CRC_AT + 4;

/// The format version, and handles of the parts that are not data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) version: u32,
    pub(super) filter: BlockHandle,
    pub(super) index: BlockHandle,
    pub(super) properties: BlockHandle,
}

impl Footer {
    /// Width in bytes; later versions keep it, so that this build can name them.
    pub(super) const BYTES: usize = MAGIC_AT + MAGIC.len();

    /// The handles in their order.
    pub(super) fn handles(&self) -> [BlockHandle; 3] {
        [self.filter, self.index, self.properties]
    }

    /// Length of the file that this is the footer of.
    pub(super) fn file_bytes(&self) -> u64 {
        self.properties.offset + self.properties.len + Self::BYTES as u64
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        for (place, handle) in out
            .chunks_exact_mut(BlockHandle::FIXED_BYTES)
            .zip(self.handles())
        {
            place.copy_from_slice(&handle.to_fixed());
        }
        out[VERSION_AT..CRC_AT].copy_from_slice(&self.version.to_le_bytes());
        let crc = crc32fast::hash(&out[..CRC_AT]);
        out[CRC_AT..MAGIC_AT].copy_from_slice(&crc.to_le_bytes());
        out[MAGIC_AT..].copy_from_slice(MAGIC);
        out
    }

    /// Reads the last bytes of the file `path` of `file_bytes` bytes.
    ///
    /// # Errors
    /// `Corruption` when magic, checksum or handles are wrong;
    /// `UnsupportedFormat` when all is well but of another version.
    pub(super) fn decode(bytes: &[u8; Self::BYTES], path: &Path, file_bytes: u64) -> Result<Self> {
        let offset = file_bytes.saturating_sub(Self::BYTES as u64);
        let damage = |detail| Err(Damage(detail).at(path, offset));
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
        let (handles, _) = bytes.as_chunks::<{ BlockHandle::FIXED_BYTES }>();
        let [filter, index, properties] = [0, 1, 2].map(|i| BlockHandle::from_fixed(&handles[i]));
        // The parts follow one another to the footer: no byte of the file is
        // outside of a checksum.
        if filter.end() != Some(index.offset)
            || index.end() != Some(properties.offset)
            || properties.end() != Some(offset)
        {
            return damage(format!(
                "filter {filter:?}, index {index:?} and properties {properties:?} \
                 do not follow one another up to the footer"
            ));
        }
        Ok(Self {
            version,
            filter,
            index,
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
        filter: BlockHandle {
            offset: 100,
            len: 20,
        },
        index: BlockHandle {
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
        bytes[VERSION_AT] = 9;
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..MAGIC_AT].copy_from_slice(&crc.to_le_bytes());
        let error = decode(&bytes).unwrap_err();
        assert!(
            matches!(
                error,
                Error::UnsupportedFormat {
                    found: 9,
                    supported: 3,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn handles_that_leave_gaps_or_overflow_are_corruption() {
        let mut gap = FOOTER;
        gap.index.len -= 1;
        let mut overflow = FOOTER;
        overflow.filter.len = u64::MAX;
        for footer in [gap, overflow] {
            let error = decode(&footer.encode()).unwrap_err();
            assert!(
                matches!(error, Error::Corruption { offset: 200, .. }),
                "{error}"
            );
        }
    }
}
