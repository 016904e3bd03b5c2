//! What can still be read of a damaged SSTable.
//!
//! With an index, blocks are found through it, and a damaged one costs itself:
//! the index still says which keys it had. Without one, stored blocks are
//! followed from the start of the file, each ending where its checksum says,
//! up to the first damaged one. Nothing is searched for behind that: a value
//! may look like a block.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::compression::{TRAILER_BYTES, unseal};
use super::damage::Damage;
use super::footer::Footer;
use super::handle::BlockHandle;
use super::index::{Index, IndexEntry};
use super::properties::Properties;
use super::tombstone_block;
use crate::error::{Error, Result};
use crate::file_system::ReadFile;
use crate::key::{RangeTombstones, SeqNo, Version, compare_versions};

/// A version with its key.
pub(crate) type KeyVersion = (Bytes, Version);

/// Part of a file that does not read.
#[derive(Debug)]
pub(crate) struct LostBlock {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The keys that it may have had, both ends included; `None` is no bound.
    pub(crate) from_key: Option<Vec<u8>>,
    pub(crate) to_key: Option<Vec<u8>>,
    pub(crate) detail: String,
}

/// A file with the blocks of it that are good.
#[derive(Debug)]
pub(crate) struct Salvage {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    blocks: Vec<BlockHandle>,
    pub(crate) properties: Option<Properties>,
    /// The range tombstones of the file, if it has any that read.
    pub(crate) tombstones: Option<RangeTombstones>,
    /// Where the data blocks end, by the index.
    data_end: Option<u64>,
    pub(crate) lost: Vec<LostBlock>,
}

impl Salvage {
    /// Looks through a file.
    ///
    /// # Errors
    /// `UnsupportedFormat` for a sound file of another version; `Io` when it
    /// cannot be opened.
    pub(crate) fn open(file: io::Result<Arc<dyn ReadFile>>, path: &Path) -> Result<Self> {
        let file = file.map_err(Error::io("open", path))?;
        let bytes = read_what_reads(&*file, path)?;
        let mut salvage = Self {
            path: path.to_path_buf(),
            file,
            blocks: Vec::new(),
            properties: None,
            tombstones: None,
            data_end: None,
            lost: Vec::new(),
        };
        let footer = match footer(&bytes, path) {
            Err(error @ Error::UnsupportedFormat { .. }) => return Err(error),
            footer => footer,
        };
        match footer
            .as_ref()
            .ok()
            .map(|footer| (footer, part(&bytes, footer.index)))
        {
            Some((footer, Ok(index))) => {
                salvage.properties = part(&bytes, footer.properties)
                    .and_then(|payload| Properties::decode(&payload))
                    .ok();
                salvage.by_index(&bytes, index);
            }
            Some((footer, Err(_))) => {
                salvage.properties = part(&bytes, footer.properties)
                    .and_then(|payload| Properties::decode(&payload))
                    .ok();
                let told = salvage.properties.as_ref();
                let data_end = told.map_or(footer.filter.offset, |told| told.data_bytes);
                salvage.in_sequence(&bytes, Some(data_end));
            }
            None => salvage.in_sequence(&bytes, None),
        }
        salvage.tombstones(&bytes, footer.ok().as_ref());
        Ok(salvage)
    }

