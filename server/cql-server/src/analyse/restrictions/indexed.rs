//! Which relations an index serves, when one is used, and when ALLOW FILTERING is needed
//! although there is one: Cassandra 4.1's `StatementRestrictions`.
//!
//! An index serves `=` on its column, `CONTAINS` and `CONTAINS KEY` on a collection, and
//! `m[k] = v` on the entries of a map. Whatever else is asked is filtering. Of several that
//! fit one is used; the statement's answer is the same by each.

use std::collections::BTreeSet;

use ebb_cql::syntax::ast::Operator;
use ebb_model::schema::{ColumnKind, IndexTarget, IndexedColumn, TableSchema};

use super::REQUIRES_ALLOW_FILTERING;
use super::predicate::{Predicate, Test};
use super::relations::{Ask, Parsed, Tuple};
use crate::analyse::markers::Bound;
use crate::analyse::term::Term;
use crate::error::{Result, invalid, of_type};

/// A relation that an index serves.
#[derive(Debug, Clone)]
pub struct IndexedRelation {
    pub id: u32,
    /// The place of the index's column in the schema.
    column: usize,
    target: IndexTarget,
    /// What the rows are looked up by: a value, or a key and its value.
    wanted: Vec<Term>,
    /// Which of the statement's predicates it is; none where ranges of keys say it.
    pub predicate: Option<usize>,
    /// The less the better: what to use of several.
    rank: u8,
}

/// What a WHERE clause asks beside what an index may serve.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    /// All of the partition key is named.
    pub(super) is_by_key: bool,
    /// By IN.
    pub(super) names_several: bool,
    /// A range of tokens.
    pub(super) has_tokens: bool,
    /// Columns of the partition key beside what names it.
    pub(super) filters_partition: bool,
    /// Clustering columns beside what is a range of them.
    pub(super) filters_clustering: bool,
    /// Columns of no key.
    pub(super) has_rest: bool,
}

/// The relations of a statement that indexes of its table serve.
#[derive(Debug)]
pub(super) struct Usable {
    relations: Vec<IndexedRelation>,
    allow_filtering: bool,
    on_clustering_index: bool,
    /// Columns that relations ask of: of the partition key, clustering ones, others.
    partition: usize,
    clustering: usize,
    others: usize,
    /// Two CONTAINS of one column: an index serves one of them.
    has_several_of_one: bool,
}

