//! Merging cursors: many sorted sources as one, forwards or backwards.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::error::Result;
use crate::key::{SeqNo, compare_versions};
use crate::read::cursor::Cursor;

/// The versions of all sources in order; descending when `BACKWARD`.
///
/// No two sources hold the same (key, sequence number). A step moves the
/// source on top of a heap and sifts it down, so a source that stays ahead
/// costs one comparison or two.
pub(crate) struct Merge<const BACKWARD: bool> {
    heap: BinaryHeap<Source<BACKWARD>>,
}

struct Source<const BACKWARD: bool>(Box<dyn Cursor>);

impl<const BACKWARD: bool> Merge<BACKWARD> {
    /// Merges the sources from where they stand.
    pub(crate) fn new(cursors: Vec<Box<dyn Cursor>>) -> Self {
        Self {
            heap: cursors
                .into_iter()
                .filter(|cursor| cursor.valid())
                .map(Source)
                .collect(),
        }
    }

    /// The source that stands on the next version; `None` at the end.
    pub(crate) fn peek(&self) -> Option<&dyn Cursor> {
        self.heap.peek().map(|source| &*source.0)
    }

    /// Moves past the next version. After an error the merge is at its end: a
    /// source that failed must not be read around.
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(mut top) = self.heap.peek_mut() else {
            return Ok(());
        };
        let moved = if BACKWARD { top.0.prev() } else { top.0.next() };
        if moved.is_ok() && top.0.valid() {
            return Ok(());
        }
        PeekMut::pop(top);
        if moved.is_err() {
            self.heap.clear();
        }
        moved
    }
}

impl<const BACKWARD: bool> Source<BACKWARD> {
    fn position(&self) -> (&[u8], SeqNo) {
        (self.0.key(), self.0.seq())
    }
}

impl<const BACKWARD: bool> Ord for Source<BACKWARD> {
    fn cmp(&self, other: &Self) -> Ordering {
        // `BinaryHeap` keeps the largest on top.
        let order = compare_versions(self.position(), other.position());
        if BACKWARD { order } else { order.reverse() }
    }
}

impl<const BACKWARD: bool> PartialOrd for Source<BACKWARD> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const BACKWARD: bool> PartialEq for Source<BACKWARD> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<const BACKWARD: bool> Eq for Source<BACKWARD> {}

impl<const BACKWARD: bool> std::fmt::Debug for Merge<BACKWARD> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge")
            .field("sources", &self.heap.len())
            .finish()
    }
}
