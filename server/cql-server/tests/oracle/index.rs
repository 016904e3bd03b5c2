//! Secondary indexes: their targets, and the SELECTs that use an index. Rows read by an index must
//! equal those read by filtering, so the model needs indexes only for its deliberate flaws and for
//! errors.

use super::restriction::{Partitions, Restriction, Test};
use super::schema::{ColumnId, Schema};
use super::select::{Comparison, Select, Sign};
use super::value::Type;

/// The indexed column of a table, and the indexed part of that column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexOn {
    /// A column of a partition key with several columns, by its index in the key.
    Partition(usize),
    Clustering(usize),
    Column(ColumnId, What),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The whole value of a column, written as `full(c)` for a frozen collection.
    Whole,
    Values,
    Keys,
    Entries,
}

impl IndexOn {
    /// Returns all indexes that a table may have.
    pub fn all(schema: &Schema) -> Vec<Self> {
        let mut all: Vec<Self> = (0..schema.clustering.len()).map(Self::Clustering).collect();
        if schema.partition > 1 {
            all.extend((0..schema.partition).map(Self::Partition));
        }
        for column in &schema.columns {
            let whats: &[What] = match column.ty {
                // Cassandra rejects indexes on unfrozen user-defined types.
                Type::Udt => &[],
                Type::List | Type::Set => &[What::Values],
                Type::Map => &[What::Values, What::Keys, What::Entries],
                Type::Int | Type::FrozenList | Type::FrozenUdt | Type::Tuple => &[What::Whole],
            };
            all.extend(whats.iter().map(|what| Self::Column(column.id, *what)));
        }
        all
    }

    pub fn name(self) -> String {
        match self {
            Self::Partition(at) => format!("of_partition_{at}"),
            Self::Clustering(at) => format!("of_clustering_{at}"),
            Self::Column(id, what) => format!("of_{id}_{what:?}").to_lowercase(),
        }
    }

    /// Returns the text between the parentheses of CREATE INDEX.
    pub fn target(self, schema: &Schema) -> String {
        match self {
            Self::Partition(at) => schema.partition_names()[at].to_owned(),
            Self::Clustering(at) => schema.clustering_names()[at].to_owned(),
            Self::Column(id, what) => {
                let column = schema.column(id).expect("a column of the table");
                match (what, column.ty) {
                    (What::Whole, Type::FrozenList) => format!("full({})", column.name),
                    (What::Whole, _) => column.name.clone(),
                    (What::Values, _) => format!("values({})", column.name),
                    (What::Keys, _) => format!("keys({})", column.name),
                    (What::Entries, _) => format!("entries({})", column.name),
                }
            }
        }
    }

    /// Returns whether the index serves the filter of a SELECT, which is on a column outside of the
    /// primary key.
    fn serves_filter(self, select: &Select) -> bool {
        let (Some(filter), Self::Column(id, what)) = (&select.filter, self) else {
            return false;
        };
        let serves = match filter.comparison {
            Comparison::Int(Sign::Equal, _) | Comparison::Whole(_) => what == What::Whole,
            Comparison::Int(..) => false,
            Comparison::Contains(_) => what == What::Values,
            Comparison::ContainsKey(_) => what == What::Keys,
            Comparison::Entry(..) => what == What::Entries,
        };
        filter.column == id && serves
    }

    fn serves_clustering(self, select: &Select) -> bool {
        // The number of columns that a test restricts to one value.
        let single_valued = |test: &Test| match test {
            Test::Values(values) if values.len() == 1 => 1,
            Test::Tuples(tuples) if tuples.len() == 1 => tuples[0].len(),
            _ => 0,
        };
        let mut all = select.at.clustering.iter();
        all.any(|Restriction { at, test }| {
            let mut columns = *at..*at + single_valued(test);
            columns.any(|at| self == Self::Clustering(at))
        })
    }

    fn serves_partition(self, select: &Select) -> bool {
        matches!(
            (&select.at.partitions, self),
            (Partitions::Component(at, _), Self::Partition(of)) if *at == of
        )
    }
}

impl Select {
    /// Returns whether the server must use an index for this SELECT.
    pub fn uses_index(&self, schema: &Schema) -> bool {
        let any = |serves: fn(IndexOn, &Self) -> bool| {
            let mut indexes = schema.indexes.iter();
            indexes.any(|index| serves(*index, self))
        };
        let by_clustering = any(IndexOn::serves_clustering);
        let by_any = by_clustering || any(IndexOn::serves_filter) || any(IndexOn::serves_partition);
        let uses = match self.at.partitions {
            Partitions::Keys(_) => self.filter.is_some() || self.has_gap(),
            Partitions::All | Partitions::Component(..) => true,
            Partitions::Tokens { .. } => self.filter.is_some() || self.has_gap() || by_clustering,
        };
        by_any && uses
    }

    /// Returns a part of the error that the server must return for this SELECT; `None` if it must
    /// succeed.
    pub fn refused(&self, schema: &Schema) -> Option<&'static str> {
        let uses = self.uses_index(schema);
        if self.is_plain && !uses {
            return Some(if self.has_gap() {
                "cannot be restricted as preceding column"
            } else {
                "ALLOW FILTERING"
            });
        }
        if uses && self.at.has_in() {
            return Some("IN clause for the PRIMARY KEY are not supported");
        }
        if !self.at.clustering.is_empty() && self.reads_statics_only(schema) {
            return Some("Cannot restrict clustering columns when selecting only static columns");
        }
        let order = "ORDER BY with 2ndary indexes is not supported";
        let by_order = (uses && self.order.is_some()).then_some(order);
        self.refused_group(schema).or(by_order)
    }
}
