//! WHERE: the partitions, the ranges of their rows, and the predicates on each row.
//!
//! ```text
//! relations ── Restrictions ──(bound values)──> partitions by key | a range of tokens
//!                                                ranges of encoded clusterings
//!                                                predicates, and an index that serves one
//! ```
//!
//! Errors are those of Cassandra 4.1's `StatementRestrictions`.

mod clustering;
mod indexed;
mod merge;
mod partition;
mod predicate;
mod relations;
mod values;
mod written;

use std::borrow::Cow;
use std::sync::Arc;

use ebb_cql::syntax::ast::{Operator, Relation};
use ebb_model::schema::{Column, ColumnKind, TableSchema};

pub use self::clustering::ClusteringRestrictions;
pub use self::indexed::IndexedRelation;
use self::indexed::Usable;
pub use self::partition::{PartitionRestrictions, Partitions};
pub use self::predicate::{Predicate, Test};
use self::relations::Parsed;
pub use self::relations::{check_slice, contained};
pub use self::values::{Related, Role};
pub use self::written::{Conditional, Statement, Writing, Written};
use super::markers::Markers;
use crate::error::{Result, invalid};

/// The error of a statement that needs ALLOW FILTERING.
pub const REQUIRES_ALLOW_FILTERING: &str = "Cannot execute this query as it might involve data \
     filtering and thus may have unpredictable performance. If you want to execute this query \
     despite the performance unpredictability, use ALLOW FILTERING";

/// The most partition keys that a statement may name, and the most rows (or ranges of rows) that it
/// may name in each partition. A write may also name at most this many rows in all partitions
/// together. Each number is a product of the lengths of IN lists, because each value of an IN is
/// combined with the values of the other columns. The limit is above the 65,535 markers that a
/// statement may have. So a single IN with a marker for each of its values never exceeds it.
const PRODUCT_MAX: usize = 65_536;
/// The most bytes of the keys that [`PRODUCT_MAX`] limits. The number is arbitrary.
const PRODUCT_BYTES_MAX: usize = 64 << 20;

/// The analysed WHERE clause of a statement.
#[derive(Debug, Default)]
pub struct Restrictions {
    pub partition: PartitionRestrictions,
    /// The restrictions on rows of the selected partitions that are expressible as ranges of keys.
    pub clustering: ClusteringRestrictions,
    /// The restrictions that no range of keys expresses, which each row has to pass.
    pub predicates: Vec<Predicate>,
    /// The columns that the WHERE clause restricts to a single value, as indexes among the columns
    /// of the table.
    single_valued: Vec<usize>,
    /// True if the statement restricts a clustering column, by a range or by a predicate.
    pub on_clustering: bool,
    /// True if the statement restricts a column that is neither static nor part of the primary key.
    pub on_regular: bool,
    /// The relation whose index the read uses; `None` if it uses no index.
    pub index: Option<IndexedRelation>,
}

impl Restrictions {
    /// Analyses the WHERE clause of a SELECT.
    ///
    /// # Errors
    /// Cassandra's errors: among others, that the statement needs ALLOW FILTERING.
    pub fn new(
        relations: &[Relation],
        allow_filtering: bool,
        markers: &mut Markers,
    ) -> Result<Self> {
        let schema = markers.schema().clone();
        let mut parsed = Parsed::new(&schema, relations, markers)?;
        merge::check(&schema, &parsed, allow_filtering)?;
        // The steps below remove their relations from `parsed`, so the facts about relations are
        // read before.
        let usable = Usable::new(&schema, &parsed, allow_filtering);
        let single_valued = parsed.single_valued();
        // With an index all filters are permitted here: `choose` finds out whether the index serves
        // them.
        let may_filter = allow_filtering || usable.is_any();
        let mut predicates = Vec::new();
        let has_tokens = !parsed.tokens.is_empty();
        let partition = PartitionRestrictions::new(&schema, &mut parsed, &mut predicates)?;
        let filters_partition = !predicates.is_empty();
        if filters_partition && !may_filter {
            return invalid(REQUIRES_ALLOW_FILTERING);
        }
        let on_clustering = parsed.has(ColumnKind::Clustering);
        let on_regular = parsed.has(ColumnKind::Regular);
        let before_clustering = predicates.len();
        let clustering =
            ClusteringRestrictions::new(&schema, &mut parsed, may_filter, &mut predicates)?;
        let filters_clustering = predicates.len() > before_clustering;
        // Rows in a range of clusterings lie together only within a partition. Over all partitions the
        // range is a filter, too.
        if on_clustering && !partition.is_by_key() && !may_filter {
            return invalid(REQUIRES_ALLOW_FILTERING);
        }
        let rest = parsed.take_rest();
        if !rest.is_empty() && !may_filter {
            return invalid(REQUIRES_ALLOW_FILTERING);
        }
        let has_rest = !rest.is_empty();
        predicates.extend(rest);
        let index = if usable.is_any() {
            usable.choose(indexed::WhereShape {
                is_by_key: partition.is_by_key(),
                names_several: partition.has_in(),
                has_tokens,
                filters_partition,
                filters_clustering,
                has_rest,
            })?
        } else {
            None
        };
        // The position of the relation among all predicates, which are complete only now.
        let index = index.map(|relation| relation.served_of(&predicates));
        Ok(Self {
            partition,
            clustering,
            predicates,
            single_valued,
            on_clustering,
            on_regular,
            index,
        })
    }

