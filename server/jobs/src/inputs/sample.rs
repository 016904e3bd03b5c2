//! How many records of a split are looked at, and at how many places.

/// Records that are read at one place. To find a place costs about as much as to read
/// so many; more of them tell little that the first ones did not, where the input is
/// in order.
pub(super) const RECORDS_PER_PLACE: usize = 16;

/// The places to look at for about `records` records: at least one.
pub(super) fn places(records: usize) -> usize {
    records.div_ceil(RECORDS_PER_PLACE).max(1)
}
