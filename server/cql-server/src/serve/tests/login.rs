//! Clients that log in, or try to.

use ebb_model::access::Role;
use ebb_storage::ManualClock;
use ebb_storage::simulation::MemDisk;

use super::*;
use crate::access::{AUTHENTICATOR, hash};
use crate::activity::Activity;
use crate::executor::Executor;
use crate::read::Limits;
use crate::testing::{BEGIN_MS, local_node, open};

/// Starts a server with a superuser `root`, whose password is also `root`.
fn with_root(options: ServeOptions) -> (Arc<Executor>, CqlServer) {
    let catalog = open(&MemDisk::new(), &ManualClock::at_ms(BEGIN_MS), |options| {
        options
    });
    let executor = Executor::at_normal_priority(catalog, local_node(), Limits::default())
        .showing(options.activity.clone())
        .asking_for_login();
    let executor = Arc::new(executor);
    let options = ServeOptions {
        address: ([127, 0, 0, 1], 0).into(),
        threads: 2,
        ..options
    };
    let server = CqlServer::start(executor.clone(), None, options).unwrap();
    let roles = executor.catalog().roles();
    let root = Role {
        id: 1,
        is_superuser: true,
        can_login: true,
        password_hash: Some(hash("root").unwrap()),
        ..Role::default()
    };
    let made = roles.change(|roles| roles.with_new("root", root).map(Some));
    made.unwrap().unwrap();
    (executor, server)
}

/// Starts a server like [`with_root`], with a table and with another role `ada`, whose password is
/// also `ada`.
pub(super) fn server(options: ServeOptions) -> (Arc<Executor>, CqlServer) {
    let (executor, server) = with_root(options);
    let mut client = Client::logged_in(&server, "root");
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY)",
        "CREATE ROLE ada WITH PASSWORD = 'ada' AND LOGIN = true",
    ] {
        client.run(text);
    }
    (executor, server)
}

pub(super) fn token(name: &str, password: &str) -> Vec<u8> {
    format!("\0{name}\0{password}").into_bytes()
}

impl Client {
    /// Connects, sends STARTUP, and expects AUTHENTICATE.
    fn unauthenticated(server: &CqlServer) -> Self {
        Self::raw(server).expect_authenticate()
    }

    /// Connects, and logs in as a role whose password is its name.
    pub(super) fn logged_in(server: &CqlServer, name: &str) -> Self {
        let mut client = Self::unauthenticated(server);
        client.log_in_as(name);
        client
    }
}

impl<T: Read + Write> Client<T> {
    /// Sends STARTUP and expects AUTHENTICATE.
    pub(super) fn expect_authenticate(mut self) -> Self {
        let authenticator = AUTHENTICATOR.to_owned();
        let asked = Response::Authenticate { authenticator };
        assert_eq!(self.start(), asked);
        self
    }

    /// Sends STARTUP and returns the response.
    pub(super) fn start(&mut self) -> Response {
        let options = vec![("CQL_VERSION", "3.4.6")];
        self.send(0, &Request::Startup(Startup { options }));
        self.response()
    }

    pub(super) fn log_in(&mut self, token: &[u8]) -> Response {
        self.send(1, &Request::AuthResponse { token: Some(token) });
        self.response()
    }

    /// Logs in as a role whose password is its name.
    #[track_caller]
    pub(super) fn log_in_as(&mut self, name: &str) {
        let success = Response::AuthSuccess { token: None };
        assert_eq!(self.log_in(&token(name, name)), success);
    }

    pub(super) fn run(&mut self, text: &str) -> Response {
        self.query(2, text);
        match self.response() {
            Response::Error(error) => panic!("{text}: {error}"),
            response => response,
        }
    }

    pub(super) fn refused(&mut self, text: &str) -> ErrorResponse {
        self.query(2, text);
        self.error()
    }
}

#[test]
fn a_client_logs_in_once() {
    let (_, server) = server(options());
    let mut ada = Client::logged_in(&server, "ada");
    let Response::Error(error) = ada.log_in(&token("root", "root")) else {
        panic!("ada is root now");
    };
    assert_eq!(error.kind, ErrorKind::Protocol);
    let expected = "Unexpected message AUTH_RESPONSE, no login is expected";
    assert_eq!(error.message, expected);
    let select = "SELECT * FROM ks.t";
    assert_eq!(ada.refused(select).kind, ErrorKind::Unauthorized);
}

