//! Changes of the schema: their events, and statements that run at the same time.

use std::cell::RefCell;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{io, thread};

use ebb_cql::protocol::{ErrorResponse, SchemaChange, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax;
use ebb_model::access::Resource;
use ebb_model::schema::Schema;
use ebb_storage::SnapshotOptions;
use ebb_storage::simulation::{FaultOp, MemDisk};
use ebb_test_support::wait::Observed;

use super::*;
use crate::access::User;
use crate::schema_statements;

const TABLE: &str = "CREATE TABLE t (k int PRIMARY KEY)";

/// Returns another connection to the catalog of `server`.
fn other_connection(server: &Server) -> Server {
    let catalog = Arc::clone(server.executor.catalog());
    Server::over(catalog, server.clock.clone(), Some("ks".to_owned()))
}

/// Returns the coming changes of the schema that no statement causes.
fn changes_without_statement(server: &Server) -> Receiver<SchemaChange> {
    let (notify, changes) = mpsc::channel();
    let notify = move |change: SchemaChange| notify.send(change).unwrap();
    server.executor.on_change(Box::new(notify));
    changes
}

/// Regression: ALTER TABLE ADD accepted a dropped column again with its old type but without
/// `frozen`. The next write of the column made its row unreadable, or with a static column its
/// partition.
#[test]
fn a_dropped_column_of_a_frozen_type_comes_back_as_frozen_only() {
    let mut server = Server::with(&[
        "CREATE TYPE a (x int)",
        "CREATE TABLE t (k int, c int, s frozen<a> STATIC, v frozen<a>, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, s, v) VALUES (1, 1, {x: 1}, {x: 1})",
    ]);
    for (column, kind) in [("s", " STATIC"), ("v", "")] {
        server.run(&format!("ALTER TABLE t DROP {column}"));
        assert_eq!(
            server.refused(&format!("ALTER TABLE t ADD {column} a{kind}")),
            format!(
                "Cannot re-add previously dropped column '{column}' of type a, incompatible with \
                 previous type frozen<tuple<int>>"
            )
        );
        server.run(&format!("ALTER TABLE t ADD {column} frozen<a>{kind}"));
    }
    server.run("INSERT INTO t (k, c, s, v) VALUES (1, 1, {x: 2}, {x: 2})");
    assert_eq!(server.rows("SELECT s.x, v.x FROM t"), "2 2");
}

#[test]
fn a_table_announced_by_a_job_causes_a_created_event() {
    let server = Server::new();
    let events = changes_without_statement(&server);
    server.executor.catalog().announce_table("ks", "counts");
    let expected = SchemaChange {
        kind: SchemaChangeKind::Created,
        keyspace: "ks".into(),
        target: SchemaTarget::Table("counts".into()),
    };
    assert!(events.try_iter().eq([expected]));
}

/// Returns a server over `disk` with a table and a snapshot. The user of its connection is a role
/// that created the snapshot, and may create and drop further snapshots.
fn of_creator(disk: &MemDisk) -> Server {
    let mut server = Server::on(disk);
    server.executor.catalog().set_listed_snapshots(32);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (a int PRIMARY KEY)",
        "CREATE ROLE u WITH LOGIN = true",
        "GRANT ALL ON ALL KEYSPACES TO u",
        "GRANT SELECT ON ks.t TO u",
    ] {
        server.run(text);
    }
    let roles = server.executor.catalog().roles().state();
    let role = roles.roles().get("u").unwrap();
    server.user = User::logged_in("u", role.id);
    server.run("CREATE SNAPSHOT old ON KEYSPACE ks");
    server
}

/// Regression: a statement whose change was done caused no event if a later step failed, such as the
/// one that grants permissions on a new table, or drops those on an old one.
#[test]
fn a_change_of_the_schema_causes_an_event_although_a_later_step_fails() {
    let visible = |server: &Server| {
        let catalog = server.executor.catalog();
        let keyspace = catalog.db().existing_keyspace("ks");
        let snapshots = keyspace.map(|keyspace| keyspace.snapshot_names());
        (catalog.state().version(), snapshots.unwrap_or_default())
    };
    for text in [
        "CREATE TABLE ks.u (a int PRIMARY KEY)",
        "DROP TABLE ks.t",
        "DROP KEYSPACE ks",
        "CREATE SNAPSHOT new ON KEYSPACE ks",
        "DROP SNAPSHOT old ON KEYSPACE ks",
    ] {
        let mut failed_late = 0;
        for nth in 1.. {
            let disk = MemDisk::new();
            let mut server = of_creator(&disk);
            server.changes.lock().unwrap().clear();
            let before = visible(&server);
            disk.fail_next(FaultOp::Any, nth, io::ErrorKind::Other);
            let refusal = server.refusal(text);
            let has_failed = disk.armed_faults() == 0;
            disk.clear_faults();
            let has_changed = visible(&server) != before;
            let has_event = !server.changes.lock().unwrap().is_empty();
            assert_eq!(has_event, has_changed, "{text}, call {nth}: {refusal:?}");
            failed_late += usize::from(has_changed && refusal.is_some());
            if !has_failed {
                assert_eq!(refusal, None, "{text}");
                break;
            }
        }
        assert!(failed_late > 0, "{text}");
    }
}

