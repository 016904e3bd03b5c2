//! The log of a server, as its operator reads it.

use ebb_cql::client::{Client, ClientError};
use ebb_cql::protocol::Compression;
use rustix::process::Signal;
use serde_json::Value;

use crate::http::get;
use crate::place::Place;
use crate::serving::{Server, query};

/// A name with a line feed: if the log did not escape it, the name would forge a line of the log.
const FORGED: &str = "eve\nERROR cql: forged";

fn connect(server: &Server, name: &str, password: &str) -> Result<Client, ClientError> {
    Client::connect_as(server.address(), Compression::Lz4, Some((name, password)))
}

#[test]
fn programs_find_the_start_logins_administration_and_the_end() {
    let place = Place::new();
    let mut server = Server::start(&place, "--auth --log-format json");
    let password = place.read("ebb-data/superuser-password");
    let line = |server: &mut Server, message: &str| -> Value {
        let message = format!("\"message\":\"{message}\"");
        serde_json::from_str(&server.error_line_with(&message)).unwrap()
    };
    let started = line(&mut server, "started");
    assert_eq!(started["cql"], server.address());
    assert!(started["tables"].is_u64(), "{started}");
    assert_eq!(started["wal_bytes_replayed"], 0, "nothing was there");
    assert!(connect(&server, FORGED, "secret").is_err());
    let refused = line(&mut server, "login refused");
    assert_eq!(
        (&refused["user"], &refused["target"]),
        (&FORGED.into(), &"cql".into())
    );
    assert!(!refused.to_string().contains("secret"), "{refused}");
    let mut client = connect(&server, "ebb", password.trim()).unwrap();
    query(&mut client, "CREATE ROLE ada WITH PASSWORD = 'secret'").unwrap();
    let made = line(&mut server, "administration");
    assert_eq!(
        (&made["user"], &made["statement"]),
        (&"ebb".into(), &"CREATE ROLE ada WITH PASSWORD = ?".into())
    );
    server.signal(Signal::TERM);
    assert_eq!(line(&mut server, "stopped")["level"], "INFO");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn people_find_them_too_and_choose_areas() {
    let place = Place::new();
    let flags = "--auth --log-format human --log off,cql=info";
    let mut server = Server::start(&place, flags);
    let password = place.read("ebb-data/superuser-password");
    server.error_line_with(" INFO cql: there was no superuser");
    assert!(connect(&server, FORGED, "secret").is_err());
    let refused = server.error_line_with(" WARN cql: login refused ");
    let user = "user=\"eve\\nERROR cql: forged\" ";
    assert!(refused.contains(user), "{refused}");
    let mut client = connect(&server, "ebb", password.trim()).unwrap();
    query(&mut client, "CREATE ROLE ada WITH PASSWORD = 'secret'").unwrap();
    let made = server.error_line_with(" INFO cql: administration user=\"ebb\" ");
    assert!(made.contains("PASSWORD = ?"), "{made}");
    assert_eq!(server.stop(), Some(0));
    let refused = place.ebb("serve --log info,disk=debug").refused();
    assert!(refused.contains("storage"), "{refused}");
}

#[test]
fn reads_over_http_name_their_tokens_without_the_secrets() {
    let place = Place::new();
    let flags = "--http 127.0.0.1:0 --log-format json --log off,http=debug";
    let mut server = Server::start(&place, flags);
    let create = "token create --name grafana --scope read";
    let token = place.ebb(create).ok();
    let token = token.trim();
    let (_, secret) = token.rsplit_once('_').unwrap();
    assert_eq!(get(server.http(), "/health/live", token).0, 200);
    assert_eq!(get(server.http(), "/v1/jobs?limit=1", token).0, 200);
    let read = server.error_line_with("\"message\":\"read\"");
    assert!(!read.contains(secret), "{read}");
    let read: Value = serde_json::from_str(&read).unwrap();
    let id = token.split('_').nth(1).unwrap();
    for (field, value) in [
        ("level", "DEBUG"),
        ("target", "http"),
        ("name", "grafana"),
        ("token", id),
        // The first line: a health check needs no token.
        ("request", "GET /v1/jobs"),
    ] {
        assert_eq!(read[field], value, "{read}");
    }
    assert_eq!(read["status"], 200);
    assert_eq!(server.stop(), Some(0));
}
