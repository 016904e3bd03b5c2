//! The reasons for which the engine does not carry out a pick.

use crate::key::RunId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it names no run")]
    NoRuns,
    #[error("the table has no run {0}")]
    Unknown(RunId),
    #[error("it names run {0} twice")]
    Twice(RunId),
    #[error("run {0} is being merged already, damaged, or left out for a while")]
    Busy(RunId),
    #[error("run {0} lies between those that it names, and is not named")]
    Between(RunId),
    #[error("it rewrites run {0} alone again, which gained nothing when it was tried")]
    GainsNothing(RunId),
    #[error("there is no space for what it would write")]
    NoSpace,
    #[error("the picker panicked")]
    Panicked,
}
