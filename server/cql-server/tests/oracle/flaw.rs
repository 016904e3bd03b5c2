//! Possible flaws of the model. The test must detect each of them: a flaw of the model that it does
//! not detect would not be detected in the server either.

/// A deliberate mistake of the model: a wrong rule in place of the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The smaller one of two values with equal timestamps wins.
    SmallerValueWins,
    /// A permanent value wins over an expiring one with the same timestamp.
    PermanentWins,
    /// A value wins over a null with the same timestamp.
    ValueWinsOverNull,
    /// Values expire a second late.
    ExpiresLate,
    /// ttl() is a second short.
    TtlOffByOne,
    /// USING TTL 0 is ignored, so that the default TTL applies.
    TtlZeroIsDefault,
    /// A deletion does not delete values with its own timestamp.
    DeletionLeavesItsTimestamp,
    /// Overwriting a collection deletes elements with the timestamp of the write.
    OverwriteTakesItsTimestamp,
    /// The deletion of a range leaves the rows at its ends, even if the ends are included.
    RangesAreOpen,
    /// The deletion of a row deletes static columns, too.
    RowDeletionTakesStatics,
    /// A deletion of several rows by IN deletes only the first of them.
    InDeletesTheFirst,
    /// UPDATE creates rows that exist without values.
    UpdateMakesRows,
    /// A row that was inserted with a TTL does not exist without values, even before the TTL has
    /// passed.
    ExpiringRowsAreGone,
    /// A partition with only static values has no row.
    StaticsAloneAreHidden,
    /// Prepended elements are in reverse order.
    PrependReverses,
    /// A change of a list element by its index changes the next element.
    IndexOffByOne,
    /// Setting a list element moves it to the end.
    SetIndexMoves,
    /// Writing a whole user-defined type with a null field keeps the old value of the field.
    UdtKeepsOldFields,
    /// Reads at a snapshot decide on expiry by the present time.
    SnapshotsJudgeNow,
    /// A snapshot returns later writes.
    SnapshotsMove,
    /// A column that was dropped and added again has its old values.
    DroppedColumnsReturn,
    /// A column that was dropped USING TIMESTAMP loses newer values, too.
    DropsForgetTheirTimestamp,
    /// LIMIT starts again with each page.
    LimitOfEachPage,
    /// PER PARTITION LIMIT starts again with each page.
    PerPartitionLimitOfEachPage,
    /// A page begins with the last row of the previous page.
    PagesOverlap,
    /// ORDER BY has no effect.
    NeverReversed,
    /// A SELECT by partition keys, with `=` or IN, reads each partition twice.
    InReadsTwice,
    /// Slices of tuples compare only the first column.
    TupleSlicesByFirst,
    /// A batch without USING TIMESTAMP has a timestamp for each statement.
    BatchTimestampsRise,
    /// For IF EXISTS and IF NOT EXISTS, only rows that an INSERT has written exist.
    RowsExistByMarkers,
    /// The condition `column != value` does not hold if the column is null.
    NullIsNotUnequal,
    /// A failed conditional batch executes the statements whose own conditions hold.
    BatchesAppliedInPart,
    /// Two increments in a batch both add to the value before the batch.
    IncrementsForgetEachOther,
    /// A read by an index misses the partitions that were last written before the last index was
    /// created.
    IndexesForgetRowsFromBefore,
    /// A read by an index returns expired values.
    IndexesForgetExpiry,
    /// An index finds a row by an earlier value.
    IndexesShowOldValues,
    /// A read by an index at a snapshot returns the current rows.
    IndexesOfSnapshotsMove,
    /// Statements use an index after it was dropped.
    DroppedIndexesServe,
    /// Rows are grouped without the last element of GROUP BY.
    GroupsForgetTheLastColumn,
    /// Columns outside of aggregates have the values of the last row of a group.
    GroupsShowTheirLastRow,
    /// The first group that a full page has no room for is in no page.
    PagesLoseAGroup,
    /// A page begins after the first row of the last group of the previous page.
    PagesRepeatGroups,
    /// LIMIT counts the rows in the groups, and not the groups.
    LimitCountsRowsOfGroups,
    /// PER PARTITION LIMIT counts the rows in the groups, and not the groups.
    PartitionLimitCountsRowsOfGroups,
    /// Aggregates take nulls for zeros.
    AggregatesCountNulls,
    /// floor() returns its argument unchanged.
    FloorsKeepTheTime,
}

impl Flaw {
    pub const ALL: [Self; 46] = [
        Self::SmallerValueWins,
        Self::PermanentWins,
        Self::ValueWinsOverNull,
        Self::ExpiresLate,
        Self::TtlOffByOne,
        Self::TtlZeroIsDefault,
        Self::DeletionLeavesItsTimestamp,
        Self::OverwriteTakesItsTimestamp,
        Self::RangesAreOpen,
        Self::RowDeletionTakesStatics,
        Self::InDeletesTheFirst,
        Self::UpdateMakesRows,
        Self::ExpiringRowsAreGone,
        Self::StaticsAloneAreHidden,
        Self::PrependReverses,
        Self::IndexOffByOne,
        Self::SetIndexMoves,
        Self::UdtKeepsOldFields,
        Self::SnapshotsJudgeNow,
        Self::SnapshotsMove,
        Self::DroppedColumnsReturn,
        Self::DropsForgetTheirTimestamp,
        Self::LimitOfEachPage,
        Self::PerPartitionLimitOfEachPage,
        Self::PagesOverlap,
        Self::NeverReversed,
        Self::InReadsTwice,
        Self::TupleSlicesByFirst,
        Self::BatchTimestampsRise,
        Self::RowsExistByMarkers,
        Self::NullIsNotUnequal,
        Self::BatchesAppliedInPart,
        Self::IncrementsForgetEachOther,
        Self::IndexesForgetRowsFromBefore,
        Self::IndexesForgetExpiry,
        Self::IndexesShowOldValues,
        Self::IndexesOfSnapshotsMove,
        Self::DroppedIndexesServe,
        Self::GroupsForgetTheLastColumn,
        Self::GroupsShowTheirLastRow,
        Self::PagesLoseAGroup,
        Self::PagesRepeatGroups,
        Self::LimitCountsRowsOfGroups,
        Self::PartitionLimitCountsRowsOfGroups,
        Self::AggregatesCountNulls,
        Self::FloorsKeepTheTime,
    ];
}
