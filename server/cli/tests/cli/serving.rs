//! `ebb serve`: a user starts it, sends requests and stops it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, ErrorKind, QueryParameters, Request, Response};
use ebb_test_support::wait::{HANG, until_some};
use procfs::process::FDTarget;
use rustix::fs::OFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::place::{Place, Running, UNPACED, output};

/// A server on a free port, which is killed when a test fails. Overload control is off, a request may take
/// three minutes, and the shutdown ten, so that no pause of the machine makes a request fail.
pub struct Server {
    process: Running,
    out: Lines,
    errors: Lines,
    address: String,
    http: Option<String>,
}

/// The lines that a process prints. A thread reads them, so that a wait for a line can time out.
struct Lines(Receiver<String>);

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // The thread drains the pipe to its end, received or not: a process stops at a full pipe.
            let lines = BufReader::new(pipe).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        Self(lines)
    }

    /// Returns the next line; `None` when the process has closed the pipe.
    #[track_caller]
    fn next_line(&self) -> Option<String> {
        match self.0.recv_timeout(HANG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {HANG:?}"),
        }
    }
}

impl Server {
    #[track_caller]
    pub fn start(place: &Place, more: &str) -> Self {
        let line = format!("serve --cql 127.0.0.1:0 --overload-wait 0s {more}");
        Self::start_by(place.command(&line), more)
    }

    /// Starts a server in a shell that runs `setup` before, such as `ulimit`.
    #[track_caller]
    pub fn start_after(place: &Place, setup: &str, more: &str) -> Self {
        let ebb = env!("CARGO_BIN_EXE_ebb");
        let script =
            format!("{setup} && exec {ebb} serve --cql 127.0.0.1:0 --overload-wait 0s {more}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(place.dir.path());
        bash.env_remove("EBB_DATA").env(UNPACED, "1");
        Self::start_by(bash, more)
    }

    /// Starts a server by a command that has all its arguments. This function sets the pipes and the
    /// timeouts. `more` are the flags that the test added. If they contain `--http`, this function also
    /// reads the address for HTTP, which the server prints then.
    #[track_caller]
    pub fn start_by(mut command: Command, more: &str) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // Variables, because flags in `more` override them.
        command.env("EBB_REQUEST_TIMEOUT", "3m");
        command.env("EBB_GRACE", "10m");
        let mut process = Running::start(&mut command);
        let out = Lines::of(process.child().stdout.take().unwrap());
        let errors = Lines::of(process.child().stderr.take().unwrap());
        let first = out.next_line().unwrap_or_default();
        let Some(address) = first.strip_prefix("listening for CQL on ") else {
            let said: Vec<String> = std::iter::from_fn(|| errors.next_line()).collect();
            panic!("{first:?}: {}", said.join("\n"));
        };
        let mut http = None;
        if more.contains("--http ") {
            let second = out.next_line().unwrap_or_default();
            http = second
                .strip_prefix("listening for HTTP on ")
                .and_then(|url| url.split_once("://"))
                .map(|(_scheme, address)| address.to_owned());
        }
        let address = address.to_owned();
        Self {
            process,
            out,
            errors,
            address,
            http,
        }
    }

    /// Waits until the process, which starts the server again after a failed write, prints the new address
    /// for CQL.
    #[track_caller]
    pub fn until_started_again(&mut self) {
        let prefix = "listening for CQL on ";
        let mut lines = std::iter::from_fn(|| self.out.next_line());
        let address = lines.find_map(|line| line.strip_prefix(prefix).map(str::to_owned));
        self.address = address.expect("the server closed its stdout");
    }

    /// Returns the number of sockets for jobs that the process has open.
    pub fn sockets_for_jobs(&self) -> usize {
        let process = procfs::process::Process::new(self.process.id() as i32).unwrap();
        let open: Vec<u64> = (process.fd().unwrap().flatten())
            .filter_map(|file| match file.target {
                FDTarget::Socket(inode) => Some(inode),
                _ => None,
            })
            .collect();
        let is_for_jobs = |path: &PathBuf| path.ends_with("jobs.sock");
        let sockets = procfs::net::unix().unwrap();
        (sockets.iter())
            .filter(|socket| socket.path.as_ref().is_some_and(is_for_jobs))
            .filter(|socket| open.contains(&socket.inode))
            .count()
    }

