//! Roles whose records cannot be read.

use ebb_model::access::{PermissionSet, Resource};
use ebb_storage::ManualClock;
use ebb_storage::simulation::MemDisk;

use super::U;
use crate::access::{FIRST_SUPERUSER, Login, first_superuser};
use crate::executor::harness::Server;
use crate::testing::{BEGIN_MS, open};

/// Returns a server over the contents of a disk.
fn server(disk: &MemDisk) -> Server {
    let clock = ManualClock::at_ms(BEGIN_MS);
    let catalog = open(disk, &clock, |options, _| options);
    Server::over(catalog, clock, None)
}

/// Returns a server with the role `u`, and with a role `name` whose record cannot be read.
fn with_unreadable(name: &str) -> Server {
    let disk = MemDisk::new();
    let server = self::server(&disk);
    server.add(U);
    server.add(name);
    let own = server
        .executor
        .catalog()
        .db()
        .existing_keyspace("ebb_system");
    let records = own.unwrap().existing_table("roles").unwrap();
    records.put(name.as_bytes(), b"{}").unwrap();
    drop((records, server));
    self::server(&disk)
}

#[test]
fn statements_report_why_a_role_is_unreadable_and_superusers_can_drop_it() {
    let mut server = with_unreadable("bad");
    for text in [
        "CREATE ROLE bad",
        "CREATE ROLE IF NOT EXISTS bad",
        "ALTER ROLE bad WITH LOGIN = false",
        "ALTER ROLE IF EXISTS bad WITH LOGIN = false",
    ] {
        let refused = server.try_run(text).unwrap_err().message;
        assert!(
            refused.starts_with("role bad cannot be read: "),
            "{text}: {refused}"
        );
    }
    server.only(U, &[(Resource::AllRoles, PermissionSet::ALL)]);
    server.add("root");
    server.set("root", |role| role.is_superuser = true);
    server.log_in(U);
    assert_eq!(
        server.unauthorized("DROP ROLE bad"),
        "Only superusers can drop a role that cannot be read"
    );
    server.log_in("root");
    server.run("DROP ROLE bad");
    server.run("CREATE ROLE bad");
}

/// Regression: when a role could not be read, the error of its login mentioned only a wrong
/// password. Logins with other names get the same error, so that it does not reveal which roles
/// exist.
#[test]
fn a_refused_login_mentions_that_roles_cannot_be_read() {
    let server = with_unreadable("bad");
    let login = Login::new(server.executor.catalog().clone());
    for name in ["bad", "nobody", U] {
        let token = format!("\0{name}\0geheim");
        let refused = login.verify(Some(token.as_bytes())).unwrap_err().message;
        assert_eq!(
            refused,
            format!(
                "Provided username {name} and/or password are incorrect; some roles cannot be read, \
                 see the server's log"
            )
        );
    }
}

/// Regression: the server did not start when the record of its own superuser could not be read.
#[test]
fn an_unreadable_superuser_is_not_replaced() {
    let server = with_unreadable(FIRST_SUPERUSER);
    let roles = server.executor.catalog().roles();
    let made = first_superuser(roles, |_| -> Result<(), ()> { panic!("a password") });
    assert_eq!(made.unwrap(), None);
    assert!(roles.state().unreadable(FIRST_SUPERUSER).is_some());
}
