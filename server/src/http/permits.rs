//! The permissions of tokens that belong to a role: the same as the role has through CQL.
//!
//! | request | required |
//! | --- | --- |
//! | a job: start, estimate, cancel, restart, discard it | SELECT on the tables that it reads, MODIFY on the one that it writes |
//! | retry a job | the same as to start it and to see its options |
//! | to start, restart or retry a job whose output table is missing | also CREATE on all tables of its keyspace |
//! | a job that reads the keyspace of the system, or names files | scope `admin`, also without a role |
//! | see the options and errors of a job | SELECT on the tables that it reads: see [`Reads`](super::outline::Reads) |
//! | see the profile of a job | SELECT on the tables that it read; scope `admin` once the job has left the history |
//! | list roles that are not granted to it | DESCRIBE on all roles |
//! | create, renew or delete a snapshot | SNAPSHOT on its keyspace, or its table |
//! | rows of a table, as the store has them | SELECT on the table, and scope `jobs` |
//! | read a dropped table at a snapshot, by a request for rows or by a new job | SELECT on all tables of its keyspace |
//! | a recorded job whose table was dropped, even if another table has the name now | the permission on all keyspaces |
//! | renew or delete a snapshot of a dropped table alone | SNAPSHOT on all tables of its keyspace |
//! | a request that needs scope `admin` | a superuser role: see [`Access`](super::access::Access) |
//!
//! Scope `read` alone is enough for names, sizes and metrics, as every role may `DESCRIBE`.

use ebb_jobs::JobError;
use ebb_jobs::history::JobRecord;
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_model::access::{Need, Permission, Resource};
use ebb_storage::{Db, Keyspace, SnapshotTable, Table};
use ebb_tables::lookup::table_number;
use ebb_tables::names::{SYSTEM_KEYSPACE, TableName};
use ebb_tables::{covered_resource, lookup};

use super::outline::Reads;
use super::problem::Problem;
use crate::node::Node;
use crate::tokens::{Principal, Scope};

/// Checks that the principal may read the inputs and write the output of a job. If these are files
/// of the server's machine, the principal needs scope `admin`. [`check_input_at`] and
/// [`check_output_at`] check the tables again once they are open, because other tables may have
/// their names by then.
///
/// # Errors
/// 403; the text names the scope or the permission that is missing.
pub(super) fn check_job(principal: &Principal, request: &JobRequest) -> Result<(), Problem> {
    check_files(principal, request)?;
    for table in request.tables_read() {
        check_input(principal, table, true)?;
    }
    check_output(principal, request, |_| true)
}

/// Checks that the principal may change a job of the history: that it may read the inputs and write
/// the output of the job. If the name of an input or of the output now belongs to another table, or
/// to none, a permission on that table or its keyspace does not count: the principal then needs a
/// permission on all keyspaces.
///
/// # Errors
/// 403; the text names the scope or the permission that is missing.
pub(super) fn check_recorded_job(
    principal: &Principal,
    record: &JobRecord,
    request: &JobRequest,
    db: Option<&Db>,
) -> Result<(), Problem> {
    check_files(principal, request)?;
    Reads::of(record).check(principal, db)?;
    check_output(principal, request, |name| {
        // Both are `None` if the table was missing when the job started, and still is. If the
        // commit of the job has created it, the record has its number.
        live_number(db, name) == record.tables.output
    })
}

/// Checks that the principal may read a table that a job of the history reads. `number` is the
/// number of the table in the job's record; `None` if it is unknown. If the name now belongs to a
/// table of another number, or to none, or if the number is unknown, a permission on the table or
/// its keyspace does not count: the principal then needs a permission on all keyspaces.
///
/// # Errors
/// 403; the text names the scope or the permission that is missing.
pub(super) fn check_recorded_input(
    principal: &Principal,
    table: &TableName,
    number: Option<u32>,
    db: Option<&Db>,
) -> Result<(), Problem> {
    let is_live = number.is_some() && live_number(db, table) == number;
    check_input(principal, table, is_live)
}

