//! A position in one SSTable, movable in both directions: one in the index, and a
//! cursor over the data block that it stands for.

use std::sync::Arc;

use bytes::Bytes;

use super::block_cursor::BlockCursor;
use super::damage::Damage;
use super::reader::{SsTable, ends_too_early};
use crate::error::Result;
use crate::key::{Kind, SeqNo};
use crate::read::cursor::Cursor;

/// Walks a table; see [`Cursor`]. Keeps the table and one block alive.
#[derive(Debug)]
pub(crate) struct SsTableCursor {
    table: Arc<SsTable>,
    fill_cache: bool,
    /// While `data` is valid, the position of that block in the index; there is
    /// none at or above its length.
    at: usize,
    /// In the block at `data_offset`; `None` until the first is loaded.
    data: Option<BlockCursor>,
    data_offset: u64,
}

impl SsTable {
    /// A cursor over all versions, standing nowhere yet. Without `fill_cache` it
    /// uses blocks that are in the cache but leaves the cache as it is: a scan
    /// of the table shall not push out what lookups need.
    pub(crate) fn cursor(self: &Arc<Self>, fill_cache: bool) -> SsTableCursor {
        SsTableCursor::new(Arc::clone(self), fill_cache)
    }
}

impl SsTableCursor {
    fn new(table: Arc<SsTable>, fill_cache: bool) -> Self {
        Self {
            table,
            fill_cache,
            at: 0,
            data: None,
            data_offset: 0,
        }
    }

    /// Stands nowhere; the loaded block stays at hand for a seek close by.
    fn clear(&mut self) {
        if let Some(data) = &mut self.data {
            data.clear();
        }
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
        let handle = self.table.index().entry(at).handle;
        if self.data.is_none() || self.data_offset != handle.offset {
            let (block, _) = self.table.data_block(handle, self.fill_cache)?;
            match &mut self.data {
                Some(data) => data.reset(block),
                empty => *empty = Some(BlockCursor::new(block)),
            }
            self.data_offset = handle.offset;
        }
        self.move_data(how)
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
    fn move_data(
        &mut self,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        let data = self.data.as_mut().expect("a block is loaded");
        how(data).map_err(|damage| damage.at(self.table.path(), self.data_offset))?;
        Ok(data.valid())
    }

    /// The block cursor of a valid cursor.
    fn data(&self) -> &BlockCursor {
        let data = self.data.as_ref().filter(|data| data.valid());
        data.expect("the cursor stands on a version")
    }
}

impl Cursor for SsTableCursor {
    fn valid(&self) -> bool {
        self.data.as_ref().is_some_and(BlockCursor::valid)
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.table.index().position(key, seq);
        if !self.enter_block(at, |data| data.seek(key, seq))? && at < self.table.index().len() {
            return Err(ends_too_early().at(self.table.path(), self.data_offset));
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

    fn key(&self) -> &[u8] {
        self.data().key()
    }

    fn seq(&self) -> SeqNo {
        self.data().seq()
    }

    fn kind(&self) -> Kind {
        self.data().kind()
    }

    fn value(&self) -> Bytes {
        self.data().value()
    }
}
