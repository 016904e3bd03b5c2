//! Statements about roles and permissions: their effects and their errors.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use ebb_cql::protocol::QueryParameters;
use ebb_model::access::{ActingRole, Permission, PermissionSet, Resource};
use ebb_test_support::cases::parse_cases;
use ebb_test_support::wait::Observed;

use super::{U, server};
use crate::access::{User, room_for_snapshot};
use crate::call::SchemaChanges;
use crate::executor::harness::Server;
use crate::system::{JobList, JobRow};

/// A list of jobs that shows for which role it was read: its single job has the name of that role
/// as its request.
#[derive(Debug)]
struct NameOfReader;

impl JobList for NameOfReader {
    fn jobs(&self, role: Option<&ActingRole>) -> Result<Vec<JobRow>, String> {
        Ok(vec![JobRow {
            id: "1".to_owned(),
            application: "pi".to_owned(),
            request: role.map_or("nobody", |role| role.name.as_str()).to_owned(),
            started_unix_ms: 1,
            starts: 1,
            state: "started",
            ended_unix_ms: None,
        }])
    }
}

/// Regression: every role that could read `system_views.jobs` saw the options of all jobs.
#[test]
fn the_table_of_jobs_is_computed_for_the_role_that_reads() {
    let mut server = server(&[]);
    server.executor = server.executor.listing_jobs(Arc::new(NameOfReader));
    let select = "SELECT request FROM system_views.jobs";
    assert_eq!(server.rows(select), "nobody");
    let may_read = PermissionSet::of(&[Permission::Select]);
    server.only(U, &[(Resource::table("system_views", "jobs"), may_read)]);
    server.log_in(U);
    assert_eq!(server.rows(select), "u");
}

const T: &str = "CREATE TABLE t (k int PRIMARY KEY, v int)";

#[test]
fn roles_are_created_and_listed_without_their_hashes() {
    let mut server = server(&[T]);
    let steps = "
        CREATE ROLE reader => done
        CREATE USER Ada WITH PASSWORD 'geheim' SUPERUSER => done
        CREATE ROLE bob WITH LOGIN = true AND OPTIONS = {'snapshots_max': 2} => done
        GRANT reader TO bob => done
        CREATE ROLE IF NOT EXISTS bob WITH SUPERUSER = true => done
        LIST ROLES
        => Ada true true 00000000 ALL | bob false true \
           000000010000000d736e617073686f74735f6d61780000000132 ALL | \
           reader false false 00000000 ALL | u false true 00000000 ALL
        LIST USERS => Ada true ALL | bob false ALL | u false ALL
    ";
    server.check(steps);
    let of_bob = server.rows("LIST ROLES OF bob");
    assert!(of_bob.starts_with("bob") && of_bob.contains("reader"));
    let steps = "
        SELECT role, is_superuser, can_login, salted_hash FROM system_auth.roles WHERE role = 'Ada'
        => Ada true true null
        SELECT role, member FROM system_auth.role_members => reader bob
        ALTER ROLE bob WITH OPTIONS = {} => done
        REVOKE reader FROM bob => done
        DROP ROLE reader => done
        DROP USER IF EXISTS nobody => done
        SELECT member FROM system_auth.role_members => no rows
    ";
    server.check(steps);
}

