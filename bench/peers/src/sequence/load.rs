//! Writes the records that a sequence starts with.

use std::time::Instant;

use anyhow::Result;
use ebb_bench::ycsb::{Stamp, key, write_value};

use super::Spec;
use crate::engine::Engine;
use crate::mix::in_threads;
use crate::tally::Tally;

/// Entries of a write batch.
const BATCH_ENTRIES: usize = 512;

/// Writes the records one by one, ordered by number: hashed keys spread these over the key space,
/// as in YCSB.
pub(super) fn load(engine: &dyn Engine, spec: &Spec, threads: usize) -> Result<Tally> {
    in_threads(threads, |index| {
        let (mut tally, mut value) = (Tally::default(), Vec::new());
        for number in (index as u64..spec.records).step_by(threads) {
            let stamp = Stamp { number, version: 0 };
            write_value(&mut value, stamp, spec.value_bytes);
            let key = key(number);
            let started = Instant::now();
            engine.put(&key, &value)?;
            tally.record("insert", started);
            tally.user_bytes_written += (key.len() + value.len()) as u64;
        }
        Ok(tally)
    })
}

/// Writes the records in large batches, without measuring.
pub(super) fn prepare(engine: &dyn Engine, spec: &Spec) -> Result<()> {
    let stamps = (0..spec.records).map(|number| Stamp { number, version: 0 });
    write_all(engine, spec, stamps)
}

/// Writes values with these stamps in large batches. LMDB would copy four pages for each single
/// write, and a snapshot would keep all copies.
pub(super) fn write_all(
    engine: &dyn Engine,
    spec: &Spec,
    mut stamps: impl Iterator<Item = Stamp>,
) -> Result<()> {
    loop {
        let entry = |stamp: Stamp| {
            let mut value = Vec::new();
            write_value(&mut value, stamp, spec.value_bytes);
            (key(stamp.number).to_vec(), value)
        };
        let entries: Vec<_> = stamps.by_ref().take(BATCH_ENTRIES).map(entry).collect();
        if entries.is_empty() {
            return Ok(());
        }
        engine.put_all(&entries)?;
    }
}
