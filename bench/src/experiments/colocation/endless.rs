//! What the jobs read: the snapshot's text, without end.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use ebb_jobs::SnapshotInput;
use ebb_scheduler::runtime::{Input, JobHandle, RecordSink, Split, TaskError};
use ebb_storage::SnapshotTable;

/// Pieces of the text: a task reads one, for some tens of milliseconds.
const PIECES: usize = 16;
/// Far more than the machine does in a window.
const TASKS: u32 = 4000;
/// Rows of a range that goes by the block cache: fewer than make a range a long one,
/// which would leave it alone.
const ROWS_A_RANGE: usize = 1000;
/// A task tells what it read once it is so much: a counter for all tasks, written for each
/// row, would be the work that is measured.
const BYTES_TOLD: u64 = 64 << 10;

/// Tasks that have not started by then never will.
const START_MAX: Duration = Duration::from_secs(20);

/// Waits until a task of one of the jobs has ended: then they run.
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

/// The snapshot, again and again.
pub struct Endless {
    input: SnapshotInput,
    pieces: Vec<Split>,
    /// Where it is read through the block cache.
    cached: Option<Cached>,
    /// By tasks of this process, of keys and values.
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
            cached: through_cache.then(|| Cached::new(text)),
            read_bytes: AtomicU64::new(0),
        })
    }

    /// Bytes of rows that tasks of this process took so far.
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
        let mut untold = 0;
        let counted: RecordSink<'_> = &mut |key, value| {
            untold += (key.len() + value.len()) as u64;
            if untold >= BYTES_TOLD {
                self.read_bytes.fetch_add(untold, Ordering::Relaxed);
                untold = 0;
            }
            record(key, value)
        };
        match &self.cached {
            Some(cached) => cached.read(split.index, counted),
            None => self.input.read(self.piece(split.index), counted),
        }
    }
}

/// The snapshot in short ranges, each of which goes by the block cache.
struct Cached {
    table: SnapshotTable,
    /// Ascending keys that begin all pieces but the first.
    cuts: Vec<Vec<u8>>,
}

impl Cached {
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
