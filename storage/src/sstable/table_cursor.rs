//! A position in one SSTable, movable in both directions: a partition, a position in the
//! partition's index, and a cursor over the data block at that position.

use std::sync::Arc;

use bytes::Bytes;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::damage::Damage;
use super::partition::Partition;
use super::read_ahead::ReadAhead;
use super::reader::SsTable;
use crate::error::{Error, Result};
use crate::key::{Cursor, Kind, SeqNo};

/// The limit on [`SsTableCursor::misses`], the cache misses of a cursor minus its hits. A cursor
/// that has reached the limit neither searches the cache nor adds blocks to it any more, so that a
/// long scan does not displace the blocks that other readers need. A short scan does not reach the
/// limit.
const SHORT_BLOCKS_MAX: u32 = 64;

/// A cursor over the versions of one SSTable; see [`Cursor`]. Holds the table, a partition, a
/// block, and the bytes that were read ahead.
#[derive(Debug)]
pub(crate) struct SsTableCursor {
    table: Arc<SsTable>,
    fill_cache: bool,
    /// The number of data blocks that were not in the cache, minus the number of those that were.
    /// A hit does not bring it below 0, so hits of the past do not make up for later misses. See
    /// [`SHORT_BLOCKS_MAX`].
    misses: u32,
    ahead: ReadAhead,
    /// The position in the top level of the partition that the cursor was moved to last; the length
    /// of the top level or more if it is behind all partitions.
    number: usize,
    /// The partition that was loaded last, with its position in the top level. The position differs
    /// from `number` if `number` is behind all partitions, or if the partition there could not be
    /// loaded.
    partition: Option<(usize, Arc<Partition>)>,
    /// While `data` is valid, the position of its block in the partition's index.
    at: usize,
    /// The position in the block at `data_offset`.
    data: BlockCursor,
    /// The offset of the loaded block; `None` until the first one is loaded.
    data_offset: Option<u64>,
    /// The memory of the block that was loaded before the current one. A block that is read without
    /// the cache is put into this memory if it fits and nothing else refers to the memory. A caller
    /// that holds a value of the previous block refers to it, and so does the block cache if the
    /// previous block went through the cache.
    spare: Bytes,
}

impl SsTable {
    /// Returns a cursor over all versions, which does not stand on any version yet. With
    /// `fill_cache` its blocks go through the block cache until the cursor has reached
    /// [`SHORT_BLOCKS_MAX`]: a scan of the table must not displace the blocks that lookups need.
    ///
    /// Without `fill_cache` the cursor does not even search the block cache. Such a cursor may run
    /// on a thread that loses its core at any moment. If the thread lost its core while it held a
    /// lock of the cache, transactional reads would wait for the lock. The blocks that the cursor
    /// reads do not stay in the system's cache either, unless they were there before.
    pub(crate) fn cursor(self: &Arc<Self>, fill_cache: bool) -> SsTableCursor {
        SsTableCursor {
            table: Arc::clone(self),
            fill_cache,
            misses: 0,
            ahead: ReadAhead::new(!fill_cache),
            number: 0,
            partition: None,
            at: 0,
            data: BlockCursor::new(Block::empty()),
            data_offset: None,
            spare: Bytes::new(),
        }
    }
}

impl SsTableCursor {
    /// Changes to another table of the same run. The cursor does not stand on any version yet.
    pub(crate) fn change_table(&mut self, table: &Arc<SsTable>) {
        self.clear();
        self.data_offset = None;
        self.partition = None;
        (self.number, self.at) = (0, 0);
        self.table = Arc::clone(table);
        self.ahead.change_file(table.properties().data_end);
    }

    /// Leaves the current version, but keeps the loaded block for a seek close by.
    fn clear(&mut self) {
        self.data.clear();
    }

    /// Goes to the partition at a position of the top level, and loads it if necessary; the cursor
    /// does not stand on any version yet. Returns the number of the partition's data blocks; `None`
    /// if the position is behind all partitions.
    fn enter_partition(&mut self, number: usize) -> Result<Option<usize>> {
        self.clear();
        (self.number, self.at) = (number, 0);
        if number >= self.table.top().len() {
            return Ok(None);
        }
        if !matches!(&self.partition, Some((loaded, _)) if *loaded == number) {
            let partition = if self.goes_by_cache() {
                self.table.partition_to_keep(number)?
            } else {
                self.table.partition_past_cache(number, !self.fill_cache)?
            };
            self.partition = Some((number, partition));
        }
        Ok(self.here().map(|partition| partition.index.len()))
    }

    /// Returns the partition at `number`; `None` if it could not be loaded, or `number` is behind
    /// all partitions.
    #[inline]
    fn here(&self) -> Option<&Partition> {
        let partition = self.partition.as_ref();
        let here = partition.filter(|(number, _)| *number == self.number);
        here.map(|(_, partition)| &**partition)
    }

    fn goes_by_cache(&self) -> bool {
        self.fill_cache && self.misses < SHORT_BLOCKS_MAX
    }

    /// Goes to the data block at the position `at` in the partition's index, and moves within the
    /// block by `how`. Returns whether the cursor then stands on a version.
    fn enter_block(
        &mut self,
        at: usize,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        self.clear();
        self.at = at;
        let Some((_, partition)) = &self.partition else {
            return Ok(false);
        };
        let offset = partition.index.handle(at).offset;
        if self.data_offset != Some(offset) {
            let block = self.load(at)?;
            self.spare = self.data.replace(block).into_bytes();
            self.data_offset = Some(offset);
        }
        self.move_data(how)
    }

