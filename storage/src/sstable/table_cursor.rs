//! A position in one SSTable, movable in both directions: one in the index, and a
//! cursor over the data block that it stands for.

use std::sync::Arc;

use bytes::Bytes;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::damage::Damage;
use super::handle::BlockHandle;
use super::read_ahead::ReadAhead;
use super::reader::SsTable;
use crate::error::{Error, Result};
use crate::key::{Cursor, Kind, SeqNo};

/// A cursor over so many more blocks that the cache had not than of those that it
/// had reads at length: more than a short scan goes to, and few enough to leave the
/// cache what it is for.
const SHORT_BLOCKS_MAX: u32 = 64;

/// Walks a table; see [`Cursor`]. Keeps the table, a block, and what is read ahead.
#[derive(Debug)]
pub(crate) struct SsTableCursor {
    table: Arc<SsTable>,
    fill_cache: bool,
    /// Blocks that the cache had not, less those that it had.
    misses: u32,
    ahead: ReadAhead,
    /// While `data` is valid, the position of that block in the index; there is
    /// none at or above its length.
    at: usize,
    /// In the block at `data_offset`.
    data: BlockCursor,
    /// `None` until the first is loaded.
    data_offset: Option<u64>,
    /// Memory of the block before that: whoever goes on has no value of it any
    /// more.
    spare: Bytes,
}

impl SsTable {
    /// A cursor over all versions, standing nowhere yet. It goes by the cache if
    /// `fill_cache`, as long as it does not turn out to read at length: a scan of
    /// the table shall not push out what lookups need.
    ///
    /// Without, it does not ask the cache either: it may run on a thread that loses
    /// its core at any moment, and must not lose it while it holds a lock that a
    /// transactional read waits for. Nor does what it reads stay in the system's
    /// cache, unless it was there before.
    pub(crate) fn cursor(self: &Arc<Self>, fill_cache: bool) -> SsTableCursor {
        SsTableCursor {
            table: Arc::clone(self),
            fill_cache,
            misses: 0,
            ahead: ReadAhead::new(!fill_cache),
            at: 0,
            data: BlockCursor::new(Block::empty()),
            data_offset: None,
            spare: Bytes::new(),
        }
    }
}

impl SsTableCursor {
    /// Goes over to another table of the same run, standing nowhere in it yet.
    pub(crate) fn change_table(&mut self, table: &Arc<SsTable>) {
        self.clear();
        self.data_offset = None;
        self.table = Arc::clone(table);
        self.ahead.change_file(table.properties().data_bytes);
    }

    /// Stands nowhere; the loaded block stays at hand for a seek close by.
    fn clear(&mut self) {
        self.data.clear();
    }

    /// Moves within the block at a position of the index, from nowhere, and says
    /// whether that led to a version; false where there is no block.
    fn enter_block(
        &mut self,
        at: usize,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        self.clear();
        self.at = at;
        if at >= self.table.index().len() {
            return Ok(false);
        }
        let handle = self.table.index().handle(at);
        if self.data_offset != Some(handle.offset) {
            let block = self.load(handle)?;
            self.spare = self.data.replace(block).into_bytes();
            self.data_offset = Some(handle.offset);
        }
        self.move_data(how)
    }

    fn load(&mut self, handle: BlockHandle) -> Result<Block> {
        let cached = self.fill_cache && self.misses < SHORT_BLOCKS_MAX;
        if cached {
            if let Some(block) = self.table.cached_block(handle) {
                self.misses = self.misses.saturating_sub(1);
                return Ok(block);
            }
            self.misses += 1;
        }
        let spare = match cached {
            true => self.table.take_evicted(),
            false => std::mem::take(&mut self.spare),
        };
        let payload = self
            .table
            .read_data_block_ahead(handle, &mut self.ahead, spare)?;
        let block =
            Block::new(payload).map_err(|damage| damage.at(self.table.path(), handle.offset))?;
        if cached {
            self.table.cache_block(handle, &block);
        }
        Ok(block)
    }

    /// Stands on the last version of the block before a position of the index.
    fn enter_before(&mut self, at: usize) -> Result<()> {
        self.clear();
        match at.checked_sub(1) {
            Some(before) => self
                .enter_block(before, BlockCursor::seek_to_last)
                .map(drop),
            None => Ok(()),
        }
    }

    /// Moves within the loaded block and says whether that led to a version.
    #[inline]
    fn move_data(
        &mut self,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        how(&mut self.data).map_err(|damage| self.damage(damage))?;
        Ok(self.data.valid())
    }

    /// Damage in the loaded block.
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
        let at = self.table.index().position(key, seq);
        if !self.enter_block(at, |data| data.seek(key, seq))? {
            // What was looked for lies between two blocks.
            self.enter_block(at.saturating_add(1), BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.table.index().position(key, seq);
        match self.enter_block(at, |data| data.seek_before(key, seq))? {
            true => Ok(()),
            false => self.enter_before(at),
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter_block(0, BlockCursor::seek_to_first).map(drop)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter_before(self.table.index().len())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(self.valid(), "next on a cursor that stands nowhere");
        if !self.move_data(BlockCursor::next)? {
            self.enter_block(self.at + 1, BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.valid(), "prev on a cursor that stands nowhere");
        if !self.move_data(BlockCursor::prev)? {
            self.enter_before(self.at)?;
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