    /// Returns the number of child processes of the server, with those that have ended and are zombies.
    pub fn children(&self) -> usize {
        let own = self.process.id() as i32;
        let processes = procfs::process::all_processes().unwrap();
        let is_child = |process: &procfs::process::Process| {
            let stat = process.stat();
            stat.is_ok_and(|stat| stat.ppid == own)
        };
        processes.flatten().filter(is_child).count()
    }

    /// Returns the address for HTTP that the server printed.
    pub fn http(&self) -> &str {
        self.http.as_deref().expect("it was started with --http")
    }

    pub fn client(&self) -> Client {
        self.client_with(Compression::Lz4)
    }

    pub fn client_with(&self, compression: Compression) -> Client {
        let client = Client::connect(&*self.address, compression).unwrap();
        client.socket().set_read_timeout(Some(HANG)).unwrap();
        client
    }

    /// Stops the server with SIGTERM, as an operator does; returns its exit code.
    #[track_caller]
    pub fn stop(self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Makes each write of the server fail that would make a file longer than `bytes`.
    pub fn limit_file_bytes(&self, bytes: u64) {
        let pid = Pid::from_raw(self.process.id() as i32);
        let limit = Rlimit {
            current: Some(bytes),
            maximum: None,
        };
        prlimit(pid, Resource::Fsize, limit).unwrap();
    }

    /// Returns the next line of the log.
    #[track_caller]
    pub fn error_line(&mut self) -> String {
        self.errors.next_line().expect("the server closed its log")
    }

    /// Reads the log up to the first line that contains `text`, and returns that line.
    #[track_caller]
    pub fn error_line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.error_line();
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Waits until the server ends; returns its exit code.
    #[track_caller]
    pub fn wait(mut self) -> Option<i32> {
        until_some("the end of the server", || self.process.status()).code()
    }

    /// Returns the resident memory of the server, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let process = procfs::process::Process::new(self.process.id() as i32).unwrap();
        process.status().unwrap().vmrss.unwrap()
    }

    /// Kills the server with SIGKILL, as the system does when it is out of memory.
    pub fn kill(self) {
        self.process.kill();
    }
}

pub fn query(client: &mut Client, text: &str) -> Result<Response, ErrorKind> {
    let parameters = QueryParameters::default();
    match client.request(&Request::Query { text, parameters }) {
        Ok(response) => Ok(response),
        Err(ebb_cql::client::ClientError::Refused(error)) => Err(error.kind),
        Err(error) => panic!("{error}"),
    }
}

pub const KEYSPACE: &str = "CREATE KEYSPACE shop WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";

#[test]
fn what_is_made_through_a_server_is_there_for_the_next_one() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut client = server.client();
    query(&mut client, KEYSPACE).unwrap();
    query(&mut client, "CREATE TABLE shop.orders (id int PRIMARY KEY)").unwrap();
    // No other server opens the directory meanwhile; its error names the one that has it.
    let refused = place.ebb("serve --cql 127.0.0.1:0").fails(4);
    assert!(refused.contains("ebb serve"), "{refused}");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&place, "--durability sync --slo p99=2ms");
    let mut client = server.client();
    assert!(matches!(
        query(&mut client, KEYSPACE),
        Err(ErrorKind::AlreadyExists { keyspace, .. }) if keyspace == "shop"
    ));
    assert!(matches!(
        query(&mut client, "SELECT id FROM shop.orders"),
        Ok(Response::Rows(_))
    ));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn other_machines_are_let_in_only_on_request() {
    let place = Place::new();
    let refused = place.ebb("serve --cql 0.0.0.0:0").fails(2);
    assert!(
        refused.contains("--auth") && refused.contains("--insecure"),
        "{refused}"
    );
    assert!(!place.path("ebb-data").exists(), "nothing was made");
}

