//! One table: its columns, their ids, and the layout of its keys.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::rules::check_key_type;
use super::{IndexSchema, SchemaError, TableOptions, check_name, check_name_length, invalid};
use crate::key::{ClusteringColumn, KeyLayout, Order};
use crate::row::DroppedCells;
use crate::types::CqlType;

/// The id of a column in stored rows. No other column of the table ever has this id. A column that is
/// dropped and added again gets its old id back, but its cells from before the drop stay hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnId(pub u32);

/// The role of a column in its row. Records and `system_schema` use the same words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Part of the key within the partition.
    Clustering,
    /// One value for the partition.
    Static,
    /// One value for each row.
    Regular,
}

impl ColumnKind {
    /// Returns the name of the kind in the column `kind` of `system_schema.columns`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PartitionKey => "partition_key",
            Self::Clustering => "clustering",
            Self::Static => "static",
            Self::Regular => "regular",
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The id of the column in stored rows.
    pub id: ColumnId,
    /// The name of the column, lower case unless it was quoted.
    pub name: Arc<str>,
    /// The type of the column.
    pub ty: CqlType,
    /// The role of the column in its row.
    pub kind: ColumnKind,
    /// The index among the partition key's or clustering columns, from 0; 0 for other columns.
    pub position: usize,
    /// The sort order of a clustering column; ascending for other columns.
    pub order: Order,
}

/// A dropped column. Its id stays reserved for a column of the same name that is added later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The id of the dropped column in stored rows.
    pub id: ColumnId,
    /// The name of the dropped column.
    pub name: Arc<str>,
    /// The type, with user-defined types turned into tuples, because the types may be dropped or
    /// changed later.
    pub ty: CqlType,
    /// The role of the dropped column: static or regular.
    pub kind: ColumnKind,
    /// The timestamp in microseconds since 1970 up to which the column's cells are hidden: the one
    /// of `USING TIMESTAMP`, or else the time of the drop. If the column was dropped several times,
    /// the greatest of these.
    pub dropped_us: i64,
}

/// The content of a `CREATE TABLE` statement.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// The keyspace of the new table.
    pub keyspace: String,
    /// The table's name.
    pub name: String,
    /// The id of the new table.
    pub id: Uuid,
    /// Name, type and whether the column is static, in the order of the statement.
    pub columns: Vec<(String, CqlType, bool)>,
    /// The names of the partition key's columns.
    pub partition_key: Vec<String>,
    /// The names of the clustering columns.
    pub clustering: Vec<String>,
    /// The content of CLUSTERING ORDER BY; empty without one.
    pub order: Vec<(String, Order)>,
    /// The options of WITH, without CLUSTERING ORDER BY and ID.
    pub options: TableOptions,
}

impl TableDefinition {
    /// Returns a definition with the nil id and without options. `columns` has the name and the type of each
    /// column, and whether it is static; `partition_key` and `clustering` are the names of the columns of
    /// the primary key.
    pub fn new(
        (keyspace, name): (&str, &str),
        columns: &[(&str, CqlType, bool)],
        partition_key: &[&str],
        clustering: &[&str],
    ) -> Self {
        let columns = columns.iter();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            id: Uuid::nil(),
            columns: columns
                .map(|(name, ty, is_static)| ((*name).to_owned(), ty.clone(), *is_static))
                .collect(),
            partition_key: names(partition_key),
            clustering: names(clustering),
            order: Vec::new(),
            options: TableOptions::default(),
        }
    }
}

/// A table. Its columns are in the order of `SELECT *`: the partition key and clustering
/// columns by position, then static ones by name, then the others by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    pub(super) keyspace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) id: Uuid,
    pub(super) columns: Vec<Column>,
    pub(super) dropped: Vec<DroppedColumn>,
    pub(super) next_column_id: u32,
    pub(super) options: TableOptions,
    pub(super) indexes: Vec<IndexSchema>,
    pub(super) next_index_id: u32,
    layout: KeyLayout,
    /// Indexes into `columns`, sorted by the ids of the columns.
    by_id: Vec<usize>,
    dropped_cells: Vec<DroppedCells>,
    all_dropped_cells: Vec<DroppedCells>,
    ids_beside_dropped: Option<Vec<u32>>,
    /// Indexes into `columns`, sorted by the names of the columns.
    by_name: Vec<usize>,
}

