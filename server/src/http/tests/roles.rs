//! Tokens that belong to roles of CQL.

mod dropped_tables;
mod reads;

use ebb_jobs::history::History;
use ebb_model::access::{Permission, PermissionSet, Resource, Role, RoleError, Roles};
use serde_json::json;

use super::session::pipelined;
use super::*;
use crate::tokens::TokenRole;

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
