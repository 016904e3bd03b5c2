//! A permission on a table reaches no other table of its name: neither one that was dropped before the grant, nor
//! one that was created later.

use ebb_jobs::JobError;
use ebb_jobs::history::OwnSnapshot;
use ebb_storage::Keyspace;
use ebb_tables::names::TableName;

use super::*;
use crate::http::permits::{check_input_at, checked_table};
use crate::tokens::{ActingRole, Principal};

/// Drops the table `t`, and creates another one of this name with the value `new` of key `k`.
fn replace_t(app: &Keyspace) {
    app.drop_table("t").unwrap();
    let options = ebb_storage::TableOptions::default();
    let t = app.table("t", options).unwrap();
    t.put(b"k", b"new").unwrap();
}

/// Removes all permissions on `on`, as happens before another table gets the name of a dropped one.
fn revoke_all(node: &Node, on: &Resource) {
    change(node, |roles| {
        let next = roles.retained(|other| other != on);
        Ok(next.expect("ada has a permission on it"))
    });
}

/// Sends the headers of a request over TCP, and returns the connection once the server waits for
/// the body. The server has checked the token by then.
fn send_headers(server: &HttpServer, request: &str, token: &Token, body: &str) -> TcpStream {
    let mut stream = connect(server);
    let (token, length) = (token.reveal(), body.len());
    let headers = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Length: {length}\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    stream.write_all(headers.as_bytes()).unwrap();
    let expected = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut interim = vec![0; expected.len()];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(String::from_utf8_lossy(&interim), expected);
    stream
}

/// Regression: a user who created a table with the name of a dropped one could read the dropped
/// table in its snapshots, and renew and delete these snapshots.
#[test]
fn permissions_on_a_table_do_not_reach_snapshots_of_a_dropped_table_of_its_name() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    app.existing_table("t").unwrap().put(b"k", b"v").unwrap();
    app.create_snapshot("s").unwrap();
    let [_, seq] = ["of_t", "run-1"].map(|name| {
        let options = ebb_storage::SnapshotOptions {
            table: Some("t".to_string()),
            expires_in: None,
        };
        app.create_snapshot_with(name, options).unwrap()
    });
    let own = OwnSnapshot {
        input: 0,
        keyspace: "app".to_string(),
        name: "run-1".to_string(),
        seq: Some(seq.0),
    };
    let unfinished = JobRequest::from_json(wordcount("app.t", None, "app.restarted"));
    let unfinished = unfinished.unwrap();
    let history = History::open(node.db().unwrap()).unwrap();
    let unfinished = history.begin(&unfinished, vec![own], None).unwrap().id;
    for (permission, on) in [
        (Permission::Select, Resource::table("app", "t")),
        (Permission::Snapshot, Resource::table("app", "t")),
        (Permission::Modify, Resource::keyspace("app")),
        (Permission::Create, Resource::keyspace("app")),
    ] {
        grant(&node, permission, &on);
    }
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let ask = |request: &str, body: &Value| {
        ask(&server, request, "localhost", Some(&ada), &body.to_string())
    };
    let (get, key) = (
        "POST /v1/tables/app/t/get",
        json!({"key": "k", "snapshot": "s"}),
    );
    let (scan, rows) = ("POST /v1/tables/app/t/scan", json!({"snapshot": "s"}));
    for (request, body) in [(get, &key), (scan, &rows)] {
        let (status, answer) = ask(request, body);
        assert_eq!(status, 200, "{request}: {answer}");
    }
    app.drop_table("t").unwrap();
    app.table("t", ebb_storage::TableOptions::default())
        .unwrap();
    let restart = format!("POST /v1/jobs/{unfinished}/restart");
    let words = wordcount("app.t", Some("s"), "app.out");
    let requests = [
        (get, key, "SELECT", 200),
        (scan, rows, "SELECT", 200),
        ("POST /v1/jobs/estimate", words.clone(), "SELECT", 200),
        (
            "POST /v1/snapshots/app/of_t/renew",
            json!({"expires_in_s": 3600}),
            "SNAPSHOT",
            200,
        ),
        (
            "DELETE /v1/snapshots/app/of_t",
            Value::Null,
            "SNAPSHOT",
            204,
        ),
        ("POST /v1/jobs", words, "SELECT", 201),
    ];
    for (request, body, permission, _) in &requests {
        let text = format!("role ada has no {permission} permission on <all tables in app>");
        check(request, ask(request, body), 403, &text);
    }
    // A snapshot is deleted with its keyspace, so the requests above need a permission on the
    // keyspace only. The record of a job stays, and another user may have a keyspace of the name
    // by then.
    let missing = "no SELECT permission on <all keyspaces>";
    check(&restart, ask(&restart, &Value::Null), 403, missing);
    assert_eq!(history.jobs().unwrap().len(), 1, "no refused job stays");
    for permission in [Permission::Select, Permission::Snapshot] {
        grant(&node, permission, &Resource::AllTables("app".into()));
    }
    for (request, body, _, permitted) in &requests {
        let (status, answer) = ask(request, body);
        assert_eq!(status, *permitted, "{request}: {answer}");
    }
    grant(&node, Permission::Select, &Resource::AllKeyspaces);
    assert_eq!(ask(&restart, &Value::Null).0, 200);
    let own = client(dir.path());
    for job in history.jobs().unwrap() {
        let end = wait_for_end(&own, &job.id);
        assert_eq!(end.report.outcome, Outcome::Succeeded);
    }
}

