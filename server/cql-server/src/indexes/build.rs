//! The build of an index: entries for the rows that are older than the index.
//!
//! ```text
//!   CREATE INDEX: the schema has it as unfinished ─► later writes write its entries
//!     │ writes under an earlier schema have committed
//!     v
//!   a scan, in the idle class ──batches──► commits ─► the schema has it as built
//! ```
//!
//! The scan's version of a row may be outdated when its entry is written. Then the entry is stale,
//! and the write that changed the row has written the right entry. So the build takes no locks. It
//! takes a new view now and then, because an old view keeps merges from dropping versions. After a
//! crash the build begins anew: the schema still has the index as unfinished. After a failure in the
//! same process, such as a damaged file, it goes on behind the rows whose entries it has committed:
//! writes have written the entries of later changes of these rows. Otherwise each attempt would write
//! the same entries again, and snapshots would keep all of them.
//!
//! The acceptance of a loss may remove committed entries, and bring older versions of rows back that the
//! scan has passed. So a build that runs across one begins anew, and none begins while one is under way.
//!
//! The scan runs in the idle class, like reads of whole tables. The commits do not: a thread that
//! is not scheduled must not lead a commit group. Instead they use only a part of the time. In
//! tests the scan runs in the normal class: on busy cores a thread of the idle class makes hardly
//! any progress.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ebb_cql::protocol::ErrorResponse;
use ebb_model::key::PARTITIONS_START;
use ebb_model::schema::{SchemaError, TableSchema};
use ebb_storage::{Cache, WriteBatch};
use ebb_tables::read::{Ended, LiveValues, Pace, RowScan, Source, ValueWork};
use ebb_tables::{Announcement, Catalog, CqlTable};
use ebb_threads::{YIELD_EVERY, Yielding, lower_current_thread};

use super::building::Building;
use super::expiry_time_s;
use super::failures::BuildFailures;
use crate::error::{Result, of_catalog, of_schema, of_store, of_table};

/// The build commits its index entries once there are at least this many. A commit may have more:
/// all entries of a row, such as those of a collection's elements, are committed together.
const ENTRIES_PER_COMMIT: usize = 256;
/// The most rows that are read from one view of the store. While a view is open, merges keep all
/// versions of rows that the view shows.
const ROWS_PER_VIEW: usize = 4096;
/// The pause of the build after each commit, as a multiple of the commit's duration. So the commits
/// of the build take at most a quarter of the time, and other writes have the rest.
const PARTS_LEFT: u32 = 3;
/// The interval at which the build checks whether writers with an earlier schema are done.
const POLL: Duration = Duration::from_millis(1);
/// The time from a failed build of a table to the next attempt. In unit tests it is an hour, so that
/// a test fails if the build of one table waits for the next attempt of another.
const RETRY: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 60 });
/// The time that CREATE INDEX waits for the build, so that the index of a small table is ready when
/// the client gets the response.
const PATIENCE: Duration = Duration::from_millis(500);

