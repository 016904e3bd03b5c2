//! Recovery of the readable part of a damaged SSTable.
//!
//! Blocks are found through the index, which also has the bounds of the keys in a damaged block, so
//! only that block is lost. The id of the file comes from the footer, or else from the header.
//! Without the index of a partition, stored blocks are read one after the other from the start of
//! the partition's data, up to the first damaged one; each block ends where its checksum matches.
//! Without the top level they are read from the start of the file. No blocks are searched for
//! behind that: a value may look like a block.

use std::cmp::Ordering;
use std::io;
use std::ops;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::bounds::Bound;
use super::compression::{TRAILER_BYTES, TYPE_MAX, unseal};
use super::damage::Damage;
use super::file_id::{BlockPlace, FileId, HEADER_BYTES};
use super::footer::Footer;
use super::handle::BlockHandle;
use super::index::{Index, IndexEntry};
use super::partition::Partition;
use super::properties::Properties;
use super::tombstone_block;
use super::top_level::TopLevel;
use crate::error::{Error, Result};
use crate::file_system::{OrZeros, ReadFile};
use crate::key::{KeyRange, RangeTombstones, Version, compare_versions};

/// A version with its key.
pub(crate) type KeyVersion = (Bytes, Version);

/// A part of a file that cannot be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct LostBlock {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The lost part has no keys below this one; `None` if no lower bound is known.
    pub(crate) from_key: Option<Vec<u8>>,
    /// The lost part has no keys above this one; `None` if no upper bound is known.
    pub(crate) to_key: Option<Vec<u8>>,
    /// Whether the lost part had range tombstones; otherwise it had versions.
    pub(crate) is_of_tombstones: bool,
    pub(crate) detail: String,
}

impl LostBlock {
    /// Returns the range from `from_key` to `to_key`, both included.
    pub(crate) fn keys(&self) -> KeyRange {
        let bound = |key: &Option<Vec<u8>>| match key {
            Some(key) => ops::Bound::Included(key.clone()),
            None => ops::Bound::Unbounded,
        };
        KeyRange::new::<Vec<u8>, _>((bound(&self.from_key), bound(&self.to_key)))
    }
}

/// A file that may be damaged, and the places of the data blocks in it that can be read.
#[derive(Debug)]
pub(crate) struct Salvage {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// The id of the file: the one that the caller expects, or else that of the footer, or else
    /// that of the header. If there is none, it is zero, and no block counts as good.
    id: FileId,
    blocks: Vec<BlockHandle>,
    /// The number of versions in the good blocks.
    good_versions: u64,
    /// The properties of the file; `None` if they cannot be read.
    pub(crate) properties: Option<Properties>,
    /// The range tombstones of the file, if it has any that can be read.
    pub(crate) tombstones: Option<RangeTombstones>,
    /// The offset at which the data blocks end, according to the top level of the index; `None` if
    /// the top level cannot be read.
    data_end: Option<u64>,
    pub(crate) lost: Vec<LostBlock>,
}

