//! The permissions that statements require.

use std::sync::Arc;

use ebb_cql::syntax::ast::Parsed;
use ebb_model::access::{Need, Permission, Resource};
use ebb_model::schema::Schema;
use ebb_tables::CatalogState;

use super::Executor;
use crate::access::{AccessContext, NeedsContext, User, needs};
use crate::call::SchemaChanges;
use crate::context::{Check, Grant, SchemaContext};
use crate::error::Result;
use crate::prepared::Prepared;

impl Executor {
    /// Returns the permissions that a statement requires under a schema.
    pub(super) fn needs(
        schema: &Schema,
        parsed: &Parsed,
        keyspace: Option<&str>,
    ) -> Result<Box<[Need]>> {
        let context = NeedsContext { keyspace, schema };
        Ok(needs(&context, &parsed.statement)?.into())
    }

    /// Checks that the user may execute a statement.
    pub(super) fn check(&self, prepared: &Prepared, user: &User) -> Result<()> {
        if user.is_anyone() {
            return Ok(());
        }
        match &prepared.needs {
            Some(needs) => user.check_statement(self.catalog.roles(), prepared.number, needs),
            None => self.check_under(self.catalog.state().schema(), prepared, user),
        }
    }

    /// Checks that the user may execute a statement under a schema.
    pub(super) fn check_under(
        &self,
        schema: &Schema,
        prepared: &Prepared,
        user: &User,
    ) -> Result<()> {
        if user.is_anyone() {
            return Ok(());
        }
        let needs = Self::needs(schema, &prepared.parsed, prepared.keyspace.as_deref())?;
        user.check(self.catalog.roles(), &needs)
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
        check: Check<'c>,
        grant: Grant<'c>,
    ) -> AccessContext<'c> {
        AccessContext {
            schema: SchemaContext {
                catalog: &self.catalog,
                system: &self.system,
                keyspace,
                changes,
                check,
                grant,
            },
            user,
        }
    }
}
