//! The rules that every table satisfies. CREATE, ALTER and the decoding of a record all apply this
//! one list, so that the next start cannot reject the result of a statement. CREATE and ALTER also
//! apply the rules for counters.

use std::collections::{BTreeMap, BTreeSet};

use super::index::check_index_name;
use super::{ColumnKind, SchemaError, TableSchema, check_name, invalid};
use crate::types::CqlType;
use crate::types::identifier::Quoted;

impl TableSchema {
    /// Puts the columns into the order of `SELECT *`, and checks the table that results from a
    /// statement.
    ///
    /// # Errors
    /// See [`check`](Self::check); for counters, Cassandra's errors of CREATE TABLE.
    pub(super) fn checked(self) -> Result<Self, SchemaError> {
        let table = self.assemble();
        table.check()?;
        table.check_counters()?;
        Ok(table)
    }

    /// Checks the rules for new definitions of counter tables. Stored definitions are not checked:
    /// earlier versions stored counter tables with a `default_time_to_live`. Such tables are
    /// served, but can change only after ALTER TABLE sets it to 0.
    fn check_counters(&self) -> Result<(), SchemaError> {
        if !self.is_counter() {
            return Ok(());
        }
        let mut values = self.columns.iter().filter(|c| c.kind >= ColumnKind::Static);
        if values.any(|c| c.ty != CqlType::Counter) {
            return invalid("Cannot mix counter and non counter columns in the same table");
        }
        if self.options.default_time_to_live_secs() > 0 {
            return invalid("Cannot set default_time_to_live on a table with counters");
        }
        Ok(())
    }

    /// Checks that the table satisfies the rules that hold for every table.
    ///
    /// # Errors
    /// For violations that a statement can cause, Cassandra's message for CREATE TABLE or CREATE
    /// INDEX. For all others, [`SchemaError::Record`].
    pub(super) fn check(&self) -> Result<(), SchemaError> {
        check_name("Keyspace", &self.keyspace).map_err(SchemaError::Configuration)?;
        check_name("Table", &self.name).map_err(SchemaError::Configuration)?;
        self.options.check()?;
        self.check_ids()?;
        self.check_key_positions()?;
        self.check_types()?;
        self.check_indexes()
    }

    fn check_ids(&self) -> Result<(), SchemaError> {
        let next_id = self.next_column_id;
        let (mut ids, mut dropped_ids) = (BTreeMap::new(), BTreeSet::new());
        for column in &self.columns {
            if column.id.0 >= next_id || ids.insert(column.id, column).is_some() {
                return impossible(format!("column id {} twice or not given out", column.id.0));
            }
        }
        for old in &self.dropped {
            // A column that was added again is in both lists.
            let now = ids.get(&old.id);
            let taken = now.is_some_and(|c| c.name != old.name || c.kind != old.kind);
            if old.id.0 >= next_id || taken || !dropped_ids.insert(old.id) {
                return impossible(format!("column id {} twice or not given out", old.id.0));
            }
        }
        let mut names = BTreeSet::new();
        match self.columns.iter().find(|c| !names.insert(&c.name)) {
            Some(twice) => impossible(format!("column {} twice", twice.name)),
            None => Ok(()),
        }
    }

    fn check_key_positions(&self) -> Result<(), SchemaError> {
        for kind in [ColumnKind::PartitionKey, ColumnKind::Clustering] {
            // `columns_of` returns key columns in the order of their positions.
            let columns = self.columns_of(kind);
            if columns.iter().enumerate().any(|(i, c)| c.position != i) {
                return impossible("positions of key columns are not 0, 1, 2 and so on");
            }
            if kind == ColumnKind::PartitionKey && columns.is_empty() {
                return impossible("no partition key");
            }
        }
        Ok(())
    }

    /// Checks the types of all columns, dropped ones included, and not only those of new ones: a
    /// user-defined type may have changed since the columns that use it were created.
    fn check_types(&self) -> Result<(), SchemaError> {
        for column in &self.columns {
            column.ty.check()?;
            if column.kind < ColumnKind::Static {
                check_key_type(&column.name, &column.ty, false)?;
            }
        }
        for old in &self.dropped {
            old.ty.check()?;
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), SchemaError> {
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for index in &self.indexes {
            check_index_name(&index.name)?;
            if index.id >= self.next_index_id || !ids.insert(index.id) {
                return impossible(format!("index id {} twice or not given out", index.id));
            }
            if !names.insert(&index.name) {
                return impossible(format!("index {} twice", index.name));
            }
            let Some(column) = self.column_by_id(index.column) else {
                return impossible(format!("index {} is by no column", index.name));
            };
            if self.check_index(&column.name, index.target)? != index.target {
                return impossible(format!("index {} by {}", index.name, index.target));
            }
        }
        Ok(())
    }
}

/// Checks the type of a column of the primary key.
pub(super) fn check_key_type(
    column: &str,
    ty: &CqlType,
    is_static: bool,
) -> Result<(), SchemaError> {
    if ty.is_multi_cell() {
        // Cassandra names a type of users with its keyspace, and quotes both as one name.
        let (kind, name) = match ty {
            CqlType::Udt { definition, .. } => {
                let full = format!("{}.{}", definition.keyspace(), definition.name());
                ("user-defined", Quoted(&full).to_string())
            }
            collection => ("collection", collection.to_string()),
        };
        return invalid(format!(
            "Invalid non-frozen {kind} type {name} for PRIMARY KEY column '{column}'"
        ));
    }
    if *ty == CqlType::Counter {
        return invalid(format!(
            "counter type is not supported for PRIMARY KEY column '{column}'"
        ));
    }
    if ty.contains_duration() {
        return invalid(format!(
            "duration type is not supported for PRIMARY KEY column '{column}'"
        ));
    }
    if is_static {
        return invalid(format!(
            "Static column '{column}' cannot be part of the PRIMARY KEY"
        ));
    }
    Ok(())
}

/// Returns the error for a violation that no statement can cause: the stored record is wrong.
fn impossible(what: impl Into<String>) -> Result<(), SchemaError> {
    Err(SchemaError::Record(what.into()))
}
