//! The matrix of every kind of statement, every permission and every kind of resource: each
//! combination is allowed, or rejected with Cassandra's error.
//!
//! A new kind of statement does not compile here until [`Kind::of`] has it, and the test fails until
//! [`CASES`] has its permissions.

use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::{BatchKind, ErrorKind, ErrorResponse, QueryParameters, Values};
use ebb_cql::syntax;
use ebb_cql::syntax::ast::{PermissionStatement, RoleStatement, Statement, Write};
use ebb_model::access::{Permission, PermissionSet, Resource};
use ebb_test_support::cases::parse_cases;

use super::{U, server};
use crate::access::User;
use crate::activity::Activity;
use crate::call::Lane;
use crate::executor::harness::Server;
use crate::queries::{Listed, Query};

macro_rules! kinds {
    ($($kind:ident),* $(,)?) => {
        /// The kinds of statements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Kind {
            $($kind),*
        }

        impl Kind {
            const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

kinds! {
    Select, Insert, Update, Delete, Batch, Truncate, Use, Describe,
    CreateKeyspace, AlterKeyspace, DropKeyspace,
    CreateTable, AlterTable, DropTable,
    CreateType, AlterType, DropType,
    CreateIndex, DropIndex,
    CreateSnapshot, DropSnapshot, ListSnapshots,
    KillQuery,
    CreateRole, AlterRole, DropRole, GrantRole, RevokeRole, ListRoles, ListUsers,
    AddIdentity, DropIdentity,
    Grant, Revoke, ListPermissions,
    Unsupported,
}

impl Kind {
    fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Select(_) => Self::Select,
            Statement::Write(Write::Insert(_)) => Self::Insert,
            Statement::Write(Write::Update(_)) => Self::Update,
            Statement::Write(Write::Delete(_)) => Self::Delete,
            Statement::Batch(_) => Self::Batch,
            Statement::Truncate(_) => Self::Truncate,
            Statement::Use(_) => Self::Use,
            Statement::Describe(_) => Self::Describe,
            Statement::CreateKeyspace(_) => Self::CreateKeyspace,
            Statement::AlterKeyspace(_) => Self::AlterKeyspace,
            Statement::DropKeyspace(_) => Self::DropKeyspace,
            Statement::CreateTable(_) => Self::CreateTable,
            Statement::AlterTable(_) => Self::AlterTable,
            Statement::DropTable(_) => Self::DropTable,
            Statement::CreateType(_) => Self::CreateType,
            Statement::AlterType(_) => Self::AlterType,
            Statement::DropType(_) => Self::DropType,
            Statement::CreateIndex(_) => Self::CreateIndex,
            Statement::DropIndex(_) => Self::DropIndex,
            Statement::CreateSnapshot(_) => Self::CreateSnapshot,
            Statement::DropSnapshot(_) => Self::DropSnapshot,
            Statement::ListSnapshots(_) => Self::ListSnapshots,
            Statement::KillQuery(_) => Self::KillQuery,
            Statement::Role(RoleStatement::Create(_)) => Self::CreateRole,
            Statement::Role(RoleStatement::Alter(_)) => Self::AlterRole,
            Statement::Role(RoleStatement::Drop(_)) => Self::DropRole,
            Statement::Role(RoleStatement::Grant(_)) => Self::GrantRole,
            Statement::Role(RoleStatement::Revoke(_)) => Self::RevokeRole,
            Statement::Role(RoleStatement::List(_)) => Self::ListRoles,
            Statement::Role(RoleStatement::ListUsers) => Self::ListUsers,
            Statement::Role(RoleStatement::AddIdentity(_)) => Self::AddIdentity,
            Statement::Role(RoleStatement::DropIdentity(_)) => Self::DropIdentity,
            Statement::Permission(PermissionStatement::Grant(_)) => Self::Grant,
            Statement::Permission(PermissionStatement::Revoke(_)) => Self::Revoke,
            Statement::Permission(PermissionStatement::List(_)) => Self::ListPermissions,
            Statement::Unsupported(_) => Self::Unsupported,
        }
    }
}

/// A statement and what it requires.
struct Case {
    text: &'static str,
    requires: Requirement,
}

