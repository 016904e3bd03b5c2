//! The file of a block and its place in the file: both are part of the block's checksum.
//!
//! ```text
//!   header = file id, 16 bytes | crc32 u32 LE of it
//! ```
//!
//! So a block in the place of another one is detected as damage, though its own bytes are whole: a
//! disk may write a block to the wrong place, and a person may copy the wrong file. The id is
//! random, and not the file's number: a file that is ingested gets another number. See the book,
//! Formats: SSTable.

use std::path::Path;

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

use super::read_at::read_at;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::hex;
use crate::random_id::random_id;

/// A random number that only a file and its copies have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct FileId(pub(super) [u8; Self::BYTES]);

/// The number of bytes before the first block.
pub(super) const HEADER_BYTES: usize = FileId::BYTES + 4;

impl FileId {
    pub(super) const BYTES: usize = 16;

    pub(crate) fn random() -> Self {
        Self(random_id())
    }

    pub(super) fn at(self, offset: u64) -> BlockPlace {
        BlockPlace { file: self, offset }
    }

    pub(super) fn header(self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let (id, crc) = header.split_at_mut(Self::BYTES);
        id.copy_from_slice(&self.0);
        crc.copy_from_slice(&crc32fast::hash(&self.0).to_le_bytes());
        header
    }

    /// Returns the id in the header at the start of a file; `None` if the header is incomplete or
    /// not valid.
    pub(super) fn of_header(file: &[u8]) -> Option<Self> {
        let header = file.first_chunk::<HEADER_BYTES>()?;
        let id = Self(*header.first_chunk()?);
        (id.header() == *header).then_some(id)
    }
}

impl From<FileId> for String {
    fn from(id: FileId) -> Self {
        hex::encode(&id.0)
    }
}

impl TryFrom<String> for FileId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let id = hex::decode(&text).and_then(|bytes| bytes.try_into().ok());
        id.map(Self)
            .ok_or_else(|| format!("{text:?} is no id of a file"))
    }
}

/// Reads the id in the header of a file; returns `None` if the header is incomplete or not valid.
///
/// # Errors
/// `Io`.
pub(crate) fn id_of_file(disk: &dyn FileSystem, path: &Path) -> Result<Option<FileId>> {
    let file = disk.open_read(path).map_err(Error::io("open", path))?;
    let mut header = [0; HEADER_BYTES];
    match read_at(&*file, path, &mut header, 0) {
        Ok(()) => Ok(FileId::of_header(&header)),
        Err(Error::Corruption { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The place of a block: its file and offset.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPlace {
    file: FileId,
    offset: u64,
}

impl BlockPlace {
    pub(super) fn checksum(self, stored: &[u8]) -> u32 {
        let mut hasher = self.hasher();
        hasher.update(stored);
        hasher.finalize()
    }

    /// Returns a hasher for the checksum of a block that comes piece by piece.
    pub(super) fn hasher(self) -> Hasher {
        let mut place = [0; FileId::BYTES + 8];
        let (file, offset) = place.split_at_mut(FileId::BYTES);
        file.copy_from_slice(&self.file.0);
        offset.copy_from_slice(&self.offset.to_le_bytes());
        let mut hasher = Hasher::new();
        hasher.update(&place);
        hasher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_unless_a_bit_of_it_flipped() {
        let id = FileId::random();
        let header = id.header();
        assert_eq!(FileId::of_header(&header), Some(id));
        assert_eq!(FileId::of_header(&header[1..]), None);
        for bit in 0..8 * HEADER_BYTES {
            let mut bad = header;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileId::of_header(&bad), None);
        }
    }

    #[test]
    fn a_checksum_is_that_of_one_place() {
        let (one, other) = (FileId::random(), FileId::random());
        let checksum = one.at(4096).checksum(b"block");
        assert_eq!(one.at(4096).checksum(b"block"), checksum);
        assert_ne!(one.at(4097).checksum(b"block"), checksum);
        assert_ne!(other.at(4096).checksum(b"block"), checksum);
        assert_ne!(one.at(4096).checksum(b"clock"), checksum);
    }
}
