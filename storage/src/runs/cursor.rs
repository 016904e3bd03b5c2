//! Reading a run in order.

use std::sync::Arc;

use bytes::Bytes;

use super::{Gap, Run};
use crate::error::{Error, Result};
use crate::key::{Cursor, KeyRange, Kind, SeqNo, compare_versions, is_before};
use crate::sstable::SsTableCursor;

/// A position in a run: the file, and the position in the file. The cursor leaves out the entries
/// of the first and the last file that are outside of the run's key range.
///
/// At a damaged place the cursor does not fail yet, because the reader may stop before it needs the
/// data. It stands on the damage: after a move to larger keys, at the first position that a damaged
/// version can have; after a move to smaller keys, at the last. The next step fails.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<Run>,
    /// The sequence number at which the reader reads.
    seq: SeqNo,
    ingested_at: Option<SeqNo>,
    has_gaps: bool,
    /// Whether the run's last file has keys behind the end of the run's key range.
    ends_early: bool,
    fill_cache: bool,
    /// The position of the file among the open files of the run.
    at: usize,
    position: Position,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most are in a file, and none is moved once it is there"
)]
enum Position {
    Nowhere,
    In(SsTableCursor),
    Damaged(Box<Damaged>),
}

/// A position in the order of versions, and the damage there.
#[derive(Debug)]
struct Damaged {
    key: Vec<u8>,
    seq: SeqNo,
    error: Error,
}

/// The position of a cursor before a step, or the target of a seek. `None` for a move to the first
/// or the last version. Also `None` for most steps in a run without gaps, which do not need it.
type Start<'a> = Option<(&'a [u8], SeqNo)>;