/// Regression: a client that sent the body of its request only after a table was dropped, and
/// another one created under its name, read the rows of the new table with the permission on the
/// dropped one.
#[test]
fn a_permission_on_a_dropped_table_does_not_reach_a_new_table_of_its_name() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    for permission in [Permission::Modify, Permission::Create] {
        grant(&node, permission, &Resource::keyspace("app"));
    }
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let words = wordcount("app.t", None, "app.out");
    let on_t = Resource::table("app", "t");
    for (request, body) in [
        ("POST /v1/tables/app/t/get", json!({"key": "k"})),
        ("POST /v1/tables/app/t/scan", json!({})),
        ("POST /v1/jobs/estimate", words.clone()),
        ("POST /v1/jobs", words),
    ] {
        grant(&node, Permission::Select, &on_t);
        let body = body.to_string();
        let mut stream = send_headers(&server, request, &ada, &body);
        revoke_all(&node, &on_t);
        replace_t(&app);
        stream.write_all(body.as_bytes()).unwrap();
        let text = "role ada has no SELECT permission on <table app.t>";
        check(request, answer_on(stream), 403, text);
    }
    let history = History::open(node.db().unwrap()).unwrap();
    assert_eq!(history.jobs().unwrap(), [], "no refused job stays");
    assert!(app.snapshot_names().is_empty(), "nor does its snapshot");
}

/// Regression: a client that sent the body of its request only after a table was dropped, and
/// another one created under its name, had a job write to the new table with the permission on the
/// dropped one. A job also created its output table with a permission that had been revoked.
#[test]
fn a_permission_on_a_dropped_table_does_not_reach_the_output_of_a_job() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let on_t = Resource::table("app", "t");
    let all = Resource::AllTables("app".into());
    let on_new = Resource::table("app", "new");
    grant(&node, Permission::Modify, &on_new);
    for (request, table, permission, on) in [
        ("POST /v1/jobs", "app.t", Permission::Modify, &on_t),
        ("POST /v1/jobs/estimate", "app.t", Permission::Modify, &on_t),
        ("POST /v1/jobs", "app.new", Permission::Create, &all),
    ] {
        grant(&node, permission, on);
        let body = pi(1, OutputPlace::Table(table.parse().unwrap()));
        let body = body.to_json().to_string();
        let mut stream = send_headers(&server, request, &ada, &body);
        revoke_all(&node, on);
        app.drop_table("t").unwrap();
        let options = ebb_storage::TableOptions::default();
        app.create_table("t", options).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let text = format!("role ada has no {permission} permission on {on}");
        check(request, answer_on(stream), 403, &text);
    }
    let history = History::open(node.db().unwrap()).unwrap();
    assert_eq!(history.jobs().unwrap(), [], "no refused job stays");
    assert!(app.existing_table("new").is_err());
}