#[test]
fn invalid_statements_get_cassandras_errors() {
    let mut server = server(&[T]);
    let steps = "
        CREATE ROLE a => done
        CREATE ROLE b => done
        GRANT a TO b => done
        CREATE ROLE a => a already exists
        CREATE ROLE '' => Role name can't be an empty string
        DROP ROLE x => x doesn't exist
        ALTER ROLE x WITH LOGIN = true => Role x doesn't exist
        ALTER ROLE a => ALTER [ROLE|USER] can't be empty
        GRANT x TO a => x doesn't exist
        GRANT a TO b => b is a member of a
        GRANT b TO a => b is a member of a
        REVOKE b FROM a => a is not a member of b
        LIST ROLES OF x => x doesn't exist
        GRANT SELECT ON ks.t TO x => Role x doesn't exist
        GRANT SELECT ON ks.x TO a => Resource <table ks.x> doesn't exist
        GRANT SELECT ON KEYSPACE x TO a => Resource <keyspace x> doesn't exist
        REVOKE DROP ON ROLE x FROM a => Resource <role x> doesn't exist
        GRANT EXECUTE ON ks.t TO a
        => Resource type DataResource does not support any of the requested permissions
        GRANT SELECT ON ALL ROLES TO a
        => Resource type RoleResource does not support any of the requested permissions
        LIST ALL ON ks.x => <table ks.x> doesn't exist
        LIST ALL OF x => <role x> doesn't exist
        CREATE ROLE x WITH HASHED PASSWORD = 'x'
        => Invalid hashed password value. Please use argon2id as a PHC string
        CREATE ROLE x WITH OPTIONS = {'a': 1} => Unknown option 'a': there is 'snapshots_max'
        CREATE ROLE x WITH ACCESS TO DATACENTERS {'dc1'}
        => ACCESS TO DATACENTERS is not supported: there is one
    ";
    server.check(steps);
}

/// Regression: both statements were checked before either of them changed a role, and no superuser was left.
#[test]
fn two_superusers_cannot_remove_each_other() {
    for option in ["SUPERUSER", "LOGIN"] {
        let server = server(&[]);
        for name in ["a", "b"] {
            server.add(name);
            server.set(name, |role| role.is_superuser = true);
        }
        let both_are_ready = Barrier::new(2);
        thread::scope(|scope| {
            for (own, other) in [("a", "b"), ("b", "a")] {
                let catalog = Arc::clone(server.executor.catalog());
                let mut server = Server::over(catalog, server.clock.clone(), None);
                server.log_in(own);
                let both_are_ready = &both_are_ready;
                scope.spawn(move || {
                    both_are_ready.wait();
                    // The time between check and change is that in which the password is hashed.
                    let text =
                        format!("ALTER ROLE {other} WITH {option} = false AND PASSWORD = 'p'");
                    let _one_is_rejected = server.try_run(&text);
                });
            }
        });
        let state = server.executor.catalog().roles().state();
        let left = ["a", "b"].map(|name| state.roles().get(name).unwrap());
        let left = left
            .iter()
            .filter(|role| role.is_superuser && role.can_login);
        assert_eq!(left.count(), 1, "{option}");
    }
}

/// Regression: these statements checked permissions before they waited for the lock of the roles.
/// If the table or role was then dropped and created again, they changed the new role, or
/// permissions on the new table or role.
#[test]
fn permissions_are_checked_under_the_lock_of_the_roles() {
    for text in [
        "GRANT SELECT ON t TO r",
        "REVOKE SELECT ON t FROM r",
        "GRANT r TO s",
        "REVOKE r FROM s",
        "CREATE ROLE made",
        "ALTER ROLE r WITH LOGIN = true",
        "DROP ROLE r",
        "ADD IDENTITY 'spiffe://x/new' TO ROLE r",
        "DROP IDENTITY 'spiffe://x/r'",
    ] {
        let mut server = server(&[T]);
        for text in [
            "CREATE ROLE r",
            "CREATE ROLE s",
            "ADD IDENTITY 'spiffe://x/r' TO ROLE r",
        ] {
            server.run(text);
        }
        let all = [Resource::AllKeyspaces, Resource::AllRoles];
        server.only(U, &all.map(|on| (on.clone(), on.applicable())));
        let catalog = Arc::clone(server.executor.catalog());
        server.log_in(U);
        thread::scope(|scope| {
            let (send, observed) = mpsc::channel();
            let revoked = catalog.roles().change(|roles| {
                scope.spawn(move || {
                    send.send(Observed::current()).unwrap();
                    server.unauthorized(text)
                });
                // The statement waits for the lock of the roles. It has passed its first check.
                observed.recv().unwrap().until_blocked();
                let changed = roles.with_changed(U, |role| role.permissions = Default::default());
                changed.map(Some)
            });
            assert!(revoked.unwrap().unwrap());
        });
    }
}

