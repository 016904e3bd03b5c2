//! The input of the jobs: the text of a snapshot, repeated without end.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use ebb_jobs::SnapshotInput;
use ebb_scheduler::runtime::{Input, JobHandle, RecordSink, Split, TaskError};
use ebb_storage::SnapshotTable;

/// The number of pieces of the text. A task reads one piece, in some tens of milliseconds.
const PIECES: usize = 16;
/// The number of tasks: far more than the machine completes in a window.
const TASKS: u32 = 4000;
/// The number of rows in a range that is read through the block cache. A scan bypasses the cache
/// after a number of cache misses; a range of so few rows has fewer blocks than that number.
const ROWS_A_RANGE: usize = 1000;
/// The bytes that a task reads before it adds them to the shared counter. The last bytes of a task,
/// fewer than this, are not added. Threads that updated a shared counter for each row would contend
/// for it, and the measurement would be one of contention.
const BYTES_PER_COUNT: u64 = 64 << 10;

/// The timeout for the start of the tasks.
const START_MAX: Duration = Duration::from_secs(20);

/// Waits until a task of one of the jobs has ended, which shows that jobs run.
pub fn wait_for_tasks(jobs: &[JobHandle]) -> Result<()> {
    let started = Instant::now();
    while jobs.iter().all(|job| job.status().maps_done == 0) {
        let waited = jobs[0].wait_timeout(Duration::from_millis(5));
        ensure!(waited.is_none(), "a job ended that should not: {waited:?}");
        ensure!(
            started.elapsed() < START_MAX,
            "no task of a job ended in {START_MAX:?}: other processes leave no CPU"
        );
    }
    Ok(())
}

/// An input that repeats the rows of a snapshot.
pub struct Endless {
    input: SnapshotInput,
    pieces: Vec<Split>,
    /// The reader through the block cache; `None` for scans that bypass it.
    cached: Option<CachedRanges>,
    /// Bytes of keys and values that tasks of this process have read, without the last bytes of each
    /// task: see [`BYTES_PER_COUNT`].
    read_bytes: AtomicU64,
}

impl Endless {
    pub fn new(text: &SnapshotTable, through_cache: bool) -> Result<Self> {
        let input = SnapshotInput::new(text.clone(), PIECES);
        let pieces = input
            .splits()
            .map_err(|e| anyhow!("cannot cut the text: {e}"))?;
        Ok(Self {
            input,
            pieces,
            cached: through_cache.then(|| CachedRanges::new(text)),
            read_bytes: AtomicU64::new(0),
        })
    }

    /// Returns the bytes of rows that tasks of this process have read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    fn piece(&self, index: u32) -> &Split {
        &self.pieces[index as usize % self.pieces.len()]
    }
}

impl Input for Endless {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let split = |index| Split {
            index,
            ..self.piece(index).clone()
        };
        Ok((0..TASKS).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let mut uncounted = 0;
        let counted: RecordSink<'_> = &mut |key, value| {
            uncounted += (key.len() + value.len()) as u64;
            if uncounted >= BYTES_PER_COUNT {
                self.read_bytes.fetch_add(uncounted, Ordering::Relaxed);
                uncounted = 0;
            }
            record(key, value)
        };
        match &self.cached {
            Some(cached) => cached.read(split.index, counted),
            None => self.input.read(self.piece(split.index), counted),
        }
    }
}

/// The input of jobs that read the snapshot in short ranges of keys, through the block cache, again
/// and again.
struct CachedRanges {
    table: SnapshotTable,
    /// The first key of each piece of the table (the part that one task reads) except
    /// for the first piece, ascending.
    cuts: Vec<Vec<u8>>,
}

impl CachedRanges {
    fn new(table: &SnapshotTable) -> Self {
        let cuts = table.split_keys::<&[u8], _>(.., PIECES);
        Self {
            cuts: cuts.iter().map(|key| key.to_vec()).collect(),
            table: table.clone(),
        }
    }

    fn read(&self, index: u32, record: RecordSink<'_>) -> Result<(), TaskError> {
        let piece = index as usize % (self.cuts.len() + 1);
        let before = piece.checked_sub(1).map(|before| self.cuts[before].clone());
        let mut lower = before.map_or(Bound::Unbounded, Bound::Included);
        let upper = self.cuts.get(piece).cloned();
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        loop {
            let range = self.table.range((lower.clone(), upper.clone()));
            let mut last = None;
            for row in range.take(ROWS_A_RANGE) {
                let (key, value) = row.map_err(TaskError::failed)?;
                record(&key, &value)?;
                last = Some(key.to_vec());
            }
            match last {
                Some(key) => lower = Bound::Excluded(key),
                None => return Ok(()),
            }
        }
    }
}
