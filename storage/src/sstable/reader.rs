//! An open SSTable: looking up one key.
//!
//! The top level of the index and the properties stay in memory while the table is open. A
//! lookup goes to one partition, with its filter and index, and reads one data block, both
//! through the [`BlockCache`]. Cursors may read ahead.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::block::{Block, Found};
use super::cache::BlockCache;
use super::compression::{PAYLOAD_BYTES_MAX, TRAILER_BYTES, check_stored, unseal, unseal_into};
use super::damage::Damage;
use super::file_id::{FileId, HEADER_BYTES};
use super::handle::BlockHandle;
use super::key_sketch::KeySketch;
use super::partition::{Partition, PartitionGuard, Slots};
use super::parts::Parts;
use super::properties::Properties;
use super::read_ahead::{self, ReadAhead};
use super::read_at::{fill, read_at};
use super::stored::{read_block, read_block_into, with_stored};
use super::top_level::TopLevel;
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, ReadFile};
use crate::key::{Kind, RangeTombstones, SeqNo, Version};

/// The cost of looking up one key, summed over the runs of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadCounters {
    /// Runs that were searched because their filter did not exclude the key.
    pub(crate) runs_touched: u64,
    pub(crate) blocks_read: u64,
    pub(crate) blocks_cached: u64,
    /// Runs that were not searched because their filters excluded the key.
    pub(crate) filter_skips: u64,
}

/// An open table; used from any number of threads.
#[derive(Debug)]
pub(crate) struct SsTable {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    cache: Arc<BlockCache>,
    parts: Parts,
    partitions: Arc<Slots>,
}

impl Drop for SsTable {
    fn drop(&mut self) {
        self.cache.note_closed(self.memory_bytes());
    }
}

impl SsTable {
    /// Opens a table and checks footer, top level of the index, properties and range tombstones.
    /// Partitions (filters and indexes) and data blocks are checked as they are read.
    ///
    /// # Errors
    /// `Corruption` with the damage and its place, also if the file records another number than
    /// `file_number`; `UnsupportedFormat` if the file has a format version that this build does not
    /// know; `Io`.
    pub(crate) fn open(
        disk: &dyn FileSystem,
        path: &Path,
        file_number: u64,
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let file = disk.open_read(path).map_err(Error::io("open", path))?;
        Self::read(file, path, (file_number, None), cache)
    }

    /// Reads a table from a file that is open already, as [`Self::open`] does; errors name `path`.
    /// The file must record `file_number`, or have been written outside of a database, or have the
    /// id `id`.
    pub(crate) fn read(
        file: Arc<dyn ReadFile>,
        path: &Path,
        (file_number, id): (u64, Option<FileId>),
        cache: Arc<BlockCache>,
    ) -> Result<Arc<Self>> {
        let parts = Parts::read(&*file, path, (file_number, id))?;
        let table = Self {
            path: path.to_path_buf(),
            file,
            cache,
            partitions: Slots::new(parts.top.len()),
            parts,
        };
        table.cache.note_opened(table.memory_bytes());
        Ok(Arc::new(table))
    }

    /// Returns the memory in bytes that the table takes for as long as it is open. Partitions of
    /// the index and the filter are not included: the cache counts them.
    fn memory_bytes(&self) -> u64 {
        let Parts {
            top,
            properties,
            tombstones,
            ..
        } = &self.parts;
        let keys = properties.smallest_key.len() + properties.largest_key.len();
        let tombstones = tombstones.as_ref().map_or(0, |it| it.memory_bytes());
        let parts = top.memory_bytes() + self.partitions.memory_bytes() + keys + tombstones;
        (parts + size_of::<Self>() + KeySketch::BYTES) as u64
    }

    /// Does the same as [`Self::verify`], but first drops the file from the operating system's
    /// cache, if possible, so that the disk is read.
    pub(crate) fn verify_past_caches(&self) -> Result<()> {
        self.forget_cached()?;
        self.verify()
    }

    /// Drops the file from the operating system's cache, if possible, so that the next read comes from
    /// the disk.
    pub(crate) fn forget_cached(&self) -> Result<()> {
        let forgotten = self.file.forget_cached();
        forgotten.map_err(Error::io("read past the cache", &self.path))
    }

    /// Returns the properties that the table's file contains.
    pub(crate) fn properties(&self) -> &Properties {
        &self.parts.properties
    }

    /// Returns the range tombstones that this file has; `None` if it has none. Only the last file
    /// of a run has range tombstones, for the whole run. If a merge wrote the run in parts, the
    /// last file of each part has those of the part.
    pub(crate) fn range_tombstones(&self) -> Option<&Arc<RangeTombstones>> {
        self.parts.tombstones.as_ref()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.parts.footer.file_bytes()
    }

