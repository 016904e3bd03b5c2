//! The permissions that statements require, and those that the creator of an object gets.

use std::sync::Arc;

use ebb_cql::syntax::ast::{Parsed, Statement};
use ebb_model::access::{Need, Permission, Resource};
use ebb_tables::CatalogState;

use super::Executor;
use crate::access::{self, AccessContext, NeedsContext, User, needs};
use crate::call::{Call, SchemaChanges};
use crate::context::in_keyspace;
use crate::error::Result;
use crate::prepared::Prepared;

impl Executor {
    /// Returns the permissions that a statement requires under the current schema.
    pub(super) fn needs(&self, parsed: &Parsed, keyspace: Option<&str>) -> Result<Box<[Need]>> {
        let state = self.catalog.state();
        let context = NeedsContext {
            keyspace,
            state: &state,
        };
        Ok(needs(&context, &parsed.statement)?.into())
    }

    /// Checks that the user may execute a statement.
    pub(super) fn check(&self, prepared: &Prepared, user: &User) -> Result<()> {
        if user.is_anyone() {
            return Ok(());
        }
        let roles = self.catalog.roles();
        match &prepared.needs {
            Some(needs) => user.check_statement(roles, prepared.number, needs),
            None => {
                let needs = self.needs(&prepared.parsed, prepared.keyspace.as_deref())?;
                user.check(roles, &needs)
            }
        }
    }

    /// Checks permissions by `check`, and returns its result with the state of the catalog that was
    /// current during the check. So the permissions are those on the tables of this state, and not on
    /// earlier or later tables of the same names. `check` gets the state, and is called again if the
    /// state changed meanwhile.
    ///
    /// # Errors
    /// The error of `check`.
    pub(super) fn checked<T>(
        &self,
        mut check: impl FnMut(&CatalogState) -> Result<T>,
    ) -> Result<(Arc<CatalogState>, T)> {
        let mut state = self.catalog.state();
        loop {
            let checked = check(&state)?;
            let now = self.catalog.state();
            if Arc::ptr_eq(&state, &now) {
                return Ok((state, checked));
            }
            state = now;
        }
    }

    /// Checks that the user may drop the snapshots that cover `on`.
    pub(super) fn check_drop_of_snapshot(&self, user: &User, on: Resource) -> Result<()> {
        let need = Need {
            permission: Permission::Snapshot,
            on,
        };
        user.check(self.catalog.roles(), &[need])
    }

    pub(crate) fn access_context<'c>(
        &'c self,
        keyspace: Option<&'c str>,
        user: &'c User,
        changes: &'c SchemaChanges,
    ) -> AccessContext<'c> {
        AccessContext {
            schema: self.schema_context(keyspace, changes),
            user,
        }
    }

    /// After a statement that has created a keyspace or table, grants the user of the call all
    /// permissions on the new object. Does nothing after other statements.
    pub(super) fn own(
        &self,
        statement: &Statement,
        keyspace: Option<&str>,
        call: &Call<'_>,
    ) -> Result<()> {
        let created = match statement {
            Statement::CreateKeyspace(create) => Resource::keyspace(create.name.as_str()),
            Statement::CreateTable(create) => {
                let keyspace = in_keyspace(&create.table, keyspace)?;
                Resource::table(keyspace, create.table.name.as_str())
            }
            _ => return Ok(()),
        };
        // With IF NOT EXISTS the statement may have created nothing.
        if call.changes.is_empty() {
            return Ok(());
        }
        let context = self.access_context(keyspace, call.user, call.changes);
        access::grant_to_creator(&context, &created)
    }
}
