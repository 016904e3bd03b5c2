//! The choice of an index: which relations an index serves, when it is used, and when ALLOW
//! FILTERING is needed in spite of an index. The rules are those of Cassandra 4.1's
//! `StatementRestrictions`.
//!
//! An index serves `=` on its column (alone or in a tuple), `CONTAINS` and `CONTAINS KEY` on a
//! collection, and `m[k] = v` on the entries of a map. All other relations are filters. A statement
//! uses one of the indexes that fit; the result does not depend on which.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use ebb_cql::syntax::ast::Operator;
use ebb_model::schema::{ColumnId, ColumnKind, IndexTarget, IndexedColumn, TableSchema};
use ebb_model::types::elements;

use super::REQUIRES_ALLOW_FILTERING;
use super::predicate::{Predicate, Test};
use super::relations::{Parsed, RestrictionKind, Tuple};
use crate::analyse::markers::Bound;
use crate::analyse::term::{Evaluated, Term};
use crate::error::{Result, invalid, of_type};

/// A relation that an index serves.
#[derive(Debug, Clone)]
pub struct IndexedRelation {
    pub id: u32,
    /// The position of the indexed column among the columns of the table.
    column: usize,
    target: IndexTarget,
    /// The values to look up in the index: one, or the key and the value of a map entry.
    lookups: Vec<Lookup>,
    /// The position of this relation among the statement's predicates; `None` if ranges of keys
    /// express the relation.
    pub predicate: Option<usize>,
    /// The rank of the index: of several usable indexes, the one with the lowest rank is used.
    rank: u8,
}

/// A value that an index looks up.
#[derive(Debug, Clone)]
enum Lookup {
    Term(Term),
    /// The value at position `at` of a bound tuple with a value for each of `columns` columns.
    Component {
        tuple: Term,
        columns: usize,
        at: usize,
    },
}

impl Lookup {
    fn evaluate<'v>(&'v self, bound: &Bound<'v>) -> Result<Evaluated<'v>> {
        let (tuple, columns, at) = match self {
            Self::Term(term) => return term.evaluate(bound),
            Self::Component { tuple, columns, at } => (tuple, *columns, *at),
        };
        let bytes = match tuple.evaluate_columns(columns, bound)? {
            Evaluated::Value(bytes) => bytes,
            other => return Ok(other),
        };
        let value = elements::components(&bytes).nth(at).transpose();
        Ok(match value.map_err(of_type)?.flatten() {
            Some(value) => Evaluated::Value(Cow::Owned(value.to_vec())),
            None => Evaluated::Null,
        })
    }
}

/// The restrictions of a WHERE clause that matter for the choice of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct WhereShape {
    /// True if `=` or IN restricts every column of the partition key.
    pub(super) is_by_key: bool,
    /// True if IN restricts a column of the partition key, so that the statement may name several
    /// partitions.
    pub(super) names_several: bool,
    /// True if a relation restricts the token.
    pub(super) has_tokens: bool,
    /// True if columns of the partition key are restricted by predicates on each row.
    pub(super) filters_partition: bool,
    /// True if clustering columns are restricted by predicates on each row.
    pub(super) filters_clustering: bool,
    /// True if static or regular columns (those outside of the primary key) are restricted.
    pub(super) has_rest: bool,
}

/// The relations of a statement that indexes of its table can serve.
#[derive(Debug)]
pub(super) struct Usable {
    relations: Vec<IndexedRelation>,
    allow_filtering: bool,
    on_clustering_index: bool,
    /// The number of restricted columns of the partition key.
    partition: usize,
    /// The number of restricted clustering columns.
    clustering: usize,
    /// The number of restricted static and regular columns.
    others: usize,
    /// True if several relations on one column are CONTAINS, CONTAINS KEY or `m[k] = v`. An index
    /// serves only one of them.
    has_several_of_one: bool,
}

