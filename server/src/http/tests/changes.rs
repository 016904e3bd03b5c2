//! Changes: made once, written down, and only where they may be.

use std::num::NonZeroU64;

use ebb_storage::TableOptions;
use ebb_test_support::wait::until;
use serde_json::json;

use super::*;

/// Sends a request with an idempotency key, and returns the status, the headers and the body of the response.
fn send(
    server: &HttpServer,
    request: &str,
    token: &Token,
    key: &str,
    body: &Value,
) -> (u16, String, Value) {
    let mut stream = connect(server);
    let body = body.to_string();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIdempotency-Key: {key}\r\n\
         Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
        token.reveal(),
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let value = serde_json::from_str(body).unwrap_or_default();
    (status, head.to_string(), value)
}

/// Stops a server, and waits until another one can open its database.
fn stop(node: Arc<Node>, server: HttpServer, dir: &Path) {
    node.shutdown(Stop::Park);
    assert!(server.drain(LONG));
    drop(node);
    // Threads of the server drop the last handles of the node.
    let is_locked = |error: ebb_storage::Error| error.kind() == ebb_storage::ErrorKind::Locked;
    until("the lock of the database", || {
        !ebb_storage::Db::open(data(dir), Options::default()).is_err_and(is_locked)
    });
}

fn pi_to(dir: &Path, name: &str) -> Value {
    let to = OutputPlace::File(dir.join("outputs").join(name));
    serde_json::to_value(pi(1, to)).unwrap()
}

#[test]
fn a_key_has_a_job_submitted_once_also_over_a_restart() {
    let (dir, node, server) = serve();
    let [token, other] = [Scope::Admin; 2].map(|scope| token(dir.path(), scope));
    let submit = |server: &HttpServer, token: &Token, name: &str| {
        send(
            server,
            "POST /v1/jobs",
            token,
            "k-1",
            &pi_to(dir.path(), name),
        )
    };
    let (status, _, first) = submit(&server, &token, "a.tsv");
    assert_eq!(status, 201, "{first}");
    let id = first["record"]["id"].as_str().unwrap().to_string();
    wait_for_end(&client(dir.path()), &id);
    let (status, head, again) = submit(&server, &token, "a.tsv");
    assert_eq!((status, &again), (201, &first), "as it was answered");
    assert!(head.contains("idempotency-replayed: true"), "{head}");
    assert!(head.contains(&format!("location: /v1/jobs/{id}")), "{head}");
    assert_eq!(submit(&server, &token, "b.tsv").0, 422, "another request");
    let (status, _, of_other) = submit(&server, &other, "b.tsv");
    assert_eq!(status, 201, "the key is somebody else's: {of_other}");
    wait_for_end(&client(dir.path()), "last");
    assert_eq!(client(dir.path()).list().unwrap().len(), 2);

    stop(node, server, dir.path());
    let (_node, server) = serve_in(dir.path());
    assert_eq!(submit(&server, &token, "c.tsv").0, 422, "another request");
    let (status, _, again) = submit(&server, &token, "a.tsv");
    assert_eq!(
        (status, &again["record"]["id"]),
        (201, &json!(id)),
        "{again}"
    );
    assert_eq!(client(dir.path()).list().unwrap().len(), 2);
}

