//! Tokens that belong to roles of CQL.

use ebb_jobs::JobError;
use ebb_jobs::history::{History, JobRecord, MaintenanceOptions, OwnSnapshot, Submission};
use ebb_model::access::{Permission, PermissionSet, Resource, Role, RoleError, Roles};
use ebb_storage::Keyspace;
use ebb_tables::names::TableName;
use serde_json::json;

use super::session::pipelined;
use super::*;
use crate::http::outline::{Reads, outline};
use crate::http::permits::{check_input_at, checked_table};
use crate::tokens::{ActingRole, Principal, TokenRole};

pub(super) const ADA: u64 = 0xada;

fn change(node: &Node, change: impl FnOnce(&Roles) -> Result<Roles, RoleError>) {
    let catalog = node.catalog().unwrap();
    let changed = (catalog.roles()).change(|roles| change(roles).map(Some));
    assert!(changed.unwrap().unwrap());
}

fn grant(node: &Node, permission: Permission, on: &Resource) {
    let set = PermissionSet::of(&[permission]);
    change(node, |roles| {
        let (next, _) = roles.with_permissions("ada", on, set)?;
        Ok(next)
    });
}

/// Creates a token of this scope for the role `ada`. `id` is the id of the role.
pub(super) fn token_of(dir: &Path, id: u64, scope: Scope) -> Token {
    let token = Token::random();
    let role = TokenRole {
        name: "ada".to_string(),
        id: format!("{id:016x}"),
    };
    let mut record = TokenRecord::new(&token, "test", scope, SystemTime::now(), None);
    record.role = Some(role);
    let file = TokenFile::of(&data(dir));
    file.change(|all| all.add(record)).unwrap();
    token
}

/// Starts a server with a table `app.t` and the role `ada`, which may log in and do nothing else.
/// The directory of its database lasts as long as the first value.
fn served() -> (TempDir, Arc<Node>, HttpServer) {
    let (dir, node, server) = serve();
    let app = node.db().unwrap().keyspace("app").unwrap();
    app.table("t", ebb_storage::TableOptions::default())
        .unwrap();
    add_ada(&node);
    (dir, node, server)
}

/// Creates the role `ada`, which may log in and do nothing else.
pub(super) fn add_ada(node: &Node) {
    let ada = Role {
        id: ADA,
        can_login: true,
        ..Role::default()
    };
    change(node, |roles| roles.with_new("ada", ada));
}

/// Checks the response to a request: its status, and a part of its text.
pub(super) fn check(request: &str, (status, answer): (u16, String), expected: u16, text: &str) {
    assert_eq!(status, expected, "{request}: {answer}");
    assert!(answer.contains(text), "{request}: {answer}");
}

/// Returns the request for a job that counts the words of the table `input`.
fn wordcount(input: &str, snapshot: Option<&str>, output: &str) -> Value {
    json!({
        "application": {"wordcount": {"reduces": 1}},
        "inputs": [{"table": {"table": input, "snapshot": snapshot}}],
        "output": {"to": {"table": output}},
        "directory": "/",
    })
}

fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_default()
}