/// Regression: the demo listened without TLS at any address, and printed a token with it.
#[test]
fn the_demo_listens_on_loopback_addresses_only() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:9043"] {
        let demo = place.ebb(&format!("demo --seconds 5 --http {address}"));
        let refused = demo.fails(2);
        let tunnel = "ssh -L 9043:127.0.0.1:9043";
        assert!(refused.contains(tunnel), "{refused}");
    }
    assert!(!place.path("ebb-demo").exists(), "nothing was made");
}

#[test]
fn tls_is_reloaded_on_sighup_and_when_its_files_change() {
    let place = Place::new();
    let certify = || {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        place.write("server.pem", certified.cert.pem());
        place.write("server.key", certified.signing_key.serialize_pem());
    };
    certify();
    let mut server = Server::start(&place, "--tls-cert server.pem --tls-key server.key");
    match Client::connect(server.address(), Compression::None) {
        Err(ebb_cql::client::ClientError::Refused(error)) => {
            assert_eq!(error.message, "this port speaks TLS only");
        }
        other => panic!("{other:?}"),
    }
    if crate::signals::heard().contains(&"-HUP") {
        server.signal(Signal::HUP);
        server.error_line_with("the files were read again");
    }
    place.write("server.key", "nonsense");
    let told = server.error_line_with("the old files stay in use");
    assert!(told.contains("server.key"), "{told}");
    certify();
    // The server may see both files at once, or the certificate first.
    server.error_line_with("new files are in use");
    assert_eq!(server.stop(), Some(0));
}

/// A server in its start. It already listens for signals, and reads its certificate from a pipe, into
/// which the test has written nothing yet.
struct Starting {
    process: Running,
    out: Lines,
    errors: Lines,
    pipe: File,
    certificate: String,
}

impl Starting {
    #[track_caller]
    fn begin(place: &Place) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        place.write("server.key", certified.signing_key.serialize_pem());
        let path = place.path("server.pem");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let mut command =
            place.command("serve --cql 127.0.0.1:0 --tls-cert server.pem --tls-key server.key");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Running::start(&mut command);
        let out = Lines::of(process.child().stdout.take().unwrap());
        let errors = Lines::of(process.child().stderr.take().unwrap());
        // The flag makes `open` fail as long as the server has not opened the other end.
        let mut options = File::options();
        options
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let pipe = until_some("the server to read its certificate", || {
            options.open(&path).ok()
        });
        Self {
            process,
            out,
            errors,
            pipe,
            certificate: certified.cert.pem(),
        }
    }

    /// Sends the first SIGTERM, and waits until the server has logged it.
    #[track_caller]
    fn signal_once(&self) {
        self.process.signal(Signal::TERM);
        let mut lines = std::iter::from_fn(|| self.errors.next_line());
        let logged = lines.any(|line| line.contains("a second signal ends it at once"));
        assert!(logged, "the server closed its log");
    }

    #[track_caller]
    fn wait(&mut self) -> Option<i32> {
        until_some("the end of the server", || self.process.status()).code()
    }
}

/// Regression: signals that came during the start were read once it was done, and equal ones counted as one.
#[test]
fn a_second_signal_ends_a_server_in_its_start_at_once() {
    let place = Place::new();
    let mut server = Starting::begin(&place);
    server.signal_once();
    server.process.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(128 + 15));
}

/// Regression: the server began to listen, and started jobs again, before it stopped.
#[test]
fn a_server_that_is_stopped_in_its_start_ends_once_the_database_is_open() {
    let place = Place::new();
    let mut server = Starting::begin(&place);
    server.signal_once();
    let certificate = server.certificate.as_bytes();
    server.pipe.write_all(certificate).unwrap();
    // The server reads up to the end of the pipe.
    server.pipe = File::open("/dev/null").unwrap();
    assert_eq!(server.wait(), Some(0));
    assert_eq!(server.out.next_line(), None, "no address is printed");
    assert!(place.path("ebb-data").exists());
    assert_eq!(Server::start(&place, "").stop(), Some(0));
}

