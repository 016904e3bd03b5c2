//! The size of a sample of a split: the number of records, and of the places where they are read.

/// The number of records that a sample reads at one place. Finding a place costs about as much as
/// reading 16 records. More records per place would add little information if the input is sorted,
/// because neighbours are alike.
pub(super) const RECORDS_PER_PLACE: usize = 16;

/// Returns the number of places at which a sample of about `records` records is read: at least one.
pub(super) fn places(records: usize) -> usize {
    records.div_ceil(RECORDS_PER_PLACE).max(1)
}