impl Usable {
    /// Collects the relations that indexes can serve, each with its index. With `allow_filtering`,
    /// leaves out an index that is not built yet, because filtering is an alternative to it.
    /// Otherwise includes the index, and execution rejects the statement.
    pub(super) fn new(schema: &TableSchema, parsed: &Parsed, allow_filtering: bool) -> Self {
        let columns = schema.columns();
        let mut indexes: HashMap<ColumnId, Vec<IndexedColumn<'_>>> = HashMap::new();
        for indexed in schema.indexed_columns() {
            if !(allow_filtering && indexed.index.is_building) {
                indexes.entry(indexed.column.id).or_default().push(indexed);
            }
        }
        let mut relations = Vec::new();
        let mut seen = BTreeSet::new();
        let mut others = BTreeSet::new();
        let mut has_several_of_one = false;
        for restriction in parsed.all() {
            for &place in &restriction.columns {
                let is_new = seen.insert(place);
                // The kinds of key columns come first in the order of kinds.
                let is_key = columns[place].kind < ColumnKind::Static;
                if !is_key {
                    others.insert(place);
                }
                has_several_of_one |=
                    !is_new && matches!(restriction.kind, RestrictionKind::Other(_));
            }
            let width = restriction.columns.len();
            let mut of_relation = restriction.columns.iter().enumerate();
            // Only the first index: all indexes that serve a tuple have the same rank, and each would
            // have a copy of the whole tuple.
            relations.extend(of_relation.find_map(|(at, &column)| {
                let of_column = indexes.get(&columns[column].id)?;
                of_column.iter().find_map(|&indexed| {
                    let (lookups, rank) = served(indexed, &restriction.kind, at, width)?;
                    Some(IndexedRelation {
                        id: indexed.index.id,
                        column,
                        target: indexed.index.target,
                        lookups,
                        predicate: None,
                        rank,
                    })
                })
            }));
        }
        let of = |kind| seen.iter().filter(|&&at| columns[at].kind == kind).count();
        Self {
            on_clustering_index: (relations.iter())
                .any(|relation| columns[relation.column].kind == ColumnKind::Clustering),
            relations,
            allow_filtering,
            partition: of(ColumnKind::PartitionKey),
            clustering: of(ColumnKind::Clustering),
            others: others.len(),
            has_several_of_one,
        }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.relations.is_empty()
    }

    /// Chooses the index to use; `None` if the statement uses none.
    ///
    /// # Errors
    /// Cassandra's errors: the statement needs ALLOW FILTERING, or has an IN on the partition key
    /// besides a relation that an index serves.
    pub(super) fn choose(mut self, shape: WhereShape) -> Result<Option<IndexedRelation>> {
        // The steps are in Cassandra's order, because each depends on the filtered columns counted
        // before.
        let is_range = !shape.is_by_key;
        let mut uses = shape.filters_partition || (is_range && !shape.has_tokens);
        let mut filtered = if uses { self.partition } else { 0 };
        uses |= shape.filters_clustering || (is_range && self.on_clustering_index);
        if uses || shape.filters_clustering {
            filtered += self.clustering;
        }
        if shape.has_rest {
            uses = true;
            filtered += self.others;
        }
        let serves_all = match filtered {
            0 => self.clustering == 0,
            1 => {
                let of_key = shape.is_by_key;
                let mut relations = self.relations.iter();
                // A relation on the partition key of a named partition is no filter.
                let counts = relations.any(|relation| !of_key || relation.rank < RANK_OF_KEY);
                counts && !self.has_several_of_one
            }
            _ => false,
        };
        if !self.allow_filtering && (is_range || uses) && !serves_all {
            return invalid(REQUIRES_ALLOW_FILTERING);
        }
        if shape.is_by_key {
            // The statement names the partition, so an index on the partition key would not help.
            // (Cassandra uses that index, and rejects IN and ORDER BY then.)
            (self.relations).retain(|relation| relation.rank < RANK_OF_KEY);
        }
        if !uses || self.relations.is_empty() {
            return Ok(None);
        }
        if shape.names_several {
            return invalid(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
            );
        }
        Ok(self.relations.into_iter().min_by_key(|one| one.rank))
    }
}

/// Cassandra's limit on the bytes of an indexed value in a statement.
const VALUE_LEN_MAX: usize = 65_535;

/// The rank of an index on a column of the partition key, which is the highest one. Of several
/// usable indexes the one with the lowest rank is read.
const RANK_OF_KEY: u8 = 5;

/// Returns the values that an index looks up for a relation, and the rank of the index; `None` if
/// the index does not serve the relation. `at` is the position of the indexed column among the
/// columns of the relation, and `columns` is their number.
///
/// Whole values have lower, that is better, ranks than elements, because usually fewer rows have
/// them. Indexes of rows have lower ranks than indexes of partitions, because reading a row costs
/// less.
fn served(
    indexed: IndexedColumn<'_>,
    kind: &RestrictionKind,
    at: usize,
    columns: usize,
) -> Option<(Vec<Lookup>, u8)> {
    let target = indexed.index.target;
    let by = |terms: &[&Term], rank| {
        let lookups = terms.iter().map(|&term| Lookup::Term(term.clone()));
        Some((lookups.collect(), rank))
    };
    match (kind, target) {
        (RestrictionKind::Equal(tuple), IndexTarget::Simple | IndexTarget::Full) => {
            let rank = match indexed.column.kind {
                ColumnKind::Regular => 0,
                ColumnKind::Clustering => 3,
                ColumnKind::Static => 4,
                ColumnKind::PartitionKey => RANK_OF_KEY,
            };
            match tuple {
                Tuple::Terms(terms) => by(&[terms.get(at)?], rank),
                Tuple::Whole(tuple) => {
                    let tuple = tuple.clone();
                    Some((vec![Lookup::Component { tuple, columns, at }], rank))
                }
            }
        }
        (RestrictionKind::Other(Test::Element { key, value }), IndexTarget::Entries) => {
            by(&[key, value], 1)
        }
        (RestrictionKind::Other(Test::Contains(value)), IndexTarget::Values) => by(&[value], 2),
        (RestrictionKind::Other(Test::ContainsKey(key)), IndexTarget::Keys) => by(&[key], 2),
        _ => None,
    }
}

