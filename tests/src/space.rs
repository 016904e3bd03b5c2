//! A disk that is really full: a small file system of the machine, in memory, on which a database
//! writes until there is no space.
//!
//! `unshare` mounts it for one process alone, and it disappears with that process. Where this is
//! not allowed, the proof is skipped; `faults` fills simulated disks.
//!
//! A write that finds no space is refused as `DiskFull` and nothing else, everything acknowledged
//! reads as it was written, and with space again the database accepts writes without being
//! reopened. A reopening changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use ebb_storage::{Db, Durability, ErrorKind, Maintenance, Options, Table, WriteBatch};
use ebb_test_support::wait;
use rand::RngExt;

use crate::caught::caught;
use crate::report::{Budget, Counter, Report};
use crate::seed::{Rng, rng};

/// The hidden command of `soak` that runs it as the process that fills the small disk.
pub const FILLER_COMMAND: &str = "fill-the-disk";
/// The shell script that mounts the small disk (a tmpfs of 4 MiB) on `$0`, and runs the remaining
/// arguments as a command.
const MOUNT: &str = "mount -t tmpfs -o size=4m tmpfs \"$0\" && exec \"$@\"";
/// Number of times that one seed fills the disk.
const ROUNDS: u64 = 4;
/// Limit on the batches of one round, far more than fit on the disk: the test fails if the disk is
/// not full by then.
const BATCHES_MAX: usize = 20_000;

type Content = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// Returns the reason why this machine cannot mount the small disk; `None` if it can.
pub fn unavailable() -> Option<String> {
    let tried = || -> Result<()> {
        let dir = tempfile::tempdir()?;
        on_small_disk(dir.path(), Command::new("true"))
    };
    let why = tried().err()?;
    Some(format!("no privilege to mount a file system ({why:#})"))
}

/// Starts a process of `program`, which is the soak tool. The process fills a small disk several
/// times. No other process sees the disk.
pub fn run(seed: u64, _: &Budget, program: &Path) -> Report {
    let mut report = Report::default();
    let outcome = caught(|| {
        let dir = tempfile::tempdir()?;
        let mut filler = Command::new(program);
        filler.arg(FILLER_COMMAND).arg(dir.path());
        filler.arg(seed.to_string());
        on_small_disk(dir.path(), filler)
    });
    // The number of rounds that a failed process completed is unknown.
    if outcome.is_ok() {
        report.count(Counter::FullDisks, ROUNDS);
    }
    report.note(outcome, || format!("space:{seed}"));
    report
}

/// Runs a command with a small disk mounted on `dir`, which only that command sees.
fn on_small_disk(dir: &Path, command: Command) -> Result<()> {
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", MOUNT])
        .arg(dir)
        .arg(command.get_program())
        .args(command.get_args())
        .output()
        .context("starting unshare")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", stderr.trim());
    Ok(())
}

/// Fills the disk that is mounted on `dir`, checks the content, makes space and goes on, several
/// times.
///
/// # Errors
/// Describes the check that failed.
pub fn fill_the_disk(dir: &Path, seed: u64) -> Result<()> {
    let mut rng = rng(seed);
    let options = Options {
        memtable_bytes: 64 << 10,
        wal_segment_bytes: 64 << 10,
        wal_bytes_max: 256 << 10,
        low_water_bytes: 0,
        file_bytes: 64 << 10,
        cache_bytes: 256 << 10,
        durability: [Durability::Sync, Durability::Os][(seed % 2) as usize],
        maintenance: match seed / 2 % 2 {
            0 => Maintenance::Manual,
            _ => Maintenance::Background,
        },
        ..Options::default()
    };
    let mut open = Filled::open(&dir.join("db"), &options)?;
    let mut content = Content::new();
    for round in 0..ROUNDS {
        let ballast = dir.join("ballast");
        let ballast_bytes = rng.random_range(1 << 20..2 << 20);
        write_ballast(&ballast, ballast_bytes)?;
        open.fill(&mut rng, &mut content)?;
        open.check(&content).context("with the disk full")?;
        fs::remove_file(&ballast)?;
        open.write_again(&mut rng, &mut content)?;
        open.check(&content).context("with space again")?;
        if round % 2 == 1 {
            drop(open);
            open = Filled::open(&dir.join("db"), &options)?;
            open.check(&content).context("reopened")?;
        }
        open.empty()?;
        content.clear();
    }
    Ok(())
}

