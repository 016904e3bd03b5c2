//! SELECT, as data and as text.

use super::restriction::{Partitions, Test, Where};
use super::schema::{ColumnId, Schema};
use super::text::Text;

#[derive(Debug, Clone)]
pub struct Select {
    pub items: Vec<Item>,
    pub distinct: bool,
    pub at: Where,
    /// Asked of each row, by ALLOW FILTERING.
    pub filter: Option<Filter>,
    /// ORDER BY; `Some(true)` is the other way round.
    pub order: Option<bool>,
    pub per_partition_limit: Option<u64>,
    pub limit: Option<u64>,
}

/// What is shown of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    Partition(usize),
    Clustering(usize),
    Column(ColumnId),
    Writetime(ColumnId),
    Ttl(ColumnId),
    /// `count(*)`: all rows as one.
    Count,
}

/// `v > 1`, of a column that is an int.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    pub column: ColumnId,
    pub sign: Sign,
    pub value: i32,
}

#[derive(Debug, Clone, Copy)]
pub enum Sign {
    Equal,
    Greater,
    LessOrEqual,
}

impl Filter {
    pub fn holds(&self, value: i32) -> bool {
        match self.sign {
            Sign::Equal => value == self.value,
            Sign::Greater => value > self.value,
            Sign::LessOrEqual => value <= self.value,
        }
    }
}

impl Select {
    /// Whether the table has all columns that it names.
    pub fn fits(&self, schema: &Schema) -> bool {
        let mut items = self.items.iter();
        let filter = self.filter.map(|filter| filter.column);
        let has = |id: ColumnId| schema.column(id).is_some();
        filter.is_none_or(has)
            && items.all(|item| match item {
                Item::Column(id) | Item::Writetime(id) | Item::Ttl(id) => has(*id),
                _ => true,
            })
    }

    pub fn counts(&self) -> bool {
        self.items == [Item::Count]
    }

    /// How many rows it shows of a partition.
    pub fn rows_of_partition(&self) -> u64 {
        match self.distinct {
            true => 1,
            false => self.per_partition_limit.unwrap_or(u64::MAX),
        }
    }

    /// ORDER BY over several partitions: nothing of that can be paged.
    pub fn is_sorted_over_partitions(&self) -> bool {
        self.order.is_some() && self.at.has_in()
    }

    /// `from` names the table and the snapshot.
    pub fn write(&self, schema: &Schema, from: &str, text: &mut Text) {
        text.push(if self.distinct {
            "SELECT DISTINCT "
        } else {
            "SELECT "
        });
        let name = |id: &ColumnId| &*schema.column(*id).expect("a column of the table").name;
        text.list(&self.items, |text, item| match item {
            Item::Partition(at) => text.push(schema.partition_names()[*at]),
            Item::Clustering(at) => text.push(schema.clustering_names()[*at]),
            Item::Column(id) => text.push(name(id)),
            Item::Writetime(id) => text.push(&format!("writetime({})", name(id))),
            Item::Ttl(id) => text.push(&format!("ttl({})", name(id))),
            Item::Count => text.push("count(*)"),
        });
        text.push(&format!(" FROM {from}"));
        self.at.write(schema, text);
        let has_where =
            !matches!(self.at.partitions, Partitions::All) || !self.at.clustering.is_empty();
        if let Some(filter) = &self.filter {
            text.push(if has_where { " AND " } else { " WHERE " });
            let sign = match filter.sign {
                Sign::Equal => "=",
                Sign::Greater => ">",
                Sign::LessOrEqual => "<=",
            };
            text.push(&format!("{} {sign} ", name(&filter.column)));
            text.int(filter.value);
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
        if self.filters() {
            text.push(" ALLOW FILTERING");
        }
    }

    /// More is read than what is asked for.
    fn filters(&self) -> bool {
        let by_key = matches!(self.at.partitions, Partitions::Keys(_));
        let mut next = 0;
        let mut has_gap = false;
        for restriction in &self.at.clustering {
            has_gap |= restriction.at != next;
            next = match &restriction.test {
                Test::Values(_) => restriction.at + 1,
                Test::Tuples(tuples) => restriction.at + tuples[0].len(),
                // After a range nothing more is found by key.
                Test::Slice(..) | Test::TupleSlice(..) => usize::MAX,
            };
        }
        self.filter.is_some() || has_gap || !by_key && !self.at.clustering.is_empty()
    }
}
