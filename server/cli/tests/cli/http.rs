//! HTTP and tokens, as a script uses them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use ebb_test_support::wait::{HANG, until_some};
use serde_json::Value;

use crate::place::{Place, Running, closed};
use crate::serving::{Server, query};

/// Sends a GET request, and returns the status and the body of the response.
pub fn get(address: &str, path: &str, token: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[test]
fn the_name_of_a_token_stays_in_its_line_of_the_list() {
    let place = Place::new();
    place.ebb("put --create app.t k v").ok();
    let mut create = place.command("token create --scope read --name");
    let created = crate::place::output(create.arg("two\nlines"));
    assert!(created.status.success(), "{created:?}");
    let listed = place.ebb("token list").ok();
    assert!(listed.contains("two\\u000alines"), "{listed}");
}

/// Regression: the token was created although its text was lost, and so stayed valid.
#[test]
fn a_token_that_cannot_be_printed_is_not_created() {
    let place = Place::new();
    place.ebb("put --create app.t k v").ok();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut create = place.command("token create --scope admin");
    create.stdout(full).stderr(Stdio::piped());
    let created = Running::start(&mut create).output();
    assert_eq!(created.status.code(), Some(8), "{created:?}");
    // Regression: without a reader, the exit code was 0.
    create.stdout(closed());
    let created = Running::start(&mut create).output();
    assert_eq!(created.status.code(), Some(1), "{created:?}");
    assert_eq!(place.ebb("token list").ok(), "no tokens yet\n");
}

/// Checks only the metrics that the crate `ebb-cli` exports. A test of the crate `ebb-server` checks
/// the others.
#[test]
fn the_alert_rules_and_the_dashboard_query_metrics_of_the_command_that_exist() {
    let place = Place::new();
    let server = Server::start(&place, "--http 127.0.0.1:0");
    let token = place.ebb("token create --scope read").ok();
    let (_, metrics) = get(server.http(), "/metrics", token.trim());
    let monitoring = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring");
    let files = ["alerts.yml", "grafana.json"];
    let queries = files.map(|file| std::fs::read_to_string(monitoring.join(file)).unwrap());
    let queries = queries.concat();
    let words = queries.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let of_command = ["ebb_cql_", "ebb_last_reopening_"];
    let is_of_command = |word: &&str| of_command.iter().any(|start| word.starts_with(start));
    let names: Vec<&str> = words.filter(is_of_command).collect();
    assert!(!names.is_empty());
    for name in names {
        let has = |end: char| metrics.contains(&format!("\n{name}{end}"));
        assert!(has(' ') || has('{'), "{name}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_token_is_made_used_listed_and_revoked_while_a_server_runs() {
    let place = Place::new();
    let server = Server::start(&place, "--http 127.0.0.1:0 --stage-latencies=true");
    let token = place
        .ebb("token create --name grafana --scope read --expires 1h")
        .ok();
    let token = token.trim();
    assert!(token.starts_with("ebb_"), "{token}");
    let (status, metrics) = get(server.http(), "/metrics", token);
    assert_eq!(status, 200, "{metrics}");
    assert!(
        metrics.contains("\n# TYPE ebb_store_reads_total counter\n"),
        "{metrics}"
    );
    let mut client = server.client();
    query(&mut client, "nonsense").unwrap_err();
    query(&mut client, "SELECT key FROM system.local").unwrap();
    drop(client);
    let metrics = until_some("the end of the connection", || {
        let (_, metrics) = get(server.http(), "/metrics", token);
        (metrics.contains("\nebb_cql_connections 0\n")).then_some(metrics)
    });
    let figure = |name: &str| -> f64 {
        let start = format!("\n{name} ");
        let (_, rest) = metrics.split_once(&start).expect(name);
        rest.lines().next().unwrap().parse().unwrap()
    };
    // A figure need only be plausible: the requests and the error are those above, the start is after
    // September 2020, and 0 only requires that there is a figure.
    for (name, least) in [
        ("process_cpu_seconds_total", 0.0),
        ("process_resident_memory_bytes", 1e6),
        (r#"ebb_memory_limit_bytes{part="store"}"#, 1e7),
        ("process_open_fds", 8.0),
        ("process_max_fds", 64.0),
        ("process_start_time_seconds", 1.6e9),
        (r#"ebb_cql_requests_total{opcode="QUERY"}"#, 2.0),
        (r#"ebb_cql_errors_total{code="0x2000"}"#, 1.0),
        (r#"ebb_cql_scan_duration_seconds_count{lane="range"}"#, 0.0),
        (r#"ebb_cql_stage_duration_seconds_count{stage="sent"}"#, 0.0),
    ] {
        assert!(figure(name) >= least, "{name}: {}", figure(name));
    }
    for counted in ["cql_connections 0", "cql_requests_refused_total 0"] {
        assert!(metrics.contains(&format!("\nebb_{counted}\n")), "{metrics}");
    }
    let (status, jobs) = get(server.http(), "/v1/jobs", token);
    assert_eq!(
        (status, jobs.as_str()),
        (200, "{\"jobs\":[],\"next\":null}")
    );
    let listed = place.ebb("token list --json").ok();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["scope"]),
        (&"grafana".into(), &"read".into())
    );
    assert!(!place.ebb("token list").ok().contains(token));
    let id = listed[0]["id"].as_str().unwrap();
    place.ebb(&format!("token revoke {id}")).ok();
    assert_eq!(get(server.http(), "/metrics", token).0, 401);
    assert_eq!(place.ebb("token list").ok().trim(), "no tokens yet");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn with_logins_only_tokens_of_roles_are_created_and_accepted() {
    let place = Place::new();
    let create = "token create --name grafana --scope read";
    let server = Server::start(&place, "--http 127.0.0.1:0");
    let without_role = place.ebb(create).ok();
    let without_role = without_role.trim();
    let status = |server: &Server, token: &str| get(server.http(), "/metrics", token).0;
    assert_eq!(status(&server, without_role), 200);
    assert_eq!(server.stop(), Some(0));
    let mut server = Server::start(&place, "--auth --http 127.0.0.1:0");
    let line = server.error_line_with("tokens that belong to no role are refused");
    let id = without_role.split('_').nth(1).unwrap();
    assert!(line.contains(id), "{line}");
    let (refused, problem) = get(server.http(), "/metrics", without_role);
    assert_eq!(refused, 401, "{problem}");
    assert!(problem.contains("ebb token create --role"), "{problem}");
    let told = place.ebb(create).fails(2);
    assert!(told.contains("name one with --role"), "{told}");
    let password = place.read("ebb-data/superuser-password");
    let credentials = Some(("ebb", password.trim()));
    let mut client = Client::connect_as(server.address(), Compression::Lz4, credentials).unwrap();
    query(&mut client, "CREATE ROLE grafana").unwrap();
    // Regression: a token was created that the server refused from the start.
    let refused = place.ebb(&format!("{create} --role grafana")).fails(2);
    assert!(refused.contains("grafana may not log in"), "{refused}");
    query(&mut client, "ALTER ROLE grafana WITH LOGIN = true").unwrap();
    let of_role = place.ebb(&format!("{create} --role grafana")).ok();
    assert_eq!(status(&server, of_role.trim()), 200);
    query(&mut client, "DROP ROLE grafana").unwrap();
    assert_eq!(status(&server, of_role.trim()), 401);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn health_checks_at_an_address_of_their_own_need_no_token() {
    let place = Place::new();
    let mut server = Server::start(&place, "--health 127.0.0.1:0 --log-format human");
    let line = server.error_line_with("health checks are answered at");
    let (_, address) = line.split_once("http://").unwrap();
    let ready = r#"{"status":"ok","problems":[]}"#;
    assert_eq!(get(address, "/health/ready", ""), (200, ready.to_owned()));
    assert_eq!(get(address, "/health/live", "").0, 200);
    assert_eq!(get(address, "/metrics", "").0, 404);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn requests_without_sense_are_refused_with_a_message() {
    let place = Place::new();
    let told = place.ebb("token create --scope read").fails(3);
    assert!(told.contains("no database"), "{told}");
    let told = place.ebb("token create --scope root").refused();
    assert!(told.contains("use read, jobs or admin"), "{told}");
    let told = place.ebb("serve --http 0.0.0.0:9043").refused();
    assert!(told.contains("tokens in the clear"), "{told}");
}

#[test]
fn slow_requests_are_logged_with_where_their_time_went() {
    let place = Place::new();
    let flags = "--http 127.0.0.1:0 --slow-request-ms 0 --log-format json --log warn";
    let mut server = Server::start(&place, flags);
    let token = place
        .ebb("token create --name grafana --scope read --expires 1h")
        .ok();
    let (mut client, http) = (server.client(), server.http().to_owned());
    let mut logged = |what: &str, of: &str| -> Value {
        loop {
            let line: Value = serde_json::from_str(&server.error_line()).unwrap();
            assert_eq!(line["message"], "slow request", "{line}");
            if line[what].as_str().is_some_and(|it| it.contains(of)) {
                return line;
            }
        }
    };
    let role = "CREATE ROLE ada WITH PASSWORD = 'secret' AND LOGIN = true";
    query(&mut client, role).unwrap();
    let line = logged("statement", "CREATE ROLE");
    let shown = "CREATE ROLE ada WITH PASSWORD = ? AND LOGIN = ?";
    assert_eq!(
        (&line["statement"], &line["level"]),
        (&shown.into(), &"WARN".into())
    );
    let ms = |line: &Value, name: &str| line[name].as_f64().unwrap();
    let parts = [
        "queued_ms",
        "prepared_ms",
        "executed_ms",
        "synced_ms",
        "sent_ms",
    ];
    let parts: f64 = parts.iter().map(|name| ms(&line, name)).sum();
    assert!((parts - ms(&line, "total_ms")).abs() < 0.01, "{line}");
    assert!(ms(&line, "executed_ms") > 0.0, "{line}");
    // No job has run, so this request waits for none.
    let last = get(&http, "/v1/jobs/last?wait_ms=60000", token.trim());
    assert_eq!(last.0, 404, "{}", last.1);
    assert_eq!(get(&http, "/v1/tables?limit=7", token.trim()).0, 200);
    let line = logged("request", "GET /v1/");
    assert_eq!(line["request"], "GET /v1/jobs/last");
    let line = logged("request", "GET /v1/");
    assert_eq!(
        (&line["request"], &line["name"]),
        (&"GET /v1/tables".into(), &"grafana".into())
    );
    assert!(ms(&line, "worked_ms") > 0.0, "{line}");
    assert_eq!(server.stop(), Some(0));
}