impl Salvage {
    /// Reads a file, and finds its good blocks. With an `id`, blocks of a file with another id
    /// count as damaged.
    ///
    /// # Errors
    /// `UnsupportedFormat` if the footer is sound and has a format version that this build does not
    /// know; `Io` if the file cannot be opened, its length is not known, or a read of it fails for
    /// a cause that is no fault of the file. Any other failure to read is no error: the bytes that
    /// cannot be read count as lost.
    pub(crate) fn open(
        file: io::Result<Arc<dyn ReadFile>>,
        path: &Path,
        id: Option<FileId>,
    ) -> Result<Self> {
        let file = file.map_err(Error::io("open", path))?;
        let bytes = read_what_reads(&*file, path)?;
        let is_its_own = |footer: &Footer| id.is_none_or(|id| id == footer.file_id);
        let footer = match footer(&bytes, path) {
            // No damage: a build that knows the version can read all of the file.
            Err(error @ Error::UnsupportedFormat { .. }) => return Err(error),
            footer => footer.ok().filter(is_its_own),
        };
        let id = id.or_else(|| footer.map(|footer| footer.file_id));
        let id = id.or_else(|| FileId::of_header(&bytes));
        let is_anonymous = id.is_none();
        let id = id.unwrap_or(FileId([0; FileId::BYTES]));
        let mut salvage = Self {
            path: path.to_path_buf(),
            file,
            id,
            blocks: Vec::new(),
            good_versions: 0,
            properties: None,
            tombstones: None,
            data_end: None,
            lost: Vec::new(),
        };
        if is_anonymous {
            salvage.lost.push(LostBlock {
                bytes: bytes.len() as u64,
                detail: "neither header nor footer says which file it is, so no block of it can \
                         be checked; if it had deletions of key ranges, what they hid may show"
                    .into(),
                ..LostBlock::default()
            });
            return Ok(salvage);
        }
        if let Some(footer) = &footer {
            let payload = part(&bytes, id, footer.properties);
            salvage.properties = payload
                .and_then(|payload| Properties::decode(&payload))
                .ok();
        }
        // The index shows which keys a bad block had. Without it, the blocks are followed from the first
        // on.
        match footer.map(|footer| (footer, part(&bytes, id, footer.top))) {
            Some((footer, Ok(top))) => salvage.by_index(&bytes, top, footer.partitions),
            // The properties may be damaged, too. The partitions follow the data, but for a block of
            // range tombstones between them.
            Some((footer, Err(_))) => {
                let properties = salvage.properties.as_ref();
                let data_end = properties.map_or(footer.partitions.offset, |it| it.data_end);
                salvage.in_sequence(&bytes, Some(data_end));
            }
            None => salvage.in_sequence(&bytes, None),
        }
        // Last, because without properties the place of the tombstones follows from the end of the data.
        salvage.tombstones(&bytes, footer.as_ref());
        Ok(salvage)
    }

    /// Returns the number of versions and range tombstones that can be read.
    pub(crate) fn entries(&self) -> u64 {
        let tombstones = self.tombstones.as_ref();
        self.good_versions + tombstones.map_or(0, RangeTombstones::count)
    }

