//! Verification of a database that is open, beside its readers and writers.
//!
//! ```text
//!   capture ─► manifest ─► log ─► the log is released: flushes shorten it again
//!                           └───► SSTables, which the capture keeps to the end
//! ```
//!
//! A verification may take hours. A log that it held to its end would grow for as long, and with it
//! the time of the next opening. A verification that waits while it reads the log, for its rate or for CPU
//! time, holds the log up to its bound, and leaves the rest of it unchecked then. The SSTables that merges
//! replace meanwhile stay until the end, as for a reader. So the verification ends before they fill the disk.
//!
//! At the end, the damaged SSTables go into quarantine.

use std::ops::ControlFlow;

use super::check::verify_state;
use super::report::{Finding, VerifyReport};
use crate::db::{Engine, KeptFiles};
use crate::error::Result;
use crate::maintenance::progress::MaintenanceProgress;
use crate::maintenance::space::SpaceLooks;
use crate::wal::SegmentHold;

/// Verifies the files of an open database: see [`Db::verify_while`](crate::Db::verify_while). Drops
/// `step` before the capture is dropped, which takes locks.
pub(crate) fn verify_online(
    engine: &Engine,
    goes_on: &mut dyn FnMut() -> bool,
    mut step: impl FnMut(MaintenanceProgress) -> ControlFlow<()>,
) -> Result<Option<VerifyReport>> {
    let Some(lifted) = engine.lift_quarantines(goes_on)? else {
        return Ok(None);
    };
    let mut capture = engine.capture()?;
    let kept = engine.backup_files.add(KeptFiles {
        sstables: capture.sstables().collect(),
        segments: Vec::new(),
    });
    let manifest = engine.inspect_manifest()?;
    let mut space = SpaceLooks::new(engine);
    let log = capture.take_log().map(SegmentHold::bounded);
    let verified = verify_state(
        &engine.options,
        engine.dir(),
        &capture.state,
        &capture.segments,
        manifest,
        log,
        &mut |now| {
            space.look(now.bytes_done)?;
            step(now)
        },
    );
    drop(step);
    if let Some(shortage) = space.shortage() {
        return Err(shortage);
    }
    let Some((mut report, damaged)) = verified else {
        return Ok(None);
    };
    // Nothing is kept while the damaged files are read again.
    drop((capture, kept));
    for number in damaged {
        if !goes_on() {
            return Ok(None);
        }
        if engine.quarantine_if_damaged(number) {
            let path = engine.runs.name(number);
            let of_file = report.findings.iter_mut().filter(|it| it.path == path);
            of_file.for_each(Finding::note_quarantine);
        }
    }
    Ok(Some(VerifyReport { lifted, ..report }))
}