impl RunCursor {
    /// Creates a cursor that is not on any version yet.
    pub(super) fn new(run: Arc<Run>, seq: SeqNo, fill_cache: bool) -> Self {
        Self {
            ingested_at: run.meta().ingested_at,
            has_gaps: !run.gaps().is_empty(),
            ends_early: run.ends_early(),
            run,
            seq,
            fill_cache,
            at: 0,
            position: Position::Nowhere,
        }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    fn open(&mut self, at: usize) -> Option<&mut SsTableCursor> {
        match (self.run.sorted().get(at), &mut self.position) {
            (None, position) => *position = Position::Nowhere,
            (Some(_), Position::In(_)) if self.at == at => {}
            (Some(table), Position::In(cursor)) => cursor.change_table(table),
            (Some(table), other) => *other = Position::In(table.cursor(self.fill_cache)),
        }
        self.at = at;
        self.inner()
    }

    #[inline]
    fn inner(&mut self) -> Option<&mut SsTableCursor> {
        match &mut self.position {
            Position::In(cursor) => Some(cursor),
            _ => None,
        }
    }

    fn is_past_its_file(&self) -> bool {
        matches!(&self.position, Position::In(cursor) if !cursor.valid())
    }

    /// Moves to the first version of the next file that has one, if the position is past the end of
    /// its file.
    fn settle_forward(&mut self) -> Result<()> {
        while self.is_past_its_file() {
            if let Some(cursor) = self.open(self.at + 1) {
                cursor.seek_to_first()?;
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.is_past_its_file() {
            match self.at.checked_sub(1) {
                Some(before) => self
                    .open(before)
                    .expect("a file before this one")
                    .seek_to_last()?,
                None => self.position = Position::Nowhere,
            }
        }
        Ok(())
    }

    /// Returns whether the run was ingested by a commit after `seq`. The run's version of a key
    /// then comes before `(key, seq)`, although the file gives the version the number 0.
    fn is_newer_than(&self, seq: SeqNo) -> bool {
        self.ingested_at.is_some_and(|at| at > seq)
    }

    fn here(&self) -> &SsTableCursor {
        match &self.position {
            Position::In(cursor) => cursor,
            Position::Damaged(damaged) => panic!("read past damage: {}", damaged.error),
            Position::Nowhere => panic!("the cursor is valid"),
        }
    }

    /// Completes a move to larger keys that began at `from` and had the result `moved`. If the move
    /// met damaged data, the cursor then stands on the damage; if it went beyond the key range of
    /// the run, the cursor stands on no version.
    #[inline]
    fn moved_up(&mut self, from: Start<'_>, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.meet(moved, from, false)?;
        }
        if self.ends_early {
            self.leave_unless(|keys, key| is_before(key, keys.end.as_ref()));
        }
        if self.has_gaps {
            self.fall_into_gap_above(from);
        }
        Ok(())
    }

    /// Completes a move to smaller keys that began at `from`, as [`moved_up`](Self::moved_up) does
    /// for larger ones.
    #[inline]
    fn moved_down(&mut self, from: Start<'_>, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.meet(moved, from, true)?;
        }
        self.leave_unless(|keys, key| *keys.start <= *key);
        if self.has_gaps {
            return self.fall_into_gap_below(from);
        }
        Ok(())
    }

    /// Makes the cursor stand on no version if its key is outside of the run's key range. `counts`
    /// checks only one end of the range: the end in whose direction the cursor moved.
    fn leave_unless(&mut self, counts: impl FnOnce(&KeyRange, &[u8]) -> bool) {
        if let Some(keys) = self.run.keys_that_count()
            && self.valid()
            && !counts(keys, self.key())
        {
            self.position = Position::Nowhere;
        }
    }

    /// Handles the result of a move that began at `from`: damage puts the cursor on the damaged
    /// block, any other error is returned. `down` is true for a move to smaller keys.
    #[cold]
    fn meet(&mut self, moved: Result<()>, from: Start<'_>, down: bool) -> Result<()> {
        let Err(error) = moved else {
            return Ok(());
        };
        let Position::In(cursor) = &self.position else {
            return Err(error);
        };
        if !matches!(error, Error::Corruption { .. }) {
            return Err(error);
        }
        let (below, above) = cursor.bounds_here();
        let (key, seq) = if down { above } else { below };
        // What was looked for may lie within the block.
        let is_within = |from: &(&[u8], SeqNo)| {
            let order = compare_versions((&key, seq), *from);
            if down { order.is_gt() } else { order.is_lt() }
        };
        let (key, seq) = match from.filter(is_within) {
            Some((key, seq)) => (key.to_vec(), seq),
            None => (key, seq),
        };
        // What newer sources have for the key is ahead of all that is here.
        let largest = self.run.meta().largest_seq;
        let seq = if down { seq } else { seq.min(largest) };
        self.stand_on(key, seq, error);
        Ok(())
    }

    fn stand_on(&mut self, key: Vec<u8>, seq: SeqNo, error: Error) {
        self.position = Position::Damaged(Box::new(Damaged { key, seq, error }));
    }

    /// Puts the cursor on the first gap (key range of an unreadable file) that a move from `from`
    /// to larger keys met before it reached its position, if there is one.
    #[cold]
    fn fall_into_gap_above(&mut self, from: Start<'_>) {
        let run = self.run.clone();
        let (from_key, from_seq) = from.unwrap_or((&[], SeqNo::MAX));
        let is_passed = |gap: &&Gap| {
            let begins = !self.valid() || *gap.range.start <= *self.key();
            let end = gap.range.end.as_ref();
            let reaches = is_before(from_key, end)
                && (from_seq > SeqNo::ZERO
                    || !end.is_some_and(|end| is_right_behind(end, from_key)));
            gap.smallest_seq <= self.seq && begins && reaches
        };
        let passed = run.gaps().iter().filter(is_passed);
        if let Some(gap) = passed.min_by_key(|gap| &gap.range.start) {
            let largest = run.meta().largest_seq;
            let (key, seq) = if *gap.range.start > *from_key {
                (&gap.range.start[..], largest)
            } else {
                (from_key, from_seq.min(largest))
            };
            self.stand_on(key.to_vec(), seq, gap.error.clone());
        }
    }

    /// Puts the cursor on the first gap (key range of an unreadable file) that a move from `from`
    /// to smaller keys met before it reached its position, if there is one.
    ///
    /// # Errors
    /// The error of the gap, if the move is to the last version and the gap has no end: there is no
    /// key behind the gap for the cursor to stand on.
    #[cold]
    fn fall_into_gap_below(&mut self, from: Start<'_>) -> Result<()> {
        let run = self.run.clone();
        let is_passed = |gap: &&Gap| {
            let begins = !self.valid() || is_before(self.key(), gap.range.end.as_ref());
            let reaches = from.is_none_or(|(key, seq)| {
                *gap.range.start < *key || *gap.range.start == *key && seq < SeqNo::MAX
            });
            gap.smallest_seq <= self.seq && begins && reaches
        };
        let passed = run.gaps().iter().filter(is_passed);
        // None is after every key.
        let end = |gap: &&Gap| (gap.range.end.is_none(), gap.range.end.clone());
        let Some(gap) = passed.max_by_key(end) else {
            return Ok(());
        };
        let (key, seq) = match (&gap.range.end, from) {
            (Some(end), Some((key, _))) if **end <= *key => (&end[..], SeqNo::MAX),
            (_, Some(from)) => from,
            (Some(end), None) => (&end[..], SeqNo::MAX),
            (None, None) => {
                self.position = Position::Nowhere;
                return Err(gap.error.clone());
            }
        };
        self.stand_on(key.to_vec(), seq, gap.error.clone());
        Ok(())
    }

    fn try_next(&mut self) -> Result<()> {
        match &mut self.position {
            Position::In(cursor) => cursor.next()?,
            Position::Damaged(damaged) => return Err(damaged.error.clone()),
            Position::Nowhere => panic!("the cursor is valid"),
        }
        self.settle_forward()
    }

    fn try_prev(&mut self) -> Result<()> {
        match &mut self.position {
            Position::In(cursor) => cursor.prev()?,
            Position::Damaged(damaged) => return Err(damaged.error.clone()),
            Position::Nowhere => panic!("the cursor is valid"),
        }
        self.settle_backward()
    }

    fn try_seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.run.first_file_reaching(key);
        if let Some(cursor) = self.open(at) {
            cursor.seek(key, seq)?;
        }
        self.settle_forward()
    }