#[test]
fn only_superusers_create_superusers_and_users_cannot_lock_themselves_out() {
    let mut server = server(&[T]);
    server.run("CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true");
    server.run("CREATE ROLE reader");
    server.run("GRANT reader TO u");
    let all = Resource::AllRoles.applicable();
    server.only(U, &[(Resource::AllRoles, all)]);
    server.log_in(U);
    let cases = "
        CREATE ROLE x WITH SUPERUSER = true
        => Only superusers can create a role with superuser status
        ALTER ROLE root WITH SUPERUSER = false
        => Only superusers are allowed to alter superuser status
        ALTER ROLE root WITH PASSWORD = 'mine' => Only superusers are allowed to alter superusers
        ALTER ROLE reader WITH SUPERUSER = true
        => You aren't allowed to alter your own superuser status or that of a role granted to you
        ALTER ROLE u WITH SUPERUSER = true
        => You aren't allowed to alter your own superuser status or that of a role granted to you
        ALTER ROLE u WITH OPTIONS = {} => You aren't allowed to alter OPTIONS
        DROP ROLE root => Only superusers can drop a role with superuser status
    ";
    for [text, message] in parse_cases(cases) {
        assert_eq!(server.unauthorized(text), message, "{text}");
    }
    server.run("ALTER ROLE u WITH PASSWORD = 'own'");
    let message = server.refused("DROP ROLE u");
    assert_eq!(message, "Cannot DROP primary role for current login");
    // Granting a superuser to a role makes the role a superuser.
    assert_eq!(
        server.unauthorized("GRANT root TO u"),
        "Only superusers can grant a role with superuser status"
    );
}

#[test]
fn creators_get_all_permissions_until_the_resource_is_dropped() {
    let mut server = server(&[]);
    let create = PermissionSet::of(&[Permission::Create]);
    server.only(
        U,
        &[
            (Resource::AllKeyspaces, create),
            (Resource::AllRoles, create),
        ],
    );
    server.log_in(U);
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    server.run(&format!(
        "CREATE KEYSPACE own WITH replication = {replication}"
    ));
    server.run("CREATE TABLE own.t (k int PRIMARY KEY)");
    let generation = server.executor.catalog().roles().generation();
    server.run("CREATE ROLE made");
    // Regression: the permissions were granted by a second change. If the role was dropped and
    // created again before it, they were permissions on the new one.
    let after = server.executor.catalog().roles().generation();
    assert_eq!(after, generation + 1);
    assert!(server.rows("LIST AUTHORIZE OF u").contains("<role made>"));
    let steps = "
        INSERT INTO own.t (k) VALUES (1) => done
        CREATE SNAPSHOT s ON KEYSPACE own => done
        GRANT SELECT ON own.t TO made => done
        DROP SNAPSHOT s ON KEYSPACE own => done
        DROP TABLE own.t => done
        DROP ROLE made => done
        DROP KEYSPACE own => done
        LIST ALL OF u => u u <all keyspaces> CREATE | u u <all roles> CREATE
    ";
    server.check(steps);
    // The permissions do not carry over to a new table of the same name.
    server.user = User::anyone();
    server.run(&format!(
        "CREATE KEYSPACE own WITH replication = {replication}"
    ));
    server.run("CREATE TABLE own.t (k int PRIMARY KEY)");
    server.log_in(U);
    server.unauthorized("SELECT * FROM own.t");
    // IF NOT EXISTS grants no permissions on a table that existed already.
    server.run("CREATE TABLE IF NOT EXISTS own.t (k int PRIMARY KEY)");
    server.unauthorized("SELECT * FROM own.t");
}

