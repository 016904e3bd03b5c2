//! GROUP BY and aggregates by Cassandra's rules: all rows in memory, split where the values of
//! GROUP BY change.

use super::flaw::Flaw;
use super::model::Model;
use super::reading::Found;
use super::restriction::{Partitions, Test};
use super::schema::Schema;
use super::select::{Aggregate, Item, Select};
use super::value::Value;

impl Select {
    /// Returns whether a row of the result stands for a group of rows.
    pub fn is_grouped(&self) -> bool {
        !self.group_by.is_empty() || self.is_one_row()
    }

    /// Returns whether the statement has aggregates but no GROUP BY. Its result is one row, in one
    /// page, even if it reads no rows.
    pub fn is_one_row(&self) -> bool {
        let is_aggregate = |item: &Item| matches!(item, Item::Count | Item::Aggregate(..));
        self.group_by.is_empty() && self.items.iter().any(is_aggregate)
    }

    /// Returns a part of the error that the server must return for GROUP BY and aggregates; `None`
    /// if they are valid. The rules are those of `getAggregationSpecFactory` in Cassandra 4.1's
    /// `SelectStatement`.
    pub fn refused_group(&self, schema: &Schema) -> Option<&'static str> {
        if self.is_one_row() && self.per_partition_limit.is_some() {
            return Some("PER PARTITION LIMIT is not allowed with aggregate queries");
        }
        if self.group_by.is_empty() {
            return None;
        }
        let in_order = "columns following their declared order in the PRIMARY KEY";
        let mut key = 0..schema.partition + schema.clustering.len();
        let mut has_function = false;
        for item in &self.group_by {
            let column = match item {
                Item::Partition(at) => *at,
                Item::Clustering(at) | Item::Floor(at) => schema.partition + at,
                _ => return Some("only supported on the columns of the PRIMARY KEY"),
            };
            if has_function {
                return Some("only supported on the last element of the GROUP BY clause");
            }
            has_function = matches!(item, Item::Floor(_));
            loop {
                match key.next() {
                    Some(next) if next == column => break,
                    Some(next) if self.has_one_value(next, schema) => {}
                    _ => return Some(in_order),
                }
            }
        }
        if key.start < schema.partition {
            return Some("Group by is not supported on only a part of the partition key");
        }
        (self.distinct && key.start > schema.partition)
            .then_some("Grouping on clustering columns is not allowed for SELECT DISTINCT")
    }

    /// Returns whether a column of the primary key is restricted to a single value (by `=`, or by
    /// IN with one value), so that GROUP BY may leave it out.
    pub fn has_one_value(&self, column: usize, schema: &Schema) -> bool {
        let Some(clustering) = column.checked_sub(schema.partition) else {
            return match &self.at.partitions {
                Partitions::Keys(columns) => columns[column].len() == 1,
                Partitions::Component(at, _) => *at == column,
                Partitions::All | Partitions::Tokens { .. } => false,
            };
        };
        self.at.clustering.iter().any(|one| match &one.test {
            Test::Values(values) => one.at == clustering && values.len() == 1,
            Test::Tuples(tuples) => {
                let columns = one.at..one.at + tuples[0].len();
                tuples.len() == 1 && columns.contains(&clustering)
            }
            Test::Slice(..) | Test::TupleSlice(..) => false,
        })
    }
}

impl Model {
    /// Returns the rows of the result for the read rows `found`: one for each group, or the rows
    /// themselves if the statement does not group them.
    pub fn group(&self, select: &Select, found: Vec<Found>) -> Vec<Found> {
        if !select.is_grouped() {
            return found;
        }
        if select.is_one_row() {
            return vec![self.fold(select, &found)];
        }
        let key = |row: &Found| self.group_key(select, row);
        let groups = found.chunk_by(|a, b| key(a) == key(b));
        groups.map(|rows| self.fold(select, rows)).collect()
    }

    /// Returns the values of GROUP BY in a row. All rows of a group share them.
    fn group_key(&self, select: &Select, row: &Found) -> Vec<Option<Value>> {
        let mut by = &select.group_by[..];
        if self.has(Flaw::GroupsForgetTheLastColumn) {
            by = &by[..by.len() - 1];
        }
        let clustering = row.clustering.as_deref();
        by.iter()
            .map(|item| self.key_value(item, &row.partition, clustering))
            .collect()
    }

    /// Returns the row of the result for the rows of a group. In `rows`, an aggregate has the value
    /// of its argument.
    fn fold(&self, select: &Select, rows: &[Found]) -> Found {
        let shown = if self.has(Flaw::GroupsShowTheirLastRow) {
            rows.last()
        } else {
            rows.first()
        };
        let one = |(at, item): (usize, &Item)| match item {
            Item::Count => Some(Value::Bigint(rows.len() as i64)),
            Item::Aggregate(aggregate, _) => {
                let mut values: Vec<Option<Value>> =
                    rows.iter().map(|row| row.shown[at].clone()).collect();
                if self.has(Flaw::AggregatesCountNulls) {
                    for value in &mut values {
                        value.get_or_insert(Value::Int(0));
                    }
                }
                aggregate.of(&values.into_iter().flatten().collect::<Vec<_>>())
            }
            _ => shown.and_then(|row| row.shown[at].clone()),
        };
        Found {
            partition: rows.first().map_or(Vec::new(), |row| row.partition.clone()),
            clustering: rows.first().and_then(|row| row.clustering.clone()),
            last: rows.last().and_then(|row| row.last.clone()),
            rows: rows.len() as u64,
            shown: select.items.iter().enumerate().map(one).collect(),
        }
    }
}

impl Aggregate {
    /// Returns the aggregate of these values, none of which is null. `None` is null: the least or
    /// greatest of no values.
    fn of(self, values: &[Value]) -> Option<Value> {
        let number = |value: &Value| match value {
            Value::Int(value) => i64::from(*value),
            Value::Bigint(value) => *value,
            _ => 0,
        };
        let sum = || values.iter().map(number).sum::<i64>();
        match self {
            Self::Count => Some(Value::Bigint(values.len() as i64)),
            Self::Min => values.iter().min_by_key(|value| number(value)).cloned(),
            Self::Max => values.iter().max_by_key(|value| number(value)).cloned(),
            // Of no values both are 0. The quotient is rounded towards 0.
            Self::Sum => Some(Value::Int(sum() as i32)),
            Self::Avg => Some(Value::Int((sum() / values.len().max(1) as i64) as i32)),
        }
    }
}
