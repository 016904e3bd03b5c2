//! Requests while a disk hangs. Those that wait for it leave threads to the others.

use std::fs::File;
use std::sync::Mutex;

use ebb_storage::{
    CompactionOptions, CompactionPicker, Maintenance, Pick, TableOptions, TableShape,
};
use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::http::server::BLOCKING_THREADS_MAX;

/// Sends a request over the socket, and does not wait for the response.
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

/// Sends more requests than there are threads while `hang` makes them wait, and checks that other requests have
/// responses meanwhile. Then drops `hang`, and checks that these requests have responses with `status`.
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

/// A policy of merges that waits for a lock. The statistics of a table call it, and wait as they do for a disk that
/// hangs.
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
    let app = node.db().unwrap().keyspace("app").unwrap();
    let table = app.table("t", TableOptions::default()).unwrap();
    table.put(b"k", b"v").unwrap();
    node.db().unwrap().flush().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
    let (node, _server) = serve(dir.path());
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