/// The background builds of indexes, one table after the other. When this is dropped, the current
/// build stops.
#[derive(Debug)]
pub struct IndexBuilds {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    catalog: Arc<Catalog>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// True if scans run in the kernel's idle class, and yield the core to other threads.
    idle_class: bool,
    stop: AtomicBool,
    state: Mutex<State>,
    failures: Arc<BuildFailures>,
    idle: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// The thread runs, and a build was requested after the thread had listed the tables with
    /// unfinished indexes: it has to list them again.
    RunningAgain,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that builds indexes. If the thread runs already, makes it list the tables
    /// with unfinished indexes once more.
    fn start(self: &Arc<Self>) {
        let mut state = self.state();
        let mut thread = self.thread();
        // `drop` joins no thread that starts later, and such a thread would keep the catalog open.
        if self.is_stopped() {
            return;
        }
        if *state != State::Idle {
            *state = State::RunningAgain;
            if let Some(thread) = &*thread {
                // The thread may be waiting for the retry of a failed build.
                thread.thread().unpark();
            }
            return;
        }
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name("cql-index".into())
            .spawn(move || run(&shared));
        // Without a thread the index is built after the next start, or by the next CREATE INDEX.
        if let Ok(started) = started {
            *state = State::Running;
            *thread = Some(started);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for `time`, or until the builds are stopped. Waits in a loop, because scoped threads
    /// and channels may unpark this thread early.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.is_stopped()
        {
            thread::park_timeout(left);
        }
    }

    /// Waits until `until`, or until a build is requested or the builds are stopped.
    fn pause_for_more(&self, until: Instant) {
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.is_stopped()
            && *self.state() == State::Running
        {
            thread::park_timeout(left);
        }
    }
}

impl Drop for IndexBuilds {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // The lock is released before the thread is joined: `start` holds the state's lock, which the
        // thread takes, while it waits for this one.
        let thread = self.shared.thread().take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // A thread that panicked has ended, too.
            drop(thread.join());
        }
    }
}

impl IndexBuilds {
    /// Creates the builds for a catalog, and starts those that an earlier process did not finish.
    /// Whenever the catalog announces a table, starts unfinished builds again: the schema of the
    /// table may have been unreadable before. If `idle_class` is false, scans run in the normal
    /// scheduling class and do not yield.
    pub fn new(catalog: &Arc<Catalog>, idle_class: bool) -> Self {
        let shared = Arc::new(Shared {
            catalog: Arc::clone(catalog),
            thread: Mutex::default(),
            idle_class,
            stop: AtomicBool::new(false),
            state: Mutex::new(State::Idle),
            failures: Arc::default(),
            idle: Condvar::new(),
        });
        // The schema of a table with an unfinished index may be read only later, once a damaged file
        // was replaced.
        let announced = Arc::downgrade(&shared);
        catalog.on_announcement(move |announcement| {
            if let (Announcement::TableCreated { .. }, Some(shared)) =
                (announcement, announced.upgrade())
            {
                shared.start();
            }
        });
        if !Building::all(catalog).is_empty() {
            shared.start();
        }
        Self { shared }
    }

    pub fn failures(&self) -> &Arc<BuildFailures> {
        &self.shared.failures
    }

    /// Starts the pending builds, and waits until they are done, but at most half a second.
    pub fn start_and_wait_briefly(&self) {
        self.shared.start();
        let state = self.shared.state();
        let is_running = |state: &mut State| *state != State::Idle;
        drop(
            self.shared
                .idle
                .wait_timeout_while(state, PATIENCE, is_running),
        );
    }
}

/// A build that has failed, and is tried again [`RETRY`] later.
#[derive(Debug)]
struct FailedBuild {
    of: Building,
    at: Instant,
    progress: Progress,
}

impl FailedBuild {
    /// Returns whether this is the build `building`, and its next attempt has to wait.
    fn holds_up(&self, building: &Building) -> bool {
        self.of == *building && self.at.elapsed() < RETRY
    }
}

/// The progress of a build over all of its attempts.
#[derive(Debug)]
struct Progress {
    /// The key at which the next attempt begins: all rows before it have committed entries.
    from: Vec<u8>,
    /// The [`Catalog::losses`] before the first row was read. The progress counts only as long as they are
    /// the same.
    losses: Option<u64>,
}

/// Returns the progress with which the next attempt at a build begins, and removes the build from `failed`.
/// `losses` are the present [`Catalog::losses`].
fn take_progress(
    failed: &mut Vec<FailedBuild>,
    building: &Building,
    losses: Option<u64>,
) -> Progress {
    let place = failed.iter().position(|one| one.of == *building);
    let before = place.map(|place| failed.swap_remove(place).progress);
    let before = before.filter(|before| before.losses == losses);
    before.unwrap_or_else(|| Progress {
        from: PARTITIONS_START.to_vec(),
        losses,
    })
}

