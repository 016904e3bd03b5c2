//! Writing the records that a sequence starts with.

use std::time::Instant;

use anyhow::Result;
use ebb_server::ycsb::{Stamp, key, write_value};

use super::Spec;
use crate::engine::Engine;
use crate::mix::in_threads;
use crate::tally::Tally;

/// Entries of a batch of [`prepare`].
const BATCH_ENTRIES: u64 = 512;

/// Writes the records one by one in the order of their numbers, as YCSB does:
/// all over the key space.
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

/// The same, as fast as may be.
pub(super) fn prepare(engine: &dyn Engine, spec: &Spec) -> Result<()> {
    for first in (0..spec.records).step_by(BATCH_ENTRIES as usize) {
        let entry = |number| {
            let mut value = Vec::new();
            write_value(&mut value, Stamp { number, version: 0 }, spec.value_bytes);
            (key(number).to_vec(), value)
        };
        let last = spec.records.min(first + BATCH_ENTRIES);
        let entries: Vec<_> = (first..last).map(entry).collect();
        engine.put_all(&entries)?;
    }
    Ok(())
}
