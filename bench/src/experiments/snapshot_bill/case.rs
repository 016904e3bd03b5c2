//! One process: loads a database, overwrites its entries, and measures it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebb_storage::{Db, Keyspace, Options, Table, TableOptions, Value};
use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::args::{Case, CaseArgs, Scale, VALUE_BYTES};
use super::space::{Peak, Space, SpaceWatch};
use crate::console::progress_bar;
use crate::ycsb::{LoadOptions, Stamp, key, load, read_stamp, write_value};

const SNAPSHOT: &str = "idle";
/// The number of overwrites between two reads of the clock.
const POLL_EVERY: u64 = 1024;

/// The measurements of a process, which it prints as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measurement {
    /// Disk and memory after the overwrites and the wait for background work; a fresh database has
    /// no overwrites.
    pub space: Space,
    /// The peaks of disk and memory, up to the moment at which `space` was measured.
    pub peak: Peak,
    /// Disk and memory after the snapshot was deleted and the database was idle for a while; `None`
    /// in a case without a snapshot.
    pub space_after_drop: Option<Space>,
    /// Overwrites per second; `None` without overwrites.
    pub overwrites_per_s: Option<f64>,
    /// The longest wait of a write for background work, in microseconds.
    pub write_wait_us_max: u64,
}

pub fn run(args: &CaseArgs) -> Result<()> {
    let measured = Database::open(args)?.run(args.case)?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

struct Database<'a> {
    db: Db,
    keyspace: Keyspace,
    table: Table,
    watch: SpaceWatch,
    scale: &'a Scale,
    case: Case,
}

impl<'a> Database<'a> {
    fn open(args: &'a CaseArgs) -> Result<Self> {
        let options = Options {
            memtable_bytes: (args.scale.memtable_mb << 20) as usize,
            ..Options::default()
        };
        let db = Db::open(&args.dir, options)?;
        let keyspace = db.keyspace("bill")?;
        let table = keyspace.table("entries", TableOptions::default())?;
        Ok(Self {
            db,
            keyspace,
            table,
            watch: SpaceWatch::new(args.dir.clone()),
            scale: &args.scale,
            case: args.case,
        })
    }

    fn run(mut self, case: Case) -> Result<Measurement> {
        match case {
            Case::With => self.run_with(),
            Case::Without => self.run_without(),
            Case::Fresh => self.run_fresh(),
        }
    }

    fn run_with(&mut self) -> Result<Measurement> {
        self.load()?;
        self.keyspace.create_snapshot(SNAPSHOT)?;
        let mut measured = self.overwrite_and_measure()?;
        self.check_snapshot()?;
        self.keyspace.delete_snapshot(SNAPSHOT)?;
        self.wait(self.scale.idle)?;
        measured.space_after_drop = Some(self.watch.sample()?);
        self.check_live()?;
        Ok(measured)
    }

    fn run_without(&mut self) -> Result<Measurement> {
        self.load()?;
        let measured = self.overwrite_and_measure()?;
        self.check_live()?;
        Ok(measured)
    }