    /// Calls `take` with the versions of `key` with sequence numbers `<= seq`, newest first,
    /// tombstones included. Ends after the first version that is no merge operand, or when `take`
    /// returns true, which means that it needs no older version. Returns whether `take` returned
    /// true. `hash` is [`super::key_hash`] of `key`. Adds the cost of the lookup to `reads`.
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
        let (mut seq, mut least) = (seq, 0);
        loop {
            let at = self.top().position(key, seq);
            // The versions of a key may go on in later partitions, and never in one before.
            if at < least || at >= self.top().len() {
                return Ok(false);
            }
            let partition = self.partition(at)?;
            let is_first = least == 0;
            if !partition.filter.may_contain(hash) {
                reads.filter_skips += u64::from(is_first);
                return Ok(false);
            }
            reads.runs_touched += u64::from(is_first);
            match self.versions_in((at, &partition), key, seq, reads, &mut take)? {
                Looked::Behind(below) => (seq, least) = (below, at + 1),
                Looked::Enough => return Ok(true),
                Looked::AtAll => return Ok(false),
            }
        }
    }

    /// Looks up the versions of `key` in one partition, which is at `number` in the top level.
    fn versions_in(
        &self,
        (number, partition): (usize, &Partition),
        key: &[u8],
        mut seq: SeqNo,
        reads: &mut ReadCounters,
        take: &mut impl FnMut(Version) -> bool,
    ) -> Result<Looked> {
        let index = &partition.index;
        let mut position = index.position(key, seq);
        while position < index.len() {
            let (block, cached) = self.data_block((number, partition), position)?;
            if cached {
                reads.blocks_cached += 1;
            } else {
                reads.blocks_read += 1;
            }
            let damaged = |damage: Damage| damage.at(&self.path, index.handle(position).offset);
            // Versions of `key` up to `seq` would begin in this block, see `position`: if the block
            // has none, the table has none.
            let found = block.find(key, seq).map_err(damaged)?;
            let mut next = found.filter(|found| found.same_key);
            let below = loop {
                let Some(Found { entry, .. }) = next else {
                    return Ok(Looked::AtAll);
                };
                let (at, kind, value) = (entry.seq, entry.kind, entry.value);
                let version = |value| Version {
                    seq: at,
                    kind,
                    value,
                };
                let is_block_done = entry.end == block.entries_end();
                next = if kind == Kind::Merge && !is_block_done {
                    block.find_older(key, entry.end).map_err(damaged)?
                } else {
                    None
                };
                if next.is_none() && !(kind == Kind::Merge && is_block_done) {
                    // The last version takes over the reference to the block: to share it would
                    // count the references up and down again.
                    return Ok(if take(version(block.into_value(value))) {
                        Looked::Enough
                    } else {
                        Looked::AtAll
                    });
                }
                if take(version(block.value(value))) {
                    return Ok(Looked::Enough);
                }
                if next.is_none() {
                    // An operand ends the block. `None` if it has the lowest number of all.
                    break at.before();
                }
            };
            // The versions of a key may go on in the next block. The index names the same block again
            // if its bound covers all versions of the key. It never names one before, unless it is
            // damaged, which must not make the lookup endless.
            let Some(below) = below else {
                return Ok(Looked::AtAll);
            };
            let at = index.position(key, below);
            if at <= position {
                return Ok(Looked::AtAll);
            }
            (seq, position) = (below, at);
        }
        Ok(Looked::Behind(seq))
    }

    /// Returns whether a key from `start` on may have the prefix of `start`: false is certain, true
    /// is not. `hash` is the [`super::key_hash`] of that prefix. The table's filters must have
    /// prefixes of the same kind.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(crate) fn may_hold_prefix(&self, start: &[u8], hash: u64) -> Result<bool> {
        // The first key from `start` on is in this partition, or is the first key of the next one:
        // then the filter of this partition has its prefix, too. If that key has another prefix, no
        // later key has the prefix of `start`.
        let at = self.top().position(start, SeqNo::MAX);
        Ok(at < self.top().len() && self.partition(at)?.filter.may_contain(hash))
    }

    pub(super) fn top(&self) -> &TopLevel {
        &self.parts.top
    }

    /// Returns the partition at a position of the top level, which must be below the number of
    /// partitions. If it is not in memory, it is read from the file, and stays in memory if there
    /// is a cache.
    #[inline]
    fn partition(&self, position: usize) -> Result<PartitionGuard> {
        if let Some(partition) = self.partitions.get(position) {
            self.note_use(position, &partition);
            return Ok(partition);
        }
        self.read_partition(position).map(PartitionGuard::from)
    }

    /// Returns the partition at a position of the top level, for a cursor: as a counted reference,
    /// which a cursor may keep for longer than a lookup keeps a guard.
    pub(super) fn partition_to_keep(&self, position: usize) -> Result<Arc<Partition>> {
        self.partition(position).map(PartitionGuard::into_arc)
    }

    /// Returns the partition at a position of the top level, for a scan, without putting it into
    /// the block cache: the partition in memory if there is one, or else one that is read from the
    /// file and whose filter excludes nothing. With `once` the file system is advised that the
    /// bytes will not be read again soon.
    pub(super) fn partition_past_cache(
        &self,
        position: usize,
        once: bool,
    ) -> Result<Arc<Partition>> {
        if let Some(partition) = self.partitions.get(position) {
            return Ok(partition.into_arc());
        }
        let place = self.top().place(position);
        let (file, path, id) = (&*self.file, &*self.path, self.id());
        let partition = with_stored(place.index, |stored| {
            fill(file, path, stored, place.index.offset, once)?;
            unseal_into(stored, id.at(place.index.offset), Bytes::new())
                .and_then(|index| Partition::decode(index, self.top(), position))
                .map_err(|damage| damage.at(path, place.index.offset))
        });
        partition.map(Arc::new)
    }

    #[cfg(test)]
    pub(super) fn resident_partition(&self, position: usize) -> Option<PartitionGuard> {
        self.partitions.get(position)
    }

    #[inline]
    fn note_use(&self, position: usize, partition: &Partition) {
        if partition.note_use() {
            let offset = self.top().place(position).filter.offset;
            self.cache.note_use(self.properties().file_number, offset);
        }
    }

    #[cold]
    fn read_partition(&self, position: usize) -> Result<Arc<Partition>> {
        let partition = self
            .parts
            .read_partition(&*self.file, &self.path, position)?;
        let (number, place) = (self.properties().file_number, self.top().place(position));
        Ok(self
            .cache
            .keep(number, place.filter.offset, &self.partitions, partition))
    }

    /// Returns the data block at `position` in the index of a partition, from the cache or the
    /// file, and whether the cache had it. `number` is the position of the partition in the top
    /// level.
    fn data_block(
        &self,
        (number, partition): (usize, &Partition),
        position: usize,
    ) -> Result<(Block, bool)> {
        let handle = partition.index.handle(position);
        if let Some(block) = self.cached_block(handle) {
            return Ok((block, true));
        }
        self.check_handle(handle)?;
        let payload = read_block_into(&*self.file, &self.path, self.id(), handle, SPARE.take())?;
        let block = self.block_at((number, partition), position, payload)?;
        self.cache_block(handle, &block);
        Ok((block, false))
    }

    /// Creates a data block from its `payload`. Checks that the block belongs at `position` of the
    /// partition's index: if another block were there, versions would not be found, or be out of
    /// order.
    pub(super) fn block_at(
        &self,
        (number, partition): (usize, &Partition),
        position: usize,
        payload: Bytes,
    ) -> Result<Block> {
        let index = &partition.index;
        let check = |block: &Block| {
            let [first, last] = block.full_keys()?;
            let is_elsewhere = |(key, seq)| {
                index.position(key, seq) != position || self.top().position(key, seq) != number
            };
            match [first, last].into_iter().find(|&at| is_elsewhere(at)) {
                Some((key, seq)) => Err(Damage(format!(
                    "the block has the key {key:02x?} with sequence number {seq}, which the \
                     index has in another one"
                ))),
                None => Ok(()),
            }
        };
        Block::new(payload)
            .and_then(|block| check(&block).map(|()| block))
            .map_err(|damage| damage.at(&self.path, index.handle(position).offset))
    }

    /// Returns the random id of the file, which is part of all of its checksums.
    pub(crate) fn id(&self) -> FileId {
        self.parts.footer.file_id
    }

    /// Returns a data block from the cache; `None` if it is not there.
    pub(super) fn cached_block(&self, handle: BlockHandle) -> Option<Block> {
        self.cache.get(self.properties().file_number, handle.offset)
    }

    /// Puts a data block into the cache. If another block is evicted for it, this thread keeps that
    /// block's memory to read the next block into it.
    pub(super) fn cache_block(&self, handle: BlockHandle, block: &Block) {
        let number = self.properties().file_number;
        let evicted = self.cache.insert(number, handle.offset, block.clone());
        if let Some(evicted) = evicted {
            SPARE.set(evicted.into_bytes());
        }
    }

    /// Removes the entries of this SSTable from the cache, because the file is about to be removed:
    /// the partitions of its index and filter that are in memory, and the data blocks that these
    /// list. Data blocks of other partitions stay until the cache evicts them, because only a read
    /// of the file could find them.
    pub(crate) fn forget_blocks(&self) {
        let number = self.properties().file_number;
        for (position, place) in self.top().places().enumerate() {
            let Some(partition) = self.partitions.get(position) else {
                continue;
            };
            let handles = (0..partition.index.len()).map(|block| partition.index.handle(block));
            handles.for_each(|handle| self.cache.remove(number, handle.offset));
            self.cache.remove(number, place.filter.offset);
        }
    }

    /// Takes the memory of the block that the cache evicted when this thread last added a block, so
    /// that the next block can be read into it. Empty if no block was evicted, or its memory was
    /// taken already.
    pub(super) fn take_evicted(&self) -> Bytes {
        SPARE.take()
    }

    /// Reads a data block from the file, without the cache, and returns its uncompressed payload.
    pub(super) fn read_data_block(&self, handle: BlockHandle) -> Result<Bytes> {
        self.check_handle(handle)?;
        read_block(&*self.file, &self.path, self.id(), handle)
    }

    /// Reads a data block through the read-ahead buffer, and returns its uncompressed payload, in
    /// the memory of `spare` if possible and if nothing else refers to that memory.
    pub(super) fn read_data_block_ahead(
        &self,
        handle: BlockHandle,
        ahead: &mut ReadAhead,
        spare: Bytes,
    ) -> Result<Bytes> {
        self.check_handle(handle)?;
        let (file, path) = (&*self.file, &*self.path);
        let place = self.id().at(handle.offset);
        let payload = if handle.len > read_ahead::BLOCK_BYTES_MAX {
            unseal(ahead.stored_large(file, path, handle)?.into(), place)
        } else {
            let data_end = self.properties().data_end;
            unseal_into(ahead.stored(file, path, handle, data_end)?, place, spare)
        };
        payload.map_err(|damage| damage.at(path, handle.offset))
    }

    /// Reads a data block through the read-ahead buffer, and verifies its checksum. The block is
    /// not unpacked, because the checksum is over the stored bytes.
    pub(super) fn check_data_block(
        &self,
        handle: BlockHandle,
        ahead: &mut ReadAhead,
    ) -> Result<()> {
        self.check_handle(handle)?;
        let (file, path) = (&*self.file, &*self.path);
        let place = self.id().at(handle.offset);
        let checked = if handle.len > read_ahead::BLOCK_BYTES_MAX {
            check_stored(&ahead.stored_large(file, path, handle)?, place)
        } else {
            let data_end = self.properties().data_end;
            check_stored(ahead.stored(file, path, handle, data_end)?, place)
        };
        checked.map_err(|damage| damage.at(path, handle.offset))
    }

    /// Checks that a data block is not longer than any stored block can be. The offset of the block
    /// was checked when the partition was read.
    fn check_handle(&self, handle: BlockHandle) -> Result<()> {
        if handle.len <= (PAYLOAD_BYTES_MAX + TRAILER_BYTES) as u64 {
            return Ok(());
        }
        Err(Damage(format!(
            "the index has a block of {} bytes here, more than any has",
            handle.len
        ))
        .at(&self.path, handle.offset))
    }

    /// Reads the partition at a position of the top level once more from the file, without the
    /// cache. `parts` come from [`Self::reread_parts`].
    pub(super) fn reread_partition(&self, parts: &Parts, position: usize) -> Result<Partition> {
        parts.read_partition(&*self.file, &self.path, position)
    }

    /// Reads from the file once more what [`Self::open`] has read, and checks it again. Also checks
    /// that the header has the same file id as the footer.
    pub(super) fn reread_parts(&self) -> Result<Parts> {
        let mut header = [0; HEADER_BYTES];
        read_at(&*self.file, &self.path, &mut header, 0)?;
        if header != self.id().header() {
            let detail = "the header and the footer are of different files";
            return Err(Damage(detail.into()).at(&self.path, 0));
        }
        let number = self.properties().file_number;
        Parts::read(&*self.file, &self.path, (number, Some(self.id())))
    }
}

/// The reason why a lookup in a partition ended.
enum Looked {
    /// The caller needs no older versions.
    Enough,
    /// The lookup is complete: the last version that was read is no operand, or the table has no
    /// further version of the key.
    AtAll,
    /// All versions of the key up to the end of this partition were read, and all are operands. The
    /// next partition may have older ones, with sequence numbers up to this one (included).
    Behind(SeqNo),
}

thread_local! {
    /// The memory of the block that the cache evicted when this thread last added a block. The
    /// thread reads the next block into it instead of freeing it. Freeing memory that another
    /// thread allocated takes a lock that the other thread needs to allocate, so readers would wait
    /// for each other.
    static SPARE: Cell<Bytes> = const { Cell::new(Bytes::new()) };
}
