//! The permissions that a statement requires.

use ebb_cql::syntax::ast::{Condition, QualifiedName, SnapshotScope as Scope, Statement, Write};
use ebb_model::access::{Need, Permission, Resource};
use ebb_model::schema::Schema;
use ebb_storage::SnapshotTable;

use crate::context::in_keyspace;
use crate::error::Result;

/// The context in which the names in a statement are resolved.
#[derive(Debug, Clone, Copy)]
pub struct NeedsContext<'a> {
    pub keyspace: Option<&'a str>,
    pub schema: &'a Schema,
}

/// Keyspaces that every logged-in user may read: drivers and cqlsh need them.
const READABLE: [&str; 3] = ["system", "system_schema", "system_virtual_schema"];
/// A table that every logged-in user may read: users without SELECT on it see only their own rows.
const QUERIES: (&str, &str) = ("system_views", "queries");

/// Returns the permissions that a statement requires. A statement about roles, permissions, a query or a
/// snapshot may require more, depending on the role, resource, query or snapshot that it names: those
/// permissions are checked when the statement is executed.
pub fn needs(context: &NeedsContext<'_>, statement: &Statement) -> Result<Vec<Need>> {
    let one = |permission, on| Ok(vec![Need { permission, on }]);
    let table = |permission, name| one(permission, context.table(name)?);
    let of_keyspace = |permission, name: &QualifiedName| {
        let keyspace = in_keyspace(name, context.keyspace)?;
        one(permission, Resource::keyspace(keyspace))
    };
    match statement {
        // For a read at a snapshot: see `reads_at_snapshot`.
        Statement::Select(select) => {
            let keyspace = in_keyspace(&select.from, context.keyspace)?;
            Ok(reads(keyspace, select.from.name.as_str()))
        }
        Statement::Write(write) => context.write(write),
        Statement::Batch(batch) => {
            let each = batch.writes.iter().map(|write| context.write(write));
            Ok(each.collect::<Result<Vec<_>>>()?.concat())
        }
        Statement::Truncate(name) => table(Permission::Modify, name),
        Statement::CreateKeyspace(_) => one(Permission::Create, Resource::AllKeyspaces),
        Statement::AlterKeyspace(alter) => {
            one(Permission::Alter, Resource::keyspace(alter.name.as_str()))
        }
        Statement::DropKeyspace(drop) => {
            one(Permission::Drop, Resource::keyspace(drop.name.as_str()))
        }
        // As in Cassandra, CREATE on the tables of the keyspace is enough. A permission on the
        // keyspace contains it.
        Statement::CreateTable(create) => {
            let keyspace = in_keyspace(&create.table, context.keyspace)?;
            one(Permission::Create, Resource::AllTables(keyspace.into()))
        }
        Statement::AlterTable(alter) => table(Permission::Alter, &alter.table),
        Statement::DropTable(drop) => table(Permission::Drop, &drop.name),
        Statement::CreateType(create) => of_keyspace(Permission::Create, &create.name),
        Statement::AlterType(alter) => of_keyspace(Permission::Alter, &alter.name),
        Statement::DropType(drop) => of_keyspace(Permission::Drop, &drop.name),
        // An index has no permissions of its own: it is a part of its table.
        Statement::CreateIndex(create) => {
            let named = create.indexed_table();
            table(Permission::Alter, &named)
        }
        Statement::DropIndex(drop) => {
            let keyspace = in_keyspace(&drop.name, context.keyspace)?;
            let of = context.schema.keyspace(keyspace);
            match of.and_then(|of| of.table_of_index(drop.name.name.as_str())) {
                Some(of) => one(Permission::Alter, Resource::table(keyspace, of.name())),
                // Without a permission the statement reveals only that there is no such index.
                None => Ok(Vec::new()),
            }
        }
        Statement::CreateSnapshot(create) => one(Permission::Snapshot, context.scope(&create.on)?),
        // This permission depends on what the snapshot covers, which is known only under the lock under which
        // the snapshot is dropped.
        Statement::DropSnapshot(_) => Ok(Vec::new()),
        // These statements reveal no rows. USE and DESCRIBE show the schema, which all users may read in
        // `system_schema`. LIST SNAPSHOTS shows the names, tables, times and sizes of snapshots: users who may
        // read a table choose a snapshot of it there. Other columns of `system_views.snapshots` need SELECT.
        Statement::Use(_) | Statement::Describe(_) | Statement::ListSnapshots(_) => Ok(Vec::new()),
        // Checked at execution: see above.
        Statement::Role(_) | Statement::Permission(_) => Ok(Vec::new()),
        // This permission depends on the query: superusers may kill any, other users only their
        // own.
        Statement::KillQuery(_) => Ok(Vec::new()),
        // Execution rejects the statement.
        Statement::Unsupported(_) => Ok(Vec::new()),
    }
}

/// Returns the permissions that reading a table requires: none for the tables that every logged-in
/// user may read.
fn reads(keyspace: &str, table: &str) -> Vec<Need> {
    if READABLE.contains(&keyspace) || (keyspace, table) == QUERIES {
        return Vec::new();
    }
    vec![Need {
        permission: Permission::Select,
        on: Resource::table(keyspace, table),
    }]
}

/// Returns the permissions that reading a table at a snapshot requires. `rows` is the table in the snapshot.
pub fn reads_at_snapshot(keyspace: &str, table: &str, rows: &SnapshotTable) -> Vec<Need> {
    vec![Need {
        permission: Permission::Select,
        on: Resource::table_at_snapshot(keyspace, table, !rows.is_dropped()),
    }]
}

/// Returns the permission to see the queries of all users in the table of queries. Without this
/// permission, users see only their own queries.
pub fn all_queries_need() -> Need {
    Need {
        permission: Permission::Select,
        on: Resource::table(QUERIES.0, QUERIES.1),
    }
}

/// Returns the permission to trace requests. A trace shows the statements of other users too.
pub fn trace_need() -> Need {
    Need {
        permission: Permission::Select,
        on: Resource::keyspace("system_traces"),
    }
}

impl NeedsContext<'_> {
    fn table(&self, name: &QualifiedName) -> Result<Resource> {
        let keyspace = in_keyspace(name, self.keyspace)?;
        Ok(Resource::table(keyspace, name.name.as_str()))
    }

    /// Returns the permissions that a write requires: MODIFY, and also SELECT if the write is
    /// conditional.
    fn write(&self, write: &Write) -> Result<Vec<Need>> {
        let (name, is_conditional) = match write {
            Write::Insert(insert) => (&insert.table, insert.if_not_exists),
            Write::Update(update) => (&update.table, update.condition != Condition::None),
            Write::Delete(delete) => (&delete.table, delete.condition != Condition::None),
        };
        let on = self.table(name)?;
        let mut needs = vec![Need {
            permission: Permission::Modify,
            on: on.clone(),
        }];
        if is_conditional {
            // The response to a condition reveals the row.
            needs.push(Need {
                permission: Permission::Select,
                on,
            });
        }
        Ok(needs)
    }

    fn scope(&self, scope: &Scope) -> Result<Resource> {
        match scope {
            Scope::Keyspace(keyspace) => Ok(Resource::keyspace(keyspace.as_str())),
            Scope::Table(name) => self.table(name),
        }
    }
}
