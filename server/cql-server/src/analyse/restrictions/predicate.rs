//! What must hold of a row beyond its key: what ALLOW FILTERING allows.

use ebb_cql::syntax::ast::Operator;

use super::relations::{Ask, Asked, InTuples, Tuple};
use crate::analyse::term::Term;

/// A test of one or more columns; null passes none.
#[derive(Debug, Clone)]
pub struct Predicate {
    /// The columns, by their places in the schema.
    pub columns: Vec<usize>,
    /// What must hold of them.
    pub test: Test,
}

/// What must hold.
#[derive(Debug, Clone)]
pub enum Test {
    /// Columns compare so with values, as a tuple.
    Compare(Operator, Tuple),
    /// The columns are one of these.
    In(InTuples),
    /// A collection has this element, or a map this value.
    Contains(Term),
    /// A map has this key.
    ContainsKey(Term),
    /// A map has this value at this key.
    Element {
        /// The key.
        key: Term,
        /// The value.
        value: Term,
    },
}

impl Predicate {
    /// A relation as a predicate.
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
