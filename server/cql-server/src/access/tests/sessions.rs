//! Cached decisions about the permissions of a connection, and the changes that invalidate them.

use std::sync::Arc;

use ebb_cql::protocol::{BatchKind, ErrorKind, Values};

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
    let batch = [(insert.clone(), Values::default())];
    for _ in 0..3 {
        server.bind(&select, &[]).unwrap();
        server.bind(&insert, &[]).unwrap();
        server.batch(BatchKind::Logged, &batch).unwrap();
    }
    let by = std::mem::replace(&mut server.user, User::anyone());
    server.run("REVOKE MODIFY ON t FROM u");
    server.user = by;
    server.bind(&select, &[]).unwrap();
    let message = "User u has no MODIFY permission on <table ks.t> or any of its parents";
    let refused = server.bind(&insert, &[]).unwrap_err();
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
    server.bind(&select, &[]).unwrap();
    let mut by = std::mem::replace(&mut server.user, User::anyone());
    let mut refused = |server: &mut crate::executor::harness::Server, change: &str| {
        server.run(change);
        std::mem::swap(&mut by, &mut server.user);
        let error = server.bind(&select, &[]).unwrap_err();
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
    server.bind(&allowed, &[]).unwrap();
    for statement in &refused {
        assert!(server.bind(statement, &[]).is_err());
    }
    server.bind(&allowed, &[]).unwrap();
}

#[test]
fn select_on_a_table_permits_reads_of_its_snapshots() {
    let mut server = server(&[T, "CREATE TABLE secret (k int PRIMARY KEY)"]);
    server.run("INSERT INTO t (k, v) VALUES (1, 7)");
    server.run("CREATE SNAPSHOT s ON KEYSPACE ks");
    // A truncated table is still the table of the snapshot.
    server.run("TRUNCATE t");
    server.run("GRANT SELECT ON t TO u");
    server.log_in(U);
    let names = ["ks.{} USING SNAPSHOT s", "\"ks@s\".{}", "ks__at__s.{}"];
    let select = |name: &str, table: &str| format!("SELECT * FROM {}", name.replace("{}", table));
    let prepared = server.prepare(&select(names[0], "t")).unwrap();
    server.bind(&prepared, &[]).unwrap();
    for name in names {
        assert_eq!(server.rows(&select(name, "t")), "1 7");
        assert_eq!(
            server.unauthorized(&select(name, "secret")),
            "User u has no SELECT permission on <table ks.secret> or any of its parents"
        );
    }
    // The permission was granted on the table, and went with the table although the snapshot
    // remains.
    server.user = User::anyone();
    server.run("DROP TABLE t");
    server.run("GRANT CREATE ON KEYSPACE ks TO u");
    server.log_in(U);
    let message = "User u has no SELECT permission on <all tables in ks> or any of its parents";
    assert_eq!(server.unauthorized(&select(names[0], "t")), message);
    // Regression: who created a table with the name of the dropped one could read the dropped one.
    server.run(T);
    assert_eq!(server.rows("SELECT * FROM t"), "");
    for name in names {
        assert_eq!(server.unauthorized(&select(name, "t")), message);
    }
    let refused = server.bind(&prepared, &[]);
    assert_eq!(refused.unwrap_err().message, message);
    server.user = User::anyone();
    server.run("GRANT SELECT ON ALL TABLES IN KEYSPACE ks TO u");
    server.log_in(U);
    for name in names {
        assert_eq!(server.rows(&select(name, "t")), "1 7");
    }
}

/// Regression: a user who created a table with the name of a dropped table could drop the snapshots
/// of the dropped table.
#[test]
fn snapshot_on_a_table_permits_drops_of_its_own_snapshots_only() {
    let mut server = server(&[T]);
    server.run("CREATE SNAPSHOT of_dropped ON TABLE t");
    server.run("DROP TABLE t");
    server.run("GRANT CREATE ON KEYSPACE ks TO u");
    server.log_in(U);
    server.run(T);
    for on in ["TABLE t", "KEYSPACE ks"] {
        assert_eq!(
            server.unauthorized(&format!("DROP SNAPSHOT of_dropped ON {on}")),
            "User u has no SNAPSHOT permission on <all tables in ks> or any of its parents"
        );
    }
    server.run("CREATE SNAPSHOT own ON TABLE t");
    server.run("DROP SNAPSHOT own ON TABLE t");
    server.user = User::anyone();
    server.run("GRANT SNAPSHOT ON ALL TABLES IN KEYSPACE ks TO u");
    server.log_in(U);
    server.run("DROP SNAPSHOT of_dropped ON TABLE t");
}
