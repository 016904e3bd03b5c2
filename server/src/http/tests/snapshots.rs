//! Snapshots and tables.

use ebb_storage::TableOptions;
use serde_json::json;

use super::*;
use crate::http::work_limits::BLOCKING_THREADS_MAX;

/// A server whose keyspace `app` has two tables with a row each, and a token for it.
struct Served {
    node: Arc<Node>,
    server: HttpServer,
    token: Token,
    _dir: tempfile::TempDir,
}

impl Served {
    fn new() -> Self {
        let (dir, node, server) = serve();
        let token = token(dir.path(), Scope::Jobs);
        let keyspace = node.db().unwrap().keyspace("app").unwrap();
        for name in ["a", "b"] {
            let table = keyspace.table(name, TableOptions::default()).unwrap();
            table.put(b"k", &[b'v'; 1000]).unwrap();
        }
        Self {
            node,
            server,
            token,
            _dir: dir,
        }
    }

    /// Sends a request, and returns the status and the body of the response; `null` for a body that is no
    /// JSON.
    fn ask(&self, request: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let (status, answer) = ask(&self.server, request, "localhost", Some(&self.token), &body);
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(&format!("GET {path}"), &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Sends a request, and returns the connection without waiting for the response.
    fn send_only(&self, request: &str, body: &str) -> TcpStream {
        let (server, token) = (&self.server, Some(&self.token));
        send_only(server, request, "localhost", token, body)
    }

    /// Sends fifty requests, one after the other. By the end, each earlier request of other connections is
    /// done, unless it waits for a lock or the disk.
    fn get_often(&self) {
        for _ in 0..50 {
            self.get("/v1/snapshots");
        }
    }
}

fn names<'v>(list: &'v Value, of: &str) -> Vec<&'v str> {
    let list = list[of].as_array().unwrap();
    list.iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

#[test]
fn the_location_of_a_snapshot_is_a_path_to_it_whatever_its_name_is() {
    let served = Served::new();
    let body = json!({"keyspace": "app", "name": "été"}).to_string();
    let (server, token) = (&served.server, Some(&served.token));
    let (status, answer) = ask(server, "POST /v1/snapshots", "localhost", token, &body);
    let location = answer
        .lines()
        .find_map(|line| line.strip_prefix("location: "));
    // Regression: the header had the letters as they are, which clients read in several ways.
    assert_eq!(
        (status, location),
        (201, Some("/v1/snapshots/app/%C3%A9t%C3%A9"))
    );
    assert_eq!(served.get(location.unwrap())["name"], json!("été"));
}

#[test]
fn snapshots_are_created_listed_by_pages_and_deleted() {
    let served = Served::new();
    for name in ["one", "two", "three"] {
        let body = json!({"keyspace": "app", "name": name});
        let (status, made) = served.ask("POST /v1/snapshots", &body);
        assert_eq!((status, &made["name"]), (201, &json!(name)), "{made}");
        assert_eq!(made["tables"], json!(["a", "b"]));
        assert_eq!(made["single_table"], json!(false));
    }
    let (status, problem) = served.ask(
        "POST /v1/snapshots",
        &json!({"keyspace": "app", "name": "one"}),
    );
    assert_eq!(status, 409, "{problem}");
    let first = served.get("/v1/snapshots?limit=2");
    assert_eq!(names(&first, "snapshots"), ["three", "two"]);
    let rest = format!(
        "/v1/snapshots?limit=2&after={}",
        first["next"].as_str().unwrap()
    );
    let (status, _) = served.ask("DELETE /v1/snapshots/app/two", &Value::Null);
    assert_eq!(status, 204);
    let rest = served.get(&rest);
    assert_eq!(names(&rest, "snapshots"), ["one"], "after one that is gone");
    assert_eq!(rest["next"], Value::Null);
    let (status, _) = served.ask("DELETE /v1/snapshots/app/two", &Value::Null);
    assert_eq!(status, 404);
    let bookmarks = &served.get("/v1/tables/app/a")["bookmarks"];
    let of_table = bookmarks.as_array().unwrap().iter();
    let of_table: Vec<_> = of_table
        .map(|one| one["snapshot"].as_str().unwrap())
        .collect();
    assert_eq!(of_table, ["three", "one"]);
}

/// Regression: requests that change snapshots took no lock. A DROP SNAPSHOT could look up a snapshot, and
/// then delete another one by which a request had replaced it meanwhile. A renewal could change another
/// snapshot than the one for which the permission was checked.
#[test]
fn no_request_changes_a_snapshot_while_a_statement_does() {
    let served = Served::new();
    let catalog = served.node.catalog().unwrap();
    let app = served.node.db().unwrap().existing_keyspace("app").unwrap();
    for name in ["kept", "old"] {
        app.create_snapshot(name).unwrap();
    }
    let expires = || app.snapshot_info("kept").unwrap().expires;
    let create = json!({"keyspace": "app", "name": "new"}).to_string();
    let renew = json!({"expires_in_s": 3600}).to_string();
    let requests = [
        ("POST /v1/snapshots", create.as_str(), 201),
        ("DELETE /v1/snapshots/app/old", "", 204),
        ("POST /v1/snapshots/app/kept/renew", renew.as_str(), 200),
    ];
    let sent = catalog.exclusively(|_| {
        let sent =
            requests.map(|(request, body, status)| (served.send_only(request, body), status));
        served.get_often();
        assert_eq!(app.snapshot_names(), ["kept", "old"]);
        assert_eq!(expires(), None);
        sent
    });
    for (stream, status) in sent {
        let (answered, answer) = answer_on(stream);
        assert_eq!(answered, status, "{answer}");
    }
    assert_eq!(app.snapshot_names(), ["kept", "new"]);
    assert!(expires().is_some());
}

/// Regression: requests that change snapshots, and waited for a long change of the schema, took all threads.
#[test]
fn changes_of_snapshots_that_wait_leave_threads_to_other_requests() {
    let served = Served::new();
    let catalog = served.node.catalog().unwrap();
    let create = |number: usize| {
        let body = json!({"keyspace": "app", "name": format!("s{number}")});
        served.send_only("POST /v1/snapshots", &body.to_string())
    };
    let sent: Vec<_> = catalog.exclusively(|_| {
        // More than there are threads.
        let sent = (0..BLOCKING_THREADS_MAX + 4).map(create).collect();
        served.get_often();
        sent
    });
    for stream in sent {
        let (status, answer) = answer_on(stream);
        assert_eq!(status, 201, "{answer}");
    }
}

#[test]
fn a_snapshot_of_one_table_expires_and_shows_the_bytes_that_it_pins() {
    let served = Served::new();
    let body = json!({"keyspace": "app", "name": "s", "table": "b", "expires_in_s": 3600});
    let (status, made) = served.ask("POST /v1/snapshots", &body);
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        (&made["tables"], &made["single_table"]),
        (&json!(["b"]), &json!(true))
    );
    let left_ms =
        made["expires_unix_ms"].as_u64().unwrap() - made["created_unix_ms"].as_u64().unwrap();
    assert_eq!(left_ms, 3_600_000);
    let renew = |body: &Value| served.ask("POST /v1/snapshots/app/s/renew", body);
    let (status, renewed) = renew(&json!({"expires_in_s": 86_400}));
    assert_eq!(status, 200, "{renewed}");
    let later_ms = renewed["expires_unix_ms"].as_u64().unwrap();
    assert!(later_ms >= made["created_unix_ms"].as_u64().unwrap() + 86_400_000);
    for wrong in [
        json!({}),
        json!({"expires_in_s": 0}),
        json!({"expires_in_s": -1.5}),
        json!({"expires_in_s": 31_557_600_001_u64}),
        json!({"expires_in_s": 1e300}),
    ] {
        let (status, problem) = renew(&wrong);
        assert_eq!(status, 422, "{wrong}: {problem}");
    }
    // The greatest lifetime is a thousand years of 365.25 days.
    assert_eq!(renew(&json!({"expires_in_s": 31_557_600_000_u64})).0, 200);
    let (_, kept) = renew(&json!({"expires_in_s": null}));
    assert_eq!(kept["expires_unix_ms"], Value::Null);
    let none = "POST /v1/snapshots/app/none/renew";
    assert_eq!(served.ask(none, &json!({"expires_in_s": 1})).0, 404);
    let db = served.node.db().unwrap();
    let table = db
        .existing_keyspace("app")
        .unwrap()
        .existing_table("b")
        .unwrap();
    table.put(b"k", b"w").unwrap();
    db.flush().unwrap();
    let seen = served.get("/v1/snapshots/app/s");
    assert_eq!(seen["pinned_exact_bytes"], Value::Null);
    assert_eq!((&seen["runs"], &seen["files"]), (&json!(1), &json!(1)));
    assert!(seen["pinned_bytes"].as_u64().unwrap() > 0, "{seen}");
    let seen = served.get("/v1/snapshots/app/s?exact=true");
    let pinned = seen["pinned_exact_bytes"].as_u64().unwrap();
    let file_bytes = seen["read_bytes"].as_u64().unwrap();
    assert!(0 < pinned && pinned <= file_bytes, "{seen}");
    let list = served.get("/v1/snapshots?keyspace=app&exact=true");
    assert_eq!(list["snapshots"][0]["pinned_exact_bytes"], json!(pinned));
    assert_eq!(list["pinned_exact_together_bytes"], json!(pinned));
    assert!(
        list["now_unix_ms"].as_u64() >= made["created_unix_ms"].as_u64(),
        "{list}"
    );
    for (body, status) in [
        (
            json!({"keyspace": "app", "name": "t", "expires_in_s": 0}),
            422,
        ),
        (
            json!({"keyspace": "app", "name": "t", "expires_in_s": -1.5}),
            422,
        ),
        (json!({"keyspace": "app", "name": "a/b"}), 422),
        (json!({"keyspace": "none", "name": "t"}), 404),
        (
            json!({"keyspace": "app", "name": "t", "table": "none"}),
            404,
        ),
        (
            json!({"keyspace": "app", "name": "t", "colour": "red"}),
            422,
        ),
        (json!(["app", "t", null, null, 7]), 422),
    ] {
        let (refused, problem) = served.ask("POST /v1/snapshots", &body);
        assert_eq!(refused, status, "{body}: {problem}");
    }
    assert_eq!(names(&served.get("/v1/snapshots"), "snapshots"), ["s"]);
}

