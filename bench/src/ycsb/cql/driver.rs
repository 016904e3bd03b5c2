//! Sends the steps of a plan through ScyllaDB's driver for Rust: the cost for an application, with
//! everything that the built-in client leaves out.
//!
//! Each thread has its own session, runtime and tasks, so threads share nothing but the table's
//! records.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_threads::thread_cpu;
use futures_util::future::try_join_all;
use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::check::{check_read, check_scan};
use super::feed::Feed;
use super::plan::Plan;
use super::records::{Records, Step};
use super::run::{Shared, run};
use super::statements::{SnapshotRead, Texts};
use super::tally::{Tally, TimedOperation};
use crate::threads::value_of;
use crate::ycsb::pace::{Arrival, Arrivals};
use crate::ycsb::{KEY_BYTES, Operation, Pace, RateSchedule, key, write_value};

/// The length of the time ahead in which the pacing thread searches for the next due operation. The
/// thread sleeps no longer than this before it searches again, so that it notices the end of the
/// run.
const HORIZON: Duration = Duration::from_millis(20);
/// The number of operations between two reports of progress.
const PROGRESS_EVERY: u64 = 1024;

/// A client that uses ScyllaDB's driver: one session of the driver for each thread.
#[derive(Debug)]
pub(crate) struct DriverClient {
    threads: Vec<DriverThread>,
}

#[derive(Debug)]
struct DriverThread {
    // Declared before the runtime, so that it is dropped before it.
    session: Session,
    statements: PreparedStatements,
    runtime: Runtime,
    connections: usize,
}

#[derive(Debug)]
struct PreparedStatements {
    read: PreparedStatement,
    write: PreparedStatement,
    scan: PreparedStatement,
}

impl DriverClient {
    /// Opens `connections`, spread over `threads`, and prepares the statements.
    pub(crate) fn connect(
        address: SocketAddr,
        connections: usize,
        threads: usize,
        snapshot: Option<&SnapshotRead>,
    ) -> Result<Self> {
        let threads = threads.clamp(1, connections.max(1));
        let share = |index| (connections.max(1) + threads - 1 - index) / threads;
        let texts = Texts::new(snapshot);
        let threads = (0..threads)
            .map(|index| DriverThread::connect(address, share(index), &texts))
            .collect::<Result<_>>()?;
        Ok(Self { threads })
    }

    /// Runs a plan. Calls `progress` at intervals with the number of operations begun so far.
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        records: &Records,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Tally> {
        let threads = self.threads.iter_mut();
        run(plan, records, threads, |shared, index, thread| {
            thread.run(shared, index, &progress)
        })
    }
}

impl DriverThread {
    fn connect(address: SocketAddr, connections: usize, texts: &Texts) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let pool = NonZeroUsize::new(connections).unwrap_or(NonZeroUsize::MIN);
        let (session, statements) = runtime.block_on(async {
            let session = SessionBuilder::new()
                .known_node_addr(address)
                .pool_size(PoolSize::PerHost(pool))
                .build()
                .await
                .with_context(|| format!("the driver cannot connect to {address}"))?;
            let statements = PreparedStatements {
                read: session.prepare(texts.read.as_str()).await?,
                write: session.prepare(texts.write.as_str()).await?,
                scan: session.prepare(texts.scan.as_str()).await?,
            };
            anyhow::Ok((session, statements))
        })?;
        Ok(Self {
            session,
            statements,
            runtime,
            connections,
        })
    }

    fn run(&mut self, shared: &Shared<'_>, index: usize, progress: &impl Fn(u64)) -> Result<Tally> {
        let tasks = self.connections * shared.plan.in_flight.max(1);
        let feed = Feed::new(shared, index);
        let due = Due::new();
        let run = Run {
            shared,
            session: &self.session,
            statements: &self.statements,
            feed: RefCell::new(feed),
            tally: RefCell::default(),
            due: &due,
            progress,
        };
        let pacer_cpu = std::thread::scope(|scope| {
            let closing = Closing(&due.permits);
            let pacer = shared.plan.pace.share_of(shared.threads).map(|share| {
                let due = &due;
                scope.spawn(move || {
                    due.pace(shared, share);
                    thread_cpu()
                })
            });
            self.runtime.block_on(async {
                tokio::time::sleep_until(shared.start.into()).await;
                try_join_all((0..tasks).map(|_| run.operate())).await
            })?;
            drop(closing);
            anyhow::Ok(pacer.map_or(Duration::ZERO, |pacer| value_of(pacer.join())))
        })?;
        let mut tally = run.tally.into_inner();
        tally.unserved = due.moments.lock().unwrap().len() as u64;
        tally.cpu = pacer_cpu;
        Ok(tally)
    }
}

/// The state of a run that the tasks of one thread share.
struct Run<'a, P> {
    shared: &'a Shared<'a>,
    session: &'a Session,
    statements: &'a PreparedStatements,
    feed: RefCell<Feed<'a>>,
    tally: RefCell<Tally>,
    due: &'a Due,
    progress: &'a P,
}