#[test]
fn expired_snapshots_cause_drop_events() {
    let mut server = Server::with(&["CREATE TABLE t (a int PRIMARY KEY)"]);
    let events = changes_without_statement(&server);
    let catalog = Arc::clone(server.executor.catalog());
    catalog.set_listed_snapshots(32);
    // A snapshot of a store keyspace that CQL does not use.
    let options = SnapshotOptions {
        table: None,
        expires_in: Some(Duration::from_secs(60)),
    };
    let other = catalog.db().keyspace("other").unwrap();
    other.create_snapshot_with("s", options).unwrap();
    let gone = |snapshot: &str, target| SchemaChange {
        kind: SchemaChangeKind::Dropped,
        keyspace: format!("ks@{snapshot}"),
        target,
    };
    server.run("CREATE SNAPSHOT known ON KEYSPACE ks WITH ttl = '1m'");
    server.rows("SELECT * FROM system_schema.tables");
    server.clock.advance_ms(60_000);
    catalog.db().flush().unwrap();
    let table = SchemaTarget::Table("t".into());
    let expected = [gone("known", table), gone("known", SchemaTarget::Keyspace)];
    assert!(
        events.try_iter().eq(expected),
        "the events of DROP SNAPSHOT"
    );
    // Clients cannot know the tables of a snapshot that none of them has read.
    server.run("CREATE SNAPSHOT unknown ON KEYSPACE ks WITH ttl = '1m'");
    server.clock.advance_ms(60_000);
    catalog.db().flush().unwrap();
    assert!(
        events
            .try_iter()
            .eq([gone("unknown", SchemaTarget::Keyspace)])
    );
    catalog.set_listed_snapshots(0);
    server.run("CREATE SNAPSHOT unlisted ON KEYSPACE ks WITH ttl = '1m'");
    server.clock.advance_ms(60_000);
    catalog.db().flush().unwrap();
    assert_eq!(events.try_iter().count(), 0);
}

/// `checked` returns the state whose permissions were checked. Without it, a SELECT that began before
/// another user dropped its table and created a new one was checked by the permissions on the new
/// table, and read rows of the dropped one.
#[test]
fn permissions_are_checked_again_if_the_table_became_another_one_meanwhile() {
    let server = Server::with(&[TABLE]);
    let mut other = other_connection(&server);
    let mut seen = Vec::new();
    let checked = server.executor.checked(|state| {
        seen.push(state.table("ks", "t").unwrap().clone());
        if seen.len() == 1 {
            other.run("DROP TABLE t");
            other.run(TABLE);
        }
        Ok(seen.len())
    });
    let (state, checks) = checked.unwrap();
    assert_eq!(checks, 2);
    assert!(state.current(&seen[0]).is_none() && state.current(&seen[1]).is_some());
}

/// Regression: TRUNCATE looked up its table after the check of the permissions. If another user
/// dropped the table and created a new one meanwhile, TRUNCATE emptied the new one by the
/// permissions on the dropped one.
#[test]
fn truncate_empties_no_table_that_was_created_during_the_check() {
    let server = Server::with(&[TABLE]);
    let other = RefCell::new(other_connection(&server));
    let check = |_: &Schema| {
        for text in ["DROP TABLE t", TABLE, "INSERT INTO t (k) VALUES (1)"] {
            other.borrow_mut().run(text);
        }
        Ok::<_, ErrorResponse>(())
    };
    let changes = SchemaChanges::default();
    let executor = &server.executor;
    let user = &server.user;
    let context = executor.access_context(Some("ks"), user, &changes, &check, &|_| Ok(()));
    let truncate = syntax::parse("TRUNCATE t").unwrap().statement;
    let done = schema_statements::execute(&context.schema, &truncate, &mut BytesMut::new());
    assert!(done.is_err());
    assert_eq!(other.borrow_mut().rows("SELECT k FROM t"), "1");
}

/// Regression: the creator of a table got the permissions on it after the lock of schema changes
/// was released. If another user dropped the table and created a new one before that, the creator
/// got the permissions on the new one.
#[test]
fn no_table_is_dropped_before_its_creator_has_the_permissions() {
    let server = Server::with(&[]);
    let catalog = server.executor.catalog();
    let mut other = other_connection(&server);
    let is_there = || catalog.state().table("ks", "t").is_some();
    let (begin, begun) = mpsc::channel();
    let (send, observed) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            begun.recv().unwrap();
            send.send(Observed::current()).unwrap();
            other.run("DROP TABLE t");
        });
        let grant = move |created: &Resource| {
            assert_eq!(*created, Resource::table("ks", "t"));
            begin.send(()).unwrap();
            // The other user waits for the lock. Without the lock, the thread ends instead.
            observed.recv().unwrap().until_blocked();
            assert!(is_there());
            Ok::<_, ErrorResponse>(())
        };
        let (executor, user) = (&server.executor, &server.user);
        let changes = SchemaChanges::default();
        let context = executor.access_context(Some("ks"), user, &changes, &|_| Ok(()), &grant);
        let create = syntax::parse(TABLE).unwrap();
        let mut out = BytesMut::new();
        schema_statements::execute(&context.schema, &create.statement, &mut out).unwrap();
    });
    assert!(!is_there());
}