/// Returns the number of the table that has this name now; `None` if there is none.
fn live_number(db: Option<&Db>, name: &TableName) -> Option<u32> {
    table_number(db?, name)
}

/// Checks that the principal has scope `admin`, if a job reads or writes files of the server's
/// machine.
fn check_files(principal: &Principal, request: &JobRequest) -> Result<(), Problem> {
    if principal.scope < Scope::Admin && request.names_files() {
        let text = "the job reads or writes files of the server's machine, which needs a token of \
                    scope admin: use tables, or such a token";
        return Err(Problem::forbidden(text));
    }
    Ok(())
}

/// Checks that a job of the principal may read a table. `is_live` is false if the name may now
/// belong to another table than the one that the job reads. A table of the system's keyspace
/// requires scope `admin`, as in [`check_rows`], because the job could copy the rows into a table
/// that others may read.
fn check_input(principal: &Principal, table: &TableName, is_live: bool) -> Result<(), Problem> {
    if table.keyspace == SYSTEM_KEYSPACE {
        check_admin(principal)?;
    }
    check(principal, Permission::Select, job_table(table, is_live))
}

/// Checks that the principal may write the output of a job. If the output is a table, `is_live`
/// gets its name, and returns whether the table that now has this name is the one that the job
/// writes.
fn check_output(
    principal: &Principal,
    request: &JobRequest,
    is_live: impl FnOnce(&TableName) -> bool,
) -> Result<(), Problem> {
    let OutputPlace::Table(name) = &request.output.to else {
        return Ok(());
    };
    let on = job_table(name, is_live(name));
    check(principal, Permission::Modify, on)
}

/// Returns the resource on which the principal needs a permission for a table of a job. If
/// `is_live`, the name still belongs to the job's table, and the resource is this table. Otherwise
/// it is all keyspaces. For a dropped table in a snapshot, the resource is only all tables of the
/// keyspace, because the snapshot is deleted with the keyspace. But the record of a job stays, and
/// another user may have created a new keyspace of the same name.
fn job_table(name: &TableName, is_live: bool) -> Resource {
    if is_live {
        Resource::table(&name.keyspace, &name.table)
    } else {
        Resource::AllKeyspaces
    }
}

/// Checks that the principal's role, if it has one, may now read the table `rows` at the snapshot
/// at which it was opened. The scope is checked elsewhere, by the name of the table.
///
/// # Errors
/// [`JobError::Forbidden`]; the text names the permission that is missing. [`JobError::State`] for
/// a dropped table if the snapshot is gone; errors of the catalog.
pub(super) fn check_input_at(
    node: &Node,
    principal: &Principal,
    table: &TableName,
    rows: &SnapshotTable,
) -> Result<(), JobError> {
    let principal = present(node, principal)?;
    // `is_live` is computed after `present`. So a table that is live here was live when the
    // permissions were read, and a permission on its name is one on this table: permissions on
    // earlier tables of the name were removed before this table was created.
    let is_live = !rows.is_dropped();
    let on = Resource::table_at_snapshot(&table.keyspace, &table.table, is_live);
    check_present(&principal, Permission::Select, on)?;
    // The snapshots of a keyspace are deleted with it. So if the snapshot still exists, the
    // permission on all tables of the keyspace is one on the snapshot's own keyspace, and not on a
    // later keyspace of the same name.
    if is_live || principal.role.is_none() || has_snapshot_of(node, table, rows) {
        return Ok(());
    }
    Err(JobError::State(format!(
        "the snapshot with the dropped table {table} was deleted or has expired"
    )))
}

