//! Ways in which the model can be wrong. The proof must notice each: what it would not
//! notice in the model it would not notice in the server either.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Of two values of one timestamp the smaller wins.
    SmallerValueWins,
    /// Of two values of one timestamp the one that stays wins over the one that expires.
    PermanentWins,
    /// A value wins over a null of its timestamp.
    ValueWinsOverNull,
    /// What expires does so a second late.
    ExpiresLate,
    /// ttl() is a second short.
    TtlOffByOne,
    /// USING TTL 0 is as if nothing were said.
    TtlZeroIsDefault,
    /// A deletion leaves what has its own timestamp.
    DeletionLeavesItsTimestamp,
    /// An overwritten collection loses what has the timestamp of the write.
    OverwriteTakesItsTimestamp,
    /// The ends of a deleted range stay.
    RangesAreOpen,
    /// A row's deletion takes static columns too.
    RowDeletionTakesStatics,
    /// A deletion by rows forgets all but the first row that IN names.
    InDeletesTheFirst,
    /// UPDATE makes rows that stay without columns.
    UpdateMakesRows,
    /// A row without columns is there only if it was inserted for ever.
    ExpiringRowsAreGone,
    /// A partition with nothing but static columns has no row.
    StaticsAloneAreHidden,
    /// What is prepended comes in the reverse order.
    PrependReverses,
    /// A list's element is changed at the next index.
    IndexOffByOne,
    /// Writing a list's element takes its place at the end.
    SetIndexMoves,
    /// A null field of a user-defined type that is written whole is deleted... and shown.
    UdtKeepsOldFields,
    /// Snapshots judge by the present time what has expired.
    SnapshotsJudgeNow,
    /// A snapshot shows what was written after it.
    SnapshotsMove,
    /// A column that was dropped and added again has its old values.
    DroppedColumnsReturn,
    /// A column that was dropped USING TIMESTAMP loses what is newer too.
    DropsForgetTheirTimestamp,
    /// LIMIT begins anew with each page.
    LimitOfEachPage,
    /// PER PARTITION LIMIT begins anew with each page.
    PerPartitionLimitOfEachPage,
    /// A page repeats the last row of the one before.
    PagesOverlap,
    /// ORDER BY does nothing.
    NeverReversed,
    /// Of IN on the partition key each value is read, some twice.
    InReadsTwice,
    /// Slices of tuples compare by the first column alone.
    TupleSlicesByFirst,
    /// A batch without USING TIMESTAMP has a timestamp for each statement.
    BatchTimestampsRise,
    /// IF EXISTS sees only rows that were inserted.
    RowsExistByMarkers,
    /// Null is not unequal to a value.
    NullIsNotUnequal,
    /// Of a conditional batch that is refused those statements are executed whose own
    /// conditions hold.
    BatchesAppliedInPart,
    /// Two increments of one batch are of what was there before the batch.
    IncrementsForgetEachOther,
    /// An index has no entries of the partitions that were there before it.
    IndexesForgetRowsFromBefore,
    /// What is read by an index shows what has expired.
    IndexesForgetExpiry,
    /// A row is found by an index under a value that it had once.
    IndexesShowOldValues,
    /// A snapshot that is read by an index shows what the table has now.
    IndexesOfSnapshotsMove,
    /// Once an index is dropped statements go on without it.
    DroppedIndexesServe,
}

impl Flaw {
    pub const ALL: [Self; 38] = [
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
    ];
}
