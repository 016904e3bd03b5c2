//! Operands that delete rows, ranges of rows and partitions.

use ebb_model::key::ByteRange;
use ebb_model::row::{HeaderBuilder, RangeDeletion, RowBuilder, RowError};

use super::times::WriteTimes;

/// Appends the operand that deletes a row.
///
/// # Errors
/// If the timestamp is `i64::MIN`.
pub fn delete_row(times: &WriteTimes, out: &mut Vec<u8>) -> Result<(), RowError> {
    let mut row = RowBuilder::new(out, times.timestamp_us);
    row.deletion(times.deletion());
    row.finish()
}

/// Appends the operand for the header of a partition that deletes the partition.
pub fn delete_partition(times: &WriteTimes, out: &mut Vec<u8>) {
    HeaderBuilder::new(out).deletion(times.deletion());
}

/// Appends the operand for the header of a partition that deletes rows of the partition: those whose
/// encoded clusterings lie in one of `ranges`.
///
/// # Errors
/// If the ranges take 4 GiB or more.
pub fn delete_ranges(
    times: &WriteTimes,
    ranges: &[ByteRange],
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    let deletion = times.deletion();
    let ranges = ranges.iter().map(|range| RangeDeletion {
        start: &range.from,
        end: range.to.as_deref(),
        deletion,
    });
    let ranges: Vec<RangeDeletion<'_>> = ranges.collect();
    HeaderBuilder::new(out).ranges(&ranges)
}