#[test]
fn a_token_may_do_what_its_role_may() {
    let (dir, node, server) = served();
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let ask = |request: &str, body: &Value| {
        ask(&server, request, "localhost", Some(&ada), &body.to_string())
    };
    let create = json!({"keyspace": "app", "name": "s"});
    let delete = "DELETE /v1/snapshots/app/s";
    let post = "POST /v1/snapshots";
    let text = "role ada has no SNAPSHOT permission on <keyspace app>";
    check(post, ask(post, &create), 403, text);
    node.db()
        .unwrap()
        .keyspace("app")
        .unwrap()
        .create_snapshot("s")
        .unwrap();
    let renew = "POST /v1/snapshots/app/s/renew";
    let renewal = json!({"expires_in_s": 3600});
    assert_eq!(ask(delete, &Value::Null).0, 403);
    assert_eq!(ask(renew, &renewal).0, 403);
    grant(&node, Permission::Snapshot, &Resource::keyspace("app"));
    assert_eq!(ask(renew, &renewal).0, 200);
    assert_eq!(ask(delete, &Value::Null).0, 204);
    assert_eq!(ask("POST /v1/snapshots", &create).0, 201);

    let endless = |table: &str| pi(1 << 50, OutputPlace::Table(table.parse().unwrap()));
    let to_t = serde_json::to_value(endless("app.out")).unwrap();
    for path in ["/v1/jobs", "/v1/jobs/estimate", "/v1/what-if"] {
        let text = "no MODIFY permission on <table app.out>";
        check(path, ask(&format!("POST {path}"), &to_t), 403, text);
    }
    let other = client(dir.path())
        .submit(&endless("app.other"))
        .unwrap()
        .record
        .id;
    for request in [
        "POST /v1/jobs/ID/cancel",
        "POST /v1/jobs/ID/restart",
        "POST /v1/jobs/ID/discard",
    ] {
        let (status, answer) = ask(&request.replace("ID", &other), &Value::Null);
        assert_eq!(status, 403, "{request}: {answer}");
    }
    grant(&node, Permission::Modify, &Resource::table("app", "out"));
    let history = History::open(node.db().unwrap()).unwrap();
    let begun = history.begin(&endless("app.out"), Vec::new(), None);
    let unfinished = begun.unwrap().id;
    let restart = format!("POST /v1/jobs/{unfinished}/restart");
    // Regression: a job made the table although its role could not have made it by CREATE TABLE.
    for (request, body) in [("POST /v1/jobs", &to_t), (&*restart, &Value::Null)] {
        let text = "no CREATE permission on <all tables in app>";
        check(request, ask(request, body), 403, text);
    }
    let discard = format!("POST /v1/jobs/{unfinished}/discard");
    let (status, answer) = ask(&discard, &Value::Null);
    assert_eq!(status, 200, "its end makes no table: {answer}");
    grant(
        &node,
        Permission::Create,
        &Resource::AllTables("app".into()),
    );
    let (status, answer) = ask("POST /v1/jobs", &to_t);
    assert_eq!(status, 201, "{answer}");
    let own = body(&answer)["record"]["id"].as_str().unwrap().to_string();
    assert_eq!(
        ask(&format!("POST /v1/jobs/{own}/cancel"), &Value::Null).0,
        200
    );
    assert!(client(dir.path()).cancel(&other).unwrap());
    let retry = format!("POST /v1/jobs/{other}/retry");
    for id in [own, other] {
        wait_for_end(&client(dir.path()), &id);
    }
    let (status, answer) = ask(&retry, &Value::Null);
    assert_eq!(status, 403, "{answer}");
    let audit = fs::read_to_string(data(dir.path()).join("audit.log")).unwrap();
    assert!(
        audit.lines().any(|line| line.contains("\"role\":\"ada\"")),
        "{audit}"
    );
}

#[test]
fn a_role_sees_options_and_errors_only_of_jobs_whose_inputs_it_may_read() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    let table = app.existing_table("t").unwrap();
    table.put(b"k", b"secret").unwrap();
    let request = json!({
        "application": {"aggregate": {"of": ["value"]}},
        "inputs": [{"table": {"table": "app.t"}}],
        "output": {"to": {"table": "app.sums"}},
        "directory": "/",
    });
    let own = client(dir.path());
    let request = JobRequest::from_json(request).unwrap();
    let id = own.submit(&request).unwrap().record.id;
    wait_for_end(&own, &id);
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let without_role = token(dir.path(), Scope::Read);
    let seen = |token: &Token| {
        let paths = [String::new(), format!("/{id}"), format!("/{id}/attempts")];
        paths.map(|path| {
            let request = format!("GET /v1/jobs{path}");
            let (status, answer) = ask(&server, &request, "localhost", Some(token), "");
            assert_eq!(status, 200, "{answer}");
            answer
        })
    };
    let quotes = |answer: &String| answer.contains("secret");
    // Regression: the error of a job that others had submitted showed every role a value of their table.
    for answer in seen(&ada) {
        assert!(!quotes(&answer), "{answer}");
        assert!(!answer.contains("\"of\""), "{answer}");
        let hidden = "the role of this token may not read what the job reads";
        assert!(answer.contains(hidden), "{answer}");
    }
    assert!(seen(&without_role).iter().all(quotes));
    grant(&node, Permission::Select, &Resource::table("app", "t"));
    assert!(seen(&ada).iter().all(quotes));
    let nothing = pi(1, OutputPlace::Table("app.pi".parse().unwrap()));
    let mut record = JobRecord::new("1".to_string(), &nothing, Vec::new(), 1);
    assert_eq!(Reads::of(&record), Reads::Tables(Vec::new()));
    record.request = json!({"application": {"other": {}}});
    assert_eq!(Reads::of(&record), Reads::Others, "no build knows it");
    record.submission = Some(Submission::new(&[0; 32], &[1; 32]));
    let seen = outline(JobView::remembered(record)).record;
    assert_eq!(seen.submission, None, "it has a hash of the options");
}