#[test]
fn a_logged_in_client_has_its_permissions_until_they_are_revoked() {
    let (_, server) = server(options());
    let mut root = Client::logged_in(&server, "root");
    let mut ada = Client::logged_in(&server, "ada");
    let select = "SELECT * FROM ks.t";
    assert_eq!(ada.refused(select).kind, ErrorKind::Unauthorized);
    ada.run("SELECT * FROM system.local");
    root.run("GRANT SELECT ON ks.t TO ada");
    let (id, parameters) = (prepared(&mut ada, select), parameters());
    let execute = Request::Execute {
        id: &id,
        parameters,
    };
    for _ in 0..3 {
        ada.send(4, &execute);
        assert!(matches!(ada.response(), Response::Rows(_)));
    }
    root.run("REVOKE SELECT ON ks.t FROM ada");
    ada.send(4, &execute);
    let error = ada.error();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert_eq!(
        error.message,
        "User ada has no SELECT permission on <table ks.t> or any of its parents"
    );
    root.run("DROP ROLE ada");
    // Without the role not even this is permitted, which every logged-in client may read.
    let error = ada.refused("SELECT * FROM system.local");
    assert_eq!(error.message, "Role ada doesn't exist any more");
}

#[test]
fn bad_credentials_return_cassandras_error_and_may_be_corrected() {
    let (_, server) = server(options());
    let mut client = Client::unauthenticated(&server);
    for (token, message) in [
        (
            token("ada", "Ada"),
            "Provided username ada and/or password are incorrect",
        ),
        (
            token("bob", "bob"),
            "Provided username bob and/or password are incorrect",
        ),
        (token("", ""), "Password must not be null"),
        (Vec::new(), "Password must not be null"),
        (
            token("ada", &"a".repeat(10_000)),
            "Credential format error: username and password are longer than 4096 bytes",
        ),
    ] {
        let Response::Error(error) = client.log_in(&token) else {
            panic!("{message}");
        };
        assert_eq!(error.kind, ErrorKind::BadCredentials);
        assert_eq!(error.message, message);
    }
    client.log_in_as("ada");
    client.run("SELECT * FROM system.local");
    let Response::Error(error) = client.log_in(&token("root", "root")) else {
        panic!("it is logged in already");
    };
    assert_eq!(error.kind, ErrorKind::Protocol);
    client.refused("SELECT * FROM system_auth.roles");
}

#[test]
fn wrong_passwords_block_further_logins_from_the_address() {
    // The smallest limit. With it a new token takes the longest: half an hour.
    let (_, server) = server(ServeOptions {
        login_failures_max: 2,
        logins_max: 1,
        ..options()
    });
    let message = |client: &mut Client, name: &str, password: &str| match client
        .log_in(&token(name, password))
    {
        Response::Error(error) => {
            assert_eq!(error.kind, ErrorKind::BadCredentials);
            error.message
        }
        other => format!("{other:?}"),
    };
    // Successful logins do not count.
    for _ in 0..8 {
        Client::logged_in(&server, "ada");
    }
    let mut client = Client::unauthenticated(&server);
    for name in ["ada", "bob"] {
        let told = message(&mut client, name, "wrong");
        assert!(told.ends_with("and/or password are incorrect"), "{told}");
    }
    // A right password is rejected, too: otherwise a guess would be confirmed.
    for password in ["wrong", "ada"] {
        let told = message(&mut Client::unauthenticated(&server), "ada", password);
        assert_eq!(
            told,
            "Too many failed logins from this address; try again later"
        );
    }
}