    /// Returns the number of bytes in the parts that cannot be read.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.iter().map(|lost| lost.bytes).sum()
    }

    /// Reads the good blocks once more, one at a time, and returns their versions in order; an
    /// error stands for a block that cannot be read any more. Calls `read_bytes` with the stored
    /// length of each block.
    pub(crate) fn versions(
        self,
        read_bytes: impl Fn(u64),
    ) -> impl Iterator<Item = Result<KeyVersion>> {
        let Self {
            path,
            file,
            id,
            blocks,
            ..
        } = self;
        blocks.into_iter().flat_map(move |handle| {
            let read = || {
                let mut stored = vec![0; handle.len as usize];
                file.read_exact_at(&mut stored, handle.offset)
                    .map_err(Error::io("read", &path))?;
                unseal(stored.into(), id.at(handle.offset))
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

    /// Reads the range tombstones from the place that the properties record. Without properties,
    /// takes the bytes between the data blocks and the partitions for the block of range
    /// tombstones. If the place of these bytes is unknown, too, records in `lost` that the file may
    /// have had range tombstones.
    fn tombstones(&mut self, bytes: &Bytes, footer: Option<&Footer>) {
        const HID: &str = "are lost, what they hid may show";
        let listed = self.properties.as_ref().map(|it| &it.range_tombstones);
        let (handle, what) = match (listed, self.data_end, footer) {
            (Some(None), _, _) => return,
            (Some(Some(listed)), _, _) => {
                let what = format!("; {} deletions of key ranges {HID}", listed.count);
                (listed.handle(), what)
            }
            (None, Some(end), Some(footer)) if end <= footer.partitions.offset => {
                let len = footer.partitions.offset - end;
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
                    is_of_tombstones: true,
                    detail: format!(
                        "the properties do not read; if the file had deletions of key ranges, \
                         they {HID}"
                    ),
                    ..LostBlock::default()
                });
            }
        };
        match part(bytes, self.id, handle).and_then(|payload| tombstone_block::decode(&payload)) {
            Ok(tombstones) => self.tombstones = Some(tombstones),
            Err(damage) => self.lost.push(LostBlock {
                offset: handle.offset,
                bytes: handle.len,
                is_of_tombstones: true,
                detail: format!("{}{what}", damage.0),
                ..LostBlock::default()
            }),
        }
    }

    fn by_index(&mut self, bytes: &Bytes, payload: Bytes, partitions: BlockHandle) {
        let Ok(top) = TopLevel::decode(payload, partitions) else {
            return self.in_sequence(bytes, None);
        };
        self.data_end = Some(top.data_end());
        let mut last: Option<Bound> = None;
        for (position, place) in top.places().enumerate() {
            let partition = part(bytes, self.id, place.index)
                .and_then(|payload| Partition::decode(payload, &top, position));
            let bound = top.bound(position);
            match partition {
                Ok(partition) => self.by_partition(bytes, &partition.index, last),
                Err(damage) => self.without_partition(bytes, place.data, (last, &bound), damage),
            }
            last = Some(bound);
        }
    }

    /// Salvages the data blocks of a partition by its index. `last` is the bound of the partition
    /// before, if there is one: all versions must be behind it.
    fn by_partition(&mut self, bytes: &Bytes, index: &Index, mut last: Option<Bound>) {
        for IndexEntry { handle, bound } in index.entries() {
            let checked = part(bytes, self.id, handle).and_then(|payload| {
                let versions = ordered_after(decode(payload)?, last.as_ref())?;
                is_up_to(&versions, &bound).map(|()| versions.len())
            });
            match checked {
                Ok(versions) => self.take_block(handle, versions),
                Err(damage) => self.lost.push(LostBlock {
                    offset: handle.offset,
                    bytes: handle.len,
                    from_key: last.map(|(key, _)| key),
                    to_key: Some(bound.0.clone()),
                    detail: damage.0,
                    ..LostBlock::default()
                }),
            }
            last = Some(bound);
        }
    }

    /// Salvages the data blocks of a partition whose index cannot be read, up to the first damaged
    /// one. `last` is the bound of the partition before, if there is one, and `bound` is the bound
    /// of this partition: the versions must be above `last`, and not above `bound`.
    fn without_partition(
        &mut self,
        bytes: &Bytes,
        data: BlockHandle,
        (last, bound): (Option<Bound>, &Bound),
        damage: Damage,
    ) {
        let data_end = data.end().unwrap_or(data.offset);
        let found = stored_blocks(bytes, self.id, data.offset);
        let (end, last) = self.take(bytes, found, (data.offset, data_end), last, Some(bound));
        if end < data_end {
            self.lost.push(LostBlock {
                offset: end,
                bytes: data_end - end,
                from_key: last.map(|(key, _)| key),
                to_key: Some(bound.0.clone()),
                detail: format!(
                    "the index of what begins here is damaged, and it does not read: {}",
                    damage.0
                ),
                ..LostBlock::default()
            });
        }
    }

    /// Salvages the data blocks by their order in the file, from the start of the file up to
    /// `data_end`, or up to the first block that is no good data block. `None` for `data_end`
    /// stands for the end that the properties record; if they cannot be read either, it stands for
    /// the end of the file. The bytes behind the last good block, up to that end, are lost.
    fn in_sequence(&mut self, bytes: &Bytes, data_end: Option<u64>) {
        let id = self.id;
        let found: Vec<_> = stored_blocks(bytes, id, HEADER_BYTES as u64).collect();
        let properties_at = |handle: &BlockHandle| {
            let payload = part(bytes, id, *handle).ok()?;
            Properties::decode(&payload).ok()
        };
        if self.properties.is_none() {
            self.properties = found.last().and_then(properties_at);
        }
        let recorded_end = self.properties.as_ref().map(|it| it.data_end);
        let known_end = data_end.or(recorded_end);
        let data_end = known_end.unwrap_or(bytes.len() as u64);
        let start = (HEADER_BYTES as u64).min(data_end);
        let (end, last) = self.take(bytes, found, (start, data_end), None, None);
        // Without a known end there may have been any number of blocks more.
        if end < data_end || known_end.is_none() {
            self.lost.push(LostBlock {
                offset: end,
                bytes: data_end - end,
                from_key: last.map(|(key, _)| key),
                to_key: None,
                detail:
                    "the index is damaged, gone or that of another file, and what begins here does \
                         not read as a part of this file"
                        .into(),
                ..LostBlock::default()
            });
        }
    }

    /// Adds the stored blocks `found`, which begin at the offset `start`, to the good ones. Stops
    /// at the first block that ends behind `data_end`, is damaged, has a version that is not behind
    /// `last` (the last version before the block), or has a version above `bound`. Returns the
    /// offset at which the last good block ends, and the last version in it; if no block is good,
    /// `start` and the given `last`.
    fn take(
        &mut self,
        bytes: &Bytes,
        found: impl IntoIterator<Item = BlockHandle>,
        (start, data_end): (u64, u64),
        mut last: Option<Bound>,
        bound: Option<&Bound>,
    ) -> (u64, Option<Bound>) {
        let mut good_end = start;
        for handle in found {
            let Some(end) = handle.end().filter(|end| *end <= data_end) else {
                break;
            };
            let versions = part(bytes, self.id, handle)
                .and_then(decode)
                .and_then(|versions| ordered_after(versions, last.as_ref()))
                .and_then(|versions| match bound {
                    Some(bound) => is_up_to(&versions, bound).map(|()| versions),
                    None => Ok(versions),
                });
            let Ok(versions) = versions else {
                break;
            };
            let Some((key, version)) = versions.last() else {
                break;
            };
            last = Some((key.to_vec(), version.seq));
            good_end = end;
            self.take_block(handle, versions.len());
        }
        (good_end, last)
    }

    fn take_block(&mut self, handle: BlockHandle, versions: usize) {
        self.blocks.push(handle);
        self.good_versions += versions as u64;
    }
}

/// Finds the blocks that are stored one behind the other from an offset on, without an index. A
/// block is taken to end with the first four bytes that are the checksum of the bytes before them.
/// The iterator ends where no such end is found.
fn stored_blocks(bytes: &Bytes, id: FileId, start: u64) -> impl Iterator<Item = BlockHandle> {
    let mut offset = start;
    std::iter::from_fn(move || {
        let stored = bytes.get(usize::try_from(offset).ok()?..)?;
        let len = stored_block_len(stored, id.at(offset))? as u64;
        let handle = BlockHandle { offset, len };
        offset += len;
        Some(handle)
    })
}

fn footer(bytes: &Bytes, path: &Path) -> Result<Footer> {
    let file_bytes = bytes.len() as u64;
    match bytes.last_chunk::<{ Footer::BYTES }>() {
        Some(footer) => Footer::decode(footer, path, file_bytes),
        None => Err(Error::corruption(path, 0, "too short for an SSTable")),
    }
}

/// Returns the uncompressed payload of the stored block at `handle`. `bytes` is the whole file.
fn part(bytes: &Bytes, id: FileId, handle: BlockHandle) -> Result<Bytes, Damage> {
    let outside = || Damage("it does not lie in the file".into());
    let end = handle.end().ok_or_else(outside)?;
    if end > bytes.len() as u64 {
        return Err(outside());
    }
    let stored = bytes.slice(handle.offset as usize..end as usize);
    unseal(stored, id.at(handle.offset))
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

/// Checks that there are versions, and that the last one is not above the bound that the index has
/// for the block.
fn is_up_to(versions: &[KeyVersion], bound: &Bound) -> Result<(), Damage> {
    let end = versions
        .last()
        .map(|(key, version)| (&key[..], version.seq));
    if end.is_some_and(|end| compare_versions(end, (&bound.0, bound.1)).is_le()) {
        Ok(())
    } else {
        Err(Damage("it goes on above what the index says".into()))
    }
}

fn ordered_after(
    versions: Vec<KeyVersion>,
    last: Option<&Bound>,
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

/// Returns the length of the stored block with which `bytes` begins: the block is taken to end with
/// the first four bytes that are the checksum of the bytes before them. The checksum includes
/// `place`, the file and the offset of the block. `None` if there is no such end.
fn stored_block_len(bytes: &[u8], place: BlockPlace) -> Option<usize> {
    let mut crc = place.hasher();
    let mut hashed = 0;
    for end in TRAILER_BYTES..=bytes.len() {
        let checked = end - 4;
        // The byte before a checksum is a compression type, so most places cannot be the end of a block.
        if bytes[checked - 1] > TYPE_MAX {
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

/// Returns the bytes of a file. Each piece of 4 KiB that the disk cannot read is replaced by zeros.
fn read_what_reads(file: &dyn ReadFile, path: &Path) -> Result<Bytes> {
    let len = file.len().map_err(Error::io("get the length of", path))?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let read = OrZeros::new(file).read_exact_at(&mut bytes, 0);
    read.map_err(Error::io("read", path))?;
    Ok(bytes.into())
}
