//! Writing text files into a table.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use ebb_storage::{Db, Table, WriteBatch};
use serde::Serialize;

use super::rows::rows;
use super::walk::{Found, SkipReason, Skipped, TextFile};

/// Text in a batch, in bytes. Larger batches load no faster, and make a
/// transaction beside the load wait longer.
const BATCH_BYTES: u64 = 256 << 10;

/// How to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// Threads that read and write, each one file at a time; at least 1.
    pub threads: usize,
    /// Stop after about this many bytes of text: the files in their order, the
    /// last one cut after the line that reaches the limit.
    pub max_bytes: Option<u64>,
}

impl Default for LoadOptions {
    /// As many threads as cores, at most four: beyond that they wait for the
    /// commit queue. No limit.
    fn default() -> Self {
        Self {
            threads: thread::available_parallelism().map_or(1, |cores| cores.get().min(4)),
            max_bytes: None,
        }
    }
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadProgress {
    /// Rows written.
    pub rows: u64,
    /// Bytes of text that they stand for, line ends included.
    pub bytes: u64,
}

/// What a load did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Files loaded.
    pub files: u64,
    /// Files passed over, those of the walk included.
    pub skipped: Vec<Skipped>,
    /// Rows written.
    pub rows: u64,
    /// Bytes of text that they stand for, line ends included.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Writes every line of the files as a row of `table`, a table of `db`, in
/// batches. `progress` is called after each batch, on any of the threads.
///
/// # Errors
/// When the store refuses a write. What was written until then stays; loading
/// the same files again overwrites it.
pub fn load(
    db: &Db,
    table: &Table,
    found: &Found,
    options: &LoadOptions,
    progress: &(dyn Fn(LoadProgress) + Sync),
) -> Result<LoadReport> {
    let start = Instant::now();
    let work = Work {
        db,
        table,
        tasks: plan(&found.files, options.max_bytes),
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        rows: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        progress,
    };
    let skipped: Vec<Vec<Skipped>> = thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| work.run());
        let workers: Vec<_> = (0..options.threads.max(1)).map(spawn).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // All are joined before the first error counts.
        let results: Vec<Result<_>> = workers.into_iter().map(join).collect();
        results.into_iter().collect::<Result<_>>()
    })?;
    let skipped = skipped.concat();
    Ok(LoadReport {
        files: (work.tasks.len() - skipped.len()) as u64,
        skipped: found.skipped.iter().cloned().chain(skipped).collect(),
        rows: work.rows.into_inner(),
        bytes: work.bytes.into_inner(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Which files, and how many bytes of each: by their sizes beforehand, so that
/// a limit gives the same rows whatever the threads do.
fn plan(files: &[TextFile], max_bytes: Option<u64>) -> Vec<(&TextFile, u64)> {
    let mut left = max_bytes.unwrap_or(u64::MAX);
    let mut tasks = Vec::new();
    for file in files {
        if left == 0 {
            break;
        }
        // Without a limit a file that grew since the walk is loaded whole.
        let budget = if max_bytes.is_some() && file.bytes >= left {
            left
        } else {
            u64::MAX
        };
        left -= file.bytes.min(left);
        tasks.push((file, budget));
    }
    tasks
}

struct Work<'a> {
    db: &'a Db,
    table: &'a Table,
    tasks: Vec<(&'a TextFile, u64)>,
    next: AtomicUsize,
    failed: AtomicBool,
    rows: AtomicU64,
    bytes: AtomicU64,
    progress: &'a (dyn Fn(LoadProgress) + Sync),
}

impl Work<'_> {
    /// Loads files until none is left or another thread failed; returns those
    /// that turned out not to be text.
    fn run(&self) -> Result<Vec<Skipped>> {
        let mut skipped = Vec::new();
        while !self.failed.load(Ordering::Relaxed) {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(file, budget)) = self.tasks.get(next) else {
                break;
            };
            let reason = self
                .load_file(file, budget)
                .inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
            skipped.extend(reason.map(|reason| Skipped {
                path: file.path.clone(),
                reason,
            }));
        }
        Ok(skipped)
    }

    fn load_file(&self, file: &TextFile, budget: u64) -> Result<Option<SkipReason>> {
        let rows = match rows(file) {
            Ok(Some(rows)) => rows,
            Ok(None) => return Ok(Some(SkipReason::NotText)),
            Err(error) => return Ok(Some(SkipReason::Unreadable(error.to_string()))),
        };
        let mut batch = Batch::default();
        let mut bytes = 0;
        for row in rows {
            let row = row.with_context(|| format!("cannot read {}", file.path.display()))?;
            batch.writes.put(self.table, &row.key, &row.value);
            batch.bytes += row.text_bytes;
            if batch.bytes >= BATCH_BYTES {
                self.write(std::mem::take(&mut batch))?;
            }
            bytes += row.text_bytes;
            if bytes >= budget {
                break;
            }
        }
        self.write(batch)?;
        Ok(None)
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let rows = batch.writes.len() as u64;
        self.db.write(batch.writes)?;
        (self.progress)(LoadProgress {
            rows: self.rows.fetch_add(rows, Ordering::Relaxed) + rows,
            bytes: self.bytes.fetch_add(batch.bytes, Ordering::Relaxed) + batch.bytes,
        });
        Ok(())
    }
}

#[derive(Default)]
struct Batch {
    writes: WriteBatch,
    bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::walk;
    use ebb_storage::{Options, TableOptions};

    fn files(dir: &std::path::Path) -> Found {
        std::fs::create_dir(dir.join("in")).unwrap();
        for n in 0..20 {
            let line = format!("file {n} line\n");
            std::fs::write(dir.join(format!("in/{n:02}")), line.repeat(100)).unwrap();
        }
        // Text in what the walk looks at, not further on.
        let late = [&b"x\n".repeat(10_000)[..], b"\xff"].concat();
        std::fs::write(dir.join("in/late"), late).unwrap();
        walk(&[dir.join("in")]).unwrap()
    }

    fn load_into_new_table(found: &Found, options: &LoadOptions) -> (LoadReport, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let table = db.keyspace("k").unwrap();
        let table = table.table("t", TableOptions::default()).unwrap();
        let last = std::sync::Mutex::new(LoadProgress::default());
        let progress = |now: LoadProgress| {
            let mut last = last.lock().unwrap();
            last.rows = last.rows.max(now.rows);
        };
        let report = load(&db, &table, found, options, &progress).unwrap();
        assert_eq!(last.lock().unwrap().rows, report.rows);
        let keys = table
            .range::<&[u8], _>(..)
            .map(|row| String::from_utf8(row.unwrap().0.to_vec()).unwrap());
        (report, keys.collect())
    }

    #[test]
    fn every_line_of_every_text_file_is_loaded_once_whatever_the_threads() {
        let dir = tempfile::tempdir().unwrap();
        let found = files(dir.path());
        assert_eq!(found.files.len(), 21);
        for threads in [1, 3] {
            let options = LoadOptions {
                threads,
                max_bytes: None,
            };
            let (report, keys) = load_into_new_table(&found, &options);
            assert_eq!((report.files, report.rows, keys.len()), (20, 2000, 2000));
            assert_eq!(report.skipped.len(), 1);
            assert!(report.skipped[0].path.ends_with("late"));
            assert!(keys[150].ends_with("in/01:000000000051"), "{}", keys[150]);
        }
    }

    #[test]
    fn a_limit_cuts_at_the_same_line_whatever_the_threads() {
        let dir = tempfile::tempdir().unwrap();
        let found = files(dir.path());
        let load = |threads| {
            let options = LoadOptions {
                threads,
                max_bytes: Some(2995),
            };
            load_into_new_table(&found, &options)
        };
        let (report, keys) = load(1);
        assert_eq!((report.files, report.bytes), (3, 3000));
        assert_eq!(load(3).1, keys);
    }
}
