//! Statements that change the schema, USE and TRUNCATE.
//!
//! ```text
//!   keyspaces, tables, indexes, types   a statement + the schema ─► the next schema, or an error
//!   type_names, properties      their common parts; properties uses compaction and entries
//! ```
//!
//! `ebb_model::schema` decides how a statement changes the schema. This module translates
//! statements into its calls. It checks in the order of Cassandra 4.1, so that a statement with
//! several mistakes gets Cassandra's error. The catalog makes a change durable before the response;
//! the change in the response is also the event for other connections.

mod compaction;
mod entries;
mod indexes;
mod keyspaces;
mod properties;
mod tables;
#[cfg(test)]
mod tests;
mod type_names;
mod types;

use std::cell::RefCell;

use bytes::BytesMut;
use ebb_cql::protocol::{ErrorResponse, Response, SchemaChange, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{QualifiedName, Statement};
use ebb_model::access::Resource;
use ebb_model::schema::Schema;
use ebb_tables::CatalogError;
use ebb_tables::names::is_reserved;

use self::type_names::resolve_type;
pub use super::context::SchemaContext;
use super::context::in_keyspace;
use super::error::{Result, invalid, of_catalog, of_schema};
use super::outcome::Outcome;
use super::snapshots::{AT_ALIAS, names_snapshot};
use super::system::VIRTUAL_KEYSPACES;

/// The schema after a statement; `None` if the statement changes nothing, for example because of
/// `IF [NOT] EXISTS`.
type Next = Result<Option<Schema>>;

/// The change that a statement has made; `None` if the statement changed nothing.
type Done = Result<Option<SchemaChange>>;

/// Executes a statement that changes the schema, USE or TRUNCATE, and appends the body of the
/// RESULT.
///
/// # Panics
/// If the statement is of another kind.
pub fn execute(
    context: &SchemaContext<'_>,
    statement: &Statement,
    out: &mut BytesMut,
) -> Result<Outcome> {
    let mut warnings = Vec::new();
    let change = match statement {
        Statement::Use(name) => {
            let keyspace = context.use_keyspace(name.as_str())?;
            Response::SetKeyspace {
                keyspace: keyspace.clone(),
            }
            .encode_body(out);
            return Ok(Outcome {
                keyspace: Some(keyspace),
                ..Outcome::default()
            });
        }
        Statement::Truncate(table) => {
            tables::truncate(context, table)?;
            None
        }
        Statement::CreateKeyspace(create) => keyspaces::create(context, create, &mut warnings)?,
        Statement::AlterKeyspace(alter) => keyspaces::alter(context, alter, &mut warnings)?,
        Statement::DropKeyspace(drop) => keyspaces::drop(context, drop)?,
        Statement::CreateTable(create) => tables::create(context, create)?,
        Statement::AlterTable(alter) => tables::alter(context, alter)?,
        Statement::DropTable(drop) => tables::drop(context, drop)?,
        Statement::CreateType(create) => types::create(context, create)?,
        Statement::AlterType(alter) => types::alter(context, alter)?,
        Statement::DropType(drop) => types::drop(context, drop)?,
        Statement::CreateIndex(create) => indexes::create(context, create)?,
        Statement::DropIndex(drop) => indexes::drop(context, drop)?,
        other => panic!("not a statement that changes the schema: {other:?}"),
    };
    match &change {
        Some(change) => Response::SchemaChange(change.clone()).encode_body(out),
        None => Response::Void.encode_body(out),
    }
    Ok(Outcome {
        warnings,
        ..Outcome::default()
    })
}

impl SchemaContext<'_> {
    /// Splits a qualified name into the keyspace (by default, the one in use) and the name of the
    /// object, and checks that statements may change the keyspace.
    ///
    /// # Errors
    /// If the name is unqualified and no keyspace is in use, or if the keyspace is a snapshot, is
    /// reserved for the system or cannot be read.
    fn changeable<'n>(&'n self, name: &'n QualifiedName) -> Result<(&'n str, &'n str)> {
        let keyspace = in_keyspace(name, self.keyspace)?;
        self.check_changeable(keyspace)?;
        check_readable(self.catalog.state().schema(), keyspace, None)?;
        Ok((keyspace, name.name.as_str()))
    }

    fn check_changeable(&self, keyspace: &str) -> Result<()> {
        if names_snapshot(&self.catalog.state(), keyspace) {
            return invalid(format!(
                "Keyspace '{keyspace}' is a snapshot, which never changes; name the keyspace itself"
            ));
        }
        if !is_reserved(keyspace) {
            return Ok(());
        }
        let kind = if VIRTUAL_KEYSPACES.contains(&keyspace) {
            "Virtual"
        } else {
            "System"
        };
        invalid(format!(
            "{kind} keyspace '{keyspace}' is not user-modifiable"
        ))
    }

    /// Returns the keyspace that USE selects: a keyspace of users or of the system, or a snapshot.
    fn use_keyspace(&self, name: &str) -> Result<String> {
        let state = self.catalog.state();
        check_readable(state.schema(), name, None)?;
        let is_there = state.schema().keyspace(name).is_some()
            || self.system.has_keyspace(name)
            || super::snapshots::find(self.catalog.db(), &state, name)?.is_some();
        if is_there {
            Ok(name.to_string())
        } else {
            invalid(format!("Keyspace '{name}' does not exist"))
        }
    }

    /// Replaces the schema by the result of `next`. Returns `change` if the schema has changed, and
    /// `None` if `next` left it unchanged.
    fn change(&self, change: SchemaChange, next: impl FnOnce(&Schema) -> Next) -> Done {
        self.change_by(|schema| Ok(next(schema)?.map(|next| (next, change))))
    }

    /// Changes the schema under the lock of schema changes. Checks the permissions of the
    /// statement, replaces the schema by the one that `decide` returns, and grants the permissions
    /// on a new keyspace or table to its creator. Adds the [`SchemaChange`] that `decide` returned
    /// to [`changes`](Self::changes), and returns it. Returns `None` if `decide` left the schema
    /// unchanged.
    ///
    /// # Errors
    /// The error of the step that failed. If the schema has changed before that, the change is in
    /// `changes` nevertheless. If the grant failed, a superuser has to grant the permissions.
    fn change_by(
        &self,
        decide: impl FnOnce(&Schema) -> Result<Option<(Schema, SchemaChange)>>,
    ) -> Done {
        let change = RefCell::new(None);
        let decide = |schema: &Schema| {
            (self.check)(schema)?;
            let Some((next, decided)) = decide(schema)? else {
                return Ok(None);
            };
            *change.borrow_mut() = Some(decided);
            Ok::<_, ErrorResponse>(Some(next))
        };
        let mut granted = Ok(());
        let grant = || granted = self.grant_created(change.borrow().as_ref());
        let changed = self.catalog.change_then(decide, grant);
        let change = change.into_inner();
        if matches!(changed, Ok(Ok(true)) | Err(CatalogError::Unfinished(_))) {
            self.changes.add(change.clone());
        }
        changed.map_err(of_catalog)??;
        granted?;
        Ok(change)
    }

    /// Grants the user all permissions on the keyspace or table that a change has created. Does
    /// nothing after other changes: types have no permissions of their own.
    fn grant_created(&self, change: Option<&SchemaChange>) -> Result<()> {
        let created = change.filter(|change| change.kind == SchemaChangeKind::Created);
        let Some(change) = created else {
            return Ok(());
        };
        let keyspace = &change.keyspace;
        match &change.target {
            SchemaTarget::Keyspace => (self.grant)(&Resource::keyspace(keyspace)),
            SchemaTarget::Table(table) => (self.grant)(&Resource::table(keyspace, table)),
            SchemaTarget::Type(_) => Ok(()),
        }
    }
}

fn changed(kind: SchemaChangeKind, keyspace: &str, target: SchemaTarget) -> SchemaChange {
    SchemaChange {
        kind,
        keyspace: keyspace.to_string(),
        target,
    }
}

/// Checks that a keyspace, or a table of it, is readable. One that does not exist passes.
fn check_readable(schema: &Schema, keyspace: &str, table: Option<&str>) -> Result<()> {
    match schema.unreadable(keyspace, table) {
        Some(unreadable) => Err(of_schema(unreadable)),
        None => Ok(()),
    }
}

fn no_keyspace(keyspace: &str) -> ErrorResponse {
    ErrorResponse::invalid(format!("Keyspace '{keyspace}' doesn't exist"))
}

/// Returns whether the name of a new keyspace could be read as the name of a snapshot.
fn is_alias(keyspace: &str) -> bool {
    keyspace.contains(AT_ALIAS)
}
