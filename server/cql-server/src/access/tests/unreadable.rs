//! Roles whose records cannot be read.

use ebb_model::access::{PermissionSet, Resource};
use ebb_storage::simulation::MemDisk;
use ebb_test_support::cases::parse_cases;

use super::U;
use crate::access::{FIRST_SUPERUSER, Login, first_superuser};
use crate::executor::harness::Server;

/// Returns a server with the role `u`, and with a role `name` whose record cannot be read.
fn with_unreadable(name: &str) -> Server {
    with_unreadable_after(name, |_| {})
}

/// Returns a server as [`with_unreadable`] does. Calls `prepare` before the record is damaged.
fn with_unreadable_after(name: &str, prepare: impl FnOnce(&Server)) -> Server {
    let disk = MemDisk::new();
    let server = Server::on(&disk);
    server.add(U);
    server.add(name);
    prepare(&server);
    let own = server
        .executor
        .catalog()
        .db()
        .existing_keyspace("ebb_system");
    let records = own.unwrap().existing_table("roles").unwrap();
    records.put(name.as_bytes(), b"{}").unwrap();
    drop((records, server));
    Server::on(&disk)
}

#[test]
fn statements_report_why_a_role_is_unreadable_and_superusers_can_drop_it() {
    let mut server = with_unreadable("bad");
    for text in [
        "CREATE ROLE bad",
        "CREATE ROLE IF NOT EXISTS bad",
        "ALTER ROLE bad WITH LOGIN = false",
        "ALTER ROLE IF EXISTS bad WITH LOGIN = false",
        // Regression: these reported that the role does not exist.
        "GRANT bad TO u",
        "GRANT u TO bad",
        "REVOKE bad FROM u",
        "REVOKE u FROM bad",
        "GRANT SELECT ON ALL KEYSPACES TO bad",
        "REVOKE SELECT ON ALL KEYSPACES FROM bad",
        "ADD IDENTITY 'spiffe://x/bad' TO ROLE bad",
        "LIST ROLES OF bad",
        "LIST ALL OF bad",
    ] {
        let refused = server.try_run(text).unwrap_err().message;
        assert!(
            refused.starts_with("role bad cannot be read: "),
            "{text}: {refused}"
        );
    }
    // Regression: permissions on an unreadable role could not be revoked, because it counted as one that does not
    // exist.
    server.run("GRANT ALTER ON ROLE bad TO u");
    server.run("REVOKE ALTER ON ROLE bad FROM u");
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

/// Regression: a user without superuser status could GRANT a role to which an unreadable superuser is granted,
/// and so become a superuser once the record was restored.
#[test]
fn only_superusers_pass_on_a_role_that_an_unreadable_role_may_make_a_superuser() {
    let mut server = with_unreadable_after("bad", |server| {
        server.set("bad", |role| role.is_superuser = true);
        server.add("team");
        server.set("team", |role| {
            role.member_of.insert("bad".to_owned());
            role.identities.insert("spiffe://x/team".to_owned());
        });
    });
    server.only(U, &[(Resource::AllRoles, PermissionSet::ALL)]);
    server.add("root");
    server.set("root", |role| role.is_superuser = true);
    server.log_in(U);
    let cases = "
        GRANT team TO u => Only superusers can grant a role with superuser status
        DROP IDENTITY 'spiffe://x/team'
        => Only superusers can drop an identity of a role with superuser status
    ";
    for [text, message] in parse_cases(cases) {
        assert_eq!(server.unauthorized(text), message, "{text}");
    }
    server.log_in("root");
    server.run("GRANT team TO u");
    server.run("DROP IDENTITY 'spiffe://x/team'");
}

/// Permissions on a keyspace stay while its record cannot be read, and the schema may lack it then.
#[test]
fn permissions_on_a_keyspace_that_the_schema_lacks_can_be_revoked() {
    let mut server = super::server(&[]);
    let on = Resource::keyspace("shop");
    server.only(U, &[(on.clone(), on.applicable())]);
    server.run("REVOKE ALL ON KEYSPACE shop FROM u");
    let state = server.executor.catalog().roles().state();
    assert!(state.roles().get(U).unwrap().permissions.is_empty());
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

/// Regression: the server did not start when the record of its only superuser could not be read, and the role
/// `ebb` was no superuser.
#[test]
fn a_plain_role_ebb_beside_an_unreadable_superuser_is_no_error() {
    let server = with_unreadable_after("root", |server| server.add(FIRST_SUPERUSER));
    let roles = server.executor.catalog().roles();
    let made = first_superuser(roles, |_| -> Result<(), ()> { panic!("a password") });
    assert_eq!(made.unwrap(), None);
    assert!(roles.state().unreadable("root").is_some());
}