impl Usable {
    /// What there is. An index that is being built counts where there is no other way: then
    /// the statement is refused when it is executed.
    pub(super) fn new(schema: &TableSchema, parsed: &Parsed, allow_filtering: bool) -> Self {
        let columns = schema.columns();
        let mut relations = Vec::new();
        let mut seen = BTreeSet::new();
        let mut others = BTreeSet::new();
        let mut has_several_of_one = false;
        for asked in parsed.all() {
            for &place in &asked.columns {
                let is_new = seen.insert(place);
                let is_key = columns[place].kind < ColumnKind::Static;
                if !is_key {
                    others.insert(place);
                }
                has_several_of_one |= !is_new && matches!(asked.ask, Ask::Other(_));
            }
            let [column] = asked.columns[..] else {
                continue;
            };
            for indexed in schema.indexed_columns() {
                if indexed.column.id != columns[column].id
                    || (allow_filtering && indexed.index.is_building)
                {
                    continue;
                }
                if let Some((wanted, rank)) = served(indexed, &asked.ask) {
                    relations.push(IndexedRelation {
                        id: indexed.index.id,
                        column,
                        target: indexed.index.target,
                        wanted,
                        predicate: None,
                        rank,
                    });
                }
            }
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

    /// The index that is used, if one is.
    ///
    /// # Errors
    /// In Cassandra's words, where filtering is needed and was not allowed, and for IN on the
    /// partition key.
    pub(super) fn choose(mut self, asks: Asks) -> Result<Option<IndexedRelation>> {
        // In the order of Cassandra, which counts what has to be filtered on the way.
        let is_range = !asks.is_by_key;
        let mut uses = asks.filters_partition || (is_range && !asks.has_tokens);
        let mut filtered = match uses {
            true => self.partition,
            false => 0,
        };
        uses |= asks.filters_clustering || (is_range && self.on_clustering_index);
        if uses || asks.filters_clustering {
            filtered += self.clustering;
        }
        if asks.has_rest {
            uses = true;
            filtered += self.others;
        }
        let serves_all = match filtered {
            0 => self.clustering == 0,
            1 => {
                let of_key = asks.is_by_key;
                let mut relations = self.relations.iter();
                // What names the partition is not filtered.
                let counts = relations.any(|relation| !of_key || relation.rank < RANK_OF_KEY);
                counts && !self.has_several_of_one
            }
            _ => false,
        };
        if !self.allow_filtering && (is_range || uses) && !serves_all {
            return invalid(REQUIRES_ALLOW_FILTERING);
        }
        if asks.is_by_key {
            // The partition is known better than by an index. (Cassandra uses it, and refuses IN
            // and ORDER BY then.)
            (self.relations).retain(|relation| relation.rank < RANK_OF_KEY);
        }
        if !uses || self.relations.is_empty() {
            return Ok(None);
        }
        if asks.names_several {
            return invalid(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported",
            );
        }
        Ok(self.relations.into_iter().min_by_key(|one| one.rank))
    }
}

/// As Cassandra has it: no longer value is asked for.
const VALUE_LEN_MAX: usize = 65_535;

/// Of an index on a column of the partition key.
const RANK_OF_KEY: u8 = 5;

/// What an index looks up for a relation, if it serves it, and how early it is used: what is
/// by a whole value has fewer rows, as a rule, than what is by an element, and rows are fewer
/// than partitions.
fn served(indexed: IndexedColumn<'_>, ask: &Ask) -> Option<(Vec<Term>, u8)> {
    let target = indexed.index.target;
    let by = |terms: &[&Term], rank| Some((terms.iter().map(|&term| term.clone()).collect(), rank));
    match (ask, target) {
        (Ask::Equal(Tuple::Terms(terms)), IndexTarget::Simple | IndexTarget::Full) => {
            let rank = match indexed.column.kind {
                ColumnKind::Regular => 0,
                ColumnKind::Clustering => 3,
                ColumnKind::Static => 4,
                ColumnKind::PartitionKey => RANK_OF_KEY,
            };
            by(&[terms.first()?], rank)
        }
        (Ask::Other(Test::Element { key, value }), IndexTarget::Entries) => by(&[key, value], 1),
        (Ask::Other(Test::Contains(value)), IndexTarget::Values) => by(&[value], 2),
        (Ask::Other(Test::ContainsKey(key)), IndexTarget::Keys) => by(&[key], 2),
        _ => None,
    }
}

impl IndexedRelation {
    /// The same, with the one of these predicates that it is.
    pub(super) fn served_of(mut self, predicates: &[Predicate]) -> Self {
        // Of two CONTAINS of one column both are the first.
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

    /// The index and its column.
    pub fn of<'s>(&self, schema: &'s TableSchema) -> Option<IndexedColumn<'s>> {
        schema.indexed_column(self.id)
    }

    /// Whether the entries are of partitions, not of rows.
    pub fn is_of_partitions(&self, schema: &TableSchema) -> bool {
        (self.of(schema)).is_some_and(|indexed| indexed.is_of_partitions())
    }

    /// What the keys of its entries begin with, with these values.
    pub fn prefix(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Vec<u8>> {
        let Some(indexed) = self.of(schema) else {
            return invalid("the index of the statement is not there");
        };
        let name = &indexed.column.name;
        let mut wanted = Vec::with_capacity(self.wanted.len());
        for term in &self.wanted {
            let value = term.evaluate(bound)?.condition(name)?;
            if value.len() > VALUE_LEN_MAX {
                return invalid("Index expression values may not be larger than 64K");
            }
            wanted.push(value);
        }
        let wanted: Vec<&[u8]> = wanted.iter().map(|value| &**value).collect();
        indexed.prefix_for(&wanted).map_err(of_type)
    }
}
