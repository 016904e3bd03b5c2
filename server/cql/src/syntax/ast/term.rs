//! Syntax trees of values: constants, markers, literals, calls, arithmetic.

pub use ebb_model::types::literal::ConstantKind;

use super::{Name, QualifiedName, TypeName};

/// A value as written; its bytes depend on the column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// `1`, `'a'`, `0xff`, …
    Constant(Constant),
    Null,
    Marker(Marker),
    /// `[a, b]`.
    List(Vec<Term>),
    /// `{a, b}`; also `{}`, which may be an empty map.
    Set(Vec<Term>),
    /// `{a: b}`, at least one entry.
    Map(Vec<(Term, Term)>),
    /// `{field: value}`, at least one field: a user-defined type.
    Udt(Vec<(Name, Term)>),
    /// `(a, b)`, at least one element. `(a)` with a single one is a tuple or a value in
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
    /// `-value`, for a value that is not a literal number.
    Negation(Box<Term>),
    /// `a + b`. An operand in parentheses, as in `(a + b) * c`, is a [`Term::Tuple`] with one
    /// element.
    Arithmetic {
        left: Box<Term>,
        operator: ArithmeticOperator,
        right: Box<Term>,
    },
}

/// `+`, `-`, `*`, `/`, `%`; the last three have a higher precedence than the first two, and all are
/// left-associative.
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

/// A constant: its kind and its text. The text is more precise than a number (`1.10` as a decimal,
/// a varint of any length), and error messages contain it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constant {
    pub kind: ConstantKind,
    /// The text: of a string without its quotes, of a negative number with its sign.
    pub text: String,
}

/// A bind marker, `?` or `:name`. The request contains the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The number of markers before this one in the statement; a batch is one statement.
    pub index: u16,
    /// The name of a marker `:name`; `None` for `?`.
    pub name: Option<Name>,
}
