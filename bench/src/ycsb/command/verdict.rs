//! The correctness of a run's reads.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All reads returned what was written.
    Right,
    /// Some reads returned a wrong value, or no value.
    WrongReads,
}

impl Verdict {
    /// Returns the verdict on a run, by the numbers of reads with a wrong value and of reads
    /// without a result.
    pub(super) fn of(mismatches: u64, not_found: u64) -> Self {
        match mismatches + not_found {
            0 => Self::Right,
            _ => Self::WrongReads,
        }
    }
}
