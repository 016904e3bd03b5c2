//! The entries of rows that were there before their index.
//!
//! ```text
//!   CREATE INDEX: the schema has it, being built ─► all writes from now on have their entries
//!     │ whoever writes by an earlier schema has committed
//!     v
//!   a scan, in the idle class ──batches──► commits ─► the schema has it, built
//! ```
//!
//! What the scan sees of a row may be old when its entry is written: then the entry is stale,
//! and whoever wrote the row since has written the right one. So nothing is locked, and the
//! scan takes a new view now and then, to keep no merge from its work. What a crash cuts
//! begins anew at the next start: the schema says that it is not done.
//!
//! The scan runs beneath requests, as reads of whole tables do. Its commits do not: a thread
//! that is not scheduled must not lead a group of commits. They take a part of the time only.
//! In tests the scan runs in the normal class: on busy cores, a thread of the idle class makes
//! hardly any progress.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ebb_cql::protocol::ErrorResponse;
use ebb_model::key::PARTITIONS_START;
use ebb_model::schema::{SchemaError, TableSchema};
use ebb_storage::{Cache, WriteBatch};
use ebb_tables::read::{LiveValues, RowScan, Source};
use ebb_tables::{Catalog, CqlTable};
use ebb_threads::{YIELD_EVERY, Yielding, lower_current_thread};
use uuid::Uuid;

use super::building::Building;
use super::failures::BuildFailures;
use crate::error::{Result, of_catalog, of_schema, of_store, of_table};

/// Entries in one commit.
const ENTRIES_PER_COMMIT: usize = 256;
/// Rows that are read from one view.
const ROWS_PER_VIEW: usize = 4096;
/// The commits take one part of the time, and leave so many.
const PARTS_LEFT: u32 = 3;
/// How often a build checks whether earlier writers are done.
const POLL: Duration = Duration::from_millis(1);
/// How long after an error the builds of a table are tried again, from the start. An hour in unit
/// tests: a build that waits for the retry of another one hangs there, and fails its test.
const RETRY: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 60 });
/// How long CREATE INDEX waits: that of a small table is ready when it is answered.
const PATIENCE: Duration = Duration::from_millis(500);

/// Builds indexes, one table after the other. What is being built stops where this is dropped.
#[derive(Debug)]
pub struct IndexBuilds {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    catalog: Arc<Catalog>,
    /// Whether scans run in the idle class and yield.
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
    /// There may be more to do than was looked at.
    RunningAgain,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for so long, or until it is stopped. Scopes and channels wake this thread, too.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !left.is_zero()
            && !self.is_stopped()
        {
            thread::park_timeout(left);
        }
    }

    /// Waits until then, or until there may be more to do, or until it is stopped.
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
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            thread.thread().unpark();
            // One that panicked is over, too.
            drop(thread.join());
        }
    }
}

impl IndexBuilds {
    /// Starts the builds that an earlier run over the catalog did not finish. If `idle_class` is
    /// false, builds run in the normal scheduling class, and yield to no other thread.
    pub fn new(catalog: &Arc<Catalog>, idle_class: bool) -> Self {
        let builds = Self {
            shared: Arc::new(Shared {
                catalog: Arc::clone(catalog),
                idle_class,
                stop: AtomicBool::new(false),
                state: Mutex::new(State::Idle),
                failures: Arc::default(),
                idle: Condvar::new(),
            }),
            thread: Mutex::default(),
        };
        if !Building::all(catalog).is_empty() {
            builds.start();
        }
        builds
    }

    pub fn failures(&self) -> &Arc<BuildFailures> {
        &self.shared.failures
    }

    /// Starts the builds that are due, and waits until all are done, for half a second at most.
    pub fn start_and_wait_briefly(&self) {
        self.start();
        let state = self.shared.state();
        let is_running = |state: &mut State| *state != State::Idle;
        drop(
            self.shared
                .idle
                .wait_timeout_while(state, PATIENCE, is_running),
        );
    }

