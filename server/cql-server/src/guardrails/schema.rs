//! The checks of statements that change the schema.

use ebb_cql::syntax::ast::{self, Statement, TableChange, TypeChange};
use ebb_tables::CatalogState;

use super::{Feature, Guardrails, Limit};
use crate::error::Result;

impl Guardrails {
    /// Checks a statement that changes the schema, and returns its warnings. `keyspace` is the
    /// keyspace in use. The checked numbers are those in `state`, increased by the objects that the
    /// statement would create. A name that does not exist is no error here, because execution
    /// returns one. As in Cassandra, columns, fields and indexes whose names exist already are not
    /// counted again, but keyspaces and tables are, even with IF NOT EXISTS.
    ///
    /// The objects are not locked between the check and the execution. But the server executes
    /// changes of the schema one at a time (in `Lane::Schema`), so between the two only a job may
    /// create a table.
    pub fn check_schema(
        &self,
        statement: &Statement,
        state: &CatalogState,
        keyspace: Option<&str>,
    ) -> Result<Vec<String>> {
        let schema = state.schema();
        let keyspace_of = |name: &ast::QualifiedName| {
            let own = name.keyspace.as_ref().map(ast::Name::as_str);
            own.or(keyspace).and_then(|name| schema.keyspace(name))
        };
        let mut warnings = Vec::new();
        match statement {
            Statement::CreateKeyspace(create) => {
                let count = schema.keyspaces().count() as u64 + 1;
                let name = create.name.as_str();
                self.check(Limit::Keyspaces, name, count, &mut warnings)?;
            }
            Statement::DropKeyspace(_) => self.allow(Feature::DropKeyspace)?,
            Statement::CreateTable(create) => {
                let name = create.table.name.as_str();
                let columns = create.columns.len() as u64;
                let others = schema.keyspaces().map(|keyspace| keyspace.tables().count());
                let count = others.sum::<usize>() as u64 + 1;
                self.check(Limit::ColumnsPerTable, name, columns, &mut warnings)?;
                self.check(Limit::Tables, name, count, &mut warnings)?;
            }
            Statement::AlterTable(alter) => {
                // Changes of a table's options are no changes of its columns, which the feature forbids.
                match &alter.change {
                    TableChange::Add { .. }
                    | TableChange::Drop { .. }
                    | TableChange::Rename { .. } => self.allow(Feature::AlterTable)?,
                    _ => {}
                }
                let name = alter.table.name.as_str();
                let table = keyspace_of(&alter.table).and_then(|keyspace| keyspace.table(name));
                if let (TableChange::Add { columns, .. }, Some(table)) = (&alter.change, table) {
                    // With IF NOT EXISTS a column may exist already.
                    let is_new = |column: &&ast::ColumnDefinition| {
                        table.column(column.name.as_str()).is_none()
                    };
                    let added = columns.iter().filter(is_new).count();
                    let columns = (table.columns().len() + added) as u64;
                    self.check(Limit::ColumnsPerTable, name, columns, &mut warnings)?;
                }
            }
            Statement::DropTable(_) | Statement::Truncate(_) => {
                self.allow(Feature::DropTruncateTable)?;
            }
            Statement::CreateType(create) => {
                let name = create.name.name.as_str();
                let fields = create.fields.len() as u64;
                self.check(Limit::FieldsPerUdt, name, fields, &mut warnings)?;
            }
            Statement::AlterType(alter) => {
                let name = alter.name.name.as_str();
                let known = keyspace_of(&alter.name).and_then(|keyspace| keyspace.user_type(name));
                if let (TypeChange::Add { field, .. }, Some(known)) = (&alter.change, known)
                    && known.field(field.as_str()).is_none()
                {
                    let fields = known.fields().len() as u64 + 1;
                    self.check(Limit::FieldsPerUdt, name, fields, &mut warnings)?;
                }
            }
            Statement::CreateIndex(create) => {
                self.allow(Feature::SecondaryIndexes)?;
                let table = create.table.name.as_str();
                let indexed = create.indexed_table();
                let of = keyspace_of(&indexed);
                if let (Some(of), Some(name)) = (of, &create.name)
                    && of.table_of_index(name.name.as_str()).is_some()
                {
                    return Ok(warnings);
                }
                let known = of.and_then(|of| of.table(table));
                let what = match &create.name {
                    Some(name) => format!("{} on table {table}", name.name.as_str()),
                    None => format!("on table {table}"),
                };
                let count = known.map_or(0, |table| table.indexes().len()) as u64 + 1;
                self.check(Limit::SecondaryIndexesPerTable, &what, count, &mut warnings)?;
            }
            _ => {}
        }
        Ok(warnings)
    }
}
