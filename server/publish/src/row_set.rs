//! A set of rows of a data file.

/// The number of entries that a set may have in addition to two for each distinct row. Before it
/// would exceed both together, it sorts its entries and removes the repeated ones. Without the
/// additional entries, a set of few rows would be sorted again for each row that is added. The
/// number is small because a table may have a set for each of a million data files.
const SPARE_ROWS: usize = 64;

/// A set of rows of a data file, by their numbers from 0. Each row takes up to 32 bytes, however often the same row
/// is added. A set of few rows takes up to a kilobyte.
#[derive(Debug, Default)]
pub(crate) struct RowSet {
    /// The numbers of the rows. The first `distinct` are ascending, each once; the others are in any order, and may
    /// repeat any number.
    rows: Vec<u64>,
    distinct: usize,
}

impl RowSet {
    pub(crate) fn add(&mut self, row: u64) {
        if self.rows.len() >= 2 * self.distinct + SPARE_ROWS {
            // Sorting takes linear time if the rows come in ascending order, as they mostly do.
            self.remove_repeated();
        }
        self.rows.push(row);
    }

    /// Returns the numbers of the rows, ascending, each once, in a vector without spare memory.
    pub(crate) fn into_sorted(mut self) -> Vec<u64> {
        self.remove_repeated();
        self.rows.shrink_to_fit();
        self.rows
    }

    fn remove_repeated(&mut self) {
        self.rows.sort_unstable();
        self.rows.dedup();
        self.distinct = self.rows.len();
    }

    /// Returns the number of rows for which the set has memory.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.rows.capacity()
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
        let sorted = set.into_sorted();
        assert!(sorted.capacity() < 2 * sorted.len());
        assert!(sorted.into_iter().eq(0..rows));
        assert!(RowSet::default().into_sorted().is_empty());
    }

    /// Regression: a row took memory for each time that it was added.
    #[test]
    fn a_row_that_is_added_very_often_takes_little_memory() {
        let mut set = RowSet::default();
        for at in 0..1_000_000 {
            set.add(at % 2);
        }
        assert!(set.capacity() <= 3 * SPARE_ROWS, "{}", set.capacity());
        assert_eq!(set.into_sorted(), [0, 1]);
    }
}
