//! Whether a publication of a table writes all of its rows, or only what changed since the one before.

use std::fmt;

use ebb_publish::commit::Origin;

/// The choice of the rows that a publication writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// All rows, for this reason.
    Whole(WhyWhole),
    /// The rows that differ from those of the newest publication.
    Changes,
}

/// The reason why a publication writes all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WhyWhole {
    Demanded,
    TakenOver,
    IsFirst,
    OtherColumns,
    OtherOptions,
    InexactKeys,
    IsOlder,
    NoPin,
    OtherPin,
    /// The store cannot determine which rows have changed, for this reason.
    Unknown(String),
}

impl fmt::Display for WhyWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Demanded => "--full was given",
            Self::TakenOver => {
                "the table is taken over from another database, or another copy of this one"
            }
            Self::IsFirst => "it is the first publication of the table to this target",
            Self::OtherColumns => "the columns have changed since the publication before",
            Self::OtherOptions => "the publication before had other options",
            Self::InexactKeys => "its keys have values that Iceberg may give back in another form",
            Self::IsOlder => "the publication before is of a later snapshot",
            Self::NoPin => "the snapshot that was published before is not kept any more",
            Self::OtherPin => "another snapshot than the one that was published before is kept",
            Self::Unknown(reason) => reason,
        })
    }
}

/// The facts that decide how much a publication of a table writes.
#[derive(Debug, Clone)]
pub(super) struct Facts<'f> {
    /// True if the user requested that all rows are written.
    pub(super) is_whole_demanded: bool,
    /// True if another database, or another copy of this one, has made the newest publication.
    pub(super) is_taken_over: bool,
    /// The snapshot that is to be published.
    pub(super) origin: &'f Origin,
    /// The snapshot of the newest publication; `None` if there is none.
    pub(super) newest: Option<&'f Origin>,
    /// True if the newest publication has the same columns as this one.
    pub(super) has_same_columns: bool,
    /// True if the newest publication was made with the same options as this one. Only options that
    /// affect the cells of rows count.
    pub(super) has_same_options: bool,
    /// True if the key of a row in the store can always be made from the row's cells in a data file.
    pub(super) has_exact_keys: bool,
    /// The snapshot that is pinned (kept) for the next publication to the target: its sequence
    /// number, and its read time in seconds since 1970. `None` if no snapshot is pinned.
    pub(super) pinned: Option<(u64, i64)>,
}

impl Facts<'_> {
    pub(super) fn decide(&self) -> Extent {
        let why = match self.newest {
            _ if self.is_whole_demanded => WhyWhole::Demanded,
            _ if self.is_taken_over => WhyWhole::TakenOver,
            None => WhyWhole::IsFirst,
            Some(_) if !self.has_same_columns => WhyWhole::OtherColumns,
            Some(_) if !self.has_same_options => WhyWhole::OtherOptions,
            Some(_) if !self.has_exact_keys => WhyWhole::InexactKeys,
            Some(newest) if newest.sequence_number > self.origin.sequence_number => {
                WhyWhole::IsOlder
            }
            Some(newest) => match self.pinned {
                None => WhyWhole::NoPin,
                Some(pinned) if pinned != (newest.sequence_number, newest.read_time_s) => {
                    WhyWhole::OtherPin
                }
                Some(_) => return Extent::Changes,
            },
        };
        Extent::Whole(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(sequence_number: u64) -> Origin {
        Origin {
            database_id: "d".into(),
            table_id: "t".into(),
            snapshot: "monday".into(),
            sequence_number,
            read_time_s: 7,
        }
    }

    #[test]
    fn changes_are_written_after_the_snapshot_that_is_kept_and_else_all_rows() {
        let (before, now) = (origin(5), origin(9));
        let facts = Facts {
            is_whole_demanded: false,
            is_taken_over: false,
            origin: &now,
            newest: Some(&before),
            has_same_columns: true,
            has_same_options: true,
            has_exact_keys: true,
            pinned: Some((5, 7)),
        };
        assert_eq!(facts.decide(), Extent::Changes);
        let later = origin(10);
        let cases = [
            (
                Facts {
                    is_whole_demanded: true,
                    ..facts.clone()
                },
                WhyWhole::Demanded,
            ),
            (
                Facts {
                    is_taken_over: true,
                    ..facts.clone()
                },
                WhyWhole::TakenOver,
            ),
            (
                Facts {
                    newest: None,
                    ..facts.clone()
                },
                WhyWhole::IsFirst,
            ),
            (
                Facts {
                    has_same_columns: false,
                    ..facts.clone()
                },
                WhyWhole::OtherColumns,
            ),
            (
                Facts {
                    has_same_options: false,
                    ..facts.clone()
                },
                WhyWhole::OtherOptions,
            ),
            (
                Facts {
                    has_exact_keys: false,
                    ..facts.clone()
                },
                WhyWhole::InexactKeys,
            ),
            (
                Facts {
                    newest: Some(&later),
                    pinned: Some((10, 7)),
                    ..facts.clone()
                },
                WhyWhole::IsOlder,
            ),
            (
                Facts {
                    pinned: None,
                    ..facts.clone()
                },
                WhyWhole::NoPin,
            ),
            // Of the same commit, but another moment: a database that was put back to an earlier state.
            (
                Facts {
                    pinned: Some((5, 8)),
                    ..facts.clone()
                },
                WhyWhole::OtherPin,
            ),
            (
                Facts {
                    pinned: Some((6, 7)),
                    ..facts
                },
                WhyWhole::OtherPin,
            ),
        ];
        for (facts, why) in cases {
            assert_eq!(facts.decide(), Extent::Whole(why));
        }
    }
}
