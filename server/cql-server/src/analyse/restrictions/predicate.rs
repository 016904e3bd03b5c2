//! What must hold of a row beyond its key: what ALLOW FILTERING allows.

use ebb_cql::syntax::ast::Operator;

use super::relations::{Ask, Asked, InTuples, Tuple};
use crate::analyse::term::Term;

/// A test of one or more columns; null passes none.
#[derive(Debug, Clone)]
pub struct Predicate {
    /// The columns, by their places in the schema.
    pub columns: Vec<usize>,
    pub test: Test,
}

#[derive(Debug, Clone)]
pub enum Test {
    /// Columns compare so with values, as a tuple.
    Compare(Operator, Tuple),
    In(InTuples),
    /// A collection has this element, or a map this value.
    Contains(Term),
    ContainsKey(Term),
    /// A map has this value at this key.
    Element {
        key: Term,
        value: Term,
    },
}

impl Predicate {
    pub(super) fn of(asked: Asked) -> Self {
        Self {
            columns: asked.columns,
            test: match asked.ask {
                Ask::Equal(tuple) => Test::Compare(Operator::Equal, tuple),
                Ask::Slice(operator, tuple) => Test::Compare(operator, tuple),
                Ask::In(tuples) => Test::In(tuples),
                Ask::Other(test) => test,
            },
        }
    }
}