/// A batch of index entries that a scan sends to be committed.
#[derive(Debug)]
struct Batch {
    entries: Vec<Vec<u8>>,
    /// The key from which a scan finds all rows without committed entries, once this batch and those
    /// before it are committed; `None` for the last batch.
    next: Option<Vec<u8>>,
}

/// Builds unfinished indexes until there are none, or until the builds are stopped.
fn run(shared: &Shared) {
    // The builds of other tables do not wait for them.
    let mut failed: Vec<FailedBuild> = Vec::new();
    while !shared.is_stopped() {
        // The state is set before the list is read, so that a later request leads to another round.
        *shared.state() = State::Running;
        let building = Building::all(&shared.catalog);
        shared.failures.keep(&building);
        failed.retain(|one| building.contains(&one.of));
        let is_due = |table: &Building| !failed.iter().any(|one| one.holds_up(table));
        if let Some(next) = building.iter().find(|table| is_due(table)) {
            let mut progress = take_progress(&mut failed, next, shared.catalog.losses());
            // Indexes that were dropped meanwhile are no longer listed, so their failure does not
            // matter.
            if let Err(error) = build(shared, next, &mut progress)
                && Building::all(&shared.catalog).contains(next)
            {
                shared.failures.note(next, error.message);
                failed.push(FailedBuild {
                    of: next.clone(),
                    at: Instant::now(),
                    progress,
                });
            }
        } else if let Some(first) = failed.iter().map(|one| one.at).min() {
            shared.pause_for_more(first + RETRY);
        } else {
            let mut state = shared.state();
            if *state == State::Running {
                *state = State::Idle;
                shared.idle.notify_all();
                return;
            }
        }
    }
    *shared.state() = State::Idle;
    shared.idle.notify_all();
}

/// Builds the unfinished indexes of a table, for the rows from `progress` on. Raises `progress` to the key at
/// which the next attempt has to begin if this one fails. Does nothing if the table was dropped, or if by
/// now it has other unfinished indexes than `what` lists.
fn build(shared: &Shared, what: &Building, progress: &mut Progress) -> Result<()> {
    let catalog = &shared.catalog;
    let table = catalog.state().current(&what.table).cloned();
    // If the table has other unfinished indexes by now, the next listing has them.
    let is_listed = |table: &Arc<CqlTable>| Building::of(table).as_ref() == Some(what);
    let Some(table) = table.filter(is_listed) else {
        return Ok(());
    };
    match build_indexes(shared, &table, &what.indexes, progress) {
        // The table was dropped meanwhile. Its failure must not delay the build of a new table that has
        // its name, its id and the ids of its indexes.
        Err(_) if catalog.state().current(&table).is_none() => Ok(()),
        built => built,
    }
}