    /// The versions of the good blocks, in order. `read_bytes` is told the bytes of each block
    /// that was read.
    pub(crate) fn versions(
        self,
        read_bytes: impl Fn(u64),
    ) -> impl Iterator<Item = Result<KeyVersion>> {
        let Self {
            path, file, blocks, ..
        } = self;
        blocks.into_iter().flat_map(move |handle| {
            let read = || {
                let mut stored = vec![0; handle.len as usize];
                file.read_exact_at(&mut stored, handle.offset)
                    .map_err(Error::io("read", &path))?;
                unseal(stored.into())
                    .and_then(decode)
                    .map_err(|damage| damage.at(&path, handle.offset))
            };
            let versions = read();
            read_bytes(handle.len);
            match versions {
                Ok(versions) => versions.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })
    }

    /// Reads the range tombstones that the properties name. Without them, the
    /// block is what lies between data and filter; where that is not known
    /// either, nobody can say whether there were any.
    fn tombstones(&mut self, bytes: &Bytes, footer: Option<&Footer>) {
        const HID: &str = "are lost, what they hid may show";
        let told = self.properties.as_ref().map(|told| &told.range_tombstones);
        let (handle, what) = match (told, self.data_end, footer) {
            (Some(None), _, _) => return,
            (Some(Some(told)), _, _) => {
                let handle = BlockHandle {
                    offset: told.offset,
                    len: told.bytes,
                };
                (
                    handle,
                    format!("; {} deletions of key ranges {HID}", told.count),
                )
            }
            (None, Some(end), Some(footer)) if end <= footer.filter.offset => {
                let len = footer.filter.offset - end;
                if len == 0 {
                    return;
                }
                let handle = BlockHandle { offset: end, len };
                (handle, format!("; deletions of key ranges {HID}"))
            }
            (None, _, footer) => {
                let end = bytes.len() as u64;
                let offset = footer.map_or(end, |footer| footer.properties.offset);
                return self.lost.push(LostBlock {
                    offset,
                    bytes: end.saturating_sub(offset),
                    from_key: None,
                    to_key: None,
                    detail: format!(
                        "the properties do not read; if the file had deletions of key ranges, \
                         they {HID}"
                    ),
                });
            }
        };
        match part(bytes, handle).and_then(|payload| tombstone_block::decode(&payload)) {
            Ok(tombstones) => self.tombstones = Some(tombstones),
            Err(damage) => self.lost.push(LostBlock {
                offset: handle.offset,
                bytes: handle.len,
                from_key: None,
                to_key: None,
                detail: format!("{}{what}", damage.0),
            }),
        }
    }

    fn by_index(&mut self, bytes: &Bytes, payload: Bytes) {
        let Ok(index) = Index::decode(payload) else {
            return self.in_sequence(bytes, None);
        };
        let mut last: Option<(Vec<u8>, SeqNo)> = None;
        self.data_end = match index.entries().last() {
            Some(entry) => entry.handle.end(),
            None => Some(0),
        };
        for IndexEntry { handle, bound } in index.entries() {
            let checked = part(bytes, handle).and_then(|payload| {
                let versions = ordered_after(decode(payload)?, last.as_ref())?;
                let end = versions
                    .last()
                    .map(|(key, version)| (&key[..], version.seq));
                let bound = (&bound.0[..], bound.1);
                match end.is_some_and(|end| compare_versions(end, bound).is_le()) {
                    true => Ok(()),
                    false => Err(Damage("it goes on above what the index says".into())),
                }
            });
            match checked {
                Ok(()) => self.blocks.push(handle),
                Err(damage) => self.lost.push(LostBlock {
                    offset: handle.offset,
                    bytes: handle.len,
                    from_key: last.map(|(key, _)| key),
                    to_key: Some(bound.0.clone()),
                    detail: damage.0,
                }),
            }
            last = Some(bound);
        }
    }

    /// Follows the stored blocks from the start to `data_end`; where that is
    /// not known, to the filter, which is no block of versions.
    fn in_sequence(&mut self, bytes: &Bytes, data_end: Option<u64>) {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(len) = stored_block_len(&bytes[at..]) {
            found.push(BlockHandle {
                offset: at as u64,
                len: len as u64,
            });
            at += len;
        }
        let told = |handle: &BlockHandle| {
            let payload = part(bytes, *handle).ok()?;
            Properties::decode(&payload).ok()
        };
        if self.properties.is_none() {
            self.properties = found.last().and_then(told);
        }
        let told = self.properties.as_ref().map(|told| told.data_bytes);
        let known_end = data_end.or(told);
        let data_end = known_end.unwrap_or(bytes.len() as u64);
        let mut last: Option<(Vec<u8>, SeqNo)> = None;
        let mut end = 0;
        for handle in found {
            if handle.end().is_none_or(|end| end > data_end) {
                break;
            }
            let versions = part(bytes, handle)
                .and_then(decode)
                .and_then(|versions| ordered_after(versions, last.as_ref()));
            let Some((key, version)) = versions.ok().and_then(|mut versions| versions.pop()) else {
                break;
            };
            if looks_like_index(bytes, handle) {
                break;
            }
            last = Some((key.to_vec(), version.seq));
            end = handle.end().unwrap_or(end);
            self.blocks.push(handle);
        }
        // Without a known end there may have been any number of blocks more.
        if end < data_end || known_end.is_none() {
            self.lost.push(LostBlock {
                offset: end,
                bytes: data_end - end,
                from_key: last.map(|(key, _)| key),
                to_key: None,
                detail: "the index is damaged or gone, and what begins here does not read".into(),
            });
        }
    }
}

/// Whether a block has the handles of all blocks before it: an index then, and
/// never data.
fn looks_like_index(bytes: &Bytes, handle: BlockHandle) -> bool {
    let Ok(index) = part(bytes, handle).and_then(Index::decode) else {
        return false;
    };
    let end = index
        .entries()
        .last()
        .map_or(0, |entry| entry.handle.offset + entry.handle.len);
    end <= handle.offset
}

fn footer(bytes: &Bytes, path: &Path) -> Result<Footer> {
    let file_bytes = bytes.len() as u64;
    match bytes.last_chunk::<{ Footer::BYTES }>() {
        Some(footer) => Footer::decode(footer, path, file_bytes),
        None => Err(Error::corruption(path, 0, "too short for an SSTable")),
    }
}

/// The payload of a stored block.
fn part(bytes: &Bytes, handle: BlockHandle) -> Result<Bytes, Damage> {
    let outside = || Damage("it does not lie in the file".into());
    let end = handle.end().ok_or_else(outside)?;
    if end > bytes.len() as u64 {
        return Err(outside());
    }
    unseal(bytes.slice(handle.offset as usize..end as usize))
}

fn decode(payload: Bytes) -> Result<Vec<KeyVersion>, Damage> {
    let mut cursor = BlockCursor::new(Block::new(payload)?);
    let mut versions = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() {
        let version = Version {
            seq: cursor.seq(),
            kind: cursor.kind(),
            value: cursor.value(),
        };
        versions.push((Bytes::copy_from_slice(cursor.key()), version));
        cursor.next()?;
    }
    Ok(versions)
}

fn ordered_after(
    versions: Vec<KeyVersion>,
    last: Option<&(Vec<u8>, SeqNo)>,
) -> Result<Vec<KeyVersion>, Damage> {
    let mut before = last.map(|(key, seq)| (&key[..], *seq));
    for (key, version) in &versions {
        let here = (&key[..], version.seq);
        if before.is_some_and(|before| compare_versions(before, here) != Ordering::Less) {
            return Err(Damage("its versions are out of order".into()));
        }
        before = Some(here);
    }
    Ok(versions)
}

/// The length of the stored block at the start of `bytes`: up to where the
/// checksum of all before it stands.
fn stored_block_len(bytes: &[u8]) -> Option<usize> {
    const TYPES: u8 = 2;
    let mut crc = crc32fast::Hasher::new();
    let mut hashed = 0;
    for end in TRAILER_BYTES..=bytes.len() {
        let checked = end - 4;
        if bytes[checked - 1] >= TYPES {
            continue;
        }
        crc.update(&bytes[hashed..checked]);
        hashed = checked;
        let recorded = u32::from_le_bytes(bytes[checked..end].try_into().expect("4 bytes"));
        if crc.clone().finalize() == recorded {
            return Some(end);
        }
    }
    None
}

/// The bytes of a file; zeros where the disk gives none.
fn read_what_reads(file: &dyn ReadFile, path: &Path) -> Result<Bytes> {
    const PIECE_BYTES: usize = 4096;
    let len = file.len().map_err(Error::io("get the length of", path))?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        for (i, piece) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
            if file.read_exact_at(piece, (i * PIECE_BYTES) as u64).is_err() {
                piece.fill(0);
            }
        }
    }
    Ok(bytes.into())
}
