//! The built-in client: its connections, and runs over them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;

use super::connection::Connection;
#[cfg(feature = "scylla")]
use super::driver::{self, DriverClient};
use super::feed::{Records, Step};
use super::plan::{Operations, Plan};
use super::statements::{SnapshotRead, Statements, create, create_snapshot};
use super::tally::Tally;
use super::worker::{Shared, Worker};
use crate::ycsb::{Operation, ReadFrom, Sentinels, count_records};

/// Connections to a server, for one run after the other.
#[derive(Debug)]
pub(crate) struct RawClient {
    #[cfg(feature = "scylla")]
    address: SocketAddr,
    /// For questions beside the runs.
    control: Client,
    /// Each thread's.
    connections: Vec<Vec<Connection>>,
    snapshot: Option<SnapshotRead>,
    records: Records,
}

impl RawClient {
    /// Connects `connections` times, over `threads`, makes the table where it is absent
    /// and counts its records.
    ///
    /// # Errors
    /// What the server or a connection says.
    pub(crate) fn connect(address: SocketAddr, connections: usize, threads: usize) -> Result<Self> {
        let connect = || -> Result<Client> {
            let client = Client::connect(address, Compression::None);
            client.with_context(|| format!("cannot connect to {address}"))
        };
        let mut control = connect()?;
        create(&mut control)?;
        let threads = threads.clamp(1, connections.max(1));
        let mut of_threads: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
        for number in 0..connections.max(1) {
            let stream = connect()?.into_socket();
            stream.set_nonblocking(true)?;
            of_threads[number % threads].push(Connection::new(stream));
        }
        let mut client = Self {
            #[cfg(feature = "scylla")]
            address,
            control,
            connections: of_threads,
            snapshot: None,
            records: Records::new(0, None, 0),
        };
        client.count()?;
        Ok(client)
    }

    /// Lets reads go there from now on. A snapshot that does not exist is created.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) fn read_from(&mut self, snapshot: Option<SnapshotRead>) -> Result<()> {
        if let Some(snapshot) = &snapshot {
            create_snapshot(&mut self.control, &snapshot.name)?;
        }
        self.snapshot = snapshot;
        self.count()
    }

    /// Where reads go, as the command line says it.
    pub(crate) fn reads_from(&self) -> ReadFrom {
        match &self.snapshot {
            None => ReadFrom::Live,
            Some(snapshot) => ReadFrom::Snapshot(snapshot.name.clone()),
        }
    }

    /// Records of the live table.
    pub(crate) fn records(&self) -> u64 {
        self.records.inserts.records()
    }

    fn count(&mut self) -> Result<()> {
        let live = self.count_of(None)?;
        let snapshot = self.snapshot.clone();
        let in_snapshot = snapshot.map(|it| self.count_of(Some(&it))).transpose()?;
        // Writes take less than a million a second, so versions counted on from the clock
        // are above those of every earlier run.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let version_before = now.unwrap_or_default().as_micros() as u64;
        self.records = Records::new(live, in_snapshot, version_before);
        Ok(())
    }

    fn count_of(&mut self, snapshot: Option<&SnapshotRead>) -> Result<u64> {
        let statements = Statements::prepare(&mut self.control, snapshot, VALUE_BYTES_NONE)?;
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        count_records(|number| {
            out.clear();
            statements.encode(&Step::Read { number }, 0, &mut scratch, &mut out);
            self.control.send(&out)?;
            let answer = ebb_cql::protocol::Answer::decode(&self.control.receive()?)?;
            match answer.response {
                ebb_cql::protocol::Response::Rows(rows) => Ok(!rows.is_empty()),
                other => Err(anyhow!("the server answered with {other:?}")),
            }
        })
    }

    /// Does what a plan says; `progress` is told the operations done, now and then.
    ///
    /// # Errors
    /// The first error of the server or of a connection. The client is then of no use.
    pub(crate) fn run(&mut self, plan: &Plan, progress: impl Fn(u64) + Sync) -> Result<Tally> {
        let snapshot = self.snapshot.clone();
        let statements =
            Statements::prepare(&mut self.control, snapshot.as_ref(), plan.value_bytes)?;
        let next_load = AtomicU64::new(plan.operations.first());
        let clock = RunClock::start(plan)?;
        let shared = Shared {
            plan,
            statements: &statements,
            records: &self.records,
            next_load: &next_load,
            start: clock.start,
            issued: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            threads: self.connections.len(),
        };
        let shared = &shared;
        let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
            let workers: Vec<_> = (self.connections.iter_mut().enumerate())
                .map(|(index, connections)| {
                    let progress = &progress;
                    scope.spawn(move || Worker::new(shared, connections, index)?.run(progress))
                })
                .collect();
            let join = |worker: thread::ScopedJoinHandle<'_, Result<Tally>>| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        let sum = clock.sum(plan, tallies)?;
        if matches!(plan.operations, Operations::Load(_)) {
            self.count()?;
        }
        Ok(sum)
    }

    /// A driver that asks what this client asks, over `connections` of its own.
    ///
    /// # Errors
    /// When it cannot connect, or prepare the statements.
    #[cfg(feature = "scylla")]
    pub(crate) fn driver(&self, connections: usize, threads: usize) -> Result<DriverClient> {
        DriverClient::connect(self.address, connections, threads, self.snapshot.as_ref())
    }

    /// Does what a plan says through a driver, over the connections of this one.
    ///
    /// # Errors
    /// The first error of the driver.
    #[cfg(feature = "scylla")]
    pub(crate) fn run_by(
        &mut self,
        driver: &mut DriverClient,
        plan: &Plan,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Tally> {
        let next_load = AtomicU64::new(plan.operations.first());
        let clock = RunClock::start(plan)?;
        let shared = driver::Shared {
            plan,
            records: &self.records,
            next_load: &next_load,
            start: clock.start,
            issued: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            threads: driver.threads(),
        };
        let sum = clock.sum(plan, driver.run(&shared, &progress))?;
        if matches!(plan.operations, Operations::Load(_)) {
            self.count()?;
        }
        Ok(sum)
    }
}

/// When a run begins, and what watches the machine until it ends.
struct RunClock {
    start: Instant,
    sentinels: Option<Sentinels>,
}

impl RunClock {
    fn start(plan: &Plan) -> Result<Self> {
        // Before the run begins: the first time this takes a second.
        let sentinels = match plan.leave_out_pauses {
            true => Sentinels::post()?,
            false => None,
        };
        // All threads are there by then.
        let start = Instant::now() + Duration::from_millis(5);
        Ok(Self { start, sentinels })
    }

    /// All threads' together, without what was due while the machine paused.
    fn sum(self, plan: &Plan, tallies: Vec<Result<Tally>>) -> Result<Tally> {
        let mut sum = Tally::default();
        for tally in tallies {
            sum.add(&tally?);
        }
        if plan.leave_out_pauses {
            let pauses = self.sentinels.map(Sentinels::end);
            let counts_from = self.start + plan.lead;
            sum.leave_out(pauses.as_ref(), counts_from, self.start + sum.elapsed);
        }
        Ok(sum)
    }
}

/// Of statements with which nothing is written.
const VALUE_BYTES_NONE: usize = 0;

impl Records {
    /// Says that an operation is done that wrote.
    pub(super) fn acknowledge(&self, operation: Operation, step: &Step) {
        if let (Operation::Insert, Step::Write { stamp }) = (operation, step)
            && stamp.version > 0
        {
            self.inserts.acknowledge(stamp.number);
        }
    }
}