impl IndexedRelation {
    /// Finds this relation among `predicates`, the conditions that each row is tested with, and
    /// sets the field `predicate` to its position.
    pub(super) fn served_of(mut self, predicates: &[Predicate]) -> Self {
        // Of two CONTAINS on one column `choose` returns the first, whose predicate is the first
        // too.
        let is_it = |predicate: &Predicate| {
            let fits = match &predicate.test {
                Test::Compare(operator, _) => {
                    let is_whole = matches!(self.target, IndexTarget::Simple | IndexTarget::Full);
                    *operator == Operator::Equal && is_whole
                }
                Test::Element { .. } => self.target == IndexTarget::Entries,
                Test::Contains(_) => self.target == IndexTarget::Values,
                Test::ContainsKey(_) => self.target == IndexTarget::Keys,
                Test::In(_) => false,
            };
            fits && predicate.columns == [self.column]
        };
        self.predicate = predicates.iter().position(is_it);
        self
    }

    /// Returns the index that serves the relation, with its column; `None` if the index was
    /// dropped.
    pub fn of<'s>(&self, schema: &'s TableSchema) -> Option<IndexedColumn<'s>> {
        schema.indexed_column(self.id)
    }

    /// Returns whether the entries of the index refer to partitions, not to rows.
    pub fn is_of_partitions(&self, schema: &TableSchema) -> bool {
        (self.of(schema)).is_some_and(|indexed| indexed.is_of_partitions())
    }

    /// Checks the lengths of the values that the index looks up. A null has no length.
    ///
    /// # Errors
    /// Cassandra's error for a value that is too long, or for an invalid value.
    pub fn check_lens(&self, bound: &Bound<'_>) -> Result<()> {
        for lookup in &self.lookups {
            if let Evaluated::Value(value) = lookup.evaluate(bound)?
                && value.len() > VALUE_LEN_MAX
            {
                return invalid("Index expression values may not be larger than 64K");
            }
        }
        Ok(())
    }

    /// Returns the prefix that the index keys of the bound values have in common.
    pub fn prefix(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Vec<u8>> {
        let Some(indexed) = self.of(schema) else {
            return invalid("the index of the statement is not there");
        };
        let name = &indexed.column.name;
        let mut values = Vec::with_capacity(self.lookups.len());
        for lookup in &self.lookups {
            values.push(lookup.evaluate(bound)?.condition(name)?);
        }
        let values: Vec<&[u8]> = values.iter().map(|value| &**value).collect();
        indexed.prefix_for(&values).map_err(of_type)
    }
}

#[cfg(test)]
mod tests {
    use ebb_cql::syntax::ast::Statement;
    use ebb_cql::syntax::parse;

    use super::*;
    use crate::analyse::markers::Markers;
    use crate::executor::harness::Server;

    /// Regression: each index on a column of a tuple had a copy of the tuple, which may have megabytes,
    /// and a table may have thousands of indexes.
    #[test]
    fn several_indexes_on_the_columns_of_a_tuple_have_one_copy_of_it() {
        let server = Server::with(&[
            "CREATE TABLE t (k int, a int, b int, c int, PRIMARY KEY (k, a, b, c))",
            "CREATE INDEX ON t (a)",
            "CREATE INDEX ON t (b)",
            "CREATE INDEX ON t (c)",
        ]);
        let state = server.executor.catalog().state();
        let schema = state.table("ks", "t").unwrap().schema();
        for relation in [
            "(a, b, c) = ?",
            "(a, b, c) = (1, 2, ?)",
            "(b, c) = (1, 2)",
            "(b, c) IN ((1, 2))",
        ] {
            let text = format!("SELECT k FROM t WHERE {relation}");
            let parsed = parse(&text).unwrap();
            let Statement::Select(select) = &parsed.statement else {
                panic!("{text} is no SELECT");
            };
            let mut markers = Markers::new(schema, &parsed.markers);
            let relations = Parsed::new(schema, &select.relations, &mut markers).unwrap();
            let usable = Usable::new(schema, &relations, false);
            assert_eq!(usable.relations.len(), 1, "{text}");
            assert!(usable.on_clustering_index, "{text}");
        }
    }
}