/// If `system_of_record` counted as a system keyspace, DROP KEYSPACE would keep the permissions
/// on it, and they would apply to a later keyspace of the same name. Reads at its snapshots would
/// require permissions that no role can have.
#[test]
fn permissions_on_a_keyspace_whose_name_begins_with_system_are_ordinary() {
    let mut server = server(&[]);
    let create = PermissionSet::of(&[Permission::Create]);
    server.only(U, &[(Resource::AllKeyspaces, create)]);
    server.log_in(U);
    let of_record = "CREATE KEYSPACE system_of_record WITH replication = {'class': 'SimpleStrategy', \
                     'replication_factor': 1}";
    let table = "CREATE TABLE system_of_record.t (k int PRIMARY KEY)";
    for text in [
        of_record,
        table,
        "CREATE SNAPSHOT s ON KEYSPACE system_of_record",
        "SELECT * FROM system_of_record__at__s.t",
        "DROP SNAPSHOT s ON KEYSPACE system_of_record",
        "DROP KEYSPACE system_of_record",
    ] {
        server.run(text);
    }
    assert_eq!(server.rows("LIST ALL OF u"), "u u <all keyspaces> CREATE");
    server.user = User::anyone();
    server.run(of_record);
    server.run(table);
    server.log_in(U);
    server.unauthorized("SELECT * FROM system_of_record.t");
}

#[test]
fn an_identity_belongs_to_one_role_and_is_dropped_with_it() {
    let mut server = server(&[]);
    for text in [
        "CREATE ROLE a",
        "CREATE ROLE b",
        "ADD IDENTITY 'spiffe://x/1' TO ROLE a",
        "ADD IDENTITY 'spiffe://x/2' TO ROLE a",
        // The identity stays with the other role.
        "ADD IDENTITY IF NOT EXISTS 'spiffe://x/2' TO ROLE b",
        "ADD IDENTITY 'spiffe://x/3' TO ROLE b",
        "DROP IDENTITY IF EXISTS 'spiffe://x/4'",
        "DROP IDENTITY 'spiffe://x/1'",
    ] {
        server.run(text);
    }
    let table = "SELECT identity, role FROM system_auth.identity_to_role";
    let mut rows: Vec<String> = server.rows(table).split(" | ").map(String::from).collect();
    rows.sort();
    assert_eq!(rows, ["spiffe://x/2 a", "spiffe://x/3 b"]);
    assert_eq!(
        server.rows(&format!("{table} WHERE identity = 'spiffe://x/3'")),
        "spiffe://x/3 b"
    );
    let steps = "
        ADD IDENTITY 'spiffe://x/3' TO ROLE a => spiffe://x/3 already exists
        ADD IDENTITY 'spiffe://x/4' TO ROLE c => Can not add identity for non-existent role 'c'
        ADD IDENTITY '' TO ROLE a => Identity can't be an empty string
        DROP IDENTITY 'spiffe://x/4' => identity 'spiffe://x/4' doesn't exist
        DROP ROLE a => done
    ";
    server.check(steps);
    assert_eq!(server.rows(table), "spiffe://x/3 b");
}

#[test]
fn only_superusers_change_the_identities_of_superusers() {
    let mut server = server(&[]);
    server.run("CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true");
    server.run("ADD IDENTITY 'spiffe://x/root' TO ROLE root");
    let all = (Resource::AllRoles, Resource::AllRoles.applicable());
    server.only(U, &[all]);
    server.log_in(U);
    assert_eq!(
        server.unauthorized("ADD IDENTITY 'spiffe://x/u' TO ROLE root"),
        "Only superusers can add an identity to a role with superuser status"
    );
    assert_eq!(
        server.unauthorized("DROP IDENTITY 'spiffe://x/root'"),
        "Only superusers can drop an identity of a role with superuser status"
    );
    server.run("ADD IDENTITY 'spiffe://x/u' TO ROLE u");
    server.run("DROP IDENTITY 'spiffe://x/u'");
}