impl<P: Fn(u64)> Run<'_, P> {
    /// Runs operations, one after the other, until the run is over or the plan has no more.
    async fn operate(&self) -> Result<()> {
        let is_open = matches!(self.shared.plan.pace, Pace::Open(_));
        let mut scratch = Vec::new();
        while !self.shared.is_over_at(Instant::now()) {
            let due = if is_open {
                match self.due.next().await {
                    Some(due) => due,
                    None => break,
                }
            } else {
                Instant::now()
            };
            let Some((operation, step)) = self.next() else {
                self.due.clear();
                break;
            };
            let mut step = step;
            self.perform(&step, &mut scratch).await?;
            if let (Operation::ReadModifyWrite, Step::Read { number }) = (operation, step) {
                step = self.shared.records.write(number);
                self.perform(&step, &mut scratch).await?;
            }
            self.shared.records.acknowledge(operation, &step);
            self.count(operation, due);
        }
        Ok(())
    }

    /// Returns the next operation; `None` if the plan has no more.
    fn next(&self) -> Option<(Operation, Step)> {
        if self.shared.begins() {
            self.feed.borrow_mut().next()
        } else {
            None
        }
    }

    async fn perform(&self, step: &Step, scratch: &mut Vec<u8>) -> Result<()> {
        let Self {
            session,
            statements,
            ..
        } = self;
        match step {
            Step::Read { number } => {
                let key = key(*number);
                let answer = session.execute_unpaged(&statements.read, (text(&key)?,));
                let rows = answer.await?.into_rows_result()?;
                let row = rows.maybe_first_row::<(Option<&[u8]>,)>()?;
                let value = row.map(|(value,)| value);
                check_read(
                    *number,
                    value,
                    self.shared.records,
                    &mut self.tally.borrow_mut(),
                );
            }
            Step::Write { stamp } => {
                let key = key(stamp.number);
                write_value(scratch, *stamp, self.shared.plan.value_bytes);
                let values = (text(&key)?, scratch.as_slice());
                session.execute_unpaged(&statements.write, values).await?;
            }
            Step::Scan { number, records } => {
                let key = key(*number);
                let values = (text(&key)?, *records as i32);
                let answer = session.execute_unpaged(&statements.scan, values).await?;
                let rows = answer.into_rows_result()?;
                let rows = rows.rows::<(&str, Option<&[u8]>)>()?;
                let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
                let pairs = (rows.iter()).map(|(key, value)| (Some(key.as_bytes()), *value));
                check_scan(
                    *number,
                    pairs,
                    self.shared.records,
                    &mut self.tally.borrow_mut(),
                );
            }
        }
        Ok(())
    }

    fn count(&self, operation: Operation, due: Instant) {
        let Shared { plan, start, .. } = self.shared;
        let now = Instant::now();
        let mut tally = self.tally.borrow_mut();
        tally.operations += 1;
        tally.elapsed = now.saturating_duration_since(*start);
        if due >= *start + plan.lead {
            let nanos = now.saturating_duration_since(due).as_nanos() as u64;
            let timed = TimedOperation {
                operation,
                due,
                nanos,
            };
            tally.enter(plan, timed);
        }
        if tally.operations.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.shared.issued());
        }
    }
}

/// Operations of an open loop that are due and have not begun.
struct Due {
    moments: Mutex<VecDeque<Instant>>,
    /// A permit for each operation; closed when no more will be due.
    permits: Semaphore,
}

/// Closes the semaphore when dropped, after a panic too, so that tasks do not wait for ever.
struct Closing<'a>(&'a Semaphore);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Due {
    fn new() -> Self {
        Self {
            moments: Mutex::default(),
            permits: Semaphore::new(0),
        }
    }

    /// Waits until an operation is due, and returns the time at which it was due; `None` if the run
    /// is over or the plan has no more operations.
    async fn next(&self) -> Option<Instant> {
        self.permits.acquire().await.ok()?.forget();
        self.moments.lock().unwrap().pop_front()
    }

    /// Adds operations when they are due. Runs on a thread of its own, because the timer of the
    /// tasks' runtime has a resolution of milliseconds.
    fn pace(&self, shared: &Shared<'_>, share: RateSchedule) {
        // The kernel may delay a timer by 50 us to save wake-ups, which would count as latency
        // here. An error is ignored: it costs only precision.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let _closing = Closing(&self.permits);
        let mut arrivals = Arrivals::new(share, 1);
        while !shared.is_over_at(Instant::now()) && !self.permits.is_closed() {
            let mut horizon = shared.start.elapsed() + HORIZON;
            if let Some(duration) = shared.plan.duration {
                horizon = horizon.min(duration);
            }
            let (next_s, is_due) = match arrivals.next(horizon.as_secs_f64()) {
                Arrival::At(due_s) => (due_s, true),
                Arrival::NoneBefore(_) => (horizon.as_secs_f64(), false),
            };
            let next = shared.start + Duration::from_secs_f64(next_s);
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(left);
            }
            if is_due {
                self.moments.lock().unwrap().push_back(next);
                self.permits.add_permits(1);
            }
        }
    }

    /// Closes the queue because the plan has no more operations. Drops the due ones that have not
    /// begun: they do not count as unserved.
    fn clear(&self) {
        self.permits.close();
        self.moments.lock().unwrap().clear();
    }
}

fn text(key: &[u8; KEY_BYTES]) -> Result<&str> {
    std::str::from_utf8(key).context("keys are text")
}