#[test]
fn before_the_login_no_request_is_served() {
    let activity = Arc::new(Activity::default());
    let (executor, server) = server(ServeOptions {
        activity: activity.clone(),
        ..options()
    });
    let requests_of = |client: &mut Client| {
        let (text, keyspace) = ("CREATE TABLE ks.u (k int PRIMARY KEY)", None);
        let (id, parameters) = (&b"x"[..], parameters());
        for (request, name) in [
            (Request::Query { text, parameters }, "QUERY"),
            (Request::Prepare { text, keyspace }, "PREPARE"),
            (Request::Execute { id, parameters }, "EXECUTE"),
            (Request::Register(EventTypes::default()), "REGISTER"),
        ] {
            let Response::Error(error) = client.traced(&request).response else {
                panic!("{name} is served");
            };
            assert_eq!(error.kind, ErrorKind::Protocol);
            let expected = format!("Unexpected message {name}, expecting SASL_RESPONSE");
            assert_eq!(error.message, expected);
        }
    };
    let mut client = Client::unauthenticated(&server);
    requests_of(&mut client);
    client.send(1, &Request::Options);
    assert!(matches!(client.response(), Response::Supported { .. }));
    // This stays so after a wrong password.
    client.log_in(&token("ada", "wrong"));
    requests_of(&mut client);
    assert!(executor.catalog().state().table("ks", "u").is_none());
    assert!(activity.traces().is_empty());
    // Before the login a body may have 16 KiB: the requests of a login are short.
    client.query(1, &"x".repeat(20 << 10));
    assert_eq!(client.error().kind, ErrorKind::Protocol);
    assert!(client.try_receive().is_none(), "the connection is closed");
}

/// A segment (a unit of version 5 of the protocol) that is longer than any login is rejected when
/// its header is received; its bytes are neither collected nor decompressed.
#[test]
fn before_the_login_segments_are_short() {
    let (_, server) = server(options());
    let text = &"x".repeat(20 << 10);
    let long = Request::Query {
        text,
        parameters: parameters(),
    };
    for compression in [Compression::None, Compression::Lz4] {
        let mut client = Client::raw5(&server);
        let asked = client.start5(compression);
        assert!(matches!(asked, Response::Authenticate { .. }), "{asked:?}");
        let (mut frame, mut sealed) = (BytesMut::new(), BytesMut::new());
        long.encode(&mut frame, 1, Version::V5);
        Segments::new(compression).seal(&frame, &mut sealed);
        client.stream.write_all(&sealed[..100]).unwrap();
        let error = client.error();
        assert_eq!(error.kind, ErrorKind::Protocol);
        let told = format!(
            "the payload of a frame has {} bytes; the limit is {}",
            frame.len(),
            (16 << 10) + 9
        );
        assert_eq!(error.message, told);
        assert!(client.try_receive().is_none(), "the connection is closed");
        // After the login segments may be longer.
        let mut client = Client::raw5(&server);
        client.start5(compression);
        client.log_in_as("ada");
        client.send(1, &long);
        assert_eq!(client.error().kind, ErrorKind::Syntax);
    }
}

#[test]
fn connections_that_do_not_log_in_are_closed() {
    let (_, server) = with_root(ServeOptions {
        login_timeout: Duration::from_millis(300),
        ..options()
    });
    // The server verifies the password once, however long that takes. A later login takes no time.
    let mut logged_in = wait::until_some("a client to log in in time", || {
        let mut client = Client::unauthenticated(&server);
        let token = token("root", "root");
        let token = Some(&token[..]);
        client.try_send(1, &Request::AuthResponse { token }).ok()?;
        let (_, answer) = client.try_receive()?;
        assert_eq!(answer.response, Response::AuthSuccess { token: None });
        Some(client)
    });
    let mut silent = Client::unauthenticated(&server);
    assert!(silent.try_receive().is_none(), "the connection is closed");
    // The deadline for the login has passed for the first client, too.
    logged_in.run("SELECT * FROM system.local");
}

#[test]
fn traces_require_a_permission_and_contain_no_password() {
    let activity = Arc::new(Activity::default());
    let (_, server) = server(ServeOptions {
        activity: activity.clone(),
        ..options()
    });
    let traced = |client: &mut Client, text: &str| {
        let parameters = parameters();
        client.traced(&Request::Query { text, parameters })
    };
    let mut ada = Client::logged_in(&server, "ada");
    let Response::Error(error) = traced(&mut ada, "SELECT * FROM system.local").response else {
        panic!("it is refused");
    };
    assert_eq!(
        error.message,
        "User ada has no SELECT permission on <keyspace system_traces> or any of its parents"
    );
    assert!(activity.traces().is_empty());
    let users = activity.clients();
    let users: Vec<_> = users.iter().map(|client| client.info().user).collect();
    assert_eq!(users.last(), Some(&Some("ada".into())));
    let mut root = Client::logged_in(&server, "root");
    for text in [
        "CREATE ROLE bob WITH LOGIN = true AND PASSWORD = 'geheim'",
        "/* x */ alter user bob with password 'geheim'",
        "CREATE ROLE bob WITH PASSWORD = 'geheim' x",
    ] {
        assert!(traced(&mut root, text).tracing_id.is_some());
    }
    assert_eq!(activity.traces().len(), 3);
    assert!(!format!("{:?}", activity.traces()).contains("geheim"));
    root.run("GRANT SELECT ON KEYSPACE system_traces TO ada");
    let select = "SELECT key, cluster_name AS password FROM system.local";
    assert!(traced(&mut ada, select).tracing_id.is_some());
    assert!(format!("{:?}", activity.traces()).contains(select));
}