    /// Writes each entry once, with the value that the overwrites of the other cases leave: a fresh
    /// database of the same content, for comparison.
    fn run_fresh(&mut self) -> Result<Measurement> {
        let bar = self.bar("load", self.scale.entries);
        let mut value = Vec::new();
        for (number, version) in (0..).zip(last_versions(self.scale)) {
            self.put(&mut value, Stamp { number, version })?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        self.db.flush()?;
        self.db.compact()?;
        let mut measured = self.measured(None)?;
        // Counts only live files: the directory may still have files that the last merge replaced.
        let tables = self.db.stats().tables;
        measured.space.sstable_bytes = tables.iter().map(|table| table.file_bytes).sum();
        self.check_live()?;
        Ok(measured)
    }

    fn load(&self) -> Result<()> {
        let options = LoadOptions {
            threads: 1,
            value_bytes: VALUE_BYTES,
            ..LoadOptions::default()
        };
        let bar = self.bar("load", self.scale.entries);
        load(
            &self.db,
            &self.table,
            0..self.scale.entries,
            &options,
            |done| bar.set_position(done),
        )?;
        bar.finish_and_clear();
        Ok(())
    }

    fn overwrite_and_measure(&mut self) -> Result<Measurement> {
        let bar = self.bar("overwrite", self.scale.overwrites);
        let mut value = Vec::new();
        let started = Instant::now();
        for stamp in overwrites(self.scale) {
            self.put(&mut value, stamp)?;
            if stamp.version % POLL_EVERY == 0 {
                self.watch.poll()?;
                bar.set_position(stamp.version);
            }
        }
        let rate = self.scale.overwrites as f64 / started.elapsed().as_secs_f64();
        bar.finish_and_clear();
        self.wait(self.scale.wait)?;
        self.measured((self.scale.overwrites > 0).then_some(rate))
    }

    fn measured(&mut self, overwrites_per_s: Option<f64>) -> Result<Measurement> {
        Ok(Measurement {
            space: self.watch.sample()?,
            peak: self.watch.peak()?,
            space_after_drop: None,
            overwrites_per_s,
            write_wait_us_max: self.db.stats().write_wait_us_max,
        })
    }

    fn put(&self, value: &mut Vec<u8>, stamp: Stamp) -> Result<()> {
        write_value(value, stamp, VALUE_BYTES);
        Ok(self.table.put(&key(stamp.number), value)?)
    }

    fn wait(&mut self, length: Duration) -> Result<()> {
        let bar = self.bar("wait", length.as_millis() as u64);
        self.watch
            .wait(length, |so_far| bar.set_position(so_far.as_millis() as u64))?;
        bar.finish_and_clear();
        Ok(())
    }

    /// Checks that the snapshot has every entry as it was loaded.
    fn check_snapshot(&self) -> Result<()> {
        let snapshot = self.keyspace.snapshot(SNAPSHOT)?.table("entries")?;
        let loaded = vec![0; self.scale.entries as usize];
        check(&loaded, |key| snapshot.get(key))
            .with_context(|| format!("snapshot {SNAPSHOT} changed"))
    }

    /// Checks that the table has for every entry the value that was written last.
    fn check_live(&self) -> Result<()> {
        check(&last_versions(self.scale), |key| self.table.get(key))
            .context("the table is not what was written")
    }

    fn bar(&self, phase: &str, length: u64) -> ProgressBar {
        let case = match self.case {
            Case::With => "with a snapshot",
            Case::Without => "without",
            Case::Fresh => "fresh",
        };
        progress_bar(format!("{case}: {phase}"), length)
    }
}

/// Returns the overwrites in order, each as the number of the entry and the version of its new
/// value. The version is the number of the overwrite, from 1.
fn overwrites(scale: &Scale) -> impl Iterator<Item = Stamp> {
    let mut rng = ChaCha8Rng::seed_from_u64(scale.seed);
    let entries = scale.entries;
    (1..=scale.overwrites).map(move |version| Stamp {
        number: rng.random_range(0..entries),
        version,
    })
}

/// Returns the version of each entry after all overwrites.
fn last_versions(scale: &Scale) -> Vec<u64> {
    let mut versions = vec![0; scale.entries as usize];
    for stamp in overwrites(scale) {
        versions[stamp.number as usize] = stamp.version;
    }
    versions
}

/// Checks that a read of every entry returns the version in `versions`.
fn check(
    versions: &[u64],
    get: impl Fn(&[u8]) -> ebb_storage::Result<Option<Value>>,
) -> Result<()> {
    for (number, &version) in (0..).zip(versions) {
        let expected = Stamp { number, version };
        let value = get(&key(number))?;
        let found = value.as_deref().and_then(read_stamp);
        ensure!(
            found == Some(expected),
            "entry {number}: expected {expected:?}, found {found:?}"
        );
    }
    Ok(())
}
