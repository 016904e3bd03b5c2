//! Requests while a disk hangs. Those that wait for it leave threads to the others, and are refused when too many
//! wait.

use std::fs::File;
use std::sync::Mutex;

use ebb_storage::{CompactionOptions, CompactionPicker, Maintenance, Pick, TableShape};
use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::audit::AuditLog;
use crate::http::access::{Access, Peer};
use crate::http::session::SessionCookie;
use crate::http::work_limits::{BLOCKING_THREADS_MAX, WorkKind, WorkLimits};
use crate::tokens::WatchedTokens;

/// Sends a request over the socket, and returns the connection without waiting for the response.
fn send_over_socket(dir: &Path, request: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(data(dir).join(SOCKET)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn assert_status(mut stream: UnixStream, status: u16) {
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let expected = format!("HTTP/1.1 {status} ");
    assert!(response.starts_with(&expected), "{response}");
}

/// Calls `send` more times than the server has blocking-work threads. Each call sends a request
/// that waits because of `hang`. Checks that the server answers health checks meanwhile. Then drops
/// `hang`, and checks that the waiting requests get `status`.
fn assert_leave_threads<T>(dir: &Path, hang: T, send: impl Fn(usize) -> UnixStream, status: u16) {
    let sent: Vec<_> = (0..BLOCKING_THREADS_MAX + 4).map(send).collect();
    // The server reads requests on one thread: it has read those above before the last of these.
    for _ in 0..20 {
        assert_status(send_over_socket(dir, "GET /health/ready", ""), 200);
    }
    drop(hang);
    sent.into_iter()
        .for_each(|stream| assert_status(stream, status));
}

/// A policy of merges that waits for a lock. The statistics of a table call the policy, so they wait, too, as
/// they would for a disk that hangs.
#[derive(Debug)]
struct WaitingPicker(Arc<Mutex<()>>);

impl CompactionPicker for WaitingPicker {
    fn pick(&self, _: &TableShape<'_>) -> Option<Pick> {
        drop(self.0.lock().unwrap());
        None
    }
}

/// Regression: the list of tables and the view of a table had no limit, and took all threads.
#[test]
fn reads_of_tables_that_wait_for_the_disk_leave_threads_to_other_requests() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::<Mutex<()>>::default());
    let options = Options {
        maintenance: Maintenance::Manual,
        compaction: CompactionOptions {
            picker: Arc::new(WaitingPicker(Arc::clone(&disk))),
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let data = data(dir.path());
    let node = Node::open(&data, options, NodeOptions::for_tests()).unwrap();
    let node = Arc::new(node);
    write_a_row(&node);
    let metrics = Metrics::of(Arc::clone(&node));
    let _server = HttpServer::start(&data, node, metrics, HttpOptions::default()).unwrap();
    for path in ["/v1/tables", "/v1/tables/app/t"] {
        let request = format!("GET {path}");
        let send = |_| send_over_socket(dir.path(), &request, "");
        assert_leave_threads(dir.path(), disk.lock().unwrap(), send, 200);
    }
}

/// Regression: the entries in the audit log had no limit, and took all threads.
#[test]
fn changes_that_wait_for_the_audit_log_leave_threads_to_other_requests() {
    let (dir, node, _server) = serve();
    node.db().unwrap().keyspace("app").unwrap();
    // The log waits for this lock, as it does for a disk that hangs.
    let path = data(dir.path()).join("audit.log");
    let locked = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    let send = |number: usize| {
        let body = format!("{{\"keyspace\": \"app\", \"name\": \"s{number}\"}}");
        send_over_socket(dir.path(), "POST /v1/snapshots", &body)
    };
    assert_leave_threads(dir.path(), locked, send, 201);
}

/// Queries whose list waits for a lock, as it does while CQL is busy.
#[derive(Debug)]
struct WaitingQueries(Arc<Mutex<()>>);

impl Queries for WaitingQueries {
    fn list(&self) -> Vec<QueryView> {
        drop(self.0.lock().unwrap());
        Vec::new()
    }

    fn kill(&self, _: u64) -> Option<bool> {
        None
    }
}

/// Starts a server with a port, on which each list of the CQL queries waits for the lock `busy`.
fn serve_waiting_queries(dir: &Path, busy: &Arc<Mutex<()>>) -> (Arc<Node>, HttpServer) {
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        queries: Some(Arc::new(WaitingQueries(Arc::clone(busy)))),
        ..HttpOptions::default()
    };
    serve_with(dir, options)
}

/// Regression: lists of queries, and other work without a limit, took all threads, and no token was checked.
#[test]
fn lists_of_queries_that_wait_leave_threads_to_checks_of_tokens() {
    let (dir, busy) = (tempfile::tempdir().unwrap(), Arc::<Mutex<()>>::default());
    let (_node, server) = serve_waiting_queries(dir.path(), &busy);
    let token = token(dir.path(), Scope::Admin);
    let hang = busy.lock().unwrap();
    let list = |_| send_over_socket(dir.path(), "GET /v1/queries", "");
    let sent: Vec<_> = (0..BLOCKING_THREADS_MAX + 4).map(list).collect();
    // The server reads requests on one thread: it has read those above before the last of these. Each of these
    // checks the token, and reads the history.
    for _ in 0..20 {
        let (status, answer) = ask(&server, "GET /v1/jobs", "localhost", Some(&token), "");
        assert_eq!(status, 200, "{answer}");
    }
    drop(hang);
    sent.into_iter()
        .for_each(|stream| assert_status(stream, 200));
}

/// Regression: any number of requests waited for the same work, until no connection was left.
#[test]
fn a_request_is_refused_when_too_many_wait_for_the_same_work() {
    let (dir, busy) = (tempfile::tempdir().unwrap(), Arc::<Mutex<()>>::default());
    let (_node, _server) = serve_waiting_queries(dir.path(), &busy);
    let hang = busy.lock().unwrap();
    // One more than may run or wait.
    let list = |_| send_over_socket(dir.path(), "GET /v1/queries", "");
    let mut sent: Vec<_> = (0..=WorkKind::Queries.places()).map(list).collect();
    for stream in &sent {
        stream.set_nonblocking(true).unwrap();
    }
    let mut first = [0];
    let refused = until_some("a refusal", || {
        (sent.iter_mut()).position(|stream| matches!(stream.read(&mut first), Ok(1)))
    });
    for stream in &sent {
        stream.set_nonblocking(false).unwrap();
    }
    let mut response = String::from_utf8(first.to_vec()).unwrap();
    let mut refused = sent.swap_remove(refused);
    refused.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    assert!(response.contains("\r\nretry-after: 1\r\n"), "{response}");
    drop(hang);
    sent.into_iter()
        .for_each(|stream| assert_status(stream, 200));
}

/// Regression: `ebb stats` was refused while four backups or verifications waited for their rate.
#[test]
fn the_statistics_are_served_beside_as_much_long_work_as_is_accepted() {
    let (dir, node, _server) = serve();
    write_a_row(&node);
    let verify = |_| send_over_socket(dir.path(), "POST /v1/verify?rate_bytes_per_s=1", "");
    let sent: Vec<_> = (0..WorkKind::Long.places()).map(verify).collect();
    until_some("the verifications to run", || {
        let jobs = node.runtime().status().jobs;
        let running = jobs.iter().filter(|job| job.is_lease).count();
        (running == sent.len()).then_some(())
    });
    assert_status(verify(0), 503);
    assert_status(send_over_socket(dir.path(), "GET /v1/stats", ""), 200);
    // The clients go, and the server stops.
    drop(sent);
}

/// Regression: any number of checks of tokens waited for threads.
#[tokio::test]
async fn a_token_is_not_checked_when_too_many_checks_wait() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        create_if_missing: true,
        ..Options::default()
    };
    let node = Node::open(dir.path(), options, NodeOptions::for_tests()).unwrap();
    let tokens = WatchedTokens::new(TokenFile::of(dir.path()));
    let (audit, limits) = (AuditLog::start(dir.path()).unwrap(), WorkLimits::default());
    let cookie = SessionCookie::of(None, false);
    let node = Arc::new(node);
    let access = Access::new(
        node,
        tokens,
        Vec::new(),
        false,
        cookie,
        audit,
        limits.clone(),
    );
    let (access, token) = (Arc::new(access), Token::random());
    let peer = Peer { address: None };
    let full: Vec<_> = (0..WorkKind::Tokens.places())
        .map(|_| limits.place(WorkKind::Tokens).unwrap())
        .collect();
    let refused = access.principal(&token, None, peer).await.unwrap_err();
    assert_eq!((refused.status, refused.retry_after_s), (503, Some(1)));
    drop(full);
    let invalid = access.principal(&token, None, peer).await.unwrap_err();
    assert_eq!((invalid.status, invalid.retry_after_s), (401, None));
}
