//! SELECT, as data and as text.

use super::restriction::{Partitions, Test, Where};
use super::schema::{ColumnId, Schema};
use super::text::Text;
use super::value::{Type, Value};

#[derive(Debug, Clone)]
pub struct Select {
    pub items: Vec<Item>,
    pub distinct: bool,
    pub at: Where,
    /// A condition on a column outside of the primary key, for ALLOW FILTERING or an index; `None`
    /// without one.
    pub filter: Option<Filter>,
    /// True if the statement has no ALLOW FILTERING, even if it filters. The server then rejects it
    /// unless it uses an index.
    pub is_plain: bool,
    /// The ORDER BY: `Some(false)` for the order of the table, `Some(true)` for its reverse.
    pub order: Option<bool>,
    /// The elements of GROUP BY; empty without one.
    pub group_by: Vec<Item>,
    pub per_partition_limit: Option<u64>,
    pub limit: Option<u64>,
}

/// A column of the result, or an element of GROUP BY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Partition(usize),
    Clustering(usize),
    Column(ColumnId),
    Writetime(ColumnId),
    Ttl(ColumnId),
    /// `floor(c, 1h)` of a clustering column.
    Floor(usize),
    /// `count(*)`, the number of all rows.
    Count,
    /// An aggregate of the values of another item. It ignores nulls.
    Aggregate(Aggregate, Box<Item>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl Aggregate {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::Sum => "sum",
            Self::Avg => "avg",
        }
    }
}

impl Item {
    /// Returns the column outside of the primary key that the item is about; `None` without one.
    fn column(&self) -> Option<ColumnId> {
        match self {
            Self::Column(id) | Self::Writetime(id) | Self::Ttl(id) => Some(*id),
            Self::Aggregate(_, of) => of.column(),
            Self::Partition(_) | Self::Clustering(_) | Self::Floor(_) | Self::Count => None,
        }
    }

    /// Returns the item in CQL.
    fn text(&self, schema: &Schema) -> String {
        let name = |id: &ColumnId| &*schema.column(*id).expect("a column of the table").name;
        match self {
            Self::Partition(at) => schema.partition_names()[*at].to_owned(),
            Self::Clustering(at) => schema.clustering_names()[*at].to_owned(),
            Self::Column(id) => name(id).to_owned(),
            Self::Writetime(id) => format!("writetime({})", name(id)),
            Self::Ttl(id) => format!("ttl({})", name(id)),
            Self::Floor(at) => format!("floor({}, 1h)", schema.clustering_names()[*at]),
            Self::Count => "count(*)".to_owned(),
            Self::Aggregate(aggregate, of) => format!("{}({})", aggregate.name(), of.text(schema)),
        }
    }
}

/// A filter on one column, such as `v > 1` or `m CONTAINS 1`.
#[derive(Debug, Clone)]
pub struct Filter {
    pub column: ColumnId,
    pub comparison: Comparison,
}

/// The comparison of a filter.
#[derive(Debug, Clone)]
pub enum Comparison {
    /// A comparison of an int column.
    Int(Sign, i32),
    /// Equality of the whole value.
    Whole(Value),
    Contains(i32),
    ContainsKey(i32),
    Entry(i32, i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Equal,
    Greater,
    LessOrEqual,
}

impl Filter {
    /// Returns whether the filter permits this value of its column. Null is never permitted.
    pub fn holds(&self, value: Option<&Value>) -> bool {
        match (&self.comparison, value) {
            (_, None) => false,
            (Comparison::Int(sign, with), Some(Value::Int(value))) => match sign {
                Sign::Equal => value == with,
                Sign::Greater => value > with,
                Sign::LessOrEqual => value <= with,
            },
            (Comparison::Whole(with), Some(value)) => value == with,
            (Comparison::Contains(with), Some(Value::List(all) | Value::Set(all))) => {
                all.contains(with)
            }
            (Comparison::Contains(with), Some(Value::Map(all))) => {
                all.iter().any(|(_, v)| v == with)
            }
            (Comparison::ContainsKey(with), Some(Value::Map(all))) => {
                all.iter().any(|(k, _)| k == with)
            }
            (Comparison::Entry(key, with), Some(Value::Map(all))) => all.contains(&(*key, *with)),
            _ => false,
        }
    }

