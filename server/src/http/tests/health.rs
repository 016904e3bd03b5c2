//! Health checks at an address of their own.

use ebb_storage::simulation::MemDisk;
use ebb_storage::{Db, Maintenance, TableOptions};

use super::*;

/// Sends a request without a token, and returns the status and the body of the response.
fn get(server: &HealthServer, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: any.example\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn a_server_is_ready_from_its_start_to_its_stop_and_degraded_on_a_full_disk() {
    let server = HealthServer::start((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let assert_ready = |code: u16, status: &str, problem: Option<&str>| {
        let (found, body) = get(&server, "/health/ready");
        let first = body["problems"][0]["kind"].as_str();
        assert_eq!((found, first), (code, problem), "{body}");
        assert_eq!(body["status"], status);
        assert_eq!(get(&server, "/health/live").0, 200);
    };
    assert_ready(503, "unavailable", Some("opening"));
    let (dir, mem) = (tempfile::tempdir().unwrap(), MemDisk::new());
    let options = Options {
        disk: Arc::new(mem.clone()),
        maintenance: Maintenance::Manual,
        idle_after: None,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    let table = db.keyspace("app").unwrap();
    let table = table.table("t", TableOptions::default()).unwrap();
    let options = NodeOptions {
        spill_dir: Some(dir.path().to_path_buf()),
        ..NodeOptions::for_tests()
    };
    let node = Arc::new(Node::start(Some(db), options).unwrap());
    server.ready(&node);
    table.put(b"key", b"value").unwrap();
    assert_ready(200, "ok", None);
    mem.set_capacity_bytes(Some(mem.used_bytes()));
    table.put(b"key", b"value").unwrap_err();
    assert_ready(200, "degraded", Some("disk-full"));
    mem.set_capacity_bytes(None);
    table.put(b"key", b"value").unwrap();
    assert_ready(200, "ok", None);
    for path in ["/metrics", "/v1/jobs", "/"] {
        assert_eq!(get(&server, path).0, 404, "{path}");
    }
    node.shutdown(Stop::Park);
    assert_ready(503, "unavailable", Some("stopping"));
    drop(node);
    assert_ready(503, "unavailable", Some("stopping"));
}