    fn try_seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        // The last file that begins at or before the key.
        let after = self
            .run
            .sorted()
            .partition_point(|table| super::run::smallest_key(table) <= key);
        let Some(at) = after.checked_sub(1) else {
            self.position = Position::Nowhere;
            return Ok(());
        };
        self.open(at)
            .expect("a file at the key")
            .seek_before(key, seq)?;
        self.settle_backward()
    }

    fn try_seek_to_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.open(0) {
            cursor.seek_to_first()?;
        }
        self.settle_forward()
    }

    fn try_seek_to_last(&mut self) -> Result<()> {
        match self.run.sorted().len().checked_sub(1) {
            Some(last) => {
                if let Some(cursor) = self.open(last) {
                    cursor.seek_to_last()?;
                }
            }
            None => self.position = Position::Nowhere,
        }
        self.settle_backward()
    }
}

/// Returns whether `end` directly follows `key`, so that no key is between them.
fn is_right_behind(end: &[u8], key: &[u8]) -> bool {
    end.split_last() == Some((&0, key))
}

impl Cursor for RunCursor {
    #[inline]
    fn valid(&self) -> bool {
        match &self.position {
            Position::In(cursor) => cursor.valid(),
            Position::Damaged(_) => true,
            Position::Nowhere => false,
        }
    }

    #[inline]
    fn damage(&self) -> Option<&Error> {
        match &self.position {
            Position::Damaged(damaged) => Some(&damaged.error),
            _ => None,
        }
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let start = self.run.meta().begins_at();
        if let Some(start) = start.filter(|start| *key < ***start).cloned() {
            return self.seek(&start, SeqNo::MAX);
        }
        let moved = self.try_seek(key, seq);
        self.moved_up(Some((key, seq)), moved)?;
        if self.is_newer_than(seq) && self.valid() && self.damage().is_none() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let end = self.run.meta().ends_before();
        let is_behind = |end: &&Bytes| ***end < *key || ***end == *key && seq < SeqNo::MAX;
        if let Some(end) = end.filter(is_behind).cloned() {
            return self.seek_before(&end, SeqNo::MAX);
        }
        if self.ingested_at.is_some() && seq < SeqNo::MAX {
            self.seek(key, SeqNo::MAX)?;
            if self.is_newer_than(seq)
                && self.valid()
                && self.damage().is_none()
                && self.key() == key
            {
                return Ok(());
            }
            if self.damage().is_some() && self.key() == key {
                return Ok(());
            }
            return self.seek_before(key, SeqNo::MAX);
        }
        let moved = self.try_seek_before(key, seq);
        self.moved_down(Some((key, seq)), moved)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if let Some(start) = self.run.meta().begins_at().cloned() {
            return self.seek(&start, SeqNo::MAX);
        }
        let moved = self.try_seek_to_first();
        self.moved_up(None, moved)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if let Some(end) = self.run.meta().ends_before().cloned() {
            return self.seek_before(&end, SeqNo::MAX);
        }
        let moved = self.try_seek_to_last();
        self.moved_down(None, moved)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match &mut self.position {
            Position::In(cursor) if !self.has_gaps && !self.ends_early => {
                let moved = cursor.next();
                if moved.is_ok() && cursor.valid() {
                    return Ok(());
                }
                let moved = moved.and_then(|()| self.settle_forward());
                self.moved_up(None, moved)
            }
            _ => {
                let from = (self.key().to_vec(), self.seq());
                let moved = self.try_next();
                self.moved_up(Some((&from.0, from.1)), moved)
            }
        }
    }

    fn prev(&mut self) -> Result<()> {
        let from = self.has_gaps.then(|| (self.key().to_vec(), self.seq()));
        let moved = self.try_prev();
        let from = from.as_ref().map(|(key, seq)| (&key[..], *seq));
        self.moved_down(from, moved)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match &self.position {
            Position::Damaged(damaged) => &damaged.key,
            _ => self.here().key(),
        }
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        match &self.position {
            Position::Damaged(damaged) => damaged.seq,
            _ => self.ingested_at.unwrap_or(self.here().seq()),
        }
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
