//! Full scans. For ebb, a loop over the same files that parses no entries gives the upper bound.

use std::time::Instant;

use anyhow::Result;

use super::{Spec, raw};
use crate::engine::{Engine, EngineName, See};
use crate::phase::Phase;
use crate::tally::Tally;

/// Scans the live content.
pub(super) fn live(engine: &dyn Engine, spec: &Spec) -> Result<Phase> {
    measure("scan", engine, spec, |see| engine.scan_all(see))
}

/// Scans a snapshot that is taken just before.
pub(super) fn snapshot(engine: &dyn Engine, spec: &Spec) -> Result<Phase> {
    let snapshot = engine.snapshot()?;
    let phase = measure("snapshot-scan", engine, spec, |see| snapshot.scan_all(see))?;
    snapshot.release()?;
    Ok(phase)
}

fn measure(
    name: &str,
    engine: &dyn Engine,
    spec: &Spec,
    scan: impl Fn(See<'_>) -> Result<()>,
) -> Result<Phase> {
    // The first scan checks every value, and brings the files of each store into the page cache:
    // the second one measures the store and not the disk.
    let mut checked = Tally::default();
    let (mut entries, mut last) = (0, Vec::new());
    scan(&mut |found, value| {
        entries += 1;
        // Keys must be in ascending order, without duplicates.
        if *last >= *found {
            checked.wrong_reads += 1;
        }
        last.clear();
        last.extend_from_slice(found);
        checked.check_entry(found, value);
    })?;
    checked.wrong_reads += spec.records.saturating_sub(entries);

    let files = match spec.engine {
        EngineName::Ebb => Some(raw::Files::link(spec.dir())?),
        _ => None,
    };
    let mut scan_s = 0.0;
    let (mut timed_entries, mut user_bytes) = (0, 0);
    let work = || {
        let started = Instant::now();
        scan(&mut |found, value| {
            timed_entries += 1;
            user_bytes += found.len() + value.len();
        })?;
        scan_s = started.elapsed().as_secs_f64();
        checked.operations = timed_entries;
        checked.wrong_reads += entries.abs_diff(timed_entries);
        Ok(checked)
    };
    let mut phase = Phase::measure(name, engine, spec.dir(), work)?;
    let megabytes = user_bytes as f64 / 1e6;
    phase.set("pass_s", scan_s);
    phase.set("mb_per_s", megabytes / scan_s);
    phase.set("mb_per_cpu_s", megabytes / phase.get("cpu_s"));
    if let Some(files) = files {
        let raw = files.pass()?;
        let raw_megabytes = raw.bytes as f64 / 1e6;
        phase.set("raw_mb_per_s", raw_megabytes / raw.seconds);
        // Both read the same bytes. The scan returns only a part of these: the rest are overwritten
        // versions.
        phase.set("over_raw", raw.seconds / scan_s);
        phase.set("given_over_raw", megabytes / raw_megabytes * raw.seconds / scan_s);
    }
    Ok(phase)
}
