//! An open SSTable: opening it and looking up one key.
//!
//! Filter, index and properties stay in memory while the table is open; a lookup
//! reads one data block, through the [`BlockCache`]. Cursors may read ahead.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::block::{Block, Found};
use super::cache::BlockCache;
use super::compression::{PAYLOAD_BYTES_MAX, TRAILER_BYTES, unseal, unseal_into};
use super::damage::Damage;
use super::filter::Filter;
use super::footer::Footer;
use super::handle::BlockHandle;
use super::index::Index;
use super::properties::Properties;
use super::read_ahead::{self, ReadAhead};
use super::read_at::read_at;
use super::tombstone_block;
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, ReadFile};
use crate::key::{Kind, RangeTombstones, SeqNo, Version};

/// What a lookup cost, summed over the runs it went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadCounters {
    /// Runs that were searched because their filter did not exclude the key.
    pub(crate) runs_touched: u64,
    /// Blocks read from disk.
    pub(crate) blocks_read: u64,
    /// Blocks found in the block cache.
    pub(crate) blocks_cached: u64,
    /// Runs that their filter excluded.
    pub(crate) filter_skips: u64,
}

/// An open table; used from any number of threads.
#[derive(Debug)]
pub(crate) struct SsTable {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    cache: Arc<BlockCache>,
    parts: Parts,
}

/// What is read when a table is opened.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) footer: Footer,
    pub(super) filter: Filter,
    pub(super) index: Index,
    pub(super) properties: Properties,
    pub(super) tombstones: Option<Arc<RangeTombstones>>,
}

impl SsTable {
    /// Opens a table and checks footer, filter, index and properties; the data
    /// blocks are checked as they are read.
    ///
    /// # Errors
    /// `Corruption` names what is wrong and where, also when this is the file of
    /// another number; `UnsupportedFormat` for a later version; `Io`.
    pub(crate) fn open(
        disk: &dyn FileSystem,
        path: &Path,
        file_number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let file = disk.open_read(path).map_err(Error::io("open", path))?;
        Self::read(file, path, file_number, cache)
    }

    /// [`Self::open`] of a file that is open, which errors call `path`.
    pub(crate) fn read(
        file: Arc<dyn ReadFile>,
        path: &Path,
        file_number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let parts = Parts::read(&*file, path, file_number)?;
        Ok(Arc::new(Self {
            path: path.to_path_buf(),
            file,
            cache,
            parts,
        }))
    }

    /// What the table says about itself.
    pub(crate) fn properties(&self) -> &Properties {
        &self.parts.properties
    }

    /// The range tombstones of its run, if they are in this file.
    pub(crate) fn range_tombstones(&self) -> Option<&Arc<RangeTombstones>> {
        self.parts.tombstones.as_ref()
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.parts.footer.file_bytes()
    }

    /// For each data block, in order, a key that is not below its keys and not above
    /// those of the next, and its bytes in the file: from the index, so without
    /// reading any.
    pub(crate) fn block_bounds(&self) -> impl Iterator<Item = (Vec<u8>, u64)> {
        let entries = self.parts.index.entries();
        entries.map(|entry| (entry.bound.0, entry.handle.len))
    }

