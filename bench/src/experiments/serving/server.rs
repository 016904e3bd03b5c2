//! `ebb serve`, or the host of jobs, as a child process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ebb_server::http::JobsClient;
use rustix::process::{Pid, Signal, kill_process};

use super::args::ServingArgs;
pub(super) use crate::ycsb::cql::Account;
use crate::ycsb::cql::{Plan, RawClient, ServerProcess};

/// The superuser's role in a server with logins.
const SUPERUSER: &str = "ebb";
/// The file in the data directory to which the server writes the superuser's password.
const PASSWORD_FILE: &str = "superuser-password";

/// A server in a child process. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    /// The child process, for its CPU time and memory.
    pub process: ServerProcess,
    data: PathBuf,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the path of the server's binary: `named`, or `ebb` beside this program.
pub fn binary(named: Option<&Path>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => {
            let own = std::env::current_exe().context("cannot find this program again")?;
            own.with_file_name("ebb")
        }
    };
    ensure!(
        path.is_file(),
        "there is no server {}: build it (cargo build --release -p ebb-cli) or name it by --ebb",
        path.display()
    );
    Ok(path)
}

impl Server {
    /// Starts `ebb serve` over a directory, on a free port and with `more` arguments. The server
    /// listens when this returns.
    pub fn start(binary: &Path, data: &Path, more: &[String]) -> Result<Self> {
        Self::spawn(serving(&mut Command::new(binary), data, more), data)
    }

    /// Like [`start`](Self::start), but the server may run only on the core with this number.
    pub fn start_on_core(core: usize, binary: &Path, data: &Path) -> Result<Self> {
        let mut command = Command::new("taskset");
        command.arg("-c").arg(core.to_string()).arg(binary);
        Self::spawn(serving(&mut command, data, &[]), data)
    }

    /// Like [`start`](Self::start), with a limit of open files that the server cannot raise.
    pub fn start_with_files(
        files_max: u32,
        binary: &Path,
        data: &Path,
        more: &[String],
    ) -> Result<Self> {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files_max}:{files_max}"));
        Self::spawn(serving(command.arg(binary), data, more), data)
    }

    /// Starts `ebb-bench experiments serving-host`, which hosts a CQL server and, on request, jobs
    /// that do not end.
    pub fn host(data: &Path) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this program again")?;
        Self::spawn(
            Command::new(own)
                .args(["experiments", "serving-host"])
                .arg(data),
            data,
        )
    }

    fn spawn(command: &mut Command, data: &Path) -> Result<Self> {
        let log = log_path(data);
        let mut child = (command.stdin(Stdio::piped()).stdout(Stdio::piped()))
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("its output is piped")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let Some(address) = line.trim().strip_prefix("listening for CQL on ") else {
            drop((child.kill(), child.wait()));
            let log = fs::read_to_string(&log).unwrap_or_default();
            bail!("the server did not start: {line}{log}");
        };
        Ok(Self {
            address: address.parse().context("the server printed no address")?,
            process: ServerProcess::new(child.id())?,
            child,
            data: data.to_path_buf(),
            input,
            output,
        })
    }

    /// Returns the credentials of the superuser of a server with logins.
    pub fn superuser(&self) -> Result<Account> {
        let password = fs::read_to_string(self.data.join(PASSWORD_FILE));
        let password = password.context("the server wrote no password of the superuser")?;
        Ok(Account {
            name: SUPERUSER.into(),
            password: password.trim().into(),
            tls: None,
        })
    }

    /// Connects a client to the server's socket for jobs, backups and other work.
    pub fn jobs_client(&self) -> Result<JobsClient> {
        let client = JobsClient::of(&self.data)?;
        client.context("the server does not answer at its socket")
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> Result<String> {
        fs::read_to_string(log_path(&self.data)).context("cannot read the server's log")
    }

    /// Sends a command to the child process, which must be the host that [`Self::host`] starts, and
    /// returns the next line of its output: the response.
    pub fn request(&mut self, command: &str) -> Result<String> {
        use std::io::Write;
        let input = self.input.as_mut().context("its input is piped")?;
        writeln!(input, "{command}").context("the host has ended")?;
        self.line()
    }

    /// Returns the next line of the server's standard output.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the server has ended");
        Ok(line.trim().to_string())
    }

    /// Waits until the background work of the server is done, for half a minute at most. Returns
    /// whether it is done.
    pub fn settle(&self) -> Result<bool> {
        const SETTLE_MAX: Duration = Duration::from_secs(30);
        self.process.settle(SETTLE_MAX)
    }

    /// Ends the server by SIGTERM, and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context("cannot stop the server")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    pub fn kill(self) {
        drop(self);
    }
}

/// Returns the path of the log of a server over this directory.
fn log_path(data: &Path) -> PathBuf {
    data.with_extension("err")
}

/// Adds the arguments of `ebb serve` over a directory, on a free port and with `more` arguments.
fn serving<'c>(command: &'c mut Command, data: &Path, more: &[String]) -> &'c mut Command {
    command.args(["serve", "--cql", "127.0.0.1:0", "--data"]);
    command.arg(data).args(more)
}

/// Connects a client, and loads records until the table has those of `args`.
pub fn loaded(
    server: &Server,
    account: Option<&Account>,
    connections: u64,
    args: &ServingArgs,
) -> Result<RawClient> {
    let mut client = RawClient::connect(server.address, account, connections as usize, 1)?;
    let present = client.records();
    if present < args.records {
        let plan = Plan {
            value_bytes: args.value_bytes as usize,
            ..Plan::load(present..args.records)
        };
        client.run(&plan, |_| ())?;
    }
    Ok(client)
}