    fn load(&mut self, at: usize) -> Result<Block> {
        let cached = self.goes_by_cache();
        let Some((number, partition)) = &self.partition else {
            return Ok(Block::empty());
        };
        let handle = partition.index.handle(at);
        if cached {
            if let Some(block) = self.table.cached_block(handle) {
                self.misses = self.misses.saturating_sub(1);
                return Ok(block);
            }
            self.misses += 1;
        }
        let spare = if cached {
            self.table.take_evicted()
        } else {
            std::mem::take(&mut self.spare)
        };
        let payload = self
            .table
            .read_data_block_ahead(handle, &mut self.ahead, spare)?;
        let block = self.table.block_at((*number, partition), at, payload)?;
        if cached {
            self.table.cache_block(handle, &block);
        }
        Ok(block)
    }

    /// Moves to the first version of the next block. If there is none, the cursor stands on no
    /// version.
    fn enter_next(&mut self) -> Result<()> {
        let next = self.at + 1;
        if self
            .here()
            .is_some_and(|partition| next < partition.index.len())
        {
            return self.enter_block(next, BlockCursor::seek_to_first).map(drop);
        }
        self.enter_first_of(self.number.saturating_add(1))
    }

    /// Moves to the first version of the partition at `number`. If there is no such partition, the
    /// cursor stands on no version.
    fn enter_first_of(&mut self, number: usize) -> Result<()> {
        match self.enter_partition(number)? {
            Some(_) => self.enter_block(0, BlockCursor::seek_to_first).map(drop),
            None => Ok(()),
        }
    }

    /// Moves to the last version of the previous block. If there is none, the cursor stands on no
    /// version.
    fn enter_before(&mut self) -> Result<()> {
        match self.at.checked_sub(1) {
            Some(before) => self
                .enter_block(before, BlockCursor::seek_to_last)
                .map(drop),
            None => self.enter_last_below(self.number),
        }
    }

    /// Moves to the last version of the partition at `number - 1`. If `number` is 0, the cursor
    /// stands on no version.
    fn enter_last_below(&mut self, number: usize) -> Result<()> {
        self.clear();
        let Some(before) = number.checked_sub(1) else {
            return Ok(());
        };
        match self.enter_partition(before)? {
            Some(blocks) => self
                .enter_block(blocks - 1, BlockCursor::seek_to_last)
                .map(drop),
            None => Ok(()),
        }
    }

    /// Makes the move `how` within the loaded block, and returns whether the cursor then stands on
    /// a version.
    #[inline]
    fn move_data(
        &mut self,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        how(&mut self.data).map_err(|damage| self.damage(damage))?;
        Ok(self.data.valid())
    }

    /// Returns two bounds of the versions in the block to which the cursor last moved, even if the
    /// move failed: no version is before the first bound or behind the second.
    pub(crate) fn bounds_here(&self) -> ((Vec<u8>, SeqNo), (Vec<u8>, SeqNo)) {
        let (top, properties) = (self.table.top(), self.table.properties());
        let index = self.here().map(|partition| &partition.index);
        let before = self.at.checked_sub(1);
        let below = match (index.zip(before), self.number.checked_sub(1)) {
            (Some((index, before)), _) => index.bound(before),
            (None, Some(before)) if before < top.len() => top.bound(before),
            _ => (properties.smallest_key.clone(), SeqNo::MAX),
        };
        let above = match index.filter(|index| self.at < index.len()) {
            Some(index) => index.bound(self.at),
            None if self.number < top.len() => top.bound(self.number),
            None => (properties.largest_key.clone(), SeqNo::ZERO),
        };
        (below, above)
    }

    /// Converts damage in the loaded block to an error.
    #[cold]
    fn damage(&self, damage: Damage) -> Error {
        damage.at(self.table.path(), self.data_offset.unwrap_or_default())
    }
}

impl Cursor for SsTableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.data.valid()
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let number = self.table.top().position(key, seq);
        self.enter_partition(number)?;
        let Some(partition) = self.here() else {
            return Ok(());
        };
        let at = partition.index.position(key, seq);
        if !self.enter_block(at, |data| data.seek(key, seq))? {
            // What was looked for lies between two blocks.
            self.enter_next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let number = self.table.top().position(key, seq);
        self.enter_partition(number)?;
        let Some(partition) = self.here() else {
            return self.enter_last_below(number);
        };
        let at = partition.index.position(key, seq);
        if self.enter_block(at, |data| data.seek_before(key, seq))? {
            Ok(())
        } else {
            self.enter_before()
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter_first_of(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter_last_below(self.table.top().len())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(self.valid(), "next on a cursor that stands nowhere");
        if !self.move_data(BlockCursor::next)? {
            self.enter_next()?;
        }
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        assert!(self.valid(), "prev on a cursor that stands nowhere");
        if !self.move_data(BlockCursor::prev)? {
            self.enter_before()?;
        }
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.data.key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.data.seq()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.data.kind()
    }

    #[inline]
    fn value(&self) -> Bytes {
        self.data.value()
    }
}