    /// Gives `take` the versions of `key` with sequence numbers `<= seq`, newest first, up
    /// to the first that is no operand; tombstones included. It answers true when it needs
    /// no older ones; that is what this answers. `hash` is [`super::key_hash`] of `key`.
    /// Adds its cost to `reads`.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(crate) fn versions(
        &self,
        key: &[u8],
        hash: u64,
        seq: SeqNo,
        reads: &mut ReadCounters,
        mut take: impl FnMut(Version) -> bool,
    ) -> Result<bool> {
        if !self.parts.filter.may_contain(hash) {
            reads.filter_skips += 1;
            return Ok(false);
        }
        reads.runs_touched += 1;
        let index = &self.parts.index;
        let (mut seq, mut position) = (seq, index.position(key, seq));
        while position < index.len() {
            let handle = index.handle(position);
            let (block, cached) = self.data_block(handle)?;
            if cached {
                reads.blocks_cached += 1;
            } else {
                reads.blocks_read += 1;
            }
            let damaged = |damage: Damage| damage.at(&self.path, handle.offset);
            // Behind the block's last version comes the next block, with other keys.
            let found = block.find(key, seq).map_err(damaged)?;
            let mut next = found.filter(|found| found.same_key);
            let below = loop {
                let Some(Found { entry, .. }) = next else {
                    return Ok(false);
                };
                let (at, kind, value) = (entry.seq, entry.kind, entry.value);
                let version = |value| Version {
                    seq: at,
                    kind,
                    value,
                };
                let is_block_done = entry.end == block.entries_end();
                next = match kind == Kind::Merge && !is_block_done {
                    true => block.find_older(key, entry.end).map_err(damaged)?,
                    false => None,
                };
                if next.is_none() && !(kind == Kind::Merge && is_block_done) {
                    // The last one: the block's reference goes on with it.
                    return Ok(take(version(block.into_value(value))));
                }
                if take(version(block.value(value))) {
                    return Ok(true);
                }
                if next.is_none() {
                    break at.before();
                }
            };
            // The versions of a key may go on in the next block, and never in one before.
            let Some(below) = below else {
                return Ok(false);
            };
            let at = index.position(key, below);
            if at <= position {
                return Ok(false);
            }
            (seq, position) = (below, at);
        }
        Ok(false)
    }

    /// A data block by way of the cache, and whether it was there.
    fn data_block(&self, handle: BlockHandle) -> Result<(Block, bool)> {
        if let Some(block) = self.cached_block(handle) {
            return Ok((block, true));
        }
        self.check_handle(handle)?;
        let payload = read_block_into(&*self.file, &self.path, handle, SPARE.take())?;
        let block = Block::new(payload).map_err(|damage| damage.at(&self.path, handle.offset))?;
        self.cache_block(handle, &block);
        Ok((block, false))
    }

    /// A data block, if the cache has it.
    pub(super) fn cached_block(&self, handle: BlockHandle) -> Option<Block> {
        self.cache.get(self.properties().file_number, handle.offset)
    }

    /// Puts a data block into the cache, and keeps the memory of one that went for it.
    pub(super) fn cache_block(&self, handle: BlockHandle, block: &Block) {
        let number = self.properties().file_number;
        let evicted = self.cache.insert(number, handle.offset, block.clone());
        if let Some(evicted) = evicted {
            SPARE.set(evicted.into_bytes());
        }
    }

    /// Takes all its blocks out of the cache: the file is going.
    pub(crate) fn forget_blocks(&self) {
        let (index, number) = (self.index(), self.properties().file_number);
        let offsets = (0..index.len()).map(|position| index.handle(position).offset);
        offsets.for_each(|offset| self.cache.remove(number, offset));
    }

    /// Memory of a block that went when this thread put one into the cache.
    pub(super) fn take_evicted(&self) -> Bytes {
        SPARE.take()
    }

    /// The payload of a data block, from the disk.
    pub(super) fn read_data_block(&self, handle: BlockHandle) -> Result<Bytes> {
        self.check_handle(handle)?;
        read_block(&*self.file, &self.path, handle)
    }

    /// The same by way of what is read ahead, in the memory of `spare` if that is
    /// free.
    pub(super) fn read_data_block_ahead(
        &self,
        handle: BlockHandle,
        ahead: &mut ReadAhead,
        spare: Bytes,
    ) -> Result<Bytes> {
        self.check_handle(handle)?;
        let (file, path) = (&*self.file, &*self.path);
        let payload = if handle.len > read_ahead::BLOCK_BYTES_MAX {
            unseal(ahead.stored_large(file, path, handle)?.into())
        } else {
            let data_bytes = self.properties().data_bytes;
            unseal_into(ahead.stored(file, path, handle, data_bytes)?, spare)
        };
        payload.map_err(|damage| damage.at(path, handle.offset))
    }

    /// Says what is wrong with the place of a data block, in the index.
    fn check_handle(&self, handle: BlockHandle) -> Result<()> {
        let data_bytes = self.properties().data_bytes;
        let len_max = (PAYLOAD_BYTES_MAX + TRAILER_BYTES) as u64;
        if handle.len > len_max || handle.end().is_none_or(|end| end > data_bytes) {
            return Err(self.index_damage(Damage(format!(
                "the index has a block at {} of {} bytes; the data ends at {data_bytes}",
                handle.offset, handle.len
            ))));
        }
        Ok(())
    }

    /// The error for a damaged index.
    pub(super) fn index_damage(&self, damage: Damage) -> Error {
        damage.at(&self.path, self.parts.footer.index.offset)
    }

    pub(super) fn index(&self) -> &Index {
        &self.parts.index
    }

    /// Reads what [`Self::open`] read once more.
    pub(super) fn reread_parts(&self) -> Result<Parts> {
        Parts::read(&*self.file, &self.path, self.properties().file_number)
    }
}