/// Regression: every role was shown the descriptions of damage, which may have keys of rows.
#[test]
fn a_role_sees_which_files_a_verification_found_damaged_and_no_description_of_the_damage() {
    let options = MaintenanceOptions {
        by: "nightly".to_string(),
        rate_bytes_per_s: None,
    };
    let damage = json!([{"path": "000007.sst", "offset": 0, "detail": "the key is secret"}]);
    for (application, report) in [
        ("verify", json!({"verify": {"findings": damage}})),
        ("backup", json!({"backup": {"damaged": damage}})),
        (
            "restore",
            json!({"restore": {"restored": damage, "left": damage}}),
        ),
    ] {
        let record = JobRecord {
            application: application.to_string(),
            request: json!({"application": {application: options}}),
            state: RecordState::Succeeded,
            report: Some(report),
            ..JobRecord::of_verification("1".to_string(), &options, 1)
        };
        assert_eq!(Reads::of(&record), Reads::Others);
        let seen = outline(JobView::remembered(record.clone())).record;
        assert_eq!(seen.request, record.request);
        let report = json!(seen.report).to_string();
        assert!(report.contains("000007.sst"), "{report}");
        assert!(!report.contains("secret"), "{report}");
    }
}

#[test]
fn a_role_sees_profiles_only_of_jobs_whose_inputs_it_may_read() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    app.existing_table("t").unwrap().put(b"k", b"a b").unwrap();
    let words = JobRequest::from_json(wordcount("app.t", None, "app.words")).unwrap();
    let nothing = pi(1, OutputPlace::Table("app.pi".parse().unwrap()));
    let own = client(dir.path());
    let [words, _] = [words, nothing].map(|request| {
        let id = own.submit(&request).unwrap().record.id;
        let report = wait_for_end(&own, &id).report;
        assert_eq!(report.outcome, Outcome::Succeeded);
        id
    });
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let without_role = token(dir.path(), Scope::Read);
    let listed = |token: &Token| {
        let (status, answer) = ask(&server, "GET /v1/profiles", "localhost", Some(token), "");
        assert_eq!(status, 200, "{answer}");
        let profiles = body(&answer)["profiles"].as_array().cloned();
        let profiles = profiles.into_iter().flatten();
        let names = profiles.map(|profile| profile["application"].clone());
        names.collect::<Vec<Value>>()
    };
    // Regression: the names of all inputs, also of files, were shown to every role.
    assert_eq!(listed(&ada), ["pi"]);
    assert_eq!(listed(&without_role), ["pi", "wordcount"]);
    grant(&node, Permission::Select, &Resource::table("app", "t"));
    assert_eq!(listed(&ada), ["pi", "wordcount"]);
    let history = History::open(node.db().unwrap()).unwrap();
    history.forget(&words).unwrap();
    assert_eq!(listed(&ada), ["pi"], "nothing shows what it read");
    assert_eq!(listed(&without_role), ["pi", "wordcount"]);
}

#[test]
fn a_role_lists_the_roles_granted_to_it_and_with_describe_all() {
    let (dir, node, server) = served();
    for (name, id) in [("eve", 1), ("team", 2)] {
        let role = Role {
            id,
            ..Role::default()
        };
        change(&node, |roles| roles.with_new(name, role));
    }
    change(&node, |roles| roles.with_member("team", "ada"));
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let listed = || {
        let (status, answer) = ask(&server, "GET /v1/roles", "localhost", Some(&ada), "");
        assert_eq!(status, 200, "{answer}");
        let roles = body(&answer)["roles"].as_array().cloned();
        let names = roles.into_iter().flatten().map(|role| role["name"].clone());
        names.collect::<Vec<Value>>()
    };
    // Regression: every token listed all roles, and which of them are superusers.
    assert_eq!(listed(), ["ada", "team"]);
    grant(&node, Permission::Describe, &Resource::AllRoles);
    assert_eq!(listed(), ["ada", "eve", "team"]);
}