/// Regression: a client that sent the body of its request only after a table was dropped, and
/// another one created under its name, created and renewed snapshots of the new table with the
/// permission on the dropped one.
#[test]
fn a_permission_on_a_dropped_table_does_not_reach_snapshots_of_a_new_table_of_its_name() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    let snapshot_t = || {
        let options = ebb_storage::SnapshotOptions {
            table: Some("t".to_string()),
            expires_in: None,
        };
        app.create_snapshot_with("of_t", options).unwrap();
    };
    snapshot_t();
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let on_t = Resource::table("app", "t");
    for (request, body) in [
        (
            "POST /v1/snapshots",
            json!({"keyspace": "app", "table": "t", "name": "other"}),
        ),
        (
            "POST /v1/snapshots/app/of_t/renew",
            json!({"expires_in_s": 3600}),
        ),
    ] {
        grant(&node, Permission::Snapshot, &on_t);
        let body = body.to_string();
        let mut stream = send_headers(&server, request, &ada, &body);
        revoke_all(&node, &on_t);
        app.delete_snapshot("of_t").unwrap();
        replace_t(&app);
        snapshot_t();
        stream.write_all(body.as_bytes()).unwrap();
        let text = "role ada has no SNAPSHOT permission on <table app.t>";
        check(request, answer_on(stream), 403, text);
    }
    assert_eq!(app.snapshot_names(), ["of_t"]);
    assert_eq!(app.snapshot_info("of_t").unwrap().expires, None);
}

#[test]
fn a_table_that_is_replaced_during_its_check_is_checked_again() {
    let (_dir, node, _server) = served();
    let db = node.db().unwrap();
    let app = db.existing_keyspace("app").unwrap();
    let t: TableName = "app.t".parse().unwrap();
    let mut checks = 0;
    let checked = checked_table(db, &t, || {
        checks += 1;
        if checks == 1 {
            replace_t(&app);
        }
        Ok(())
    });
    let value = checked.unwrap().get(b"k").unwrap();
    assert_eq!(value.as_deref(), Some(&b"new"[..]));
    assert_eq!(checks, 2);
    let mut is_permitted = true;
    let denied = checked_table(db, &t, || {
        if !is_permitted {
            return Err(JobError::Forbidden("no".to_string()));
        }
        replace_t(&app);
        is_permitted = false;
        Ok(())
    });
    assert!(matches!(denied, Err(JobError::Forbidden(_))), "{denied:?}");
    let gone = checked_table(db, &t, || Ok(app.drop_table("t")?));
    assert!(matches!(gone, Err(JobError::Lookup(_))), "{gone:?}");
}

#[test]
fn a_dropped_table_in_a_snapshot_is_read_by_permissions_on_its_own_keyspace() {
    let (_dir, node, _server) = served();
    let db = node.db().unwrap();
    let app = db.existing_keyspace("app").unwrap();
    let roles = node.catalog().unwrap().roles().state();
    let ada = Principal::of_role(ActingRole {
        name: "ada".to_string(),
        granted: roles.granted("ada").unwrap(),
    });
    app.create_snapshot("s").unwrap();
    let rows = app.snapshot("s").unwrap().table("t").unwrap();
    let t: TableName = "app.t".parse().unwrap();
    let check = || check_input_at(&node, &ada, &t, &rows);
    let forbidden = || matches!(check(), Err(JobError::Forbidden(_)));
    grant(&node, Permission::Select, &Resource::table("app", "t"));
    check().unwrap();
    // From here on, SELECT on app.t is a permission on the new table.
    replace_t(&app);
    assert!(forbidden());
    let all = Resource::AllTables("app".into());
    grant(&node, Permission::Select, &all);
    check().unwrap();
    // From here on, SELECT on all tables of app is a permission on the new keyspace.
    db.drop_keyspace("app").unwrap();
    let app = db.keyspace("app").unwrap();
    app.create_snapshot("s").unwrap();
    let gone = check();
    assert!(matches!(gone, Err(JobError::State(_))), "{gone:?}");
    change(&node, |roles| roles.without("ada"));
    assert!(forbidden());
}

