//! Selections of rows within a partition.

use ebb_model::key::ByteRange;

/// The rows that a reader selects of each partition.
#[derive(Debug)]
pub enum Rows {
    All,
    /// The rows with these encoded clusterings, which ascend. Each has the values of all clustering
    /// columns.
    Exactly(Vec<Vec<u8>>),
    /// The rows in ranges of encoded clusterings, which are disjoint and ascending.
    In(Vec<ByteRange>),
}

impl Rows {
    /// Returns whether the selection contains the row with an encoded clustering.
    pub fn contains(&self, clustering: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Exactly(all) => all.binary_search_by(|one| one[..].cmp(clustering)).is_ok(),
            Self::In(ranges) => {
                let begun = ranges.partition_point(|range| range.from[..] <= *clustering);
                ranges[..begun]
                    .last()
                    .is_some_and(|range| range.contains(clustering))
            }
        }
    }
}
