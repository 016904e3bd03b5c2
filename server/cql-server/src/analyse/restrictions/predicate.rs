//! Predicates on rows, which ALLOW FILTERING permits.

use ebb_cql::syntax::ast::Operator;

use super::relations::{InTuples, Restriction, RestrictionKind, Tuple};
use crate::analyse::term::Term;

/// A test of one or more columns. Null fails every test.
#[derive(Debug, Clone)]
pub struct Predicate {
    /// The indexes of the columns among the columns of the table.
    pub columns: Vec<usize>,
    pub test: Test,
}

#[derive(Debug, Clone)]
pub enum Test {
    /// Compares the columns, as a tuple, with values.
    Compare(Operator, Tuple),
    In(InTuples),
    /// The collection contains this element or, if it is a map, this value.
    Contains(Term),
    ContainsKey(Term),
    /// The map has this value at this key.
    Element {
        key: Term,
        value: Term,
    },
}

impl Predicate {
    pub(super) fn of(restriction: Restriction) -> Self {
        Self {
            columns: restriction.columns,
            test: match restriction.kind {
                RestrictionKind::Equal(tuple) => Test::Compare(Operator::Equal, tuple),
                RestrictionKind::Slice(operator, tuple) => Test::Compare(operator, tuple),
                RestrictionKind::In(tuples) => Test::In(tuples),
                RestrictionKind::Other(test) => test,
            },
        }
    }
}
