//! A position in one SSTable, movable in both directions: a cursor over the
//! index, and one over the data block that it stands on.

use std::sync::Arc;

use bytes::Bytes;

use super::block_cursor::BlockCursor;
use super::damage::Damage;
use super::handle::BlockHandle;
use super::reader::{SsTable, ends_too_early};
use crate::error::Result;
use crate::key::{Kind, SeqNo};
use crate::read::cursor::Cursor;

/// Walks a table; see [`Cursor`]. Keeps the table and one block alive.
#[derive(Debug)]
pub(crate) struct SsTableCursor {
    table: Arc<SsTable>,
    fill_cache: bool,
    /// While `data` is valid, stands on that block.
    index: BlockCursor,
    /// In the block at `data_offset`; `None` until the first is loaded.
    data: Option<BlockCursor>,
    data_offset: u64,
}

impl SsTableCursor {
    pub(super) fn new(table: Arc<SsTable>, fill_cache: bool) -> Self {
        let index = table.index().cursor();
        Self {
            table,
            fill_cache,
            index,
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

    /// Moves the index cursor and says whether it stands on a block.
    fn move_index(
        &mut self,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        how(&mut self.index).map_err(|damage| self.table.index_damage(damage))?;
        Ok(self.index.valid())
    }

    /// Moves within the block that the index cursor stands on, from nowhere, and
    /// says whether that led to a version.
    fn enter_block(
        &mut self,
        how: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<bool> {
        self.clear();
        let handle = BlockHandle::from_varints(&self.index.value())
            .map_err(|damage| self.table.index_damage(damage))?;
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
        self.clear();
        if self.move_index(|index| index.seek(key, seq))?
            && !self.enter_block(|data| data.seek(key, seq))?
        {
            return Err(ends_too_early().at(self.table.path(), self.data_offset));
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.clear();
        if !self.move_index(|index| index.seek(key, seq))? {
            return self.seek_to_last();
        }
        if !self.enter_block(|data| data.seek_before(key, seq))?
            && self.move_index(BlockCursor::prev)?
        {
            self.enter_block(BlockCursor::seek_to_last)?;
        }
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.clear();
        if self.move_index(BlockCursor::seek_to_first)? {
            self.enter_block(BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.clear();
        if self.move_index(BlockCursor::seek_to_last)? {
            self.enter_block(BlockCursor::seek_to_last)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        assert!(self.valid(), "next on a cursor that stands nowhere");
        if !self.move_data(BlockCursor::next)? && self.move_index(BlockCursor::next)? {
            self.enter_block(BlockCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.valid(), "prev on a cursor that stands nowhere");
        if !self.move_data(BlockCursor::prev)? && self.move_index(BlockCursor::prev)? {
            self.enter_block(BlockCursor::seek_to_last)?;
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
