//! Whether the reads of a run were right.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All found what they should.
    Right,
    /// Some found another value, or none.
    WrongReads,
}

impl Verdict {
    /// The verdict on a run, by its reads that found another value and those that found none.
    pub(super) fn of(mismatches: u64, not_found: u64) -> Self {
        match mismatches + not_found {
            0 => Self::Right,
            _ => Self::WrongReads,
        }
    }
}
