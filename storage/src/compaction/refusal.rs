//! Why what a picker answers is not carried out.

use std::fmt::{self, Display, Formatter};

use crate::key::RunId;

/// Why a pick is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoRuns,
    NoKeys,
    Unknown(RunId),
    Twice(RunId),
    Busy(RunId),
    NothingThere,
    Between(RunId),
    OneRunToMove,
    Overlap(RunId, RunId),
    DropOfPart(RunId),
    StillNeeded(RunId),
    GainsNothing(RunId),
    NoSpace,
    Panicked,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuns => f.write_str("it names no run"),
            Self::NoKeys => f.write_str("its range of keys is empty"),
            Self::Unknown(run) => write!(f, "the table has no run {run}"),
            Self::Twice(run) => write!(f, "it names run {run} twice"),
            Self::Busy(run) => write!(f, "run {run} is being merged already, or damaged"),
            Self::NothingThere => f.write_str("no run that it names has anything in its keys"),
            Self::Between(run) => write!(
                f,
                "run {run} lies between those that it names, has something in its keys, and \
                 is not named"
            ),
            Self::OneRunToMove => f.write_str("it moves one run, and names none to move it to"),
            Self::Overlap(newer, older) => write!(
                f,
                "it moves run {newer} to run {older} unread, and both have something in the \
                 same range of its keys"
            ),
            Self::DropOfPart(run) => write!(
                f,
                "it drops a part of run {run}; only whole runs can be dropped"
            ),
            Self::StillNeeded(run) => write!(f, "it drops run {run}, which a reader may need"),
            Self::GainsNothing(run) => write!(
                f,
                "it rewrites run {run} alone again, which gained nothing when it was tried"
            ),
            Self::NoSpace => f.write_str("there is no space for what it would write"),
            Self::Panicked => f.write_str("the picker panicked"),
        }
    }
}
