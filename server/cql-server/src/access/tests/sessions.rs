//! Cached decisions about the permissions of a connection, and the changes that invalidate them.

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, ErrorKind, QueryParameters, ValuesBuf};

use super::{U, server};
use crate::access::User;

const T: &str = "CREATE TABLE t (k int PRIMARY KEY, v int)";

#[test]
fn a_revoked_permission_is_gone_at_the_next_execute_or_batch() {
    let mut server = server(&[T]);
    server.run("GRANT ALL ON t TO u");
    server.log_in(U);
    let select = server.prepare("SELECT * FROM t").unwrap();
    let insert = Arc::new(server.prepare("INSERT INTO t (k) VALUES (1)").unwrap());
    let values = ValuesBuf::new();
    let batch = [(insert.clone(), values.as_values())];
    for _ in 0..3 {
        server.execute(&select, QueryParameters::default()).unwrap();
        server.execute(&insert, QueryParameters::default()).unwrap();
        server.batch(BatchKind::Logged, &batch).unwrap();
    }
    let by = std::mem::replace(&mut server.user, User::anyone());
    server.run("REVOKE MODIFY ON t FROM u");
    server.user = by;
    server.execute(&select, QueryParameters::default()).unwrap();
    let message = "User u has no MODIFY permission on <table ks.t> or any of its parents";
    let refused = server
        .execute(&insert, QueryParameters::default())
        .unwrap_err();
    assert_eq!(
        (refused.kind, &*refused.message),
        (ErrorKind::Unauthorized, message)
    );
    let refused = server.batch(BatchKind::Logged, &batch).unwrap_err();
    assert_eq!(refused.message, message);
    assert_eq!(server.unauthorized("INSERT INTO t (k) VALUES (2)"), message);
}

#[test]
fn a_connection_loses_its_permissions_with_its_role_although_the_name_is_reused() {
    let mut server = server(&[T]);
    server.run("CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true");
    server.log_in("root");
    let select = server.prepare("SELECT * FROM t").unwrap();
    server.execute(&select, QueryParameters::default()).unwrap();
    let mut by = std::mem::replace(&mut server.user, User::anyone());
    let mut refused = |server: &mut crate::executor::harness::Server, change: &str| {
        server.run(change);
        std::mem::swap(&mut by, &mut server.user);
        let error = server
            .execute(&select, QueryParameters::default())
            .unwrap_err();
        std::mem::swap(&mut by, &mut server.user);
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        error.message
    };
    assert_eq!(
        refused(&mut server, "ALTER ROLE root WITH LOGIN = false"),
        "root is not permitted to log in"
    );
    let gone = "Role root doesn't exist any more";
    assert_eq!(refused(&mut server, "DROP ROLE root"), gone);
    let again = "CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true";
    assert_eq!(refused(&mut server, again), gone);
}

#[test]
fn statements_in_one_cache_slot_are_checked_separately() {
    let mut server = server(&[T, "CREATE TABLE secret (k int PRIMARY KEY)"]);
    server.run("GRANT SELECT ON t TO u");
    server.log_in(U);
    let allowed = server.prepare("SELECT * FROM t").unwrap();
    let mut refused = Vec::new();
    for _ in 0..200 {
        refused.push(server.prepare("SELECT * FROM secret").unwrap());
    }
    server
        .execute(&allowed, QueryParameters::default())
        .unwrap();
    for statement in &refused {
        assert!(
            server
                .execute(statement, QueryParameters::default())
                .is_err()
        );
    }
    server
        .execute(&allowed, QueryParameters::default())
        .unwrap();
}

#[test]
fn select_on_a_table_permits_reads_of_its_snapshots() {
    let mut server = server(&[T, "CREATE TABLE secret (k int PRIMARY KEY)"]);
    server.run("CREATE SNAPSHOT s ON KEYSPACE ks");
    server.run("GRANT SELECT ON t TO u");
    server.log_in(U);
    for name in ["ks.{} USING SNAPSHOT s", "\"ks@s\".{}", "ks__at__s.{}"] {
        let select = |table: &str| format!("SELECT * FROM {}", name.replace("{}", table));
        server.run(&select("t"));
        assert_eq!(
            server.unauthorized(&select("secret")),
            "User u has no SELECT permission on <table ks.secret> or any of its parents"
        );
    }
    // The permission was granted on the table, and went with the table although the snapshot
    // remains.
    server.user = User::anyone();
    server.run("DROP TABLE t");
    server.log_in(U);
    server.unauthorized("SELECT * FROM ks.t USING SNAPSHOT s");
}