impl TableSchema {
    /// Creates a table.
    ///
    /// # Errors
    /// Cassandra's messages if a name, a type, the primary key, the clustering order or an option
    /// is invalid.
    pub fn create(definition: TableDefinition) -> Result<Self, SchemaError> {
        let TableDefinition {
            keyspace,
            name,
            id,
            columns,
            partition_key,
            clustering,
            order,
            options,
        } = definition;
        check_name("Table", &name).map_err(SchemaError::Configuration)?;
        let mut declared = BTreeMap::new();
        for (column, ty, is_static) in &columns {
            check_name_length("Column", column)?;
            ty.check_new()?;
            if declared.insert(column, (ty, *is_static)).is_some() {
                return invalid(format!(
                    "Duplicate column '{column}' declaration for table '{name}'"
                ));
            }
        }
        // The misspelling is Cassandra's.
        if partition_key.is_empty() {
            return invalid(format!(
                "No PRIMARY KEY specifed for table '{name}' (exactly one required)"
            ));
        }
        check_order(&clustering, &order)?;
        let mut made: Vec<Column> = Vec::with_capacity(columns.len());
        let mut keys = BTreeSet::new();
        // `check_order` accepts only the first clustering columns in their order, so `order` is indexed by
        // position. Columns of the partition key have no order.
        let kinds = [
            (ColumnKind::PartitionKey, &partition_key, &order[..0]),
            (ColumnKind::Clustering, &clustering, &order[..]),
        ];
        for (kind, names, order) in kinds {
            for (position, key) in names.iter().enumerate() {
                let Some(&(ty, is_static)) = declared.get(key) else {
                    return invalid(format!(
                        "Unknown column '{key}' referenced in PRIMARY KEY for table '{name}'"
                    ));
                };
                if !keys.insert(key) {
                    return invalid(format!(
                        "Duplicate column '{key}' in PRIMARY KEY clause for table '{name}'"
                    ));
                }
                check_key_type(key, ty, is_static)?;
                let order = order.get(position).map(|(_, order)| *order);
                made.push(Column {
                    id: ColumnId(0),
                    name: key.as_str().into(),
                    ty: ty.clone(),
                    kind,
                    position,
                    order: order.unwrap_or_default(),
                });
            }
        }
        if clustering.is_empty() && columns.iter().any(|(.., is_static)| *is_static) {
            return invalid(STATIC_WITHOUT_CLUSTERING);
        }
        for (column, ty, is_static) in columns {
            if keys.contains(&column) {
                continue;
            }
            made.push(Column {
                id: ColumnId(0),
                name: column.into(),
                ty,
                kind: if is_static {
                    ColumnKind::Static
                } else {
                    ColumnKind::Regular
                },
                position: 0,
                order: Order::Asc,
            });
        }
        // The columns get their ids in the order of `SELECT *`, which is then their order in stored
        // rows, too. Until here, each had a placeholder.
        sort(&mut made);
        for (id, column) in made.iter_mut().enumerate() {
            column.id = ColumnId(id as u32);
        }
        let next_column_id = made.len() as u32;
        // A new table has neither dropped columns nor indexes.
        let table = Self::from_parts(
            (keyspace.into(), name.into()),
            id,
            made,
            Vec::new(),
            next_column_id,
            options,
            (Vec::new(), 0),
        );
        table.checked()
    }

