//! `ebb serve` as its user starts, asks and stops it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use ebb_cql::client::Client;
use ebb_cql::protocol::{
    Compression, Consistency, ErrorKind, QueryParameters, Request, Response, Values,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// A server on a free port, which is killed when a test fails.
pub struct Server {
    child: Child,
    errors: BufReader<ChildStderr>,
    address: String,
    http: Option<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    pub fn start(place: &Place, more: &str) -> Self {
        let mut child = place
            .command(&format!("serve --cql 127.0.0.1:0 {more}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let Some(address) = line.trim().strip_prefix("listening for CQL on ") else {
            let mut told = String::new();
            errors.read_to_string(&mut told).unwrap();
            panic!("{line:?}: {told}");
        };
        let address = address.to_owned();
        let mut http = None;
        if more.contains("--http ") {
            line.clear();
            out.read_line(&mut line).unwrap();
            http = line
                .trim()
                .strip_prefix("listening for HTTP on http://")
                .map(str::to_owned);
        }
        // It goes on printing.
        child.stdout = Some(out.into_inner());
        Self {
            child,
            errors,
            address,
            http,
        }
    }

    /// Where it listens for HTTP, as it said.
    pub fn http(&self) -> &str {
        self.http.as_deref().expect("it was started with --http")
    }

    pub fn client(&self) -> Client {
        let client = Client::connect(&*self.address, Compression::Lz4).unwrap();
        (client
            .socket()
            .set_read_timeout(Some(Duration::from_secs(20))))
        .unwrap();
        client
    }

    /// Stops it as an operator does; gives its exit code.
    pub fn stop(mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line that it tells its operator; empty at its end.
    pub fn error_line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    /// Its exit code, once it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap();
        status.and_then(|status| status.code())
    }

    /// Its exit code, waited for.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Memory that it takes, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let process = procfs::process::Process::new(self.child.id() as i32).unwrap();
        process.status().unwrap().vmrss.unwrap()
    }

    /// Kills it, as the system does that is out of memory.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub fn query(client: &mut Client, text: &str) -> Result<Response, ErrorKind> {
    let parameters = QueryParameters {
        consistency: Consistency::One,
        values: Values::default(),
        skip_metadata: false,
        page_size_rows: None,
        paging_state: None,
        serial_consistency: None,
        timestamp_us: None,
        keyspace: None,
        now_s: None,
        result_metadata_id: None,
    };
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
    // Nobody else gets at the directory meanwhile, and is told who has it.
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
fn only_who_asks_for_it_lets_other_machines_in() {
    let place = Place::new();
    let refused = place.ebb("serve --cql 0.0.0.0:0").fails(2);
    assert!(
        refused.contains("--auth") && refused.contains("--insecure"),
        "{refused}"
    );
    assert!(!place.path("ebb-data").exists(), "nothing was made");
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
        assert!(server.error_line().contains("the files were read again"));
    }
    place.write("server.key", "nonsense");
    let told = server.error_line();
    assert!(told.contains("the old files stay in use"), "{told}");
    assert!(told.contains("server.key"), "{told}");
    certify();
    // Both may be seen at once, or the certificate first.
    while !server.error_line().contains("new files are in use") {}
    assert_eq!(server.stop(), Some(0));
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
    let told = server.error_line();
    let path = place.path("ebb-data/superuser-password");
    assert!(told.contains("ebb-data/superuser-password"), "{told}");
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
    // The next start makes no other one, and roles are there again.
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
fn settings_come_from_flags_before_the_environment_before_a_file() {
    let place = Place::new();
    place.write("ebb.toml", "durability = \"sync\"\nconnections-max = 5\n");
    place.ebb("config check ebb.toml").ok();
    let shown = place
        .command("config show --config ebb.toml --cluster-name here")
        .env("EBB_CONNECTIONS_MAX", "6")
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        "durability = \"sync\"",
        "connections-max = 6",
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