#[test]
fn a_role_with_select_on_a_table_reads_its_rows() {
    let (dir, node, server) = served();
    let app = node.db().unwrap().existing_keyspace("app").unwrap();
    app.existing_table("t").unwrap().put(b"k", b"v").unwrap();
    let [read, jobs] = [Scope::Read, Scope::Jobs].map(|scope| token_of(dir.path(), ADA, scope));
    let key = json!({"key": "k"}).to_string();
    let get = |token: &Token, table: &str| {
        let request = format!("POST /v1/tables/{table}/get");
        let (status, answer) = ask(&server, &request, "localhost", Some(token), &key);
        (status, body(&answer))
    };
    assert_eq!(get(&jobs, "app/t").0, 403);
    grant(&node, Permission::Select, &Resource::AllKeyspaces);
    let row = json!({"key": "k", "value": "v"});
    assert_eq!(get(&jobs, "app/t"), (200, row));
    assert_eq!(get(&read, "app/t").0, 403);
    assert_eq!(get(&jobs, "ebb_system/roles").0, 403);
    let scan = "POST /v1/tables/app/t/scan";
    let (status, answer) = ask(&server, scan, "localhost", Some(&jobs), "{}");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(body(&answer)["rows"][0]["key"], "k");
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

#[test]
fn jobs_that_read_the_keyspace_of_the_system_take_scope_admin() {
    let (dir, node, server) = served();
    grant(&node, Permission::Select, &Resource::AllKeyspaces);
    grant(&node, Permission::Modify, &Resource::AllKeyspaces);
    let [jobs, admin] = [Scope::Jobs, Scope::Admin].map(|scope| token(dir.path(), scope));
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let estimate = |token: &Token, input: &str| {
        let (request, body) = ("POST /v1/jobs/estimate", wordcount(input, None, "app.out"));
        let body = body.to_string();
        ask(&server, request, "localhost", Some(token), &body)
    };
    for (token, reason) in [(&jobs, "needs scope admin"), (&ada, "needs a superuser")] {
        let answer = estimate(token, "ebb_system.roles");
        check("estimate", answer, 403, reason);
        let (status, answer) = estimate(token, "app.t");
        assert_ne!(status, 403, "{answer}");
    }
    let (status, answer) = estimate(&admin, "ebb_system.roles");
    assert_ne!(status, 403, "{answer}");
}

#[test]
fn scope_admin_is_for_superusers() {
    let (dir, node, server) = served();
    let ada = token_of(dir.path(), ADA, Scope::Admin);
    let ask = |request: &str, body: &str| ask(&server, request, "localhost", Some(&ada), body);
    let who = || body(&ask("GET /v1/session", "").1);
    assert_eq!(
        who(),
        json!({"scope": "jobs", "name": "test", "role": "ada"})
    );
    let backup = |name: &str| ask("POST /v1/backups", &json!({"name": name}).to_string());
    // Regression: the error named scope jobs as that of the token.
    let text = "role ada of this token is none";
    check("backup", backup("monday"), 403, text);
    change(&node, |roles| {
        roles.with_changed("ada", |role| role.is_superuser = true)
    });
    assert_eq!(who()["scope"], json!("admin"));
    assert_eq!(backup("monday").0, 201);
}

#[test]
fn a_token_is_good_while_its_role_may_log_in() {
    let (dir, node, server) = served();
    let ada = token_of(dir.path(), ADA, Scope::Read);
    let status = || ask(&server, "GET /v1/jobs", "localhost", Some(&ada), "").0;
    assert_eq!(status(), 200);
    let login = |may| {
        change(&node, |roles| {
            roles.with_changed("ada", |role| role.can_login = may)
        })
    };
    login(false);
    assert_eq!(status(), 401);
    login(true);
    assert_eq!(status(), 200);
    change(&node, |roles| roles.without("ada"));
    assert_eq!(status(), 401);
    // A new role of the same name does not inherit the tokens of the old one.
    let other = Role {
        id: ADA + 1,
        can_login: true,
        is_superuser: true,
        ..Role::default()
    };
    change(&node, |roles| roles.with_new("ada", other));
    assert_eq!(status(), 401);
    let listed = client(dir.path()).roles().unwrap();
    let ada = listed.iter().find(|role| role.name == "ada").unwrap();
    assert_eq!((&*ada.id, ada.is_superuser), ("0000000000000adb", true));
}

/// Regression: a client could try tokens whose roles were gone without a limit.
#[test]
fn a_token_whose_role_is_gone_counts_as_an_invalid_token() {
    let (dir, node, server) = served();
    let ada = token_of(dir.path(), ADA, Scope::Read);
    change(&node, |roles| roles.without("ada"));
    // Beyond the first ten, one in two seconds is allowed: 100 of them would take three minutes.
    let responses = pipelined(&server, &ada, 100);
    let count = |status: &str| responses.matches(&format!("HTTP/1.1 {status} ")).count();
    let (bad, refused) = (count("401"), count("429"));
    assert_eq!(bad + refused, 100);
    assert!(bad >= 10 && refused > 0, "{bad} {refused}");
    let gone = "role ada of this token is gone, or may not log in any more";
    assert_eq!(responses.matches(gone).count(), 100);
}

/// Regression: a token whose role could not be read was refused as one whose role is gone.
#[test]
fn a_token_whose_role_cannot_be_read_gets_an_error_of_the_server() {
    let (dir, node, server) = serve();
    // The first token that has a role opens the catalog, which reads the roles.
    let own = node.db().unwrap().keyspace("ebb_system").unwrap();
    let records = own
        .table("roles", ebb_storage::TableOptions::default())
        .unwrap();
    records.put(b"ada", b"{}").unwrap();
    let ada = token_of(dir.path(), ADA, Scope::Read);
    // More often than an invalid token may be tried.
    for _ in 0..20 {
        let (status, answer) = ask(&server, "GET /v1/jobs", "localhost", Some(&ada), "");
        assert_eq!(status, 500, "{answer}");
        let problem = body(&answer);
        assert_eq!(problem["failure"], "corrupt");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("role ada of this token cannot be found"),
            "{detail}"
        );
    }
}