/// Checks that the principal's role, if it has one, may now write the table that its job has opened
/// as its output. `number` is the number of the table, `None` if the table is missing.
///
/// # Errors
/// [`JobError::Forbidden`]; the text names the permission that is missing. Errors of the catalog.
pub(super) fn check_output_at(
    node: &Node,
    principal: &Principal,
    name: &TableName,
    number: Option<u32>,
) -> Result<(), JobError> {
    let principal = present(node, principal)?;
    // Computed after `present`, as in `check_input_at`. Both are `None` if the table is missing. If
    // others create a table of this name later, the commit of the job fails.
    let is_live = live_number(node.db(), name) == number;
    check_present(&principal, Permission::Modify, job_table(name, is_live))
}

/// Checks that the principal's role, if it has one, may now create the table that its job writes.
///
/// # Errors
/// [`JobError::Forbidden`]; the text names the permission that is missing. Errors of the catalog.
pub(super) fn check_new_table(
    node: &Node,
    principal: &Principal,
    name: &TableName,
) -> Result<(), JobError> {
    let on = Resource::AllTables(name.keyspace.as_str().into());
    check_present(&present(node, principal)?, Permission::Create, on)
}

/// Returns whether the keyspace of this name has the snapshot at which `rows` was opened.
fn has_snapshot_of(node: &Node, table: &TableName, rows: &SnapshotTable) -> bool {
    let keyspace = node.db().map(|db| db.existing_keyspace(&table.keyspace));
    let Some(Ok(keyspace)) = keyspace else {
        return false;
    };
    let mut names = keyspace.snapshot_names().into_iter();
    names.any(|name| {
        let seq = keyspace.snapshot_seq(&name);
        seq.is_ok_and(|seq| seq == rows.seq())
    })
}

/// Returns the current table `name`, which the principal's role, if it has one, may now read. The
/// scope is checked elsewhere, by the name of the table.
///
/// # Errors
/// [`JobError::Forbidden`]; the text names the permission that is missing. [`JobError::Lookup`] if
/// there is no such table; errors of the catalog.
pub(super) fn readable_table(
    node: &Node,
    db: &Db,
    principal: &Principal,
    name: &TableName,
) -> Result<Table, JobError> {
    checked_table(db, name, || {
        let on = Resource::table(&name.keyspace, &name.table);
        check_present(&present(node, principal)?, Permission::Select, on)
    })
}

/// Returns the current table `name` after `check`, which checks the present permissions on this
/// name. The table has the name before and after the check, so the permissions are those on this
/// table, and not on an earlier or later table of the name. If another table has the name after the
/// check, this calls `check` again for that table.
///
/// # Errors
/// If there is no such table; the error of `check`.
pub(super) fn checked_table(
    db: &Db,
    name: &TableName,
    mut check: impl FnMut() -> Result<(), JobError>,
) -> Result<Table, JobError> {
    let mut table = lookup::table(db, name)?;
    loop {
        check()?;
        let now = lookup::table(db, name)?;
        if now.is_same_table(&table) {
            return Ok(table);
        }
        table = now;
    }
}

/// Returns the principal with the permissions that its role has now. `principal` has those of the
/// time at which the headers of the request came: until the client has sent the body, tables may be
/// dropped, and others created under their names.
///
/// # Errors
/// [`JobError::Forbidden`] if the role is gone or may not log in any more; errors of the catalog.
pub(super) fn present(node: &Node, principal: &Principal) -> Result<Principal, JobError> {
    let mut principal = principal.clone();
    if let Some(role) = &mut principal.role {
        let granted = node.catalog()?.roles().state().granted(&role.name);
        let granted = granted.filter(|now| now.id == role.granted.id && now.can_login);
        role.granted = granted.ok_or_else(|| JobError::Forbidden(role_is_gone(&role.name)))?;
    }
    Ok(principal)
}

/// Returns the error text for a token whose role does not exist any more, or may not log in.
pub(super) fn role_is_gone(name: &str) -> String {
    format!("role {name} of this token is gone, or may not log in any more")
}

/// Checks a permission of a principal that [`present`] has returned.
fn check_present(
    principal: &Principal,
    permission: Permission,
    on: Resource,
) -> Result<(), JobError> {
    let checked = check(principal, permission, on);
    checked.map_err(|refused| JobError::Forbidden(refused.detail))
}

