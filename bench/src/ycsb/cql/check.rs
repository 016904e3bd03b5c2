//! Checks the responses to steps.

use anyhow::{Result, bail};
use ebb_cql::protocol::{Answer, ErrorKind, Frame, Response};

use super::plan::Plan;
use super::records::{Records, Step};
use super::tally::Tally;
use crate::ycsb::{Stamp, key, read_stamp};

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The server rejected the step for overload.
    Refused,
    /// The server gave the step up after its timeout for requests. A write may still be applied.
    TimedOut,
}

/// Checks the response to `step`, and counts wrong values in `tally`.
///
/// # Errors
/// If the server returned an error that `plan` does not take, or a response of the wrong kind.
pub(super) fn check_frame(
    step: &Step,
    frame: &Frame,
    records: &Records,
    plan: &Plan,
    tally: &mut Tally,
) -> Result<Outcome> {
    match (step, Answer::decode(frame)?.response) {
        (_, Response::Error(error)) => match error.kind {
            ErrorKind::Overloaded if plan.takes_refusals => return Ok(Outcome::Refused),
            ErrorKind::ReadTimeout { .. } | ErrorKind::WriteTimeout { .. }
                if plan.takes_timeouts =>
            {
                return Ok(Outcome::TimedOut);
            }
            _ => bail!("the server: {error}"),
        },
        (Step::Write { .. }, Response::Void) => {}
        (Step::Read { number }, Response::Rows(rows)) => {
            check_read(*number, rows.cells().next(), records, tally);
        }
        (Step::Scan { number, .. }, Response::Rows(rows)) => {
            let mut cells = rows.cells();
            let pairs = std::iter::from_fn(|| Some((cells.next()?, cells.next()?)));
            check_scan(*number, pairs, records, tally);
        }
        (_, other) => bail!("the server answered with another message: {other:?}"),
    }
    Ok(Outcome::Done)
}

/// Checks the value that a read of a record returned. The outer `None` means that there was no row,
/// the inner one that its value was null.
pub(super) fn check_read(
    number: u64,
    value: Option<Option<&[u8]>>,
    records: &Records,
    tally: &mut Tally,
) {
    match value {
        Some(value) => check_value(value, records, tally, |stamp| stamp.number == number),
        None => tally.not_found += 1,
    }
}

/// Checks the keys and values that a scan from record `number` on returned. Record `number` counts
/// as not found if it is missing.
pub(super) fn check_scan<'a>(
    number: u64,
    rows: impl Iterator<Item = (Option<&'a [u8]>, Option<&'a [u8]>)>,
    records: &Records,
    tally: &mut Tally,
) {
    let first = key(number);
    let mut found_first = false;
    for (found, value) in rows {
        found_first |= found == Some(&first[..]);
        check_value(value, records, tally, |stamp| {
            found == Some(&key(stamp.number)[..])
        });
        tally.records_scanned += 1;
    }
    tally.not_found += u64::from(!found_first);
}

fn check_value(
    value: Option<&[u8]>,
    records: &Records,
    tally: &mut Tally,
    is_right: impl FnOnce(Stamp) -> bool,
) {
    let from_snapshot = records.in_snapshot.is_some();
    let stamp = value.and_then(read_stamp);
    let right = stamp.is_some_and(|stamp| {
        is_right(stamp) && !(from_snapshot && stamp.version > records.version_before)
    });
    tally.mismatches += u64::from(!right);
}