#[test]
fn a_role_holds_no_more_snapshots_than_it_may() {
    let (dir, node, server) = served();
    grant(&node, Permission::Snapshot, &Resource::keyspace("app"));
    change(&node, |roles| {
        roles.with_changed("ada", |role| role.snapshots_max = Some(2))
    });
    let ada = token_of(dir.path(), ADA, Scope::Jobs);
    let ask = |request: &str, body: &Value| {
        ask(&server, request, "localhost", Some(&ada), &body.to_string())
    };
    let create = |name: &str| {
        ask(
            "POST /v1/snapshots",
            &json!({"keyspace": "app", "name": name}),
        )
    };
    let held = || {
        let own = node.db().unwrap().existing_keyspace("ebb_system").unwrap();
        let records = own.existing_table("role_snapshots").unwrap();
        records.range::<&[u8], _>(..).count()
    };
    assert_eq!(create("a").0, 201);
    assert_eq!(create("a").0, 409, "one of this name is there");
    assert_eq!(create("b").0, 201);
    assert_eq!(held(), 2);
    let text = "User ada holds 2 snapshots already, as many as it may; drop one of them";
    check("create", create("c"), 403, text);
    let (status, _) = ask("DELETE /v1/snapshots/app/a", &Value::Null);
    assert_eq!(status, 204);
    assert_eq!(held(), 1);
    assert_eq!(create("c").0, 201);
    assert_eq!(create("d").0, 403);
    // Deleted snapshots do not count.
    assert_eq!(held(), 2);
    // The quota does not apply to a principal without a role.
    client(dir.path())
        .create_snapshot(&SnapshotRequest {
            keyspace: "app".to_string(),
            name: "d".to_string(),
            table: None,
            expires_in_s: None,
        })
        .unwrap();
    // Regression: if only the removal of this record failed, the deletion got an error.
    let own = node.db().unwrap().existing_keyspace("ebb_system").unwrap();
    own.drop_table("role_snapshots").unwrap();
    let (status, answer) = ask("DELETE /v1/snapshots/app/b", &Value::Null);
    assert_eq!(status, 204, "{answer}");
}