impl Parts {
    fn read(file: &dyn ReadFile, path: &Path, file_number: u64) -> Result<Self> {
        let file_bytes = file.len().map_err(Error::io("get the length of", path))?;
        let Some(footer_offset) = file_bytes.checked_sub(Footer::BYTES as u64) else {
            return Err(Error::corruption(
                path,
                0,
                format!(
                    "{file_bytes} bytes are too short for an SSTable; its footer alone has {}",
                    Footer::BYTES
                ),
            ));
        };
        let mut footer = [0; Footer::BYTES];
        read_at(file, path, &mut footer, footer_offset)?;
        let footer = Footer::decode(&footer, path, file_bytes)?;

        let index = Index::decode(read_block(file, path, footer.index)?)
            .map_err(|damage| damage.at(path, footer.index.offset))?;
        // Behind the index: it takes the memory in which that was decoded.
        let filter = Filter::decode(read_block(file, path, footer.filter)?)
            .map_err(|damage| damage.at(path, footer.filter.offset))?;
        let properties = Properties::decode(&read_block(file, path, footer.properties)?)
            .and_then(|properties| check_properties(properties, file_number, &footer, &index))
            .map_err(|damage| damage.at(path, footer.properties.offset))?;
        let tombstones = read_tombstones(file, path, &properties)?;
        Ok(Self {
            footer,
            filter,
            index,
            properties,
            tombstones,
        })
    }
}

/// Reads the range tombstones, if there are any.
fn read_tombstones(
    file: &dyn ReadFile,
    path: &Path,
    properties: &Properties,
) -> Result<Option<Arc<RangeTombstones>>> {
    let Some(told) = &properties.range_tombstones else {
        return Ok(None);
    };
    let handle = BlockHandle {
        offset: told.offset,
        len: told.bytes,
    };
    let tombstones = tombstone_block::decode(&read_block(file, path, handle)?)
        .and_then(|tombstones| match tombstones.count() {
            count if count == told.count => Ok(tombstones),
            count => Err(Damage(format!(
                "{count} range tombstones; the properties say {}",
                told.count
            ))),
        })
        .map_err(|damage| damage.at(path, handle.offset))?;
    Ok(Some(Arc::new(tombstones)))
}

/// The file number in a table that was written outside of a database.
pub(crate) const NO_NUMBER: u64 = 0;

/// Holds the properties against the footer and against who the caller expects.
fn check_properties(
    mut properties: Properties,
    file_number: u64,
    footer: &Footer,
    index: &Index,
) -> Result<Properties, Damage> {
    // One that was written outside of a database takes the number of its name.
    if properties.file_number == NO_NUMBER {
        properties.file_number = file_number;
    }
    // The block of range tombstones, if any, lies between data and filter.
    let data_end = match &properties.range_tombstones {
        Some(told) if told.offset.checked_add(told.bytes) == Some(footer.filter.offset) => {
            told.offset
        }
        Some(told) => {
            return Err(Damage(format!(
                "the range tombstones, {told:?}, do not lie before the filter"
            )));
        }
        None => footer.filter.offset,
    };
    let holds_versions = properties.entries > 0;
    if holds_versions == (index.len() == 0)
        || !holds_versions && properties.range_tombstones.is_none()
    {
        return Err(Damage(format!(
            "the properties say {} entries; the index says otherwise",
            properties.entries
        )));
    }
    let facts = [
        ("file number", properties.file_number, file_number),
        (
            "format version",
            properties.format_version.into(),
            footer.version.into(),
        ),
        ("data length", properties.data_bytes, data_end),
    ];
    match facts
        .into_iter()
        .find(|(_, found, expected)| found != expected)
    {
        Some((what, found, expected)) => Err(Damage(format!(
            "{what} is {found} in the properties, {expected} expected"
        ))),
        None => Ok(properties),
    }
}

/// A stored block of at most this length is read into memory that the thread
/// keeps: most are unpacked from there, and none costs an allocation.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Memory of the block that went when this thread last put one into the cache, for
    /// the next one. What another thread allocated is freed under a lock that it takes
    /// to allocate: threads that read would sleep for each other.
    static SPARE: Cell<Bytes> = const { Cell::new(Bytes::new()) };
}

/// Reads and checks one stored block, which must lie in the file.
fn read_block(file: &dyn ReadFile, path: &Path, handle: BlockHandle) -> Result<Bytes> {
    read_block_into(file, path, handle, Bytes::new())
}

/// The same in the memory of `spare`, if it is free and fits.
fn read_block_into(
    file: &dyn ReadFile,
    path: &Path,
    handle: BlockHandle,
    spare: Bytes,
) -> Result<Bytes> {
    let len = handle.len as usize;
    let payload = if len > SCRATCH_BYTES_MAX {
        let mut stored = vec![0; len];
        read_at(file, path, &mut stored, handle.offset)?;
        unseal(stored.into())
    } else {
        // Taken out: the file system is not ours, and may read a block itself.
        let mut scratch = SCRATCH.take();
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let stored = &mut scratch[..len];
        let payload =
            read_at(file, path, stored, handle.offset).map(|()| unseal_into(stored, spare));
        SCRATCH.set(scratch);
        payload?
    };
    payload.map_err(|damage| damage.at(path, handle.offset))
}
