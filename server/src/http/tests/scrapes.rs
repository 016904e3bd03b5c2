//! Scrapes of the metrics while the database waits for a disk that hangs.

use std::fmt;
use std::sync::Mutex;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::*;
use crate::http::work_limits::BLOCKING_THREADS_MAX;

/// A collector of metrics that waits for a lock, as the statistics of a database wait during a
/// change of the schema.
#[derive(Debug)]
struct Waiting(Arc<Mutex<()>>);

impl Collector for Waiting {
    fn encode(&self, _encoder: DescriptorEncoder<'_>) -> fmt::Result {
        drop(self.0.lock().unwrap());
        Ok(())
    }
}

#[test]
fn scrapes_that_wait_for_the_disk_leave_threads_to_other_requests() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::open(dir.path(), Options::default(), NodeOptions::for_tests());
    let (node, disk) = (Arc::new(node.unwrap()), Arc::<Mutex<()>>::default());
    let waiting = Waiting(Arc::clone(&disk));
    let metrics = Metrics::of(Arc::clone(&node)).collecting(Box::new(waiting));
    let _server = HttpServer::start(dir.path(), node, metrics, HttpOptions::default()).unwrap();
    let request = |path: &str| {
        let mut stream = UnixStream::connect(dir.path().join(SOCKET)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let assert_served = |mut stream: UnixStream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    let hang = disk.lock().unwrap();
    // More than there are threads.
    let scrapes: Vec<_> = (0..BLOCKING_THREADS_MAX + 4)
        .map(|_| request("/metrics"))
        .collect();
    // The server reads requests on one thread: the scrapes come before the last of these.
    (0..20).for_each(|_| assert_served(request("/health/ready")));
    drop(hang);
    scrapes.into_iter().for_each(assert_served);
}

#[test]
fn the_client_returns_the_metrics_as_text() {
    let (dir, _node, _server) = serve();
    let metrics = client(dir.path()).metrics().unwrap();
    let reads = "\n# TYPE ebb_store_reads_total counter\n";
    assert!(metrics.contains(reads), "{metrics}");
}
