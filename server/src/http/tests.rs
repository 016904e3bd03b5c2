use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ebb_jobs::Failure;
use ebb_jobs::history::RecordState;
use ebb_jobs::pi::Variant;
use ebb_jobs::request::{ApplicationRequest, JobRequest, OutputPlace, PiRequest};
use ebb_scheduler::runtime::Outcome;
use ebb_storage::Options;
use serde_json::Value;

use super::*;
use crate::node::{Node, NodeOptions, Stop};

/// Longer than a job or a server takes on any machine.
const LONG: Duration = Duration::from_secs(50);

fn serve(data: &Path) -> (Arc<Node>, JobsServer) {
    let db = Options {
        create_if_missing: true,
        ..Options::default()
    };
    let node = Arc::new(Node::open(data, db, NodeOptions::command()).unwrap());
    let server = JobsServer::start(data, Arc::clone(&node)).unwrap();
    (node, server)
}

fn pi(points: u64, output: OutputPlace) -> JobRequest {
    let application = ApplicationRequest::Pi(PiRequest {
        points,
        seed: 1,
        variant: Variant::Plain,
    });
    JobRequest::new(application, Vec::new(), output.into(), "/")
}

fn client(data: &Path) -> JobsClient {
    JobsClient::of(data).unwrap().unwrap()
}

fn refused<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Problem {
    match answer {
        Err(ClientError::Refused(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_is_submitted_watched_and_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (node, _server) = serve(dir.path());
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
    let ended = client.job(id, LONG).unwrap();
    let report = ended.end.unwrap().report;
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert!(output.exists());
    let remembered = client.job("last", Duration::ZERO).unwrap();
    assert_eq!(remembered.record.state, RecordState::Succeeded);
    assert_eq!(remembered.end.unwrap().report, report);
    assert_eq!(remembered.run, None);
    assert_eq!(client.jobs().unwrap().len(), 1);
    assert_eq!(client.attempts(id).unwrap().len() as u32, report.tasks);
    assert_eq!(client.profiles().unwrap().len(), 1);
    assert!(!client.cancel(id).unwrap(), "it has ended");
    assert_eq!(client.keyspaces().unwrap(), ["ebb_system"]);
}

#[test]
fn a_job_is_cancelled_and_one_that_the_server_parks_is_told_as_parked() {
    let dir = tempfile::tempdir().unwrap();
    let (node, server) = serve(dir.path());
    let client = client(dir.path());
    let endless = |name| pi(1 << 50, OutputPlace::File(dir.path().join(name)));
    let first = client.submit(&endless("a")).unwrap().record.id;
    assert!(client.cancel(&first).unwrap());
    let end = client.job(&first, LONG).unwrap();
    assert!(!end.is_running());
    let second = client.submit(&endless("b")).unwrap().record.id;
    assert_eq!(refused(client.discard(&second)).failure, Failure::Invalid);
    assert_eq!(refused(client.restart(&second)).failure, Failure::Invalid);
    let told = std::thread::scope(|scope| {
        let waits = scope.spawn(|| self::client(dir.path()).job(&second, LONG).unwrap());
        // Not before it is asked for: the job is there until then.
        std::thread::sleep(Duration::from_millis(50));
        node.shutdown(Stop::Park);
        waits.join().unwrap()
    });
    match told.end {
        Some(end) => assert!(end.parked),
        // It was asked for only after the job was parked.
        None => assert_eq!(told.record.state, RecordState::Started),
    }
    let closed = refused(client.submit(&endless("c")));
    assert_eq!((closed.status, closed.failure), (503, Failure::Closed));
    assert!(server.drain(LONG));
    assert!(!dir.path().join(SOCKET).exists());
    assert!(JobsClient::of(dir.path()).unwrap().is_none());
    let gone = client.jobs().unwrap_err().to_string();
    assert!(gone.contains("does not answer"), "{gone}");
}

#[test]
fn what_cannot_be_followed_is_refused_with_what_kind_of_failure_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, _server) = serve(dir.path());
    let client = client(dir.path());
    let terminal = refused(client.submit(&pi(1, OutputPlace::Terminal)));
    assert_eq!((terminal.status, terminal.failure), (422, Failure::Invalid));
    let table = OutputPlace::Table("none.t".parse().unwrap());
    let unknown = refused(client.submit(&pi(1, table.clone())));
    assert_eq!((unknown.status, unknown.failure), (404, Failure::NotFound));
    assert_eq!(refused(client.estimate(&pi(1, table))), unknown);
    let there = OutputPlace::File(dir.path().join("there"));
    fs::write(dir.path().join("there"), "x").unwrap();
    let exists = refused(client.submit(&pi(1, there)));
    assert_eq!((exists.status, exists.failure), (409, Failure::Other));
    let nobody = refused(client.job("17", Duration::ZERO));
    assert_eq!(nobody.failure, Failure::NotFound);
    let odd = refused(client.job("../../etc?x=%00", Duration::ZERO));
    assert_eq!(odd.failure, Failure::NotFound);
    assert_eq!(client.jobs().unwrap(), [], "nothing is left of them");
}

/// What a server says to these bytes until it closes the connection, to a client that may
/// have left by then.
fn said(data: &Path, bytes: &[u8], leaves: bool) -> String {
    let mut stream = UnixStream::connect(data.join(SOCKET)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // It may close before it has read all.
    let _ = stream.write_all(bytes);
    if leaves {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn bytes_that_are_no_request_are_answered_or_the_connection_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, _server) = serve(dir.path());
    let post = |length: usize, body: &[u8]| {
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        said(dir.path(), &[head.as_bytes(), body].concat(), false)
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
    for (line, status) in [
        ("GET /", 404),
        ("GET /v1/jobs/last", 404),
        ("PUT /v1/jobs", 405),
        ("GET /v1/jobs/1?wait_ms=soon", 400),
        ("GET /v1/jobs/1?waits=1", 400),
    ] {
        let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let problem = problem(&said(dir.path(), request.as_bytes(), false));
        assert_eq!(problem["status"], status, "{line}: {problem}");
    }
    for bytes in [&b"\x04\x00\x00\x00"[..], b"GET", &[b'x'; 1 << 20]] {
        let said = said(dir.path(), bytes, true);
        assert!(!said.contains(" 200 "), "{said}");
    }
    // A body that never comes does not keep others waiting.
    let mut half = UnixStream::connect(dir.path().join(SOCKET)).unwrap();
    half.write_all(b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    assert_eq!(client(dir.path()).jobs().unwrap(), []);
}

#[test]
fn only_its_user_gets_at_the_socket_and_one_of_a_killed_server_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    assert!(JobsClient::of(&dir.path().join("none")).unwrap().is_none());
    let stale = dir.path().join(SOCKET);
    drop(UnixListener::bind(&stale).unwrap());
    assert!(
        JobsClient::of(dir.path()).unwrap().is_none(),
        "nobody listens"
    );
    let (_node, server) = serve(dir.path());
    let mode = fs::metadata(&stale).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(client(dir.path()).jobs().unwrap(), []);
    drop(server);
    assert!(!stale.exists());
}

#[test]
fn a_directory_with_a_path_that_is_no_address_is_served_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("d".repeat(120));
    let (_node, _server) = serve(&data);
    assert_eq!(client(&data).jobs().unwrap(), []);
    assert_eq!(
        fs::metadata(data.join(SOCKET))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}
