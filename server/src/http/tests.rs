use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ebb_jobs::Failure;
use ebb_jobs::history::RecordState;
use ebb_jobs::pi::Variant;
use ebb_jobs::request::{
    ApplicationRequest, JobRequest, OutputPlace, PiRequest, PublishRequest, SimulateRequest,
};
use ebb_scheduler::runtime::Outcome;
use ebb_storage::{Options, TableOptions};
use ebb_test_support::wait::{HANG, until_some};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::jobs::{JobEnd, JobView, Jobs, ReadJobs};
use crate::metrics::Metrics;
use crate::node::{Node, NodeOptions, Stop};
use crate::tokens::{Scope, Token, TokenFile, TokenRecord};

mod changes;
mod config;
mod connections;
mod console;
mod hangs;
mod health;
mod live;
mod logins;
mod openapi;
mod paging;
mod queries;
mod retries;
mod roles;
mod scrapes;
mod session;
mod snapshots;
mod tls;

/// The limit on a wait for a server, above what the slowest machine takes.
const LONG: Duration = HANG;

/// Returns the directory of the database in `dir`, the folder of a test. Outputs of jobs lie beside it.
fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// Starts a server with a database in a new directory, which lasts as long as the first value.
fn serve() -> (TempDir, Arc<Node>, HttpServer) {
    let dir = tempfile::tempdir().unwrap();
    let (node, server) = serve_in(dir.path());
    (dir, node, server)
}

/// Starts a server with a database in the directory `dir`.
fn serve_in(dir: &Path) -> (Arc<Node>, HttpServer) {
    for root in ["outputs", "backups"] {
        fs::create_dir_all(dir.join(root)).unwrap();
    }
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        hosts: vec!["ebb.example".to_string()],
        roots: Roots {
            outputs: Some(dir.join("outputs")),
            backups: Some(dir.join("backups")),
        },
        ..HttpOptions::default()
    };
    serve_with(dir, options)
}

fn serve_with(dir: &Path, options: HttpOptions) -> (Arc<Node>, HttpServer) {
    let data = data(dir);
    let db = Options {
        create_if_missing: true,
        ..Options::default()
    };
    let node = Arc::new(Node::open(&data, db, NodeOptions::for_tests()).unwrap());
    let metrics = Metrics::of(Arc::clone(&node));
    let server = HttpServer::start(&data, Arc::clone(&node), metrics, options).unwrap();
    (node, server)
}

/// Writes a row to the table `app.t`, and flushes it into a file.
fn write_a_row(node: &Node) {
    let db = node.db().unwrap();
    let app = db.keyspace("app").unwrap();
    let table = app.table("t", TableOptions::default()).unwrap();
    table.put(b"k", b"v").unwrap();
    db.flush().unwrap();
}

fn pi(points: u64, output: OutputPlace) -> JobRequest {
    let application = ApplicationRequest::Pi(PiRequest {
        points,
        seed: 1,
        variant: Variant::Plain,
    });
    JobRequest::new(application, Vec::new(), output.into(), "/")
}

fn client(dir: &Path) -> JobsClient {
    JobsClient::of(&data(dir)).unwrap().unwrap()
}

/// Waits until a job has ended, by one request after the other, and returns its end. The server lets each
/// request wait for a minute at most.
fn wait_for_end(client: &JobsClient, id: &str) -> JobEnd {
    until_some("the end of the job", || client.show(id, LONG).unwrap().end)
}

fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Problem {
    match answer {
        Err(ClientError::Refused(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_cannot_look_into_a_directory_names_no_server() {
    // No directory has a name of this length.
    let data = "x".repeat(300);
    let error = JobsClient::of(Path::new(&data)).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot look for a server in x"),
        "{error}"
    );
}

#[test]
fn a_job_is_submitted_watched_and_remembered() {
    let (dir, node, _server) = serve();
    let client = client(dir.path());
    let output = dir.path().join("pi.tsv");
    let started = (client.submit(&pi(1, OutputPlace::File(output.clone())))).unwrap();
    let run = started.run.clone().unwrap();
    assert_eq!(
        (&run.policy[..], run.progress.steps),
        (node.policy(), 1),
        "{run:?}"
    );
    let id = &started.record.id;
    let report = wait_for_end(&client, id).report;
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(output.exists());
    let remembered = client.show("last", Duration::ZERO).unwrap();
    assert_eq!(remembered.record.state, RecordState::Succeeded);
    assert_eq!(remembered.end.unwrap().report, report);
    assert_eq!(remembered.run, None);
    assert_eq!(client.list().unwrap().len(), 1);
    assert_eq!(client.attempts(id).unwrap().len() as u32, report.tasks);
    assert_eq!(client.profiles().unwrap().len(), 1);
    let ended = refused(client.cancel(id));
    assert_eq!((ended.status, ended.failure), (409, Failure::Invalid));
    assert!(ended.detail.contains("has succeeded"), "{ended}");
    assert_eq!(client.keyspaces().unwrap(), ["ebb_system"]);
}

#[test]
fn a_job_is_cancelled_and_a_stopping_server_reports_its_jobs_as_parked() {
    let (dir, node, server) = serve();
    let client = client(dir.path());
    let endless = |name| pi(1 << 50, OutputPlace::File(dir.path().join(name)));
    let first = client.submit(&endless("a")).unwrap().record.id;
    assert!(client.cancel(&first).unwrap());
    let end = wait_for_end(&client, &first);
    assert_eq!(end.report.outcome, Outcome::Cancelled);
    let second = client.submit(&endless("b")).unwrap().record.id;
    assert_eq!(refused(client.discard(&second)).failure, Failure::Invalid);
    assert_eq!(refused(client.restart(&second)).failure, Failure::Invalid);
    let mut waiting = UnixStream::connect(data(dir.path()).join(SOCKET)).unwrap();
    waiting.set_read_timeout(Some(LONG)).unwrap();
    let request = format!(
        "GET /v1/jobs/{second}?wait_ms=60000 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    );
    waiting.write_all(request.as_bytes()).unwrap();
    // The server reads requests on one thread: when a later request has its response, the
    // earlier one waits for the job.
    client.list().unwrap();
    node.shutdown(Stop::Park);
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    let view: JobView = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    match view.end {
        Some(end) => assert!(end.parked),
        // The server looked for the job only after it was parked.
        None => assert_eq!(view.record.state, RecordState::Started),
    }
    let closed = refused(client.submit(&endless("c")));
    assert_eq!((closed.status, closed.failure), (503, Failure::Closed));
    assert!(server.drain(LONG));
    assert!(!data(dir.path()).join(SOCKET).exists());
    assert!(JobsClient::of(&data(dir.path())).unwrap().is_none());
    let gone = client.list().unwrap_err().to_string();
    assert!(gone.contains("does not answer"), "{gone}");
}

/// Regression: no request whose query contained `wait_ms=` was ever slow.
#[test]
fn a_request_is_never_slow_only_if_it_waits_for_a_job() {
    let dir = tempfile::tempdir().unwrap();
    let slow = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let observed = Arc::clone(&slow);
    let observe = move |request: &SlowRequest| observed.lock().unwrap().push(request.path.clone());
    let options = HttpOptions {
        slow: Some(SlowRequests::new(Duration::ZERO, observe)),
        ..HttpOptions::default()
    };
    let (_node, _server) = serve_with(dir.path(), options);
    let client = client(dir.path());
    let endless = pi(1 << 50, OutputPlace::File(dir.path().join("a")));
    let id = client.submit(&endless).unwrap().record.id;
    slow.lock().unwrap().clear();
    client.show(&id, Duration::from_millis(1)).unwrap();
    assert!(slow.lock().unwrap().is_empty());
    let unknown = refused(client.show("77", LONG));
    assert_eq!(unknown.failure, Failure::NotFound);
    client.show(&id, Duration::ZERO).unwrap();
    let expected = ["/v1/jobs/77".to_owned(), format!("/v1/jobs/{id}")];
    assert_eq!(*slow.lock().unwrap(), expected);
    assert!(client.cancel(&id).unwrap());
    wait_for_end(&client, &id);
}

#[test]
fn refused_requests_have_the_class_of_their_failure() {
    let (dir, _node, _server) = serve();
    let client = client(dir.path());
    let terminal = refused(client.submit(&pi(1, OutputPlace::Terminal)));
    assert_eq!((terminal.status, terminal.failure), (422, Failure::Invalid));
    client.estimate(&pi(1, OutputPlace::Terminal)).unwrap();
    let table = OutputPlace::Table("none.t".parse().unwrap());
    let unknown = refused(client.submit(&pi(1, table.clone())));
    assert_eq!((unknown.status, unknown.failure), (404, Failure::NotFound));
    assert_eq!(refused(client.estimate(&pi(1, table))), unknown);
    let there = OutputPlace::File(dir.path().join("there"));
    fs::write(dir.path().join("there"), "x").unwrap();
    let exists = refused(client.submit(&pi(1, there)));
    assert_eq!((exists.status, exists.failure), (409, Failure::Other));
    let inside = OutputPlace::File(data(dir.path()).join("new"));
    let inside = refused(client.submit(&pi(1, inside)));
    assert_eq!((inside.status, inside.failure), (422, Failure::Invalid));
    // Regression: the rows for the terminal of a client were written to any path.
    let spool = OutputPlace::Spool(dir.path().join("rows"));
    let spool = refused(client.submit(&pi(1, spool)));
    assert_eq!((spool.status, spool.failure), (422, Failure::Invalid));
    assert!(
        spool.detail.contains("choose a file as the output"),
        "{spool}"
    );
    // Regression: the error was of the class `other`, with status 409.
    let scenario = dir.path().join("bad.toml");
    fs::write(&scenario, "seed = \n").unwrap();
    let mut malformed = pi(1, OutputPlace::File(dir.path().join("new.csv")));
    malformed.application = ApplicationRequest::Simulate(SimulateRequest {
        scenario: Some(scenario),
        replicas: None,
    });
    let malformed = refused(client.submit(&malformed));
    assert_eq!(
        (malformed.status, malformed.failure),
        (422, Failure::Invalid)
    );
    assert!(malformed.detail.contains("bad.toml"), "{malformed}");
    let nobody = refused(client.show("17", Duration::ZERO));
    assert_eq!(nobody.failure, Failure::NotFound);
    let odd = refused(client.show("../../etc?x=%00", Duration::ZERO));
    assert_eq!(odd.failure, Failure::NotFound);
    assert_eq!(client.list().unwrap(), [], "nothing is left of them");
}

/// Sends bytes to a server, and returns the bytes that it sends until it closes the connection. If `leaves`,
/// the client closes its sending half of the connection before it reads.
fn response_to(dir: &Path, bytes: &[u8], leaves: bool) -> String {
    let mut stream = UnixStream::connect(data(dir).join(SOCKET)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    if leaves {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn bytes_that_are_no_request_are_answered_or_the_connection_ends() {
    let (dir, _node, _server) = serve();
    let post = |length: usize, body: &[u8]| {
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        response_to(dir.path(), &[head.as_bytes(), body].concat(), false)
    };
    let problem = |said: &str| -> Value {
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/problem+json"), "{head}");
        serde_json::from_str(body).unwrap()
    };
    for (body, status) in [
        (&b"{"[..], 400),
        (b"[]", 422),
        (b"{\"version\":9}", 422),
        (b"\xff\xfe", 400),
        (&[b' '; 2 << 20], 413),
    ] {
        let problem = problem(&post(body.len(), body));
        assert_eq!(problem["status"], status, "{problem}");
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
    }
    // The headers suffice: the server does not wait for this body.
    let refused = problem(&post(2 << 20, b""));
    assert_eq!(refused["status"], 413, "{refused}");
    let zipped = "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                  content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}";
    let said = response_to(dir.path(), zipped.as_bytes(), false);
    assert!(said.contains("accept-encoding: identity\r\n"), "{said}");
    assert_eq!(problem(&said)["status"], 415, "{said}");
    for (line, status) in [
        ("GET /nowhere", 404),
        ("GET /v1/jobs/last", 404),
        ("PUT /v1/jobs", 405),
        ("GET /v1/jobs/1?wait_ms=soon", 400),
        ("GET /v1/jobs/1?waits=1", 400),
        ("GET /v1/jobs/1?wait_ms=86400001", 400),
        ("GET /v1/jobs/%ff", 400),
        ("GET /assets/%ff", 400),
        ("GET /v1/keyspaces?limit=0", 400),
        ("GET /v1/jobs/last/attempts?limit=10001", 400),
        ("POST /v1/jobs/last/retry", 404),
    ] {
        let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let problem = problem(&response_to(dir.path(), request.as_bytes(), false));
        assert_eq!(problem["status"], status, "{line}: {problem}");
    }
    // These are the beginning of a CQL frame, a request line that is cut off, and one that does not end.
    for bytes in [&b"\x04\x00\x00\x00"[..], b"GET", &[b'x'; 1 << 20]] {
        let said = response_to(dir.path(), bytes, true);
        assert!(!said.contains(" 200 "), "{said}");
    }
    // Other clients do not wait for a body that never comes.
    let mut half = UnixStream::connect(data(dir.path()).join(SOCKET)).unwrap();
    half.write_all(b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    assert_eq!(client(dir.path()).list().unwrap(), []);
}

#[test]
fn only_its_user_gets_at_the_socket_and_one_of_a_killed_server_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    assert!(JobsClient::of(&dir.path().join("none")).unwrap().is_none());
    let data = data(dir.path());
    fs::create_dir(&data).unwrap();
    let stale = data.join(SOCKET);
    drop(UnixListener::bind(&stale).unwrap());
    assert!(JobsClient::of(&data).unwrap().is_none(), "nobody listens");
    let (_node, server) = serve_in(dir.path());
    let mode = fs::metadata(&stale).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(client(dir.path()).list().unwrap(), []);
    drop(server);
    assert!(!stale.exists());
}

#[test]
fn a_directory_with_a_path_that_is_no_address_is_served_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("d".repeat(120));
    let (_node, _server) = serve_in(&dir);
    assert_eq!(client(&dir).list().unwrap(), []);
    assert_eq!(
        fs::metadata(data(&dir).join(SOCKET))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

/// Connects over TCP. A read that takes longer than [`LONG`] is an error.
fn connect(server: &HttpServer) -> TcpStream {
    let stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends a request over TCP, and returns the status and the whole text of the response, with its headers.
fn ask(
    server: &HttpServer,
    request: &str,
    host: &str,
    token: Option<&Token>,
    body: &str,
) -> (u16, String) {
    answer_on(send_only(server, request, host, token, body))
}

/// Sends a request over TCP, and returns the connection without waiting for the response.
fn send_only(
    server: &HttpServer,
    request: &str,
    host: &str,
    token: Option<&Token>,
    body: &str,
) -> TcpStream {
    let mut stream = connect(server);
    let token = token.map(|token| format!("Authorization: Bearer {}\r\n", token.reveal()));
    let (token, length) = (token.unwrap_or_default(), body.len());
    let text = format!(
        "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{token}\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Waits for the response to a request that was sent, and returns its status and its whole text.
fn answer_on(mut stream: TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn token(dir: &Path, scope: Scope) -> Token {
    let token = Token::random();
    let record = TokenRecord::new(&token, "test", scope, SystemTime::now(), None);
    let file = TokenFile::of(&data(dir));
    file.change(|all| all.add(record)).unwrap();
    token
}

#[test]
fn over_tcp_only_tokens_of_the_right_scope_are_served() {
    let (dir, _node, server) = serve();
    let [read, jobs, admin] = Scope::ALL.map(|scope| token(dir.path(), scope));
    let status =
        |request: &str, token: Option<&Token>| ask(&server, request, "127.0.0.1:1", token, "").0;
    for path in ["/v1/jobs", "/metrics", "/v1/keyspaces", "/nowhere"] {
        let request = format!("GET {path}");
        assert_eq!(status(&request, None), 401, "{path}");
        assert_eq!(status(&request, Some(&Token::random())), 401, "{path}");
        let found = if path == "/nowhere" { 404 } else { 200 };
        assert_eq!(status(&request, Some(&read)), found, "{path}");
    }
    for request in [
        "POST /v1/jobs",
        "POST /v1/jobs/1/cancel",
        "POST /v1/jobs/1/discard",
    ] {
        assert_eq!(status(request, None), 401, "{request}");
        assert_eq!(status(request, Some(&read)), 403, "{request}");
        assert!(
            [400, 404].contains(&status(request, Some(&jobs))),
            "{request}"
        );
    }
    assert_eq!(status("GET /health/live", None), 200);
    assert_eq!(status("GET /health/ready", None), 200);
    TokenFile::of(&data(dir.path()))
        .change(|all| all.revoke(&admin.id()))
        .unwrap();
    assert_eq!(status("GET /v1/jobs", Some(&admin)), 401);
    let (status, answer) = ask(&server, "GET /metrics", "localhost", None, "");
    assert_eq!(status, 401);
    assert!(
        answer.to_lowercase().contains("www-authenticate: bearer"),
        "{answer}"
    );
}

#[test]
fn a_name_that_is_not_the_servers_is_refused() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Admin);
    let status = |host: &str| ask(&server, "GET /v1/jobs", host, Some(&token), "").0;
    for host in [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1",
        "[::1]:9",
        "ebb.example:80",
    ] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in [
        "evil.example",
        "",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[",
    ] {
        assert_eq!(status(host), 421, "{host}");
    }
    assert_eq!(
        ask(&server, "GET /health/live", "evil.example", None, "").0,
        421
    );
    // Regression: only the first `Host` header counted, and not the name in an absolute URI.
    for (request, host, expected) in [
        ("GET http://localhost:1/v1/jobs", "evil.example", 200),
        ("GET http://evil.example/v1/jobs", "localhost", 421),
        (
            "GET http://localhost@evil.example/v1/jobs",
            "localhost",
            421,
        ),
        ("GET /v1/jobs", "localhost\r\nHost: evil.example", 400),
        ("GET /v1/jobs", "localhost\r\nHost: localhost", 400),
    ] {
        let (status, _) = ask(&server, request, host, Some(&token), "");
        assert_eq!(status, expected, "{request} at {host}");
    }
}

#[test]
fn files_of_the_machine_take_a_token_for_admin() {
    let (dir, _node, server) = serve();
    let output = dir.path().join("outputs/pi.tsv");
    let body = serde_json::to_string(&pi(1, OutputPlace::File(output.clone()))).unwrap();
    let submit = |token: &Token, path: &str| {
        ask(
            &server,
            &format!("POST {path}"),
            "localhost",
            Some(token),
            &body,
        )
    };
    let jobs = token(dir.path(), Scope::Jobs);
    for path in ["/v1/jobs", "/v1/jobs/estimate"] {
        let (status, answer) = submit(&jobs, path);
        assert_eq!(status, 403, "{answer}");
    }
    // Regression: the scenario of a simulation was read with any scope, and the error quoted it.
    let simulation = serde_json::json!({
        "application": {"simulate": {"scenario": "/etc/passwd"}},
        "output": {"to": {"table": "app.out"}},
        "directory": "/",
    });
    for path in ["/v1/jobs", "/v1/jobs/estimate", "/v1/what-if"] {
        let (request, body) = (format!("POST {path}"), simulation.to_string());
        let (status, answer) = ask(&server, &request, "localhost", Some(&jobs), &body);
        assert_eq!(status, 403, "{path}: {answer}");
        assert!(!answer.contains("passwd"), "{answer}");
    }
    let (status, answer) = submit(&token(dir.path(), Scope::Admin), "/v1/jobs");
    assert_eq!(status, 201, "{answer}");
    let ended = wait_for_end(&client(dir.path()), "last");
    assert_eq!(ended.report.outcome, Outcome::Succeeded);
    assert!(output.exists());
}

#[test]
fn only_the_servers_own_user_publishes_into_a_bucket_or_by_a_catalog() {
    let (dir, _node, server) = serve();
    let request = pi(1, OutputPlace::Iceberg("s3://lake/ebb".parse().unwrap()));
    let mut by_catalog = pi(1, OutputPlace::Iceberg("lake".parse().unwrap()));
    by_catalog.application = ApplicationRequest::Publish(PublishRequest {
        catalog: Some("https://catalog.example.org".parse().unwrap()),
        ..PublishRequest::default()
    });
    let admin = token(dir.path(), Scope::Admin);
    for request in [&request, &by_catalog] {
        let body = serde_json::to_string(request).unwrap();
        for path in ["/v1/jobs", "/v1/jobs/estimate", "/v1/what-if"] {
            let path = format!("POST {path}");
            let (status, answer) = ask(&server, &path, "localhost", Some(&admin), &body);
            assert_eq!(status, 403, "{answer}");
            assert!(answer.contains("ebb publish"), "{answer}");
        }
    }
    // Over the socket the bucket is no reason to refuse the request, but its application is.
    let problem = refused(client(dir.path()).submit(&request));
    assert_eq!(problem.status, 422);
    assert!(
        problem.detail.contains("only the application publish"),
        "{problem}"
    );
}

#[test]
fn a_server_that_stops_is_not_ready_but_alive() {
    let (_dir, node, server) = serve();
    node.shutdown(Stop::Park);
    let status = |path: &str| ask(&server, &format!("GET {path}"), "localhost", None, "").0;
    assert_eq!(status("/health/ready"), 503);
    assert_eq!(status("/health/live"), 200);
}