/// Builds the indexes of a table with the ids `building`, for the rows from `progress` on. Raises
/// `progress` as [`build`] does. Returns without an error, and leaves the indexes unfinished, if the
/// builds are stopped, or a loss was accepted since the first row was read.
fn build_indexes(
    shared: &Shared,
    table: &CqlTable,
    building: &[u32],
    progress: &mut Progress,
) -> Result<()> {
    let catalog = &shared.catalog;
    if progress.losses.is_none() {
        let error = "files are being rewritten without their lost parts";
        return Err(ErrorResponse::server(error));
    }
    // Only writers that hold an earlier state of the catalog write no entries for these indexes.
    for earlier in catalog.earlier_states() {
        while earlier.strong_count() > 0 {
            if shared.is_stopped() {
                return Ok(());
            }
            shared.pause(POLL);
        }
    }
    fence(Ordering::Acquire);
    let done = thread::scope(|scope| {
        let (sender, batches) = sync_channel(1);
        let from = progress.from.clone();
        let scan = thread::Builder::new()
            .name("cql-index-scan".into())
            .spawn_scoped(scope, move || scan(shared, table, building, from, &sender));
        let committed = commit_all(shared, table, &batches, progress);
        // Unblocks a scan that has another batch to send: its send fails.
        drop(batches);
        let scanned = match scan {
            Ok(scan) => scan
                .join()
                .map_err(|_| "the scan of an index panicked".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let scanned = scanned.map_err(ErrorResponse::server)?;
        committed?;
        scanned
    })?;
    if !done || shared.is_stopped() {
        return Ok(());
    }
    mark_built(catalog, table, building, progress)
}

/// Marks the indexes with the ids `built` as built, so that statements use them; does nothing if the
/// table was dropped, or `progress` does not count any more because a loss was accepted. This change of the
/// schema syncs the log, and with the log the index entries.
fn mark_built(
    catalog: &Catalog,
    table: &CqlTable,
    built: &[u32],
    progress: &Progress,
) -> Result<()> {
    let (keyspace, name) = (table.schema().keyspace(), table.schema().name());
    let changed = catalog.change_table(table, |schema| {
        // Under the lock of changes, which the acceptance of a loss takes, too, before it rewrites a file.
        if catalog.losses() != progress.losses {
            return Ok(None);
        }
        let mark = |table: &TableSchema| {
            let marked = |table: TableSchema, &id: &u32| table.with_index_built(id);
            Ok(built.iter().fold(table.clone(), marked))
        };
        schema.alter_table(keyspace, name, mark).map(Some)
    });
    let changed: Result<bool, SchemaError> = changed.map_err(of_catalog)?;
    changed.map(drop).map_err(of_schema)
}

/// Commits the index entries that a scan sends, batch by batch, with pauses in between. Raises `progress`
/// after each commit. Returns early if the builds are stopped, or `progress` does not count any more.
fn commit_all(
    shared: &Shared,
    table: &CqlTable,
    batches: &Receiver<Batch>,
    progress: &mut Progress,
) -> Result<()> {
    for Batch { entries, next } in batches {
        if shared.is_stopped() || shared.catalog.losses() != progress.losses {
            break;
        }
        let begun = Instant::now();
        let mut batch = WriteBatch::new();
        for entry in &entries {
            batch.put(table.rows(), entry, &[]);
        }
        shared.catalog.db().write(batch).map_err(of_store)?;
        if let Some(next) = next {
            progress.from = next;
        }
        shared.pause(begun.elapsed() * PARTS_LEFT);
    }
    Ok(())
}

/// The pace of a build's scan: it offers the core to other threads, and ends the scan if the builds
/// are stopped. The scan calls the pace while it passes keys without rows; a deleted range may have
/// many such keys. It also calls the pace before it encodes values, because a long decimal takes
/// milliseconds to encode.
#[derive(Debug)]
struct ScanPace<'b> {
    shared: &'b Shared,
    yielding: Yielding,
    work: ValueWork,
}

impl<'b> ScanPace<'b> {
    fn new(shared: &'b Shared) -> Self {
        Self {
            shared,
            // In the normal class this never yields.
            yielding: Yielding::of_current_thread(YIELD_EVERY),
            work: ValueWork::default(),
        }
    }
}

impl Pace for ScanPace<'_> {
    fn passed(&self) -> Result<(), Ended> {
        self.yielding.offer_core(Instant::now());
        if self.shared.is_stopped() {
            return Err(Arc::new(ErrorResponse::server("the server stops")));
        }
        Ok(())
    }
}