/// Permissions, each with the narrowest resource on which it suffices.
type Permissions = Vec<(Permission, &'static str)>;

enum Requirement {
    /// No permission: any logged-in user may execute the statement.
    Nothing,
    /// All permissions of the list, each on its resource or on one that contains it.
    Each(Permissions),
    /// All permissions of the list, as for `Each`. The error for a user without them has
    /// Cassandra's message for roles.
    Role(Permissions),
    /// A superuser; other users get this error.
    Superuser(&'static str),
    /// A statement that the server does not support.
    NotServed,
}

impl Requirement {
    /// Parses what stands behind a statement in [`CASES`].
    fn parse(text: &'static str) -> Self {
        let each = |list: &'static str| -> Permissions {
            let one = |one: &'static str| {
                let (word, on) = one.split_once(' ').unwrap();
                (Permission::from_word(word).unwrap(), on)
            };
            list.split(", ").map(one).collect()
        };
        match text.split_once(": ") {
            Some(("role", list)) => Self::Role(each(list)),
            Some(("superuser", words)) => Self::Superuser(words),
            _ if text == "nothing" => Self::Nothing,
            _ if text == "not supported" => Self::NotServed,
            _ => Self::Each(each(text)),
        }
    }
}

/// The resources on which each permission is tried.
const RESOURCES: [&str; 13] = [
    "data",
    "data/ks",
    "data/ks/*",
    "data/ks/t",
    "data/ks/u",
    "data/other",
    "data/other/t",
    "data/system_auth",
    "data/system_traces",
    "data/system_views",
    "roles",
    "roles/r",
    "roles/s",
];