    /// Sorts the columns, and recomputes the derived fields.
    pub(super) fn assemble(mut self) -> Self {
        sort(&mut self.columns);
        self.dropped.sort_by_key(|old| old.id);
        self.indexes.sort_by(|a, b| a.name.cmp(&b.name));
        self.layout = layout(&self.columns);
        self.by_id = (0..self.columns.len()).collect();
        self.by_id.sort_by_key(|&at| self.columns[at].id);
        let ids: HashSet<ColumnId> = self.columns.iter().map(|c| c.id).collect();
        let cells = self.dropped.iter().map(|old| DroppedCells {
            column: old.id.0,
            timestamp_us: old.dropped_us,
        });
        self.all_dropped_cells = cells.collect();
        let back =
            (self.all_dropped_cells.iter()).filter(|old| ids.contains(&ColumnId(old.column)));
        self.dropped_cells = back.cloned().collect();
        self.ids_beside_dropped = (!self.dropped.is_empty()).then(|| {
            let columns = self.columns.iter();
            let columns = columns.filter(|column| column.kind >= ColumnKind::Static);
            let mut ids: Vec<u32> = columns.map(|column| column.id.0).collect();
            ids.sort_unstable();
            ids
        });
        self.by_name = (0..self.columns.len()).collect();
        (self.by_name).sort_by(|&a, &b| self.columns[a].name.cmp(&self.columns[b].name));
        self
    }

    /// Returns a table that is not checked yet.
    pub(super) fn from_parts(
        (keyspace, name): (Arc<str>, Arc<str>),
        id: Uuid,
        columns: Vec<Column>,
        dropped: Vec<DroppedColumn>,
        next_column_id: u32,
        options: TableOptions,
        (indexes, next_index_id): (Vec<IndexSchema>, u32),
    ) -> Self {
        Self::assemble(Self {
            keyspace,
            name,
            id,
            columns,
            dropped,
            next_column_id,
            options,
            indexes,
            next_index_id,
            layout: KeyLayout::new(Vec::new(), Vec::new()),
            by_id: Vec::new(),
            dropped_cells: Vec::new(),
            all_dropped_cells: Vec::new(),
            ids_beside_dropped: None,
            by_name: Vec::new(),
        })
    }

    /// Returns the name of the keyspace.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id. No other table of the schema has it, except in databases of earlier versions,
    /// where `WITH ID` could repeat the id of another table.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Returns all columns, in the order of `SELECT *`.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the columns of one kind: key columns by position, others by name.
    pub fn columns_of(&self, kind: ColumnKind) -> &[Column] {
        let start = self.columns.partition_point(|c| c.kind < kind);
        &self.columns[start..self.place_behind(kind)]
    }

