//! Clients that log in, or try to.

use ebb_catalog::access::Role;
use ebb_storage::ManualClock;
use ebb_storage::simulation::MemDisk;

use super::*;
use crate::access::{AUTHENTICATOR, hash};
use crate::activity::Activity;
use crate::executor::Executor;
use crate::read::Limits;
use crate::testing::{BEGIN_MS, local_node, open};

/// A server with a superuser `root`, whose name is its password.
fn with_root(options: ServeOptions) -> (Arc<Executor>, CqlServer) {
    let catalog = open(
        &MemDisk::new(),
        &ManualClock::at_ms(BEGIN_MS),
        |options, _| options,
    );
    let executor = Executor::new(catalog, local_node(), Limits::default())
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

/// The same with a role `ada` like that, and a table.
fn server(options: ServeOptions) -> (Arc<Executor>, CqlServer) {
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

fn token(name: &str, password: &str) -> Vec<u8> {
    format!("\0{name}\0{password}").into_bytes()
}

impl Client {
    /// One that was asked who it is.
    fn asked(server: &CqlServer) -> Self {
        let mut client = Self::raw(server);
        let options = vec![("CQL_VERSION", "3.4.6")];
        client.send(0, &Request::Startup(Startup { options }));
        let authenticator = AUTHENTICATOR.to_owned();
        let asked = Response::Authenticate { authenticator };
        assert_eq!(client.receive().1.response, asked);
        client
    }

    fn log_in(&mut self, token: &[u8]) -> Response {
        self.send(1, &Request::AuthResponse { token: Some(token) });
        self.receive().1.response
    }

    /// One whose password is its name.
    fn logged_in(server: &CqlServer, name: &str) -> Self {
        let mut client = Self::asked(server);
        let success = Response::AuthSuccess { token: None };
        assert_eq!(client.log_in(&token(name, name)), success);
        client
    }

    fn run(&mut self, text: &str) -> Response {
        self.query(2, text);
        match self.receive().1.response {
            Response::Error(error) => panic!("{text}: {error}"),
            response => response,
        }
    }

    fn refused(&mut self, text: &str) -> ErrorResponse {
        self.query(2, text);
        self.error()
    }
}

#[test]
fn who_logs_in_may_do_what_was_granted_until_it_is_revoked() {
    let (_, server) = server(ServeOptions::default());
    let mut root = Client::logged_in(&server, "root");
    let mut ada = Client::logged_in(&server, "ada");
    let select = "SELECT * FROM ks.t";
    assert_eq!(ada.refused(select).kind, ErrorKind::Unauthorized);
    ada.run("SELECT * FROM system.local");
    root.run("GRANT SELECT ON ks.t TO ada");
    ada.send(3, &Request::Prepare { text: select });
    let Response::Prepared(prepared) = ada.receive().1.response else {
        panic!("it can be prepared");
    };
    let execute = Request::Execute {
        id: &prepared.id,
        parameters: parameters(),
    };
    for _ in 0..3 {
        ada.send(4, &execute);
        assert!(matches!(ada.receive().1.response, Response::Rows(_)));
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
    // Nothing at all, although all may read it who are logged in: that it is not.
    let error = ada.refused("SELECT * FROM system.local");
    assert_eq!(error.message, "Role ada doesn't exist any more");
}

#[test]
fn bad_credentials_are_told_as_cassandra_tells_them_and_may_be_mended() {
    let (_, server) = server(ServeOptions::default());
    let mut client = Client::asked(&server);
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
    let success = Response::AuthSuccess { token: None };
    assert_eq!(client.log_in(&token("ada", "ada")), success);
    client.run("SELECT * FROM system.local");
    let Response::Error(error) = client.log_in(&token("root", "root")) else {
        panic!("it is logged in already");
    };
    assert_eq!(error.kind, ErrorKind::Protocol);
    client.refused("SELECT * FROM system_auth.roles");
}

#[test]
fn before_the_login_there_is_nothing_to_be_had() {
    let activity = Arc::new(Activity::default());
    let (executor, server) = server(ServeOptions {
        activity: activity.clone(),
        ..ServeOptions::default()
    });
    let requests_of = |client: &mut Client| {
        let text = "CREATE TABLE ks.u (k int PRIMARY KEY)";
        let parameters = parameters();
        for (request, name) in [
            (Request::Query { text, parameters }, "QUERY"),
            (Request::Prepare { text }, "PREPARE"),
            (
                Request::Execute {
                    id: b"x",
                    parameters,
                },
                "EXECUTE",
            ),
            (Request::Register(EventTypes::default()), "REGISTER"),
        ] {
            let mut bytes = BytesMut::new();
            request.encode(&mut bytes, 5, Compression::None);
            // The flag for a trace.
            bytes[1] |= 2;
            client.stream.write_all(&bytes).unwrap();
            let error = client.error();
            assert_eq!(error.kind, ErrorKind::Protocol);
            let expected = format!("Unexpected message {name}, expecting SASL_RESPONSE");
            assert_eq!(error.message, expected);
        }
    };
    let mut client = Client::asked(&server);
    requests_of(&mut client);
    client.send(1, &Request::Options);
    assert!(matches!(
        client.receive().1.response,
        Response::Supported { .. }
    ));
    // A wrong password changes nothing of it, and neither does one that is being verified.
    client.log_in(&token("ada", "wrong"));
    requests_of(&mut client);
    assert!(executor.catalog().state().table("ks", "u").is_none());
    assert!(activity.traces().is_empty());
    // Nobody sends much before.
    client.query(1, &"x".repeat(20 << 10));
    assert_eq!(client.error().kind, ErrorKind::Protocol);
    assert!(client.try_receive().is_none(), "the connection is closed");
}

#[test]
fn who_does_not_log_in_is_cut_off_and_who_does_is_not() {
    let (_, server) = server(ServeOptions {
        login_timeout: Duration::from_millis(300),
        ..ServeOptions::default()
    });
    let mut idle = Client::logged_in(&server, "ada");
    let mut waits = Client::asked(&server);
    assert!(waits.try_receive().is_none(), "the connection is closed");
    idle.run("SELECT * FROM system.local");
}

#[test]
fn traces_take_a_permission_and_tell_no_password() {
    let activity = Arc::new(Activity::default());
    let (_, server) = server(ServeOptions {
        activity: activity.clone(),
        ..ServeOptions::default()
    });
    let traced = |client: &mut Client, text: &str| {
        let mut bytes = BytesMut::new();
        let parameters = parameters();
        Request::Query { text, parameters }.encode(&mut bytes, 6, Compression::None);
        bytes[1] |= 2;
        client.stream.write_all(&bytes).unwrap();
        client.receive().1
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
    let users: Vec<_> = users.iter().map(|client| client.said().user).collect();
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

#[test]
fn who_has_waited_too_long_for_a_verification_is_told_and_costs_none() {
    let (executor, server) = with_root(ServeOptions {
        request_timeout: Duration::ZERO,
        ..ServeOptions::default()
    });
    let mut client = Client::asked(&server);
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

/// Passwords are verified a few at a time, and meanwhile requests are answered.
#[test]
fn many_who_log_in_at_once_are_all_let_in() {
    let (_, server) = server(ServeOptions {
        logins_max: 1,
        ..ServeOptions::default()
    });
    let mut root = Client::logged_in(&server, "root");
    root.run("ALTER ROLE ada WITH PASSWORD = 'new'");
    let mut clients: Vec<_> = (0..20).map(|_| Client::asked(&server)).collect();
    for client in &mut clients {
        let token = token("ada", "new");
        client.send(
            1,
            &Request::AuthResponse {
                token: Some(&token),
            },
        );
        // Two of them at once would be one too many.
        client.send(
            2,
            &Request::AuthResponse {
                token: Some(&token),
            },
        );
    }
    root.run("SELECT * FROM ks.t");
    for client in &mut clients {
        let answers = [(); 2].map(|()| client.receive());
        let of = |stream| {
            &answers
                .iter()
                .find(|(it, _)| *it == stream)
                .unwrap()
                .1
                .response
        };
        assert_eq!(*of(1), Response::AuthSuccess { token: None });
        assert!(matches!(of(2), Response::Error(error) if error.kind == ErrorKind::Protocol));
        client.run("SELECT * FROM system.local");
    }
}