/// Statements of every kind, each with what it requires.
const CASES: &str = r#"
    SELECT * FROM ks.t => SELECT data/ks/t
    SELECT count(*) FROM t => SELECT data/ks/t
    SELECT * FROM t WHERE k = 1 => SELECT data/ks/t
    SELECT JSON * FROM ks.t => SELECT data/ks/t
    SELECT * FROM u WHERE v = 1 => SELECT data/ks/u
    SELECT * FROM ks.t USING SNAPSHOT s => SELECT data/ks/t
    SELECT * FROM "ks@s".t => SELECT data/ks/t
    SELECT * FROM ks__at__s.t => SELECT data/ks/t
    SELECT * FROM system.local => nothing
    SELECT * FROM system_schema.columns => nothing
    SELECT * FROM system_virtual_schema.tables => nothing
    SELECT * FROM system_auth.roles => SELECT data/system_auth/roles
    SELECT * FROM system_auth.role_permissions => SELECT data/system_auth/role_permissions
    SELECT * FROM system_traces.sessions => SELECT data/system_traces/sessions
    SELECT * FROM system_views.clients => SELECT data/system_views/clients
    // Without SELECT, users see only their own queries.
    SELECT * FROM system_views.queries => nothing
    INSERT INTO ks.t (k, v) VALUES (1, 2) => MODIFY data/ks/t
    INSERT INTO t JSON '{"k": 1}' => MODIFY data/ks/t
    INSERT INTO t (k) VALUES (1) IF NOT EXISTS => MODIFY data/ks/t, SELECT data/ks/t
    UPDATE ks.t SET v = 2 WHERE k = 1 => MODIFY data/ks/t
    UPDATE n SET c = c + 1 WHERE k = 1 => MODIFY data/ks/n
    UPDATE t SET v = 2 WHERE k = 1 IF v = 3 => MODIFY data/ks/t, SELECT data/ks/t
    UPDATE t SET v = 2 WHERE k = 1 IF EXISTS => MODIFY data/ks/t, SELECT data/ks/t
    DELETE FROM ks.t WHERE k = 1 => MODIFY data/ks/t
    DELETE FROM t WHERE k = 1 IF EXISTS => MODIFY data/ks/t, SELECT data/ks/t
    BEGIN BATCH INSERT INTO t (k) VALUES (1); DELETE FROM ks.u WHERE k = 1; APPLY BATCH
    => MODIFY data/ks/t, MODIFY data/ks/u
    TRUNCATE t => MODIFY data/ks/t
    USE ks => nothing
    DESCRIBE KEYSPACE ks => nothing
    DESCRIBE TABLE ks.t => nothing
    CREATE KEYSPACE made WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
    => CREATE data
    ALTER KEYSPACE ks WITH durable_writes = true => ALTER data/ks
    DROP KEYSPACE ks => DROP data/ks
    CREATE TABLE ks.made (k int PRIMARY KEY) => CREATE data/ks/*
    ALTER TABLE t WITH comment = 'c' => ALTER data/ks/t
    DROP TABLE t => DROP data/ks/t
    CREATE TYPE ks.made (a int) => CREATE data/ks
    ALTER TYPE p ADD IF NOT EXISTS b int => ALTER data/ks
    DROP TYPE p => DROP data/ks
    CREATE INDEX made ON t (v) => ALTER data/ks/t
    CREATE INDEX ks.made ON t (v) => ALTER data/ks/t
    DROP INDEX of_u => ALTER data/ks/u
    // The statement reveals only that there is no such index.
    DROP INDEX IF EXISTS ks.nothing => nothing
    CREATE SNAPSHOT made ON KEYSPACE ks => SNAPSHOT data/ks
    CREATE SNAPSHOT made ON TABLE t => SNAPSHOT data/ks/t
    DROP SNAPSHOT s ON KEYSPACE ks => SNAPSHOT data/ks
    DROP SNAPSHOT s => SNAPSHOT data/ks
    DROP SNAPSHOT of_t ON TABLE t => SNAPSHOT data/ks/t
    // The snapshot covers only the table, whatever the statement names.
    DROP SNAPSHOT of_t ON KEYSPACE ks => SNAPSHOT data/ks/t
    LIST SNAPSHOTS => nothing
    KILL QUERY 1 => superuser: Only superusers and the user of query 1 may kill it
    CREATE ROLE made => role: CREATE roles
    ALTER ROLE r WITH LOGIN = true => role: ALTER roles/r
    DROP ROLE r => role: DROP roles/r
    GRANT r TO s => role: AUTHORIZE roles/r
    REVOKE r FROM member => role: AUTHORIZE roles/r
    LIST ROLES => nothing
    LIST ROLES OF u NORECURSIVE => nothing
    LIST USERS => nothing
    ADD IDENTITY 'spiffe://x/made' TO ROLE r => role: CREATE roles, ALTER roles/r
    DROP IDENTITY 'spiffe://x/r' => role: DROP roles/r
    // Otherwise the response would show users without permissions which identities exist.
    DROP IDENTITY IF EXISTS 'spiffe://x/nobody' => role: DROP roles
    GRANT SELECT ON ks.t TO r => AUTHORIZE data/ks/t, SELECT data/ks/t
    GRANT CREATE ON ALL ROLES TO r => AUTHORIZE roles, CREATE roles
    REVOKE SNAPSHOT ON KEYSPACE ks FROM r => AUTHORIZE data/ks, SNAPSHOT data/ks
    LIST ALL OF u => nothing
    LIST ALL PERMISSIONS => superuser: You are not authorized to view everyone's permissions
    LIST SELECT OF r => superuser: You are not authorized to view r's permissions
    DROP TRIGGER a ON ks.t => not supported
"#;

fn cases() -> Vec<Case> {
    let case = |[text, requires]: [&'static str; 2]| Case {
        text,
        requires: Requirement::parse(requires),
    };
    parse_cases(CASES).into_iter().map(case).collect()
}

/// Statements that bring the database into the state before a case: they create the objects that
/// the cases use, and drop the objects that the cases create.
const SCENE: &[&str] = &[
    "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE KEYSPACE IF NOT EXISTS other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "DROP KEYSPACE IF EXISTS made",
    "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v int)",
    "CREATE TABLE IF NOT EXISTS ks.u (k int PRIMARY KEY, v int)",
    "CREATE TABLE IF NOT EXISTS ks.n (k int PRIMARY KEY, c counter)",
    "CREATE TABLE IF NOT EXISTS other.t (k int PRIMARY KEY)",
    "DROP TABLE IF EXISTS ks.made",
    "CREATE TYPE IF NOT EXISTS ks.p (a int)",
    "DROP TYPE IF EXISTS ks.made",
    // Anew: a case may have dropped the tables that the earlier snapshots cover.
    "DROP SNAPSHOT IF EXISTS s ON KEYSPACE ks",
    "CREATE SNAPSHOT s ON KEYSPACE ks",
    "DROP SNAPSHOT IF EXISTS of_t ON KEYSPACE ks",
    "CREATE SNAPSHOT of_t ON TABLE ks.t",
    "DROP SNAPSHOT IF EXISTS made ON KEYSPACE ks",
    "DROP INDEX IF EXISTS ks.made",
    "CREATE INDEX IF NOT EXISTS of_u ON ks.u (v)",
    "DROP ROLE IF EXISTS made",
    "CREATE ROLE IF NOT EXISTS r",
    "CREATE ROLE IF NOT EXISTS s",
    "CREATE ROLE IF NOT EXISTS member",
    "ADD IDENTITY IF NOT EXISTS 'spiffe://x/r' TO ROLE r",
    "DROP IDENTITY IF EXISTS 'spiffe://x/made'",
];

/// Adds a scan of another user to the list of queries, as query 1, until the returned entry is
/// dropped.
fn list_query(server: Server) -> (Server, Listed) {
    let statement = Arc::new(server.prepare("SELECT * FROM ks.t").unwrap());
    let query = Query {
        address: ([127, 0, 0, 1], 9).into(),
        user: Arc::new(User::logged_in("s", 1)),
        keyspace: None,
        statement: Some(statement),
        statements: 1,
        lane: Lane::Range,
        is_read: true,
        received_at: Instant::now(), // clock: a query has the instant of its arrival
        progress: Arc::default(),
    };
    let activity = Arc::new(Activity::default());
    let listed = activity.queries.list(&Arc::new(query));
    let executor = server.executor.showing(activity);
    (Server { executor, ..server }, listed)
}

/// Undoes the effects of a case: executes [`SCENE`] again, as a user with all permissions.
fn set(server: &mut Server) {
    let user = std::mem::replace(&mut server.user, User::anyone());
    SCENE.iter().for_each(|text| server.run(text));
    for member in ["s", "member"] {
        server.set(member, |role| role.member_of.clear());
    }
    server.run("GRANT r TO member");
    server.user = user;
}

/// Returns the error message if the statement of a case was rejected as Unauthorized. Panics if the
/// statement failed with another error.
fn result_of<T>(case: &Case, done: Result<T, ErrorResponse>) -> Result<(), String> {
    match done {
        Err(error) if error.kind == ErrorKind::Unauthorized => Err(error.message),
        Err(error) => panic!("{}: {error}", case.text),
        Ok(_) => Ok(()),
    }
}

/// Executes a statement as the role `u`. Returns the error message if the statement is rejected as
/// Unauthorized.
fn try_case(server: &mut Server, case: &Case) -> Result<(), String> {
    let done = server.try_run(case.text);
    result_of(case, done)
}

/// Executes a statement as [`try_case`] does, but without the check of permissions at its begin: as
/// if the role had lost the permissions right after this check.
fn try_checked(server: &Server, case: &Case) -> Result<(), String> {
    let prepared = server.prepare(case.text).unwrap();
    let done = server.answer(QueryParameters::default(), |call, out| {
        server.executor.execute_checked(&prepared, call, out)
    });
    result_of(case, done)
}

/// Executes a statement as part of a protocol batch. Returns the error message if it is rejected as
/// Unauthorized.
fn try_in_batch(server: &Server, case: &Case) -> Result<(), String> {
    let prepared = Arc::new(server.prepare(case.text).unwrap());
    let kind = if case.text.contains("c + 1") {
        BatchKind::Counter
    } else {
        BatchKind::Unlogged
    };
    let done = server.batch(kind, &[(prepared, Values::default())]);
    result_of(case, done)
}

fn resource(path: &str) -> Resource {
    Resource::from_path(path).unwrap()
}

fn no_permission(permission: Permission, on: &str) -> String {
    let on = resource(on);
    format!("User u has no {permission} permission on {on} or any of its parents")
}

/// Returns whether a permission on the resource `wide` applies to the resource `narrow`, too.
fn covers(wide: &str, narrow: &str) -> bool {
    wide == narrow || narrow.starts_with(&format!("{}/", wide.trim_end_matches("/*")))
}

/// Returns the expected result of a case for a role that has only the permission `held`, on the
/// resource `on`.
fn expected(case: &Case, held: Permission, on: &str) -> Result<(), String> {
    match &case.requires {
        Requirement::Nothing | Requirement::NotServed => Ok(()),
        Requirement::Superuser(words) => Err((*words).to_owned()),
        Requirement::Role(each) => {
            let mut each = each.iter();
            if each.all(|(permission, narrow)| *permission == held && covers(on, narrow)) {
                Ok(())
            } else {
                Err(
                    "User u does not have sufficient privileges to perform the requested \
                     operation"
                        .to_owned(),
                )
            }
        }
        Requirement::Each(each) => {
            let mut missing = each.iter();
            let missing =
                missing.find(|(permission, narrow)| *permission != held || !covers(on, narrow));
            missing.map_or(Ok(()), |(permission, narrow)| {
                Err(no_permission(*permission, narrow))
            })
        }
    }
}

#[test]
fn every_statement_requires_exactly_its_permissions() {
    let mut tried = 0;
    let mut server = server(&[]);
    set(&mut server);
    let (mut server, _listed) = list_query(server);
    server.log_in(U);
    let mut seen = Vec::new();
    for case in cases() {
        let kind = Kind::of(&syntax::parse(case.text).unwrap().statement);
        seen.push(kind);
        if matches!(case.requires, Requirement::NotServed) {
            let refused = server.refused(case.text);
            assert!(refused.ends_with("is not supported"), "{refused}");
            continue;
        }
        let is_row_write = matches!(kind, Kind::Insert | Kind::Update | Kind::Delete);
        for permission in Permission::ALL {
            for on in RESOURCES {
                server.only(U, &[(resource(on), PermissionSet::of(&[permission]))]);
                let expected = expected(&case, permission, on);
                let what = format!("{} with {permission} on {on}", case.text);
                if is_row_write {
                    assert_eq!(try_in_batch(&server, &case), expected, "batch: {what}");
                }
                let done = try_case(&mut server, &case);
                assert_eq!(done, expected, "{what}");
                tried += 1;
                if done.is_ok() && !matches!(case.requires, Requirement::Nothing) {
                    set(&mut server);
                }
            }
        }
        // First without permissions, then with each permission on its narrowest resource.
        server.only(U, &[]);
        let nothing = expected(&case, Permission::Execute, "data");
        assert_eq!(try_case(&mut server, &case), nothing, "{}", case.text);
        // Regression: statements about the schema checked permissions only at their begin. If
        // the table was then dropped and created again, they changed the new one.
        assert_eq!(try_checked(&server, &case), nothing, "{}", case.text);
        if let Requirement::Each(each) | Requirement::Role(each) = &case.requires {
            let mut held = std::collections::BTreeMap::new();
            for (permission, on) in each {
                let set: &mut PermissionSet = held.entry(resource(on)).or_default();
                *set = set.union(PermissionSet::of(&[*permission]));
            }
            server.only(U, &held.into_iter().collect::<Vec<_>>());
            assert_eq!(try_case(&mut server, &case), Ok(()), "{}", case.text);
            set(&mut server);
        }
    }
    for kind in Kind::ALL {
        assert!(seen.contains(kind), "{kind:?} has no case");
    }
    assert!(tried > 5_000, "{tried}");
}

#[test]
fn a_superuser_may_do_everything_and_a_client_without_login_nothing() {
    let mut server = server(&[]);
    set(&mut server);
    let (mut server, _listed) = list_query(server);
    server.set(U, |role| role.is_superuser = true);
    server.log_in(U);
    for case in cases() {
        if !matches!(case.requires, Requirement::NotServed) {
            assert_eq!(try_case(&mut server, &case), Ok(()), "{}", case.text);
            set(&mut server);
        }
    }
    server.user = User::nobody();
    for case in cases() {
        if let Ok(prepared) = server.prepare(case.text) {
            let done = server.execute(&prepared, QueryParameters::default());
            let error = done.expect_err(case.text);
            assert_eq!(error.kind, ErrorKind::Unauthorized, "{}", case.text);
        }
    }
}