    /// Returns a column by its name; `None` if the table has none of this name now.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(self.place(name)?)
    }

    /// Returns the index of a column among all [columns](Self::columns), by its name; `None` if the
    /// table has no column of this name now. This is a binary search, because a statement calls it
    /// for each column that the statement names.
    pub fn place(&self, name: &str) -> Option<usize> {
        let found = (self.by_name).binary_search_by(|&at| (*self.columns[at].name).cmp(name));
        found.ok().map(|at| self.by_name[at])
    }

    /// Returns the number of columns of this kind and of the kinds before it: the index in
    /// [`columns`](Self::columns) of the first column after them.
    fn place_behind(&self, kind: ColumnKind) -> usize {
        self.columns.partition_point(|c| c.kind <= kind)
    }

    /// Returns a column by its id; `None` for dropped columns. This is a binary search, because each
    /// row that a statement writes calls it for the row's columns and for each index of the table.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        let found = (self.by_id).binary_search_by_key(&id, |&at| self.columns[at].id);
        found.ok().map(|place| &self.columns[self.by_id[place]])
    }

    /// Returns the dropped columns in the order of their ids, including those that were added again.
    pub fn dropped(&self) -> &[DroppedColumn] {
        &self.dropped
    }

    /// Returns the ids of all static and regular columns, ascending, if any column was dropped: stored
    /// rows may still have cells of the dropped ones. Returns `None` if none was dropped, so that
    /// every cell belongs to a column of the table.
    pub fn ids_beside_dropped(&self) -> Option<&[u32]> {
        self.ids_beside_dropped.as_deref()
    }

    /// Returns, for each column that was ever dropped, the cells that stay hidden, in the order of
    /// the columns' ids. Newer cells of a column become visible when the column is added again.
    pub fn all_dropped_cells(&self) -> &[DroppedCells] {
        &self.all_dropped_cells
    }

    /// Returns, for each column that was dropped and added again, the cells that stay hidden, in
    /// the order of the columns' ids.
    pub fn dropped_cells(&self) -> &[DroppedCells] {
        &self.dropped_cells
    }

    /// Returns the timestamp up to which the cells of a column are hidden, if the column was dropped
    /// and added again.
    pub fn dropped_up_to(&self, id: ColumnId) -> Option<i64> {
        let dropped = &self.dropped_cells;
        let found = dropped.binary_search_by_key(&id.0, |cells| cells.column);
        found.ok().map(|at| dropped[at].timestamp_us)
    }

    /// Returns the options of the table.
    pub fn options(&self) -> &TableOptions {
        &self.options
    }

    /// Returns the layout of the keys of rows: the types and orders of the key columns.
    pub fn layout(&self) -> &KeyLayout {
        &self.layout
    }

    /// Returns whether the columns outside of the key are counters. A counter table remains a
    /// counter table after all its counters are dropped, as in Cassandra. Cassandra stores a flag
    /// for this purpose. ebb looks at the types of the dropped columns.
    pub fn is_counter(&self) -> bool {
        let is_value = |c: &&Column| c.kind >= ColumnKind::Static;
        let mut values = self.columns.iter().filter(is_value).peekable();
        if values.peek().is_some() {
            return values.any(|c| c.ty == CqlType::Counter);
        }
        let mut dropped = self.dropped.iter();
        !self.dropped.is_empty() && dropped.all(|old| old.ty == CqlType::Counter)
    }

    /// Returns whether the table has static columns.
    pub fn has_static_columns(&self) -> bool {
        !self.columns_of(ColumnKind::Static).is_empty()
    }
}

pub(super) const STATIC_WITHOUT_CLUSTERING: &str = "Static columns are only useful (and thus \
     allowed) if the table has at least one clustering column";

fn sort(columns: &mut [Column]) {
    // Only columns of the key have positions.
    let position = |c: &Column| (c.kind < ColumnKind::Static).then_some(c.position);
    columns.sort_by(|a, b| (a.kind, position(a), &a.name).cmp(&(b.kind, position(b), &b.name)));
}

fn layout(columns: &[Column]) -> KeyLayout {
    let of = |kind| columns.iter().filter(move |c| c.kind == kind);
    KeyLayout::new(
        of(ColumnKind::PartitionKey).map(|c| c.ty.clone()).collect(),
        of(ColumnKind::Clustering)
            .map(|c| ClusteringColumn {
                ty: c.ty.clone(),
                order: c.order,
            })
            .collect(),
    )
}

fn check_order(clustering: &[String], order: &[(String, Order)]) -> Result<(), SchemaError> {
    let columns: HashSet<&str> = clustering.iter().map(String::as_str).collect();
    let names = order.iter().map(|(named, _)| named.as_str());
    let others: Vec<&str> = names.filter(|named| !columns.contains(named)).collect();
    if !others.is_empty() {
        return invalid(format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not \
             clustering columns",
            others.join(", ")
        ));
    }
    for (column, (named, _)) in clustering.iter().zip(order) {
        if column == named {
            continue;
        }
        return if order.iter().any(|(c, _)| c == column) {
            invalid(format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the \
                 clustering columns ({column} must appear before {named})"
            ))
        } else {
            invalid(format!("Missing CLUSTERING ORDER for column {column}"))
        };
    }
    // All names are those of clustering columns, so one is named twice.
    if order.len() > clustering.len() {
        return invalid("Only clustering columns can be defined in CLUSTERING ORDER directive");
    }
    Ok(())
}
