//! A server in a process of its own, over a folder, which is killed by SIGKILL.
//!
//! The process runs this test's own program, with only the test that has called [`Process::start`];
//! that test serves ([`serve_if_child`]) instead of testing. The kernel keeps whatever a killed
//! process has written, so that no acknowledged statement may be lost, synced or not.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ebb_cql::client::{Client, ClientError};
use ebb_cql::protocol::{Compression, ErrorResponse, QueryParameters, Request, Response};
use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions};
use ebb_cql_server::system::{CLUSTER_NAME, LocalNode};
use ebb_storage::{Db, Options, SystemClock};
use ebb_tables::{Catalog, GracePeriods, with_cql_tables};
use ebb_test_support::wait::HANG;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use super::machine::{Cut, Machine};

/// The environment variable with the folder that a child process serves.
const FOLDER: &str = "EBB_ORACLE_FOLDER";

/// The start of the line in which a child process reports its address or its error.
const REPORT: &str = "schema oracle: ";

/// The server is killed after a random number of thread yields, below two to the power of this
/// number. So it may be killed before it reads the statement, while it executes the statement, or
/// afterwards.
const TURNS_BITS_MAX: u32 = 15;

pub struct Process {
    /// The full name of the test that the child process runs.
    test: &'static str,
    folder: TempDir,
    serving: Option<Serving>,
}

struct Serving {
    child: Child,
    client: Client,
    /// The output of the child, which must stay open so that the child can write to it.
    _output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a server with an empty database. The test with the full name `test` must begin with
    /// [`serve_if_child`].
    ///
    /// # Errors
    /// If the process does not start, or the database does not open.
    pub fn start(test: &'static str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
        let mut process = Self {
            test,
            folder,
            serving: None,
        };
        process.spawn()?;
        Ok(process)
    }

    fn spawn(&mut self) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .env(FOLDER, self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let connected = report(&mut output).and_then(|address| {
            let client = Client::connect(address, Compression::None);
            client.map_err(|error| error.to_string())
        });
        match connected {
            Ok(client) => {
                self.serving = Some(Serving {
                    child,
                    client,
                    _output: output,
                });
                Ok(())
            }
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    fn kill(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            end(&mut serving.child);
        }
    }
}

/// Kills a process, if it is still running, and waits for its end.
fn end(child: &mut Child) {
    child.kill().expect("it is this process's child");
    child.wait().expect("it is this process's child");
}

/// Reads the address that a child reports.
///
/// # Errors
/// If the child reports an error instead, or ends.
fn report(output: &mut BufReader<ChildStdout>) -> Result<SocketAddr, String> {
    let mut line = String::new();
    loop {
        line.clear();
        let read = output.read_line(&mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            return Err("the process ended before it served".to_owned());
        }
        if let Some(report) = line.trim_end().strip_prefix(REPORT) {
            return report.parse().map_err(|_| report.to_owned());
        }
    }
}

fn request(client: &mut Client, text: &str) -> Result<Response, ClientError> {
    let parameters = QueryParameters::default();
    client.request(&Request::Query { text, parameters })
}

impl Machine for Process {
    fn run(&mut self, text: &str) -> Result<Response, ErrorResponse> {
        let serving = self.serving.as_mut().expect("the last start succeeded");
        match request(&mut serving.client, text) {
            Ok(response) => Ok(response),
            Err(ClientError::Refused(error)) => Err(error),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    fn restart(&mut self, _flushes: bool) -> Result<(), String> {
        self.kill();
        self.spawn()
    }

    fn cut(&mut self, text: &str, draw: u64) -> Result<Cut, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(draw);
        let bits = rng.random_range(0..=TURNS_BITS_MAX);
        let turns = rng.random_range(0..1_u32 << bits);
        let serving = self.serving.as_mut().expect("the last start succeeded");
        let Serving { child, client, .. } = serving;
        let answered = thread::scope(|scope| {
            let requesting = scope.spawn(|| request(client, text));
            for _ in 0..turns {
                thread::yield_now();
            }
            end(child);
            requesting.join().expect("a client does not panic")
        });
        self.serving = None;
        let cut = match answered {
            Ok(_) => Cut::Accepted,
            Err(ClientError::Refused(error)) => Cut::Refused(error),
            Err(ClientError::Io(_)) => Cut::Unanswered,
            Err(error) => return Err(format!("{text}: {error}")),
        };
        self.spawn()?;
        Ok(cut)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// If this process was started as a child to serve a folder, serves the folder until the process is
/// killed, or until its standard input ends because the parent has ended. Returns true in such a
/// child, even if it could not serve the folder, and false in any other process.
pub fn serve_if_child() -> bool {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return false;
    };
    match serve(Path::new(&folder)) {
        // On a line of its own, since the test harness has begun one.
        Ok(server) => {
            println!("\n{REPORT}{}", server.address());
            // Nothing is sent. An error is the end, too.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        Err(error) => println!("\n{REPORT}{error}"),
    }
    true
}

fn serve(folder: &Path) -> Result<CqlServer, String> {
    let grace_periods = GracePeriods::default();
    let options = Options {
        // Small, so that memtables are flushed and merged during the statements.
        memtable_bytes: 16 << 10,
        file_bytes: 16 << 10,
        wal_segment_bytes: 64 << 10,
        ..Options::default()
    };
    let options = with_cql_tables(options, &grace_periods);
    let db = Db::open(folder, options).map_err(|error| format!("the database: {error}"))?;
    let catalog = Catalog::open(&db, &grace_periods, Arc::new(SystemClock));
    let catalog = catalog.map_err(|error| format!("the catalog: {error}"))?;
    catalog.set_listed_snapshots(u32::MAX);
    let node = LocalNode {
        address: "127.0.0.1:9042".parse().expect("an address"),
        cluster_name: CLUSTER_NAME.to_owned(),
    };
    let executor = Executor::at_normal_priority(Arc::new(catalog), node, Limits::default());
    let options = ServeOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        threads: 2,
        // No request fails because the machine is slow, and none waits for an idle core.
        idle_class: false,
        overload_wait: Duration::ZERO,
        startup_timeout: HANG,
        request_timeout: HANG,
        write_timeout: HANG,
        ..ServeOptions::default()
    };
    let server = CqlServer::start(Arc::new(executor), None, options);
    server.map_err(|error| format!("the server: {error}"))
}
