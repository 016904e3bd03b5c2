//! Values: constants, markers, literals, calls, arithmetic.

use super::{Name, QualifiedName, TypeName};

/// A value as it is written; what it is as bytes depends on the column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// `1`, `'a'`, `0xff`, …
    Constant(Constant),
    /// `null`.
    Null,
    /// `?` or `:name`.
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
        /// The function.
        function: QualifiedName,
        /// What it is called with.
        args: Vec<Term>,
    },
    /// `(type) value`.
    Hint {
        /// The type.
        to: TypeName,
        /// The value.
        term: Box<Term>,
    },
    /// `CAST(value AS type)`.
    Cast {
        /// The value.
        term: Box<Term>,
        /// The type.
        to: TypeName,
    },
    /// `-value`, of a value that is not a number as it stands there.
    Negation(Box<Term>),
    /// `a + b`. Operands that bind less than the operator are a [`Term::Tuple`] of one.
    Arithmetic {
        /// Left of the operator.
        left: Box<Term>,
        /// The operator.
        operator: ArithmeticOperator,
        /// Right of the operator.
        right: Box<Term>,
    },
}

/// `+`, `-`, `*`, `/`, `%`; the last three bind more than the first two, and all go
/// from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is called as in arithmetic")]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl ArithmeticOperator {
    /// As it is written.
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
    /// What it looks like.
    pub kind: ConstantKind,
    /// Its text; the form depends on the kind.
    pub text: String,
}

/// What a constant looks like. The names in Cassandra's messages are those of
/// [`ConstantKind::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConstantKind {
    /// `'it''s'` or `$$it's$$`; the text is without quotes: `it's`.
    String,
    /// Digits, perhaps with `-` before them.
    Integer,
    /// `1.5`, `1.`, `-1e9`, with the sign; or `NaN`, `Infinity`, `-Infinity`.
    Float,
    /// `true` or `false`, in small letters.
    Boolean,
    /// 8-4-4-4-12 hexadecimal digits, case as written.
    Uuid,
    /// `0x` and hexadecimal digits, perhaps none, perhaps an odd number of them.
    Hex,
    /// `1h30m`, `P1Y2D`, `PT5S`, `P3W`, `P0001-02-03T04:05:06`, perhaps with `-` before.
    /// Units are not checked for order.
    Duration,
}

impl ConstantKind {
    /// As Cassandra's messages call it: `Invalid STRING constant (…) for …`.
    pub fn name(self) -> &'static str {
        match self {
            ConstantKind::String => "STRING",
            ConstantKind::Integer => "INTEGER",
            ConstantKind::Float => "FLOAT",
            ConstantKind::Boolean => "BOOLEAN",
            ConstantKind::Uuid => "UUID",
            ConstantKind::Hex => "HEX",
            ConstantKind::Duration => "DURATION",
        }
    }
}

/// A place for a value that comes with the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker {
    /// How many markers stand before it in the statement, a batch counted as one.
    pub index: u16,
    /// `Some` for `:name`.
    pub name: Option<Name>,
}