#[test]
fn tables_are_listed_with_their_runs() {
    let served = Served::new();
    let db = served.node.db().unwrap();
    db.flush().unwrap();
    let list = served.get("/v1/tables?keyspace=app&limit=1");
    assert_eq!(list["tables"][0]["table"], json!("a"));
    let next = format!(
        "/v1/tables?keyspace=app&after={}",
        list["next"].as_str().unwrap()
    );
    let rest = served.get(&next);
    assert_eq!(
        (&rest["tables"][0]["table"], &rest["next"]),
        (&json!("b"), &Value::Null)
    );
    assert_eq!(rest["tables"].as_array().unwrap().len(), 1);
    let all = served.get("/v1/tables");
    assert!(all["tables"].as_array().unwrap().len() >= 2, "{all}");
    let seen = served.get("/v1/tables/app/a");
    let stats = db
        .stats()
        .tables
        .into_iter()
        .find(|stats| stats.name == "a")
        .unwrap();
    assert_eq!(seen["summary"]["file_bytes"], json!(stats.file_bytes));
    assert_eq!(seen["runs"][0]["id"], json!(stats.runs[0].id));
    assert_eq!(
        (&seen["runs"][0]["versions"], &seen["runs"][0]["stratum"]),
        (&json!(1), &json!(0))
    );
    for path in ["/v1/tables/app/none", "/v1/tables/none/a"] {
        let (status, problem) = served.ask(&format!("GET {path}"), &Value::Null);
        assert_eq!(status, 404, "{problem}");
    }
    for query in ["limit=0", "limit=1001", "limit=-1", "colour=red"] {
        let (status, problem) = served.ask(&format!("GET /v1/tables?{query}"), &Value::Null);
        assert_eq!(status, 400, "{query}: {problem}");
    }
    let policies = served.get("/v1/policies");
    let names = names(&policies, "policies");
    assert!(
        names.contains(&policies["current"].as_str().unwrap()),
        "{policies}"
    );
    let (status, problem) = served.ask("GET /v1/snapshots?after=x", &Value::Null);
    assert_eq!((status, &problem["status"]), (422, &json!(422)));
    let (status, problem) = served.ask("GET /v1/jobs/%ff", &Value::Null);
    assert_eq!((status, &problem["status"]), (400, &json!(400)));
}
