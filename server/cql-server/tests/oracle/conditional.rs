//! IF: the conditions of a request on its rows, and the response that Cassandra's rules require.

use std::collections::{BTreeMap, BTreeSet};

use super::flaw::Flaw;
use super::model::{Model, named};
use super::partition::{Cell, Place, Rules};
use super::schema::{ColumnId, Schema};
use super::select::Item;
use super::text::Text;
use super::value::{Type, Value};
use super::write::{Change, What, Write};

/// The condition after IF.
#[derive(Debug, Clone)]
pub enum If {
    Exists,
    NotExists,
    /// Comparisons of int columns with values, all of which must hold; `None` is null.
    Columns(Vec<(ColumnId, Compare, Option<i32>)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    Equal,
    NotEqual,
    Less,
    GreaterOrEqual,
    /// `IN (v, 0)`, where v is the value of the comparison.
    InWithZero,
}

impl Compare {
    fn text(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::GreaterOrEqual => ">=",
            Self::InWithZero => "IN",
        }
    }

    /// Returns whether this operator may compare a column with null.
    pub fn takes_null(self) -> bool {
        !matches!(self, Self::Less | Self::GreaterOrEqual)
    }
}

impl If {
    pub fn write(&self, schema: &Schema, text: &mut Text) {
        match self {
            Self::Exists => text.push(" IF EXISTS"),
            Self::NotExists => text.push(" IF NOT EXISTS"),
            Self::Columns(columns) => {
                for (at, (id, compare, value)) in columns.iter().enumerate() {
                    text.push(if at == 0 { " IF " } else { " AND " });
                    let column = schema.column(*id).expect("a column of the table");
                    text.push(&format!("{} {} ", column.name, compare.text()));
                    let value = value.map(Value::Int);
                    match compare {
                        Compare::InWithZero => {
                            text.push("(");
                            text.value(Type::Int, value.as_ref());
                            text.push(", 0)");
                        }
                        _ => text.value(Type::Int, value.as_ref()),
                    }
                }
            }
        }
    }

    pub fn fits(&self, schema: &Schema) -> bool {
        let is_int = |id: &ColumnId| schema.column(*id).is_some_and(|one| one.ty == Type::Int);
        match self {
            Self::Exists | Self::NotExists => true,
            Self::Columns(columns) => columns.iter().all(|(id, ..)| is_int(id)),
        }
    }
}

/// The expected response to a conditional request.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub applied: bool,
    /// The columns of the response after `[applied]`; empty if the response has no row.
    pub items: Vec<Item>,
    pub rows: Vec<Vec<Option<Value>>>,
}

/// The clustering of a row in the partition; `None` stands for the static columns.
type RowKey = Option<Vec<i32>>;

type Cells<'m> = BTreeMap<(ColumnId, Place), &'m Cell>;