/// Returns whether the principal may list all roles, and not only those that are granted to its own role. As
/// for `LIST ROLES`, this takes DESCRIBE on all roles.
pub(super) fn lists_all_roles(principal: &Principal) -> bool {
    check(principal, Permission::Describe, Resource::AllRoles).is_ok()
}

/// Checks that the principal's role, if it has one, may create a snapshot of a table, or of the
/// whole keyspace for `None`. Another table may have the name when the snapshot is created. So the
/// caller repeats the check with the [`present`] permissions under [`Node::exclusively`], where no
/// statement drops or creates a table.
///
/// # Errors
/// 403; the text names the permission that is missing.
pub(super) fn check_new_snapshot(
    principal: &Principal,
    keyspace: &str,
    table: Option<&str>,
) -> Result<(), Problem> {
    let on = match table {
        Some(table) => Resource::table(keyspace, table),
        None => Resource::keyspace(keyspace),
    };
    check(principal, Permission::Snapshot, on)
}

/// Checks that the principal's role, if it has one, may now renew or delete a snapshot. Call this
/// under [`Node::exclusively`]: otherwise another snapshot may get the name before the change.
///
/// # Errors
/// 403 if the role lacks the permission, is gone or may not log in any more; also when the snapshot
/// cannot be looked up, and errors of the catalog.
pub(super) fn check_snapshot(
    node: &Node,
    principal: &Principal,
    keyspace: &Keyspace,
    name: &str,
) -> Result<(), Problem> {
    let principal = present(node, principal)?;
    let on = covered_resource(keyspace, name)?;
    check(&principal, Permission::Snapshot, on)
}

/// Checks that the principal may read the rows of a table. A token without a role needs scope
/// `admin`: with scope `jobs` it may start jobs that read tables, but no job returns rows to its client.
/// The keyspace of the system needs scope `admin`, because it has the hashes of passwords and the
/// responses to requests of other clients. Another table may have the name when the rows are read:
/// [`readable_table`] and [`check_input_at`] check the permission on the table that is read.
///
/// # Errors
/// 403; the text names the scope or the permission that is missing.
pub(super) fn check_rows(principal: &Principal, table: &TableName) -> Result<(), Problem> {
    if principal.role.is_none() || table.keyspace == SYSTEM_KEYSPACE {
        check_admin(principal)?;
    }
    let on = Resource::table(&table.keyspace, &table.table);
    check(principal, Permission::Select, on)
}

/// Checks that the principal has scope `admin`.
///
/// # Errors
/// 403 when it has a lower scope.
pub(super) fn check_admin(principal: &Principal) -> Result<(), Problem> {
    check_scope(principal, Scope::Admin)
}

/// Checks that the principal has at least the scope `needed`; each scope includes the lower ones.
///
/// # Errors
/// 403; the text names the scope that is missing.
pub(super) fn check_scope(principal: &Principal, needed: Scope) -> Result<(), Problem> {
    let scope = principal.scope;
    if scope >= needed {
        return Ok(());
    }
    let text = match &principal.role {
        // The role limits a token of any scope.
        Some(role) if needed == Scope::Admin && !role.granted.is_superuser => {
            let name = &role.name;
            format!("scope {needed} needs a superuser, and role {name} of this token is none")
        }
        _ => format!("this token has scope {scope}; the request needs scope {needed}"),
    };
    Err(Problem::forbidden(text))
}

fn check(principal: &Principal, permission: Permission, on: Resource) -> Result<(), Problem> {
    let need = Need { permission, on };
    let Some(role) = &principal.role else {
        return Ok(());
    };
    if role.granted.permits(&need) {
        return Ok(());
    }
    let (name, on) = (&role.name, &need.on);
    Err(Problem::forbidden(format!(
        "role {name} has no {permission} permission on {on} or any of its parents"
    )))
}
