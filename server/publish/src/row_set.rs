//! A set of rows of a data file, in few bytes for each row.

use std::mem;
use std::vec::IntoIter;

/// The least number of rows that a set holds outside of the encoded ones before it merges both. With
/// a smaller number, a set of few rows would be encoded again for almost each row that is added. The
/// number is small because a table may have a set for each of a million data files.
const PENDING_MIN: usize = 64;

/// The part of the encoded rows, as a divisor, that a set may hold outside of them. So a merge encodes
/// each row at most some eight times, and rows that are not encoded take about as much memory as
/// the others.
const PENDING_PART: usize = 8;

/// A set of rows of a data file, by their numbers from 0. The set holds the distances between the rows, so a
/// row mostly takes one byte or two. Rows that are added in descending or in random order take some two
/// bytes more. A row that is added again takes none.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowSet {
    sorted: SortedRows,
    /// Rows below the last one of `sorted`, in any order. They may repeat each other and those of `sorted`.
    pending: Vec<u64>,
}

/// Encoded rows.
#[derive(Debug, Clone, Default)]
struct SortedRows {
    /// For each row its distance from the row before, for the first one its number. A distance has seven bits
    /// in each byte, the lowest first; the highest bit of a byte is set if another one follows.
    bytes: Vec<u8>,
    count: usize,
    /// The greatest row; `None` if there is no row.
    last: Option<u64>,
}

impl SortedRows {
    /// Appends a row, which is not below the last one. Does nothing if it is the last one.
    fn push(&mut self, row: u64) {
        if self.last == Some(row) {
            return;
        }
        let mut distance = row - self.last.unwrap_or(0);
        while distance >= 0x80 {
            self.bytes.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        self.bytes.push(distance as u8);
        self.count += 1;
        self.last = Some(row);
    }

    fn into_rows(self) -> RowNumbers {
        RowNumbers {
            bytes: self.bytes.into_iter(),
            last: 0,
        }
    }
}

impl RowSet {
    pub(crate) fn add(&mut self, row: u64) {
        if self.sorted.last.is_some_and(|last| row < last) {
            self.pending.push(row);
            if self.pending.len() >= PENDING_MIN.max(self.sorted.count / PENDING_PART) {
                self.merge();
            }
        } else {
            self.sorted.push(row);
        }
    }

    /// Returns the numbers of the rows, ascending, each once.
    pub(crate) fn into_rows(mut self) -> RowNumbers {
        self.merge();
        self.sorted.into_rows()
    }

    /// Returns the numbers of the rows, ascending, each once, in a vector without spare memory.
    pub(crate) fn into_sorted(mut self) -> Vec<u64> {
        self.merge();
        let mut rows = Vec::with_capacity(self.sorted.count);
        rows.extend(self.sorted.into_rows());
        rows
    }

    /// Encodes the pending rows.
    fn merge(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.sort_unstable();
        let mut pending = self.pending.drain(..).peekable();
        let mut merged = SortedRows::default();
        for row in mem::take(&mut self.sorted).into_rows() {
            while let Some(before) = pending.next_if(|before| *before < row) {
                merged.push(before);
            }
            merged.push(row);
        }
        // A pending row is below the last of the others, so none is left.
        drop(pending);
        self.sorted = merged;
    }

    /// Returns the memory of the set in bytes.
    #[cfg(test)]
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.sorted.bytes.capacity() + self.pending.capacity() * size_of::<u64>()
    }
}

/// The numbers of the rows of a set, ascending, each once.
#[derive(Debug)]
pub(crate) struct RowNumbers {
    bytes: IntoIter<u8>,
    /// The row that was returned last; 0 before the first one.
    last: u64,
}

impl Iterator for RowNumbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut distance = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.bytes.next()?;
            distance |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        self.last += distance;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_ascending_and_each_once() {
        let mut set = RowSet::default();
        let rows = 200_000_u64;
        // Each row twice, in an order without runs: 7919 is prime.
        for at in 0..2 * rows {
            set.add(at * 7919 % rows);
        }
        assert!(set.clone().into_rows().eq(0..rows));
        let sorted = set.into_sorted();
        assert_eq!(sorted.capacity(), sorted.len());
        assert!(sorted.into_iter().eq(0..rows));
        assert!(RowSet::default().into_sorted().is_empty());
    }

    #[test]
    fn distances_of_every_length_are_kept() {
        let mut rows = vec![0];
        rows.extend((0..u64::BITS).map(|bit| 1_u64 << bit));
        rows.push(u64::MAX);
        let ways = [rows.clone(), rows.iter().rev().copied().collect()];
        for way in ways {
            let mut set = RowSet::default();
            way.into_iter().for_each(|row| set.add(row));
            assert_eq!(set.into_sorted(), rows);
        }
    }

    /// Regression: a row took 8 to 32 bytes. A load holds those of many data files at once.
    #[test]
    fn many_rows_take_little_memory() {
        let rows = 300_000;
        // Of one delete file, and of two that delete every second row each.
        for step in [1, 2] {
            let mut set = RowSet::default();
            for first in 0..step {
                (first..rows)
                    .step_by(step)
                    .for_each(|row| set.add(row as u64 * 100));
            }
            let bytes = set.capacity_bytes();
            assert!(bytes <= 4 * rows, "{bytes}");
            assert!(set.into_rows().eq((0..rows as u64).map(|row| row * 100)));
        }
    }

    /// Regression: a row took memory for each time that it was added.
    #[test]
    fn a_row_that_is_added_very_often_takes_little_memory() {
        let mut set = RowSet::default();
        for at in 0..1_000_000 {
            set.add(at % 2);
        }
        assert!(set.capacity_bytes() <= 1_000, "{}", set.capacity_bytes());
        assert_eq!(set.into_sorted(), [0, 1]);
    }
}
