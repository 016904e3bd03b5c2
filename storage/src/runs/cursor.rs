//! Reading a run in order.

use std::sync::Arc;

use bytes::Bytes;

use super::Run;
use crate::error::Result;
use crate::key::{Cursor, Kind, SeqNo};
use crate::sstable::SsTableCursor;

/// A position in a run: the file, and the position in it.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<Run>,
    ingested_at: Option<SeqNo>,
    fill_cache: bool,
    at: usize,
    /// `None` when nowhere.
    cursor: Option<SsTableCursor>,
}

impl RunCursor {
    /// Nowhere.
    pub(super) fn new(run: Arc<Run>, fill_cache: bool) -> Self {
        Self {
            ingested_at: run.meta().ingested_at,
            run,
            fill_cache,
            at: 0,
            cursor: None,
        }
    }

    fn open(&mut self, at: usize) -> Option<&mut SsTableCursor> {
        match (self.run.sorted().get(at), &mut self.cursor) {
            (None, cursor) => *cursor = None,
            (Some(_), Some(_)) if self.at == at => {}
            (Some(file), Some(cursor)) => cursor.change_table(file.table()),
            (Some(file), empty) => *empty = Some(file.table().cursor(self.fill_cache)),
        }
        self.at = at;
        self.cursor.as_mut()
    }

    /// Moves on to the next files while the position is past the end of one.
    fn settle_forward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.valid()) {
            if let Some(cursor) = self.open(self.at + 1) {
                cursor.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.valid()) {
            match self.at.checked_sub(1) {
                Some(before) => self
                    .open(before)
                    .expect("a file before this one")
                    .seek_to_last()?,
                None => self.cursor = None,
            }
        }
        Ok(())
    }

    /// Whether the run was ingested by a commit after `seq`: then its version of
    /// a key comes before `(key, seq)`, though the number in the file is 0.
    fn is_newer_than(&self, seq: SeqNo) -> bool {
        self.ingested_at.is_some_and(|at| at > seq)
    }

    fn here(&self) -> &SsTableCursor {
        self.cursor.as_ref().expect("the cursor is valid")
    }
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.run.first_file_reaching(key);
        if let Some(cursor) = self.open(at) {
            cursor.seek(key, seq)?;
        }
        self.settle_forward()?;
        if self.is_newer_than(seq) && self.valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        if self.ingested_at.is_some() && seq < SeqNo::MAX {
            self.seek(key, SeqNo::MAX)?;
            if self.is_newer_than(seq) && self.valid() && self.key() == key {
                return Ok(());
            }
            return self.seek_before(key, SeqNo::MAX);
        }
        // The last file that begins at or before the key.
        let after = self
            .run
            .sorted()
            .partition_point(|file| file.smallest_key() <= key);
        let Some(at) = after.checked_sub(1) else {
            self.cursor = None;
            return Ok(());
        };
        self.open(at)
            .expect("a file at the key")
            .seek_before(key, seq)?;
        self.settle_backward()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.open(0) {
            cursor.seek_to_first()?;
        }
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if let Some(last) = self.run.sorted().len().checked_sub(1)
            && let Some(cursor) = self.open(last)
        {
            cursor.seek_to_last()?;
        }
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let cursor = self.cursor.as_mut().expect("the cursor is valid");
        cursor.next()?;
        if cursor.valid() {
            return Ok(());
        }
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.as_mut().expect("the cursor is valid").prev()?;
        self.settle_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.here().key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.ingested_at.unwrap_or(self.here().seq())
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.here().kind()
    }

    #[inline]
    fn value(&self) -> Bytes {
        self.here().value()
    }
}