impl Model {
    /// Evaluates the conditions of writes on one partition. Returns the expected response, and the
    /// writes to execute: all of them or none, unless the model has a flaw.
    pub fn decide<'w>(
        &self,
        writes: &'w [Write],
        is_batch: bool,
        now_s: i64,
    ) -> (Answer, Vec<&'w Write>) {
        let key = partition_of(&writes[0]);
        let holds = |write: &&Write| self.holds(&key, write, now_s);
        if writes.iter().all(|write| holds(&write)) {
            let answer = Answer {
                applied: true,
                items: Vec::new(),
                rows: Vec::new(),
            };
            return (answer, writes.iter().collect());
        }
        let rows = self.refused_rows(&key, writes, is_batch, now_s);
        let items = if rows.is_empty() {
            Vec::new()
        } else {
            self.shown(writes, is_batch)
        };
        let answer = Answer {
            applied: false,
            items,
            rows,
        };
        if self.has(Flaw::BatchesAppliedInPart) {
            (answer, writes.iter().filter(holds).collect())
        } else {
            (answer, Vec::new())
        }
    }

    fn holds(&self, key: &[i32], write: &Write, now_s: i64) -> bool {
        let row = row_of(write, &self.schema);
        match &write.condition {
            None => true,
            Some(If::Exists) => self.exists(key, &row, now_s),
            Some(If::NotExists) => !self.exists(key, &row, now_s),
            Some(If::Columns(columns)) => columns.iter().all(|(id, compare, value)| {
                let is_static = self.schema.column(*id).is_some_and(|one| one.is_static);
                let row = if is_static { &None } else { &row };
                let found = match self.value(*id, &self.cells(key, row, now_s)) {
                    Some(Value::Int(found)) => Some(found),
                    _ => None,
                };
                match compare {
                    Compare::NotEqual if self.has(Flaw::NullIsNotUnequal) => {
                        found.is_some() && found != *value
                    }
                    Compare::Equal => found == *value,
                    Compare::NotEqual => found != *value,
                    Compare::InWithZero => found == *value || found == Some(0),
                    Compare::Less => found.is_some() && found < *value,
                    Compare::GreaterOrEqual => found.is_some() && found >= *value,
                }
            }),
        }
    }

    fn cells(&self, key: &[i32], row: &RowKey, now_s: i64) -> Cells<'_> {
        match self.partitions.get(key) {
            Some(partition) => {
                self.own(partition.live_cells(row.as_deref(), now_s, Rules(self.flaw)))
            }
            None => Cells::new(),
        }
    }

    fn exists(&self, key: &[i32], row: &RowKey, now_s: i64) -> bool {
        let has_cells = !self.cells(key, row, now_s).is_empty();
        let is_marked = self.is_marked(key, row, now_s);
        match row {
            Some(_) if self.has(Flaw::RowsExistByMarkers) => is_marked,
            _ => has_cells || is_marked,
        }
    }

    fn is_marked(&self, key: &[i32], row: &RowKey, now_s: i64) -> bool {
        let partition = self.partitions.get(key);
        let both = partition.zip(row.as_ref());
        both.is_some_and(|(partition, row)| partition.is_marked(row, now_s, Rules(self.flaw)))
    }

    /// Returns the columns of the response after `[applied]`.
    fn shown(&self, writes: &[Write], is_batch: bool) -> Vec<Item> {
        let partition = (0..self.schema.partition).map(Item::Partition);
        let clustering = (0..self.schema.clustering.len()).map(Item::Clustering);
        let keys: Vec<Item> = partition.chain(clustering).collect();
        let conditions = || writes.iter().filter_map(|write| write.condition.as_ref());
        let by_columns = |condition: &If| matches!(condition, If::Columns(_));
        if !conditions().all(by_columns) {
            let by_name = |is_static| {
                let columns = self.schema.columns.iter();
                let columns = columns.filter(move |one| one.is_static == is_static);
                let columns: BTreeMap<&str, ColumnId> =
                    columns.map(|one| (&*one.name, one.id)).collect();
                columns.into_values().map(Item::Column)
            };
            return keys
                .into_iter()
                .chain(by_name(true))
                .chain(by_name(false))
                .collect();
        }
        let mut items = if is_batch { keys } else { Vec::new() };
        for condition in conditions() {
            let If::Columns(columns) = condition else {
                continue;
            };
            for of_static in [false, true] {
                for (id, ..) in columns {
                    let is_static = self.schema.column(*id).is_some_and(|one| one.is_static);
                    let item = Item::Column(*id);
                    if is_static == of_static && !items.contains(&item) {
                        items.push(item);
                    }
                }
            }
        }
        items
    }

    /// Returns the rows of the response if a condition does not hold. These are the live rows among
    /// those with conditions or, if no row has a condition, the first live row of the partition. If
    /// no statement names a row, only rows with the marker of an INSERT count as live, as in
    /// Cassandra.
    ///
    /// If there is no such row, returns one row of the static columns, provided that one of them
    /// has a value. If no conditional statement changes a static column, only static columns with a
    /// condition count for this.
    fn refused_rows(
        &self,
        key: &[i32],
        writes: &[Write],
        is_batch: bool,
        now_s: i64,
    ) -> Vec<Vec<Option<Value>>> {
        let is_static = |id: &ColumnId| self.schema.column(*id).is_some_and(|one| one.is_static);
        // The static columns that are read because of a condition or a change.
        let mut statics: BTreeSet<ColumnId> = BTreeSet::new();
        let mut rows: BTreeSet<Vec<i32>> = BTreeSet::new();
        for write in writes {
            let Some(condition) = &write.condition else {
                continue;
            };
            if write.columns().iter().any(is_static) {
                statics.extend(self.schema.statics().map(|one| one.id));
            }
            let row = row_of(write, &self.schema);
            match condition {
                If::Exists | If::NotExists => rows.extend(row),
                If::Columns(columns) => {
                    let ids = || columns.iter().map(|(id, ..)| id);
                    statics.extend(ids().filter(|id| is_static(id)));
                    if ids().any(|id| !is_static(id)) {
                        rows.extend(row);
                    }
                }
            }
        }
        let names_rows = |write: &Write| {
            self.schema.clustering.is_empty() || row_of(write, &self.schema).is_some()
        };
        // If no statement names rows, Cassandra returns the regular columns as null.
        let has_regular = writes.iter().any(names_rows);
        let mut order: Vec<Vec<i32>> = if rows.is_empty() {
            let partition = self.partitions.get(key);
            partition.map_or(Vec::new(), |one| one.rows.keys().cloned().collect())
        } else {
            rows.iter().cloned().collect()
        };
        order.sort_by(|a, b| self.compare(a, b));
        let mut found: Vec<Option<Vec<i32>>> = Vec::new();
        for row in order.into_iter().map(Some) {
            let is_there = if rows.is_empty() && !has_regular {
                self.is_marked(key, &row, now_s)
            } else {
                !self.cells(key, &row, now_s).is_empty() || self.is_marked(key, &row, now_s)
            };
            if is_there {
                found.push(row);
            }
        }
        if rows.is_empty() {
            found.truncate(1);
        }
        let of_static = self.cells(key, &None, now_s);
        if found.is_empty() && of_static.keys().any(|(id, _)| statics.contains(id)) {
            found.push(None);
        }
        let shown = self.shown(writes, is_batch);
        let show = |row: &RowKey| {
            let cells = match row {
                Some(_) => self.cells(key, row, now_s),
                None => Cells::new(),
            };
            let one = |item: &Item| match item {
                Item::Partition(at) => Some(Value::Int(key[*at])),
                Item::Clustering(at) => row.as_ref().map(|row| Value::Int(row[*at])),
                Item::Column(id) if is_static(id) => {
                    let value = self.value(*id, &of_static);
                    value.filter(|_| statics.contains(id))
                }
                Item::Column(id) => self.value(*id, &cells).filter(|_| has_regular),
                _ => None,
            };
            shown.iter().map(one).collect()
        };
        found.iter().map(show).collect()
    }
}