    fn start(&self) {
        let mut state = self.shared.state();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != State::Idle {
            *state = State::RunningAgain;
            if let Some(thread) = &*thread {
                // It may wait to try again what failed.
                thread.thread().unpark();
            }
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new()
            .name("cql-index".into())
            .spawn(move || run(&shared));
        // Without a thread it is built after the next start, or by the next CREATE INDEX.
        if let Ok(started) = started {
            *state = State::Running;
            *thread = Some(started);
        }
    }
}

fn run(shared: &Shared) {
    // Tables whose builds have failed, and when. The builds of other tables do not wait for them.
    let mut failed: Vec<(Building, Instant)> = Vec::new();
    while !shared.is_stopped() {
        // Before it is looked: what comes later is seen the next time.
        *shared.state() = State::Running;
        let building = Building::all(&shared.catalog);
        shared.failures.keep(&building);
        failed.retain(|(table, at)| building.contains(table) && at.elapsed() < RETRY);
        let has_failed = |table: &Building| failed.iter().any(|(one, _)| one == table);
        if let Some(next) = building.iter().find(|table| !has_failed(table)) {
            // What is done, or was dropped meanwhile, is not there the next time.
            if let Err(error) = build(shared, next)
                && Building::all(&shared.catalog).contains(next)
            {
                shared.failures.note(next, error.message);
                failed.push((next.clone(), Instant::now()));
            }
        } else if let Some(first) = failed.iter().map(|(_, at)| *at).min() {
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

/// Builds the indexes of a table that are to be built now.
fn build(shared: &Shared, what: &Building) -> Result<()> {
    let catalog = &shared.catalog;
    let (keyspace, name) = (what.keyspace.as_str(), what.name.as_str());
    let table = catalog.state().table(keyspace, name).cloned();
    let Some(table) = table.filter(|table| table.schema().id() == what.id) else {
        return Ok(());
    };
    let building = &what.indexes[..];
    // Whoever writes without entries of these does so by an earlier state.
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
        let table = &table;
        let scan = thread::Builder::new()
            .name("cql-index-scan".into())
            .spawn_scoped(scope, move || scan(shared, table, building, &sender));
        let committed = commit_all(shared, table, &batches);
        // A scan that still has something to send ends.
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
    mark_built(catalog, (keyspace, name), what.id, building)
}

/// From now on the indexes serve. What was committed before is durable with this.
fn mark_built(catalog: &Catalog, (of, name): (&str, &str), id: Uuid, built: &[u32]) -> Result<()> {
    let changed = catalog.change(|schema| {
        let table = schema.table(of, name).filter(|table| table.id() == id);
        if table.is_none() {
            return Ok(None);
        }
        let mark = |table: &TableSchema| {
            let marked = |table: TableSchema, &id: &u32| table.with_index_built(id);
            Ok(built.iter().fold(table.clone(), marked))
        };
        schema.alter_table(of, name, mark).map(Some)
    });
    let changed: std::result::Result<bool, SchemaError> = changed.map_err(of_catalog)?;
    changed.map(drop).map_err(of_schema)
}

fn commit_all(shared: &Shared, table: &CqlTable, batches: &Receiver<Vec<Vec<u8>>>) -> Result<()> {
    for entries in batches {
        if shared.is_stopped() {
            break;
        }
        let begun = Instant::now();
        let mut batch = WriteBatch::new();
        for entry in &entries {
            batch.put(table.rows(), entry, &[]);
        }
        shared.catalog.db().write(batch).map_err(of_store)?;
        shared.pause(begun.elapsed() * PARTS_LEFT);
    }
    Ok(())
}

/// Sends the entries of all rows of a table; whether it came to the end.
fn scan(
    shared: &Shared,
    table: &CqlTable,
    building: &[u32],
    sender: &SyncSender<Vec<Vec<u8>>>,
) -> Result<bool> {
    if shared.idle_class {
        lower_current_thread();
    }
    // It never yields in the normal class.
    let yielding = Yielding::of_current_thread(YIELD_EVERY);
    let mut entries = Vec::with_capacity(ENTRIES_PER_COMMIT);
    let mut from = PARTITIONS_START.to_vec();
    loop {
        let Some(next) = scan_some(shared, table, building, &from, &mut entries, |entries| {
            yielding.offer_core(Instant::now());
            let is_full = entries.len() >= ENTRIES_PER_COMMIT;
            !is_full || sender.send(std::mem::take(entries)).is_ok()
        })?
        else {
            return Ok(sender.send(entries).is_ok());
        };
        if shared.is_stopped() || next.is_empty() {
            return Ok(false);
        }
        from = next;
    }
}

/// Reads headers and rows of a table from one view, from a key on. Adds the index entries of each to
/// `entries`, and then calls `goes_on`. Returns the key from which the next view is read: `None` at the
/// end of the table, and an empty key after `goes_on` has returned false.
fn scan_some(
    shared: &Shared,
    table: &CqlTable,
    building: &[u32],
    from: &[u8],
    entries: &mut Vec<Vec<u8>>,
    mut goes_on: impl FnMut(&mut Vec<Vec<u8>>) -> bool,
) -> Result<Option<Vec<u8>>> {
    let schema = table.schema();
    let view = shared.catalog.db().view();
    let now_s = i64::try_from(view.read_time_ms() / 1000).unwrap_or(i64::MAX);
    let values = LiveValues::new(schema, now_s);
    let indexed: Vec<_> = (building.iter())
        .filter_map(|&id| schema.indexed_column(id))
        .collect();
    let mut read_count = 0;
    let mut add = |key: &[u8], header: Option<&[u8]>, row: &[u8]| -> Result<Option<Vec<u8>>> {
        for one in &indexed {
            let found = values.entries(*one, key, header, row, |entry| {
                // Each row of a partition is a reason for the partition's entry.
                if entries.last() != Some(&entry) {
                    entries.push(entry);
                }
            });
            found.map_err(of_table)?;
        }
        read_count += 1;
        Ok(if goes_on(entries) {
            (read_count == ROWS_PER_VIEW).then(|| [key, &[0]].concat())
        } else {
            Some(Vec::new())
        })
    };
    let reader = (&view, table.rows());
    let scan = RowScan::open(Source::Stored(&reader, Cache::Fill), schema, from, None);
    let mut scan = scan.map_err(of_table)?;
    while let Some(start) = scan.next_partition().map_err(of_table)? {
        let header = start.header.as_deref();
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