/// Fills a part of the disk with a file of `bytes` bytes. Waits until there is space for it: the
/// space of merged files becomes free only when no thread has them open any more.
fn write_ballast(path: &Path, bytes: usize) -> Result<()> {
    let ballast = vec![1_u8; bytes];
    wait::until_some("room for the ballast", || match fs::write(path, &ballast) {
        Err(e) if e.kind() == io::ErrorKind::StorageFull => None,
        outcome => Some(outcome.context("the ballast")),
    })
}

/// The database on the small disk. Batches of writes fill the disk until there is no space.
struct Filled {
    db: Db,
    tables: [Table; 2],
}

impl Filled {
    fn open(dir: &Path, options: &Options) -> Result<Self> {
        let db = Db::open(dir, options.clone())?;
        let keyspace = db.keyspace("full")?;
        let table = |name| keyspace.table(name, Default::default());
        let tables = [table("a")?, table("b")?];
        Ok(Self { db, tables })
    }

    /// Writes one batch, and adds it to `content`. Returns false if there was no space for it; then
    /// the batch is not in `content`.
    fn write(&self, rng: &mut Rng, content: &mut Content) -> Result<bool> {
        let mut batch = WriteBatch::new();
        let mut wrote = Content::new();
        for _ in 0..rng.random_range(1..8) {
            let table = rng.random_range(0..self.tables.len());
            let key = rng.random_range(0..5000u32).to_be_bytes().to_vec();
            let value: Vec<u8> = (0..rng.random_range(0..3000))
                .map(|_| rng.random())
                .collect();
            batch.put(&self.tables[table], &key, &value);
            wrote.insert((table, key), value);
        }
        match self.db.write(batch) {
            Ok(()) => {
                content.extend(wrote);
                Ok(true)
            }
            Err(e) if e.kind() == ErrorKind::DiskFull => Ok(false),
            Err(e) => Err(e).context("a full disk is called something else"),
        }
    }

    fn fill(&self, rng: &mut Rng, content: &mut Content) -> Result<()> {
        for _ in 0..BATCHES_MAX {
            if !self.write(rng, content)? {
                return Ok(());
            }
        }
        bail!("the disk does not fill up")
    }

    /// Writes a batch to a disk that has space again. Flushes and writes again as long as the
    /// database refuses the batch because of a full disk: the background threads may not have
    /// noticed the space yet.
    fn write_again(&self, rng: &mut Rng, content: &mut Content) -> Result<()> {
        wait::until_some("a write to succeed on a disk with space", || {
            match self.db.flush() {
                Err(e) if e.kind() != ErrorKind::DiskFull => return Some(Err(e.into())),
                _ => {}
            }
            match self.write(rng, content) {
                Ok(false) => None,
                outcome => Some(outcome.map(drop)),
            }
        })
    }

    fn check(&self, content: &Content) -> Result<()> {
        let mut found = Content::new();
        for (number, table) in self.tables.iter().enumerate() {
            for entry in table.range::<&[u8], _>(..) {
                let (key, value) = entry?;
                found.insert((number, key.to_vec()), value.to_vec());
            }
        }
        ensure!(
            found.len() == content.len(),
            "{} of {} keys are there",
            found.len(),
            content.len()
        );
        let wrong = content
            .iter()
            .find(|(key, value)| found.get(key) != Some(value));
        ensure!(
            wrong.is_none(),
            "a wrong value at {:?}",
            wrong.map(|(key, _)| key)
        );
        self.db.verify().context("verifying")?;
        Ok(())
    }

    /// Truncates all tables, flushes and merges, so that the database leaves the disk nearly empty.
    fn empty(&self) -> Result<()> {
        for table in &self.tables {
            with_space(|| table.truncate())?;
        }
        with_space(|| self.db.flush())?;
        with_space(|| self.db.compact())
    }
}

/// Repeats `work` until there is space for it: a merge that is too large for the disk occupies the
/// free space until it fails. Panics if the disk stays full for [`wait::HANG`].
fn with_space(work: impl Fn() -> ebb_storage::Result<()>) -> Result<()> {
    wait::until_some("space that was made free", || match work() {
        Err(e) if e.kind() == ErrorKind::DiskFull => None,
        outcome => Some(outcome.map_err(Into::into)),
    })
}