/// Returns the key of the only partition of a conditional write.
fn partition_of(write: &Write) -> Vec<i32> {
    match &write.what {
        What::Insert { partition, .. } => partition.clone(),
        What::Update { at, .. } | What::Delete { at, .. } => {
            let keys = at.keys().expect("keys are named");
            keys.into_iter().next().expect("one of them")
        }
    }
}

/// Returns the clustering of the only row of a conditional write; `None` if the write names no
/// single row: one of static columns, or the deletion of several rows.
fn row_of(write: &Write, schema: &Schema) -> RowKey {
    let columns = schema.clustering.len();
    match &write.what {
        What::Insert { clustering, .. } => clustering.clone(),
        What::Update { at, .. } | What::Delete { at, .. } => {
            named(&at.clustering, columns)?.into_iter().next()
        }
    }
}

impl Write {
    /// Returns the columns that the write changes; empty if it deletes rows.
    fn columns(&self) -> Vec<ColumnId> {
        match &self.what {
            What::Insert { values, .. } => values.iter().map(|(id, _)| *id).collect(),
            What::Update { changes, .. } => {
                let changes: &[(ColumnId, Change)] = changes;
                changes.iter().map(|(id, _)| *id).collect()
            }
            What::Delete { parts, .. } => parts.iter().map(|(id, _)| *id).collect(),
        }
    }
}