/// Regression: after a login was rejected for lack of memory, every later login on the connection
/// was refused, as if the first one were still being verified.
#[test]
fn a_login_that_is_rejected_for_lack_of_memory_may_be_repeated() {
    let clock = ManualClock::at_ms(BEGIN_MS);
    let catalog = open(&MemDisk::new(), &clock, |options| options);
    let ada = Role {
        id: 1,
        can_login: true,
        password_hash: Some(hash("ada").unwrap()),
        ..Role::default()
    };
    let made = (catalog.roles()).change(|roles| roles.with_new("ada", ada).map(Some));
    made.unwrap().unwrap();
    let fake = Fake {
        login: Some(Login::new(catalog)),
        ..Fake::default()
    };
    // The memory for waiting requests is twice the longest body.
    let body_bytes_max = 20 << 10;
    let (_, server) = serving(
        fake,
        ServeOptions {
            body_bytes_max,
            request_bytes_max: 0,
            ..options()
        },
    );
    let mut scans = Client::logged_in(&server, "ada");
    for stream in 1..=2 {
        scans.query(
            stream,
            &format!("scan {}", " ".repeat(body_bytes_max - 100)),
        );
    }
    // Once this is answered, both scans have taken their memory.
    scans.assert_served(3);
    let mut client = Client::unauthenticated(&server);
    // The longest permitted token: a request with a shorter body takes no memory.
    let long = token("ada", &"a".repeat(4096 - "\0ada\0".len()));
    let Response::Error(error) = client.log_in(&long) else {
        panic!("it is rejected");
    };
    assert_eq!(error.kind, ErrorKind::Overloaded);
    client.log_in_as("ada");
}

#[test]
fn a_login_past_its_deadline_is_rejected_without_verification() {
    let (executor, server) = with_root(ServeOptions {
        request_timeout: Duration::ZERO,
        ..options()
    });
    let mut client = Client::unauthenticated(&server);
    let Response::Error(error) = client.log_in(&token("root", "root")) else {
        panic!("it is refused");
    };
    assert_eq!(error.kind, ErrorKind::Overloaded);
    let login = executor.login().unwrap();
    assert!(
        login
            .recall(Some(&token("root", "root")))
            .unwrap()
            .is_none()
    );
}

/// At most `logins_max` passwords are verified at a time. The password of a role is verified only
/// once for all connections that log in with it, and meanwhile other requests are answered.
#[test]
fn many_logins_at_once_all_succeed() {
    let (_, server) = server(ServeOptions {
        logins_max: 1,
        ..options()
    });
    let mut root = Client::logged_in(&server, "root");
    root.run("ALTER ROLE ada WITH PASSWORD = 'new'");
    let verified = server.counters().counts().passwords_verified;
    let mut clients: Vec<_> = (0..20).map(|_| Client::unauthenticated(&server)).collect();
    let token = token("ada", "new");
    for client in &mut clients {
        // The second login while the first one is being verified is rejected.
        for stream in [1, 2] {
            let token = Some(&token[..]);
            client.send(stream, &Request::AuthResponse { token });
        }
    }
    root.run("SELECT * FROM ks.t");
    for client in &mut clients {
        let [first, second] = client.in_order().map(|answer| answer.response);
        assert_eq!(first, Response::AuthSuccess { token: None });
        assert!(matches!(second, Response::Error(error) if error.kind == ErrorKind::Protocol));
        client.run("SELECT * FROM system.local");
    }
    let counts = server.counters().counts();
    assert_eq!(counts.passwords_verified - verified, 1);
}