#[test]
fn files_of_tls_that_are_wrong_are_named_at_the_start() {
    let place = Place::new();
    let refused = place
        .ebb("serve --cql 127.0.0.1:0 --tls-cert a.pem")
        .fails(2);
    assert!(refused.contains("tls-key"), "{refused}");
    let refused = (place.ebb("serve --cql 127.0.0.1:0 --tls-cert a.pem --tls-key a.key")).fails(2);
    assert!(refused.contains("a.pem: No such file"), "{refused}");
    let refused = (place.ebb("serve --cql 127.0.0.1:0 --tls-client-optional")).fails(2);
    assert!(refused.contains("tls-client-optional"), "{refused}");
    assert!(!place.path("ebb-data").exists(), "nothing was made");
}

#[test]
fn the_first_superuser_has_a_password_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let mut server = Server::start(&place, "--auth");
    let told = server.error_line_with("ebb-data/superuser-password");
    let path = place.path("ebb-data/superuser-password");
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = std::fs::read_to_string(&path).unwrap();
    let password = password.trim();
    assert!(!told.contains(password), "it is not printed");
    let log_in = |server: &Server, password: &str| {
        Client::connect_as(server.address(), Compression::Lz4, Some(("ebb", password)))
    };
    assert!(Client::connect(server.address(), Compression::None).is_err());
    assert!(log_in(&server, "ebb").is_err());
    let mut client = log_in(&server, password).unwrap();
    query(&mut client, KEYSPACE).unwrap();
    query(
        &mut client,
        "CREATE ROLE ada WITH PASSWORD = 'a' AND LOGIN = true",
    )
    .unwrap();
    assert_eq!(server.stop(), Some(0));
    // The next start creates no other superuser, and the roles still exist.
    std::fs::remove_file(&path).unwrap();
    let server = Server::start(&place, "--authentication password");
    assert!(!path.exists());
    let credentials = Some(("ada", "a"));
    let mut ada = Client::connect_as(server.address(), Compression::None, credentials).unwrap();
    let refused = query(&mut ada, "DROP KEYSPACE shop").unwrap_err();
    assert_eq!(refused, ErrorKind::Unauthorized);
    drop(log_in(&server, password).unwrap());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn memory_is_one_budget_whose_parts_are_shown() {
    let place = Place::new();
    let server = Server::start(&place, "--memory 256MiB");
    let stats = place.ebb("stats --json").json();
    let memory = &stats["memory"];
    assert_eq!(memory["all_bytes"], 256 << 20);
    assert_eq!(memory["store_bytes"], 168 << 20);
    assert_eq!(stats["memory_bytes_max"], memory["store_bytes"]);
    assert_eq!(stats["memtable_bytes_max"], 42 << 20);
    let shown = place.ebb("stats").ok();
    let budget = "budget     256.00 MiB in all: store 168.00 MiB, requests 32.00 MiB, ";
    assert!(shown.contains(budget), "{shown}");
    assert_eq!(server.stop(), Some(0));
    let former = Server::start(&place, "--memory-bytes 64MiB");
    let stats = place.ebb("stats --json").json();
    assert_eq!(stats["memory"]["all_bytes"], 64 << 20);
    assert_eq!(former.stop(), Some(0));
    let own = place.ebb("stats --json").json();
    assert_eq!(own.get("memory"), None);
}

#[test]
fn settings_come_from_flags_before_the_environment_before_a_file() {
    let place = Place::new();
    place.write("ebb.toml", "durability = \"sync\"\nconnections-max = 5\n");
    place.ebb("config check ebb.toml").ok();
    let shown = output(
        place
            .command("config show --config ebb.toml --cluster-name here")
            .env("EBB_CONNECTIONS_MAX", "6")
            .env("EBB_MEMORY_BYTES", "1GiB"),
    );
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        "durability = \"sync\"",
        "connections-max = 6",
        "memory = \"1 GiB\"",
        "cluster-name = \"here\"",
        "cql = \"127.0.0.1:9042\"",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    place.write("ebb.toml", "durabilty = \"sync\"\n");
    let refused = place.ebb("config check ebb.toml").fails(2);
    assert!(refused.contains("did you mean durability?"), "{refused}");
    place.ebb("serve --config ebb.toml").fails(2);
}
