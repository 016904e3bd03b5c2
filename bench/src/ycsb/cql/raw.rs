//! The built-in client: its connections, and runs over them.

use std::net::{SocketAddr, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Answer, Compression, ErrorKind, Response};

use super::connection::Connection;
#[cfg(feature = "scylla")]
use super::driver::DriverClient;
use super::plan::{Operations, Plan};
use super::records::{Records, Step};
use super::run::run;
use super::socket::{Account, Socket};
use super::statements::{SnapshotRead, Statements, create, create_snapshot};
use super::tally::Tally;
use super::worker::Worker;
use crate::ycsb::{ReadFrom, count_records};

/// The benchmark's own client. It uses the same connections to the server for one run after the
/// other.
#[derive(Debug)]
pub(crate) struct RawClient {
    #[cfg(feature = "scylla")]
    address: SocketAddr,
    /// An unencrypted connection for requests outside of the runs.
    control: Client,
    /// The connections of each thread.
    connections: Vec<Vec<Connection>>,
    snapshot: Option<SnapshotRead>,
    records: Records,
}

impl RawClient {
    /// Opens `connections` connections for runs, spread over `threads`, and one more for control.
    /// Logs in as `account` if the server requires a login; with TLS the server must require one.
    /// Creates the table if there is none, and counts its records.
    pub(crate) fn connect(
        address: SocketAddr,
        account: Option<&Account>,
        connections: usize,
        threads: usize,
    ) -> Result<Self> {
        let credentials = account.map(|account| (&*account.name, &*account.password));
        let connect = || -> Result<Client> {
            let client = Client::connect_as(address, Compression::None, credentials);
            client.with_context(|| format!("cannot connect to {address}"))
        };
        let mut control = connect()?;
        create(&mut control)?;
        let threads = threads.clamp(1, connections.max(1));
        let mut of_threads: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
        for number in 0..connections.max(1) {
            let tls = account.and_then(|account| Some((account, account.tls.as_ref()?)));
            let socket = match tls {
                Some((account, tls)) => {
                    Socket::encrypted(TcpStream::connect(address)?, tls, account)?
                }
                None => {
                    let stream = connect()?.into_socket();
                    stream.set_nonblocking(true)?;
                    Socket::Plain(stream)
                }
            };
            of_threads[number % threads].push(Connection::new(socket));
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

    /// Makes later runs read from `snapshot`, or from the live table if it is `None`. Creates the
    /// snapshot if there is none of this name, and counts the records anew.
    pub(crate) fn read_from(&mut self, snapshot: Option<SnapshotRead>) -> Result<()> {
        if let Some(snapshot) = &snapshot {
            create_snapshot(&mut self.control, &snapshot.name)?;
        }
        self.snapshot = snapshot;
        self.count()
    }

    /// Returns the source of reads, in the form of the command line.
    pub(crate) fn reads_from(&self) -> ReadFrom {
        match &self.snapshot {
            None => ReadFrom::Live,
            Some(snapshot) => ReadFrom::Snapshot(snapshot.name.clone()),
        }
    }

    pub(crate) fn records(&self) -> u64 {
        self.records.inserts.records()
    }

    fn count(&mut self) -> Result<()> {
        let live = self.count_of(None)?;
        let snapshot = self.snapshot.clone();
        let in_snapshot = snapshot.map(|it| self.count_of(Some(&it))).transpose()?;
        // There are less than a million writes a second, so versions that continue from the clock,
        // in microseconds, are above those of all earlier runs.
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
            loop {
                self.control.send(&out)?;
                match Answer::decode(&self.control.receive()?)?.response {
                    Response::Rows(rows) => return Ok(!rows.is_empty()),
                    // The server may still be overloaded by the run before.
                    Response::Error(error) if error.kind == ErrorKind::Overloaded => {}
                    other => return Err(anyhow!("the server answered with {other:?}")),
                }
            }
        })
    }

    /// Runs a plan. Calls `progress` at intervals with the number of operations begun so far.
    ///
    /// # Errors
    /// An error of the server or of a connection, which ends the run. The client cannot be used
    /// after that.
    pub(crate) fn run(&mut self, plan: &Plan, progress: impl Fn(u64) + Sync) -> Result<Tally> {
        let snapshot = self.snapshot.clone();
        let statements =
            Statements::prepare(&mut self.control, snapshot.as_ref(), plan.value_bytes)?;
        let (records, connections) = (&self.records, self.connections.iter_mut());
        let sum = run(plan, records, connections, |shared, index, connections| {
            Worker::new(shared, &statements, connections, index)?.run(&progress)
        })?;
        if matches!(plan.operations, Operations::Load(_)) {
            self.count()?;
        }
        Ok(sum)
    }

    /// Connects a driver that runs the same statements as this client, over `connections` of its
    /// own.
    #[cfg(feature = "scylla")]
    pub(crate) fn driver(&self, connections: usize, threads: usize) -> Result<DriverClient> {
        DriverClient::connect(self.address, connections, threads, self.snapshot.as_ref())
    }

    /// Runs a plan through a driver, over the driver's connections.
    #[cfg(feature = "scylla")]
    pub(crate) fn run_by(
        &mut self,
        driver: &mut DriverClient,
        plan: &Plan,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Tally> {
        let sum = driver.run(plan, &self.records, progress)?;
        if matches!(plan.operations, Operations::Load(_)) {
            self.count()?;
        }
        Ok(sum)
    }
}

/// The value length of statements that are prepared for reads only: they write no value.
const VALUE_BYTES_NONE: usize = 0;