#[test]
fn responses_to_changes_with_a_key_survive_a_restart() {
    let (dir, node, server) = serve();
    node.db().unwrap().keyspace("app").unwrap();
    let token = token(dir.path(), Scope::Jobs);
    let body = json!({"keyspace": "app", "name": "s"});
    let create =
        |server: &HttpServer, body: &Value| send(server, "POST /v1/snapshots", &token, "k", body);
    let delete = |server: &HttpServer| {
        let request = "DELETE /v1/snapshots/app/s";
        send(server, request, &token, "k", &json!({}))
    };
    let (status, _, created) = create(&server, &body);
    assert_eq!(status, 201, "{created}");
    assert_eq!(delete(&server).0, 204);
    stop(node, server, dir.path());

    let (node, server) = serve_in(dir.path());
    let (status, head, again) = create(&server, &body);
    assert_eq!((status, again), (201, created));
    assert!(head.contains("idempotency-replayed: true"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(delete(&server).0, 204);
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    assert_eq!(app.snapshot_names(), [""; 0], "neither was executed again");
    let other = json!({"keyspace": "app", "name": "t"});
    assert_eq!(create(&server, &other).0, 422, "the key is taken");
}

#[test]
fn a_refused_request_may_come_again_with_its_key_and_a_key_is_one() {
    let (dir, node, server) = serve();
    let token = token(dir.path(), Scope::Jobs);
    let body = json!({"keyspace": "app", "name": "s"});
    let create = |key: &str| send(&server, "POST /v1/snapshots", &token, key, &body);
    assert_eq!(create("k").0, 404, "there is no keyspace");
    node.db().unwrap().keyspace("app").unwrap();
    assert_eq!(create("k").0, 201, "the refusal is not kept");
    assert_eq!(create("k").0, 201, "and not that there is one");
    assert_eq!(create("l").0, 409);
    for method in ["PUT", "TRACE"] {
        let request = format!("{method} /v1/snapshots");
        assert_eq!(
            send(&server, &request, &token, "k", &body).0,
            405,
            "{method}"
        );
    }
    for key in ["", "a b", &"k".repeat(129)] {
        assert_eq!(create(key).0, 400, "{key}");
    }
}

#[test]
fn jobs_are_listed_by_pages_the_newest_first() {
    let (dir, _node, server) = serve();
    let token = token(dir.path(), Scope::Read);
    let own = client(dir.path());
    let ids: Vec<_> = (0..5)
        .map(|n| {
            let to = OutputPlace::File(dir.path().join(format!("{n}.tsv")));
            let id = own.submit(&pi(1, to)).unwrap().record.id;
            wait_for_end(&own, &id);
            id
        })
        .collect();
    let list = |query: &str| -> (Vec<String>, Option<String>) {
        let (status, answer) = ask(
            &server,
            &format!("GET /v1/jobs?{query}"),
            "localhost",
            Some(&token),
            "",
        );
        assert_eq!(status, 200, "{answer}");
        let list: JobList = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        (
            list.jobs.into_iter().map(|job| job.record.id).collect(),
            list.next,
        )
    };
    let newest = |range: std::ops::Range<usize>| -> Vec<String> {
        ids[range].iter().rev().cloned().collect()
    };
    let (page, next) = list("limit=2");
    assert_eq!((page, next.as_ref()), (newest(3..5), Some(&ids[3])));
    let (page, next) = list(&format!("limit=3&after={}", next.unwrap()));
    assert_eq!((page, next), (newest(0..3), None));
    // A cursor of this list is the id of a job, which has digits only. Ids are compared as texts,
    // so without a check most other texts would return the whole list or nothing.
    for after in ["", "x", "app/lines"] {
        let request = format!("GET /v1/jobs?after={after}");
        let (status, answer) = ask(&server, &request, "localhost", Some(&token), "");
        assert_eq!(status, 422, "{after:?}: {answer}");
    }
    assert_eq!(list("state=ended").0, newest(0..5));
    assert_eq!(list("state=running").0, [""; 0]);
    assert_eq!(list("state=unfinished&name=pi").0, [""; 0]);
    assert_eq!(list("name=pi&limit=1").0, newest(4..5));
    assert_eq!(list("name=sort").0, [""; 0]);
    let all: Vec<_> = own
        .list()
        .unwrap()
        .into_iter()
        .map(|job| job.record.id)
        .collect();
    assert_eq!(all, ids, "a command lists all, the oldest first");
}

#[test]
fn files_are_written_below_the_roots_only() {
    let (dir, _node, server) = serve();
    let [jobs, admin] = [Scope::Jobs, Scope::Admin].map(|scope| token(dir.path(), scope));
    let submit = |path: &str, key: &str| {
        let to = OutputPlace::Folder(dir.path().join(path));
        let body = serde_json::to_value(pi(1, to)).unwrap();
        send(&server, "POST /v1/jobs", &admin, key, &body)
    };
    for (number, path) in ["elsewhere", "outputs/../elsewhere", "backups/x"]
        .iter()
        .enumerate()
    {
        let (status, _, problem) = submit(path, &format!("out-{number}"));
        assert_eq!(status, 403, "{path}: {problem}");
    }
    assert_eq!(submit("outputs/x", "in").0, 201);
    let backup = |token: &Token, name: &str, key: &str| {
        send(
            &server,
            "POST /v1/backups",
            token,
            key,
            &json!({"name": name}),
        )
    };
    assert_eq!(backup(&jobs, "monday", "1").0, 403);
    for (number, name) in ["", "..", ".hidden", "a/b", "/abs"].iter().enumerate() {
        assert_eq!(
            backup(&admin, name, &format!("bad-{number}")).0,
            422,
            "{name}"
        );
    }
    let (status, _, made) = backup(&admin, "monday", "2");
    assert_eq!((status, &made["name"]), (201, &json!("monday")), "{made}");
    // The folder may have an older backup of this database, which the new one replaces.
    let (status, _, again) = backup(&admin, "monday", "3");
    assert_eq!(status, 201, "{again}");
    let no_rate = "POST /v1/backups?rate_bytes_per_s=0";
    let (status, _, problem) = send(&server, no_rate, &admin, "4", &json!({"name": "slow"}));
    assert_eq!(status, 400, "{problem}");
    let listed = "GET /v1/jobs?name=backup";
    let (_, answer) = ask(&server, listed, "localhost", Some(&jobs), "");
    let list: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 2, "{list}");
    let record = &list["jobs"][0]["record"];
    assert_eq!(record["state"], json!("succeeded"));
    assert_eq!(record["request"]["output"]["to"]["folder"], json!("monday"));
    assert_eq!(record["report"]["backup"]["damaged"], json!([]));
    let cancel = format!("POST /v1/jobs/{}/cancel", record["id"].as_str().unwrap());
    assert_eq!(send(&server, &cancel, &jobs, "5", &json!({})).0, 403);
    assert_eq!(send(&server, &cancel, &admin, "6", &json!({})).0, 409);
    let (_, answer) = ask(&server, "GET /v1/backups", "localhost", Some(&jobs), "");
    let list: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(list["backups"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["backups"][0]["name"], json!("monday"));
    assert!(list["backups"][0]["bytes"].as_u64().unwrap() > 0);
    let db = ebb_storage::Db::open(dir.path().join("backups/monday"), Options::default());
    assert!(db.is_ok(), "{db:?}");
    drop(db);
    let none = json!({"name": "tuesday"}).to_string();
    let (status, problem) = ask(
        &server,
        "POST /v1/restore",
        "localhost",
        Some(&admin),
        &none,
    );
    assert_eq!(status, 404, "{problem}");
    assert!(problem.contains("backups/tuesday"), "{problem}");
    let (status, _, problem) = backup(&admin, "monday", "7");
    assert_eq!(status, 422, "it was opened for writing: {problem}");
}

/// Regression: a restore went on while the server stopped, until the process ended.
#[test]
fn a_restore_ends_when_the_node_closes() {
    let (dir, node, server) = serve();
    write_a_row(&node);
    node.db()
        .unwrap()
        .backup(dir.path().join("backups/monday"))
        .unwrap();
    let admin = token(dir.path(), Scope::Admin);
    node.shutdown(Stop::Park);
    let monday = json!({"name": "monday"}).to_string();
    let restore = "POST /v1/restore";
    let (status, problem) = ask(&server, restore, "localhost", Some(&admin), &monday);
    assert_eq!(status, 503, "{problem}");
}

#[test]
fn a_verification_is_among_the_jobs_and_ends_when_its_client_goes() {
    let (dir, node, server) = serve();
    let app = node.db().unwrap().keyspace("app").unwrap();
    let table = app.table("t", TableOptions::default()).unwrap();
    table.put(b"k", b"v").unwrap();
    let admin = token(dir.path(), Scope::Admin);
    let mut stream = connect(&server);
    let text = format!(
        "POST /v1/verify?rate_bytes_per_s=1 HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {}\r\nContent-Length: 0\r\n\r\n",
        admin.reveal()
    );
    stream.write_all(text.as_bytes()).unwrap();
    let client = client(dir.path());
    let running = until_some("the verification to run", || {
        client.running("verify").unwrap().pop()
    });
    assert!(running.run.unwrap().progress.bytes.is_some());
    let options = running.record.maintenance_options().unwrap();
    assert_eq!(options.by, "test");
    assert_eq!(options.rate_bytes_per_s, Some(NonZeroU64::MIN));
    drop(stream);
    until("the verification to end", || {
        let job = client.show(&running.record.id, Duration::ZERO).unwrap();
        job.record.state == RecordState::Cancelled
    });
}

#[test]
fn changes_are_written_down_with_who_made_them() {
    let (dir, node, server) = serve();
    node.db().unwrap().keyspace("app").unwrap();
    let token = token(dir.path(), Scope::Jobs);
    let body = json!({"keyspace": "app", "name": "s"});
    assert_eq!(
        send(&server, "POST /v1/snapshots", &token, "k", &body).0,
        201
    );
    assert_eq!(
        ask(&server, "GET /v1/snapshots", "localhost", Some(&token), "").0,
        200
    );
    client(dir.path()).cancel("17").unwrap_err();
    // Clients without a token add no lines.
    for request in ["POST /health/live", "DELETE /assets/none", "POST /"] {
        let (status, _) = ask(&server, request, "localhost", None, "");
        assert!([404, 405].contains(&status), "{request}: {status}");
    }
    let unknown = Token::random();
    let (status, _) = ask(&server, "GET /v1/jobs", "localhost", Some(&unknown), "");
    assert_eq!(status, 401);
    for (token, status) in [(&token, 200), (&unknown, 401)] {
        let login = json!({"token": token.reveal()}).to_string();
        let answer = ask(&server, "POST /v1/session", "localhost", None, &login);
        assert_eq!(answer.0, status, "{answer:?}");
    }
    // The snapshot and the cancellation make two lines each, the refusal and both logins one each.
    // A thread writes refusals and logins.
    let text = until_some("all lines to be written", || {
        let text = fs::read_to_string(data(dir.path()).join("audit.log")).unwrap();
        (text.lines().count() == 7).then_some(text)
    });
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let made = &lines[1];
    assert_eq!(
        (&lines[0]["result"], &made["result"], &lines[0]["id"]),
        (&json!("begun"), &json!("done"), &made["id"])
    );
    assert_eq!(made["token"], json!(token.id()));
    assert_eq!(made["made"], json!("/v1/snapshots/app/s"));
    assert_eq!(
        (&made["status"], &made["address"]),
        (&json!(201), &json!("127.0.0.1"))
    );
    assert_eq!(
        (&lines[3]["token"], &lines[3]["status"]),
        (&Value::Null, &json!(404))
    );
    assert_eq!(lines[3]["action"], json!("POST /v1/jobs/17/cancel"));
    let logins = lines[4..].iter().map(|line| {
        let [kind, result, token] = ["kind", "result", "token"].map(|name| line[name].as_str());
        assert_eq!(kind, Some("login"));
        (result.unwrap(), token.unwrap())
    });
    let ids = [token.id(), unknown.id()];
    let [known, unknown] = [&*ids[0], &*ids[1]];
    let expected = [("refused", unknown), ("done", known), ("refused", unknown)];
    assert_eq!(logins.collect::<Vec<_>>(), expected);
    assert!(!text.contains(&token.reveal()));
}

#[test]
fn on_a_full_disk_changes_that_free_space_are_made_without_entries() {
    let dir = tempfile::tempdir().unwrap();
    let audit = data(dir.path()).join("audit.log");
    fs::create_dir(data(dir.path())).unwrap();
    std::os::unix::fs::symlink("/dev/full", audit).unwrap();
    let (node, server) = serve_in(dir.path());
    let app = node.db().unwrap().keyspace("app").unwrap();
    app.create_snapshot("s").unwrap();
    let token = token(dir.path(), Scope::Jobs);
    let body = json!({"keyspace": "app", "name": "t"});
    let (status, _, problem) = send(&server, "POST /v1/snapshots", &token, "k", &body);
    assert_eq!((status, &problem["failure"]), (507, &json!("disk-full")));
    let of = |name: &str| {
        let request = format!("DELETE /v1/snapshots/app/{name}");
        ask(&server, &request, "localhost", Some(&token), "").0
    };
    assert_eq!((of("t"), of("s")), (404, 204), "only one was made");
}