/// Sends the entries of the indexes `building`, given by their ids, for the rows of a table from the
/// key `from` on to `sender`, in batches. Returns false if the scan was stopped early, or the receiver
/// is gone.
fn scan(
    shared: &Shared,
    table: &CqlTable,
    building: &[u32],
    mut from: Vec<u8>,
    sender: &SyncSender<Batch>,
) -> Result<bool> {
    if shared.idle_class {
        lower_current_thread();
    }
    let pace = ScanPace::new(shared);
    let mut entries = Vec::with_capacity(ENTRIES_PER_COMMIT);
    loop {
        let goes_on = |entries: &mut Vec<Vec<u8>>, key: &[u8]| {
            pace.yielding.offer_core(Instant::now());
            if entries.len() < ENTRIES_PER_COMMIT {
                return true;
            }
            let batch = Batch {
                entries: std::mem::take(entries),
                next: Some(behind(key)),
            };
            sender.send(batch).is_ok()
        };
        let scanned = scan_some(&pace, table, building, &from, &mut entries, goes_on);
        let next = match scanned {
            Ok(Some(next)) => next,
            Ok(None) => {
                let next = None;
                return Ok(sender.send(Batch { entries, next }).is_ok());
            }
            // The pace has ended the scan.
            Err(_) if shared.is_stopped() => return Ok(false),
            Err(error) => return Err(error),
        };
        if shared.is_stopped() || next.is_empty() {
            return Ok(false);
        }
        from = next;
    }
}

/// Reads rows and partition headers (with the static columns) of a table from one view of the
/// store: from the key `from` on, and at most [`ROWS_PER_VIEW`]. Adds the index entries of each row
/// or header to `entries`. Then calls `goes_on` with the entries and the key of the row or header.
/// `goes_on` may take all entries out, and returns false to end the scan.
///
/// Returns the key at which the next view has to begin, `None` at the end of the table, or an empty
/// key if `goes_on` ended the scan.
fn scan_some(
    pace: &ScanPace<'_>,
    table: &CqlTable,
    building: &[u32],
    from: &[u8],
    entries: &mut Vec<Vec<u8>>,
    mut goes_on: impl FnMut(&mut Vec<Vec<u8>>, &[u8]) -> bool,
) -> Result<Option<Vec<u8>>> {
    let schema = table.schema();
    let view = pace.shared.catalog.db().view();
    let now_s = expiry_time_s(&pace.shared.catalog, view.read_time_ms());
    let values = LiveValues::new(schema, now_s);
    let indexed: Vec<_> = (building.iter())
        .filter_map(|&id| schema.indexed_column(id))
        .collect();
    let mut read_count = 0;
    let mut add = |key: &[u8], header: Option<&[u8]>, row: &[u8]| -> Result<Option<Vec<u8>>> {
        for one in &indexed {
            let charge = &mut |bytes: usize| pace.work.charge(bytes, pace);
            let found = values.entries(*one, key, header, row, charge, |entry| {
                // Each row of a partition yields the same entry for a column of the partition key. The
                // entries of several indexes alternate, so repeated ones are left: they only cost writes.
                if entries.last() != Some(&entry) {
                    entries.push(entry);
                }
            });
            found.map_err(of_table)?;
        }
        read_count += 1;
        Ok(if goes_on(entries, key) {
            (read_count == ROWS_PER_VIEW).then(|| behind(key))
        } else {
            Some(Vec::new())
        })
    };
    let reader = (&view, table.rows());
    // The rows of all views together may be more than the cache holds. A range that fills the cache stops
    // only once it has turned out to be long, and each view would begin with a new one.
    let source = Source::Stored(&reader, Cache::Bypass, pace);
    let mut scan = RowScan::open(source, schema, from, None).map_err(of_table)?;
    while let Some(start) = scan.next_partition().map_err(of_table)? {
        let header = start.header.as_deref();
        // The header has entries of its own, for columns of the partition key and static ones. If this
        // view began within the partition, an earlier one has read them; the rows still need the
        // header, for its deletions.
        if start.header_in_range
            && let Some(header) = header
            && let Some(next) = add(&start.key, None, header)?
        {
            return Ok(Some(next));
        }
        while let Some(row) = scan.next_row().map_err(of_table)? {
            if let Some(next) = add(&row.key, header, &row.operand)? {
                return Ok(Some(next));
            }
        }
    }
    Ok(None)
}

/// Returns the next key behind `key`: the key with a zero byte.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests;
