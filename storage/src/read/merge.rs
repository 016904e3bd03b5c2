//! Merging cursors: many sorted sources as one, forwards or backwards.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::error::Result;
use crate::key::{Cursor, Version, compare_versions};

/// A cursor over the versions of all sources in order; in descending order if `BACKWARD`.
///
/// No two sources hold the same (key, sequence number). The sources stand in a line, in the order
/// of their versions. A step moves the first source and puts it back in its place. This takes one
/// comparison if the source stays first, and none if it is the only one.
#[derive(Debug)]
pub(crate) struct Merge<C, const BACKWARD: bool> {
    sources: Vec<C>,
    /// The sources that are not at their end, as indexes into `sources`, in the order of the
    /// versions at which they stand.
    line: Vec<usize>,
}

impl<C: Cursor, const BACKWARD: bool> Merge<C, BACKWARD> {
    /// Creates a merge of the sources, which begins at the current position of each of them.
    pub(crate) fn new(sources: Vec<C>) -> Self {
        let mut line: Vec<_> = (0..sources.len()).collect();
        line.retain(|&at| sources[at].valid());
        line.sort_unstable_by(|&a, &b| Self::compare(&sources[a], &sources[b]));
        Self { sources, line }
    }

    /// Returns the source that stands on the next version, or on damage before the next version;
    /// `None` at the end.
    #[inline]
    pub(crate) fn front(&self) -> Option<&C> {
        self.line.first().map(|&first| &self.sources[first])
    }

    /// Returns the source that stands on the next version; `None` at the end.
    ///
    /// # Errors
    /// The damage before the next version.
    #[inline]
    pub(crate) fn peek(&self) -> Result<Option<&C>> {
        let front = self.front();
        match front.and_then(C::damage) {
            Some(error) => Err(error.clone()),
            None => Ok(front),
        }
    }

    /// Moves past the next version. After an error the merge is at its end: to go on without the
    /// source that failed would hide its versions.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(&first) = self.line.first() else {
            return Ok(());
        };
        let source = &mut self.sources[first];
        let moved = if BACKWARD {
            source.prev()
        } else {
            source.next()
        };
        if moved.is_err() {
            self.line.clear();
        } else if !source.valid() {
            self.line.remove(0);
        } else if let [_, second, ..] = self.line[..]
            && self.comes_before(second, first)
        {
            self.put_back();
        }
        moved
    }

    /// Moves past all versions of the next key, adds them to `versions`, in order, and returns the
    /// key; `None` at the end.
    ///
    /// # Errors
    /// As [`Self::peek`] and [`Self::advance`].
    pub(crate) fn next_key(&mut self, versions: &mut Vec<Version>) -> Result<Option<Bytes>> {
        self.next_key_from(versions, |_| ())
    }

    /// Does the same as [`Self::next_key`], and calls `from` for each version with the position of
    /// its source.
    ///
    /// # Errors
    /// As [`Self::next_key`].
    pub(crate) fn next_key_from(
        &mut self,
        versions: &mut Vec<Version>,
        mut from: impl FnMut(usize),
    ) -> Result<Option<Bytes>> {
        let Some(source) = self.peek()? else {
            return Ok(None);
        };
        let key = Bytes::copy_from_slice(source.key());
        while let Some(source) = self.peek()?.filter(|source| source.key() == key) {
            versions.push(source.version());
            from(self.line[0]);
            self.advance()?;
        }
        Ok(Some(key))
    }

    /// Moves the first source in `line`, whose version now comes after that of the second, behind
    /// all sources whose versions come before its own.
    #[inline(never)]
    fn put_back(&mut self) {
        let first = self.line[0];
        let behind = &self.line[2..];
        let passed = 1 + behind.partition_point(|&other| self.comes_before(other, first));
        self.line[..=passed].rotate_left(1);
    }

    /// Returns whether the version of source `a` comes before that of source `b`.
    #[inline]
    fn comes_before(&self, a: usize, b: usize) -> bool {
        Self::compare(&self.sources[a], &self.sources[b]).is_lt()
    }

    #[inline]
    fn compare(a: &C, b: &C) -> Ordering {
        let order = compare_versions((a.key(), a.seq()), (b.key(), b.seq()));
        if BACKWARD { order.reverse() } else { order }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