    /// Analyses the WHERE clause of a write, which names partitions by their keys, and rows or
    /// ranges of rows. The result has no predicates.
    pub fn of_write(
        schema: &Arc<TableSchema>,
        relations: &[Relation],
        writing: Writing,
        markers: &mut Markers,
    ) -> Result<Self> {
        written::check_operators(relations, writing.statement)?;
        let mut parsed = Parsed::new(schema, relations, markers)?;
        merge::check(schema, &parsed, false)?;
        written::check_keys(&parsed, writing)?;
        let mut predicates = Vec::new();
        let partition = PartitionRestrictions::new(schema, &mut parsed, &mut predicates)?;
        let on_clustering = parsed.has(ColumnKind::Clustering);
        let clustering = ClusteringRestrictions::new(schema, &mut parsed, false, &mut predicates)?;
        written::check_rows(&parsed, clustering.is_full(schema), writing)?;
        Ok(Self {
            partition,
            clustering,
            predicates,
            single_valued: Vec::new(),
            on_clustering,
            on_regular: false,
            index: None,
        })
    }

    /// Returns whether a SELECT restricts a column to a single value, be it by a key or by a filter.
    /// GROUP BY and ORDER BY may leave such a column out. `column` is its index among the columns of
    /// the table.
    pub fn has_one_value(&self, column: usize) -> bool {
        self.single_valued.contains(&column)
    }

    /// Returns whether the statement reads whole partitions: it restricts no clustering column and
    /// no regular column. If so, the result has a row for each partition that has only static
    /// columns, too.
    pub fn is_of_whole_partitions(&self) -> bool {
        !self.on_clustering && !self.on_regular
    }
}

/// Returns the column of this name, or Cassandra's error.
pub fn column<'s>(schema: &'s TableSchema, name: &str) -> Result<&'s Column> {
    match schema.column(name) {
        Some(column) => Ok(column),
        None => invalid(format!(
            "Undefined column name {name} in table {}.{}",
            schema.keyspace(),
            schema.name()
        )),
    }
}

/// Returns the index of a column among the columns of its table.
///
/// # Panics
/// If the column is of another table.
pub fn place(schema: &TableSchema, column: &Column) -> usize {
    let place = schema.place(&column.name);
    place.expect("a column of this table")
}

/// The size of a set of keys, or of parts of keys: the number of keys, and the total bytes of their
/// values. Each key is a list of values. IN relations on several columns combine such sets (their
/// Cartesian product), and the size of the product is limited before it is built.
#[derive(Debug, Clone, Copy)]
struct Size {
    lists: usize,
    bytes: usize,
}

impl Size {
    fn of<'l, 'v: 'l>(lists: impl IntoIterator<Item = &'l [Cow<'v, [u8]>]>) -> Self {
        let none = Self { lists: 0, bytes: 0 };
        lists.into_iter().fold(none, |size, list| Self {
            lists: size.lists + 1,
            bytes: size.bytes + list.iter().map(|value| value.len()).sum::<usize>(),
        })
    }

    fn of_lengths(lengths: impl Iterator<Item = usize>) -> Self {
        let none = Self { lists: 0, bytes: 0 };
        lengths.fold(none, |size, bytes| Self {
            lists: size.lists + 1,
            bytes: size.bytes.saturating_add(bytes),
        })
    }

    /// Checks the size of the product of two sets, which combines every element of `self` with
    /// every element of `others`, before it is built.
    ///
    /// # Errors
    /// If the product has too many keys or too many bytes.
    fn check_product(self, others: Self) -> Result<()> {
        if self.lists.saturating_mul(others.lists) > PRODUCT_MAX {
            return invalid(format!(
                "The IN relations of a statement may name {PRODUCT_MAX} keys at most"
            ));
        }
        let (own, of_others) = (
            self.bytes.saturating_mul(others.lists),
            others.bytes.saturating_mul(self.lists),
        );
        if own.saturating_add(of_others) > PRODUCT_BYTES_MAX {
            return invalid(format!(
                "The IN relations of a statement may name keys of {PRODUCT_BYTES_MAX} bytes together \
                 at most"
            ));
        }
        Ok(())
    }
}

/// Checks the number and the total size of the keys that a statement writes: every row (or range of
/// rows) in every partition. The iterators have the lengths, in bytes, of the partition keys and of
/// the keys of rows.
///
/// # Errors
/// If there are too many keys or too many bytes.
pub fn check_keys(
    partitions: impl Iterator<Item = usize>,
    rows: impl Iterator<Item = usize>,
) -> Result<()> {
    Size::of_lengths(partitions).check_product(Size::of_lengths(rows))
}

/// Returns whether the operator is `<`, `<=`, `>` or `>=`.
fn is_slice(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual
    )
}