#[test]
fn list_permissions_follows_resources_and_memberships() {
    let mut server = server(&[T]);
    let steps = "
        CREATE ROLE reader => done
        GRANT reader TO u => done
        GRANT SELECT, MODIFY ON KEYSPACE ks TO reader => done
        GRANT SELECT ON t TO u => done
        LIST SELECT OF u => reader reader <keyspace ks> SELECT | u u <table ks.t> SELECT
        LIST ALL ON t
        => reader reader <keyspace ks> SELECT | reader reader <keyspace ks> MODIFY | \
           u u <table ks.t> SELECT
        LIST ALL ON t NORECURSIVE => u u <table ks.t> SELECT
        SELECT role, resource FROM system_auth.role_permissions => u data/ks/t | reader data/ks
    ";
    server.check(steps);
    let warned = |server: &mut Server, text: &str| {
        server
            .warnings_of(text, QueryParameters::default())
            .unwrap()
    };
    assert_eq!(
        warned(&mut server, "GRANT SELECT, ALTER ON t TO u"),
        ["Role 'u' was already granted SELECT on <table ks.t>"]
    );
    assert_eq!(
        warned(&mut server, "REVOKE SELECT, DROP ON t FROM u"),
        ["Role 'u' was not granted DROP on <table ks.t>"]
    );
    assert_eq!(warned(&mut server, "REVOKE ALL ON t FROM u"), [""; 0]);
}

#[test]
fn a_role_holds_at_most_its_quota_of_snapshots() {
    let mut server = server(&[T]);
    server.run("GRANT SNAPSHOT ON KEYSPACE ks TO u");
    server.run("ALTER ROLE u WITH OPTIONS = {'snapshots_max': 2}");
    server.run("CREATE SNAPSHOT others ON KEYSPACE ks");
    server.log_in(U);
    server.run("CREATE SNAPSHOT a ON KEYSPACE ks");
    server.run("CREATE SNAPSHOT IF NOT EXISTS others ON KEYSPACE ks");
    server.run("CREATE SNAPSHOT b ON TABLE t");
    assert_eq!(
        server.unauthorized("CREATE SNAPSHOT c ON KEYSPACE ks"),
        "User u holds 2 snapshots already, as many as it may; drop one of them"
    );
    // A snapshot that another user drops no longer counts, and a new one of its name counts for its
    // creator.
    server.user = User::anyone();
    server.run("DROP SNAPSHOT a");
    let own = server
        .executor
        .catalog()
        .db()
        .existing_keyspace("ebb_system");
    let records = own.unwrap().existing_table("role_snapshots").unwrap();
    let held = || records.range::<&[u8], _>(..).count();
    assert_eq!(held(), 1);
    server.run("CREATE SNAPSHOT a ON KEYSPACE ks");
    assert_eq!(held(), 1);
    server.log_in(U);
    server.run("CREATE SNAPSHOT c ON KEYSPACE ks");
    server.unauthorized("CREATE SNAPSHOT d ON KEYSPACE ks");
    let executor = &server.executor;
    let (none, changes) = (User::anyone(), SchemaChanges::default());
    let context = executor.access_context(None, &none, &changes, &|_| Ok(()), &|_| Ok(()));
    let room = room_for_snapshot(&context);
    assert!(room.unwrap().is_none());
}

/// Regression: a role or identity with a name of more than 65,535 bytes could be created, and from
/// then on every SELECT of all roles or identities failed.
#[test]
fn long_names_of_roles_and_identities_are_refused_and_stored_ones_left_out() {
    let mut server = server(&[]);
    let long = "x".repeat(65_600);
    let refused =
        |kind: &str| format!("{kind} name must not be more than 4096 bytes long (got 65600 bytes)");
    let message = server.refused(&format!("CREATE ROLE {long}"));
    assert_eq!(message, refused("Role"));
    let message = server.refused(&format!("ADD IDENTITY '{long}' TO ROLE {U}"));
    assert_eq!(message, refused("Identity"));
    server.run(&format!("CREATE ROLE {}", "x".repeat(4096)));
    server.add(&long);
    server.run(&format!("GRANT {long} TO {U}"));
    server.set(U, |role| {
        role.identities.insert(long.clone());
    });
    let roles = server.rows("SELECT role FROM system_auth.roles");
    let mut lengths: Vec<usize> = roles.split(" | ").map(str::len).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [U.len(), 4096]);
    for table in ["role_members", "identity_to_role"] {
        let select = format!("SELECT role FROM system_auth.{table}");
        assert_eq!(server.rows(&select), "", "{table}");
    }
}
