//! Values: constants, markers, literals, calls, arithmetic.

pub use ebb_model::types::literal::ConstantKind;

use super::{Name, QualifiedName, TypeName};

/// A value as it is written; what it is as bytes depends on the column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// `1`, `'a'`, `0xff`, …
    Constant(Constant),
    Null,
    Marker(Marker),
    /// `[a, b]`.
    List(Vec<Term>),
    /// `{a, b}`; also `{}`, which may mean an empty map.
    Set(Vec<Term>),
    /// `{a: b}`, at least one.
    Map(Vec<(Term, Term)>),
    /// `{field: value}`, at least one: a user-defined type.
    Udt(Vec<(Name, Term)>),
    /// `(a, b)`, at least one. `(a)` with a single one is a tuple or a value between
    /// parentheses.
    Tuple(Vec<Term>),
    /// `f(a, b)`.
    Call {
        function: QualifiedName,
        args: Vec<Term>,
    },
    /// `(type) value`.
    Hint {
        to: TypeName,
        term: Box<Term>,
    },
    /// `CAST(value AS type)`.
    Cast {
        term: Box<Term>,
        to: TypeName,
    },
    /// `-value`, of a value that is not a number as it stands there.
    Negation(Box<Term>),
    /// `a + b`. Operands that bind less than the operator are a [`Term::Tuple`] of one.
    Arithmetic {
        left: Box<Term>,
        operator: ArithmeticOperator,
        right: Box<Term>,
    },
}

/// `+`, `-`, `*`, `/`, `%`; the last three bind more than the first two, and all go
/// from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl ArithmeticOperator {
    pub fn symbol(self) -> char {
        match self {
            ArithmeticOperator::Add => '+',
            ArithmeticOperator::Subtract => '-',
            ArithmeticOperator::Multiply => '*',
            ArithmeticOperator::Divide => '/',
            ArithmeticOperator::Remainder => '%',
        }
    }
}

/// A constant: its kind and its text, which says more than a number could (`1.10` as a
/// decimal, a varint of any length) and stands in error messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constant {
    pub kind: ConstantKind,
    /// Its text; the form depends on the kind.
    pub text: String,
}

/// A place for a value that comes with the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker {
    /// How many markers stand before it in the statement, a batch counted as one.
    pub index: u16,
    /// `Some` for `:name`.
    pub name: Option<Name>,
}