    fn write(&self, name: &str, ty: Type, text: &mut Text) {
        match &self.comparison {
            Comparison::Int(sign, value) => {
                let sign = match sign {
                    Sign::Equal => "=",
                    Sign::Greater => ">",
                    Sign::LessOrEqual => "<=",
                };
                text.push(&format!("{name} {sign} "));
                text.int(*value);
            }
            Comparison::Whole(value) => {
                text.push(&format!("{name} = "));
                text.value(ty, Some(value));
            }
            Comparison::Contains(value) => {
                text.push(&format!("{name} CONTAINS "));
                text.int(*value);
            }
            Comparison::ContainsKey(key) => {
                text.push(&format!("{name} CONTAINS KEY "));
                text.int(*key);
            }
            Comparison::Entry(key, value) => {
                text.push(&format!("{name}["));
                text.int(*key);
                text.push("] = ");
                text.int(*value);
            }
        }
    }
}

impl Select {
    /// Returns whether the table still has all columns that the statement names.
    pub fn fits(&self, schema: &Schema) -> bool {
        let items = self.items.iter().chain(&self.group_by);
        let filter = self.filter.as_ref().map(|filter| filter.column);
        let mut columns = items.filter_map(Item::column).chain(filter);
        columns.all(|id| schema.column(id).is_some())
    }

    /// Returns the maximal number of rows, or of groups of rows, from one partition; `u64::MAX` if
    /// the statement does not limit them.
    pub fn rows_of_partition(&self) -> u64 {
        if self.distinct {
            1
        } else {
            self.per_partition_limit.unwrap_or(u64::MAX)
        }
    }

    /// Returns whether the statement has ORDER BY, and IN with more than one value on the partition
    /// key. Its result is then a single page.
    pub fn is_sorted_over_partitions(&self) -> bool {
        self.order.is_some() && self.at.has_in()
    }

    /// Writes the text of the statement. `from` is the name of the table, with the snapshot if
    /// there is one.
    pub fn write(&self, schema: &Schema, from: &str, text: &mut Text) {
        text.push(if self.distinct {
            "SELECT DISTINCT "
        } else {
            "SELECT "
        });
        text.list(&self.items, |text, item| text.push(&item.text(schema)));
        text.push(&format!(" FROM {from}"));
        self.at.write(schema, text);
        let has_where =
            !matches!(self.at.partitions, Partitions::All) || !self.at.clustering.is_empty();
        if let Some(filter) = &self.filter {
            text.push(if has_where { " AND " } else { " WHERE " });
            let column = schema.column(filter.column).expect("a column of the table");
            filter.write(&column.name, column.ty, text);
        }
        if !self.group_by.is_empty() {
            text.push(" GROUP BY ");
            text.list(&self.group_by, |text, item| text.push(&item.text(schema)));
        }
        if let Some(reversed) = self.order {
            text.push(&format!(" ORDER BY {}", schema.order(reversed)));
        }
        if let Some(limit) = self.per_partition_limit {
            text.push(&format!(" PER PARTITION LIMIT {limit}"));
        }
        if let Some(limit) = self.limit {
            text.push(&format!(" LIMIT {limit}"));
        }
        if !self.is_plain && self.filters() {
            text.push(" ALLOW FILTERING");
        }
    }

    /// Returns whether all columns of the result are static columns or columns of the partition
    /// key, and at least one is static.
    pub fn reads_statics_only(&self, schema: &Schema) -> bool {
        let is_clustering = |item: &Item| {
            let item = match item {
                Item::Aggregate(_, of) => &**of,
                item => item,
            };
            matches!(item, Item::Clustering(_) | Item::Floor(_))
        };
        let is_static = |id| schema.column(id).is_some_and(|column| column.is_static);
        let mut ids = self.items.iter().filter_map(Item::column).peekable();
        let has_columns = ids.peek().is_some();
        has_columns && ids.all(is_static) && !self.items.iter().any(is_clustering)
    }

    /// Returns whether the statement needs ALLOW FILTERING if no index serves it.
    fn filters(&self) -> bool {
        let by_key = matches!(self.at.partitions, Partitions::Keys(_));
        let by_part = matches!(self.at.partitions, Partitions::Component(..));
        let has_clustering = !self.at.clustering.is_empty();
        self.filter.is_some() || self.has_gap() || by_part || !by_key && has_clustering
    }

    /// Returns whether a restricted clustering column follows an unrestricted one or a slice. The
    /// server then cannot find the rows by their keys alone.
    pub fn has_gap(&self) -> bool {
        let mut next = 0;
        let mut has_gap = false;
        for restriction in &self.at.clustering {
            has_gap |= restriction.at != next;
            next = match &restriction.test {
                Test::Values(_) => restriction.at + 1,
                Test::Tuples(tuples) => restriction.at + tuples[0].len(),
                // After a slice no further column is found by key.
                Test::Slice(..) | Test::TupleSlice(..) => usize::MAX,
            };
        }
        has_gap
    }
}