/// Regression: a user who created a table with the name of a dropped one saw the options and errors
/// of jobs over the dropped table, and could retry, restart, discard and cancel these jobs.
#[test]
fn permissions_on_a_table_do_not_reach_jobs_over_a_dropped_table_of_its_name() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    let table = app.existing_table("t").unwrap();
    table.put(b"k", b"secret").unwrap();
    let sums = json!({
        "application": {"aggregate": {"of": ["value"]}},
        "inputs": [{"table": {"table": "app.t"}}],
        "output": {"to": {"table": "app.sums"}},
        "directory": "/",
    });
    let sums = JobRequest::from_json(sums).unwrap();
    let own = client(dir.path());
    let failed = own.submit(&sums).unwrap().record.id;
    wait_for_end(&own, &failed);
    let history = History::open(node.db().unwrap()).unwrap();
    let tables = history.job(&failed).unwrap().unwrap().tables;
    assert_eq!(tables.inputs, [table.number()]);
    let begun = history.begin_claimed(&sums, Vec::new(), tables, None, |_| Some(()));
    let (unfinished, ()) = begun.unwrap();
    let unfinished = unfinished.id;
    let endless = pi(1 << 50, OutputPlace::Table("app.out".parse().unwrap()));
    let running = own.submit(&endless).unwrap().record.id;
    // As the creator of a keyspace of this name has them.
    for permission in [Permission::Select, Permission::Modify, Permission::Create] {
        grant(&node, permission, &Resource::keyspace("app"));
    }
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let ask = |request: &str| ask(&server, request, "localhost", Some(&ada), "");
    let sees = |id: &str, text: &str| {
        let paths = [
            "/v1/jobs".to_string(),
            format!("/v1/jobs/{id}"),
            format!("/v1/jobs/{id}/attempts"),
        ];
        paths.map(|path| {
            let (status, answer) = ask(&format!("GET {path}"));
            assert_eq!(status, 200, "{path}: {answer}");
            answer.contains(text)
        })
    };
    assert_eq!(sees(&failed, "secret"), [true; 3]);
    // The record of an earlier build does not show which table the job read.
    let earlier = history.begin(&sums, Vec::new(), None).unwrap().id;
    assert!(!sees(&earlier, "\"of\"")[1]);
    let options = ebb_storage::TableOptions::default;
    app.drop_table("t").unwrap();
    app.table("t", options()).unwrap();
    // The job would have created this table itself.
    app.table("out", options()).unwrap();
    assert_eq!(sees(&failed, "secret"), [false; 3]);
    let retry = format!("POST /v1/jobs/{failed}/retry");
    let discard = format!("POST /v1/jobs/{unfinished}/discard");
    let cancel = format!("POST /v1/jobs/{running}/cancel");
    let restart = format!("POST /v1/jobs/{unfinished}/restart");
    for (request, permission) in [
        (&retry, "SELECT"),
        (&discard, "SELECT"),
        (&restart, "SELECT"),
        (&cancel, "MODIFY"),
    ] {
        let text = format!("role ada has no {permission} permission on <all keyspaces>");
        check(request, ask(request), 403, &text);
    }
    for permission in [Permission::Select, Permission::Modify] {
        grant(&node, permission, &Resource::AllKeyspaces);
    }
    assert_eq!(sees(&failed, "secret"), [true; 3]);
    for (request, permitted) in [(&discard, 200), (&cancel, 200), (&retry, 201)] {
        let (status, answer) = ask(request);
        assert_eq!(status, permitted, "{request}: {answer}");
    }
    for job in history.jobs().unwrap() {
        // Neither of these two has run.
        if job.id != earlier && job.id != unfinished {
            wait_for_end(&own, &job.id);
        }
    }
}

#[test]
fn a_permission_on_a_table_counts_for_the_job_that_created_the_table() {
    let (dir, node, server) = served();
    for permission in [Permission::Modify, Permission::Create] {
        grant(&node, permission, &Resource::keyspace("app"));
    }
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let ask = |request: &str, body: &Value| {
        ask(&server, request, "localhost", Some(&ada), &body.to_string())
    };
    let request = pi(1, OutputPlace::Table("app.out".parse().unwrap()));
    let (status, answer) = ask("POST /v1/jobs", &request.to_json());
    assert_eq!(status, 201, "{answer}");
    let id = body(&answer)["record"]["id"].as_str().unwrap().to_string();
    let end = wait_for_end(&client(dir.path()), &id);
    assert_eq!(end.report.outcome, Outcome::Succeeded);
    let (status, answer) = ask(&format!("POST /v1/jobs/{id}/cancel"), &Value::Null);
    assert_eq!(status, 409, "it has ended: {answer}");
    // A process that is killed after the commit leaves such a record.
    let history = History::open(node.db().unwrap()).unwrap();
    let tables = history.job(&id).unwrap().unwrap().tables;
    let begun = history.begin_claimed(&request, Vec::new(), tables, None, |_| Some(()));
    let (unfinished, ()) = begun.unwrap();
    let discard = format!("POST /v1/jobs/{}/discard", unfinished.id);
    let (status, answer) = ask(&discard, &Value::Null);
    assert_eq!(status, 200, "{answer}");
}
