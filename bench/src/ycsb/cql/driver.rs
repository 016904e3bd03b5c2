//! The same steps through ScyllaDB's driver for Rust: what an application pays, with all that
//! the built-in client leaves out.
//!
//! Each thread has a session, a runtime and tasks of its own, so that threads share nothing
//! but the table's records.

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

/// How far ahead the moments of an open loop are asked for.
const HORIZON: Duration = Duration::from_millis(20);
/// Operations after which progress is told.
const PROGRESS_EVERY: u64 = 1024;

/// The sessions of a client, one for each thread.
#[derive(Debug)]
pub(crate) struct DriverClient {
    threads: Vec<DriverThread>,
}

#[derive(Debug)]
struct DriverThread {
    // Ends before its runtime.
    session: Session,
    statements: Prepared,
    runtime: Runtime,
    connections: usize,
}

#[derive(Debug)]
struct Prepared {
    read: PreparedStatement,
    write: PreparedStatement,
    scan: PreparedStatement,
}

impl DriverClient {
    /// Connects `connections` times, over `threads`, and prepares the statements.
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

    /// Does what a plan says; `progress` is told the operations done, now and then.
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
            let statements = Prepared {
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

/// A run, as the tasks of one thread see it.
struct Run<'a, P> {
    shared: &'a Shared<'a>,
    session: &'a Session,
    statements: &'a Prepared,
    feed: RefCell<Feed<'a>>,
    tally: RefCell<Tally>,
    due: &'a Due,
    progress: &'a P,
}

impl<P: Fn(u64)> Run<'_, P> {
    /// Does one operation after the other.
    async fn operate(&self) -> Result<()> {
        let is_open = matches!(self.shared.plan.pace, Pace::Open(_));
        let mut scratch = Vec::new();
        while !self.shared.is_over_at(Instant::now()) {
            let due = match is_open {
                false => Instant::now(),
                true => match self.due.next().await {
                    Some(due) => due,
                    None => break,
                },
            };
            let Some((operation, step)) = self.next() else {
                self.due.clear();
                break;
            };
            let mut step = step;
            self.ask(&step, &mut scratch).await?;
            if let (Operation::ReadModifyWrite, Step::Read { number }) = (operation, step) {
                step = self.shared.records.write(number);
                self.ask(&step, &mut scratch).await?;
            }
            self.shared.records.acknowledge(operation, &step);
            self.count(operation, due);
        }
        Ok(())
    }

    /// `None` when there are no more.
    fn next(&self) -> Option<(Operation, Step)> {
        match self.shared.begins() {
            true => self.feed.borrow_mut().next(),
            false => None,
        }
    }

    async fn ask(&self, step: &Step, scratch: &mut Vec<u8>) -> Result<()> {
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

/// What of an open loop is due, and not yet begun.
struct Due {
    moments: Mutex<VecDeque<Instant>>,
    /// A permit for each; closed when there will be no more.
    permits: Semaphore,
}

/// Says on drop, after a panic too, that nothing will be due any more.
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

    /// The next when it is due; `None` when there will be no more.
    async fn next(&self) -> Option<Instant> {
        self.permits.acquire().await.ok()?.forget();
        self.moments.lock().unwrap().pop_front()
    }

    /// Says what is due when it is, in a thread of its own: the timer of the tasks' runtime
    /// has milliseconds.
    fn pace(&self, shared: &Shared<'_>, share: RateSchedule) {
        // The kernel may delay a timer by 50 us to save wake-ups; here that would count
        // as latency. Best effort: without it only precision is lost.
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

    /// There is no more to begin.
    fn clear(&self) {
        self.permits.close();
        self.moments.lock().unwrap().clear();
    }
}

fn text(key: &[u8; KEY_BYTES]) -> Result<&str> {
    std::str::from_utf8(key).context("keys are text")
}
