//! Why what a picker answers is not carried out.

use crate::key::RunId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it names no run")]
    NoRuns,
    #[error("its range of keys is empty")]
    NoKeys,
    #[error("the table has no run {0}")]
    Unknown(RunId),
    #[error("it names run {0} twice")]
    Twice(RunId),
    #[error("run {0} is being merged already, or damaged")]
    Busy(RunId),
    #[error("no run that it names has anything in its keys")]
    NothingThere,
    #[error(
        "run {0} lies between those that it names, has something in its keys, and is not named"
    )]
    Between(RunId),
    #[error("it moves one run, and names none to move it to")]
    OneRunToMove,
    #[error(
        "it moves run {0} to run {1} unread, and both have something in the same range of its keys"
    )]
    Overlap(RunId, RunId),
    #[error("it drops a part of run {0}; only whole runs can be dropped")]
    DropOfPart(RunId),
    #[error("it drops run {0}, which a reader may need")]
    StillNeeded(RunId),
    #[error("it rewrites run {0} alone again, which gained nothing when it was tried")]
    GainsNothing(RunId),
    #[error("there is no space for what it would write")]
    NoSpace,
    #[error("the picker panicked")]
    Panicked,
}
