//! The relations of WHERE and the conditions of IF.

use super::{Marker, Name, Term};

/// A relation of a WHERE clause. A row must satisfy all relations of the clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// `c < v`.
    Column {
        column: Name,
        operator: Operator,
        value: Term,
    },
    /// `c IN (a, b)`, `c IN ?`.
    In { column: Name, values: InValues },
    /// `c IS NOT NULL`.
    IsNotNull(Name),
    /// `m[k] = v`.
    Element {
        column: Name,
        key: Term,
        operator: Operator,
        value: Term,
    },
    /// `token(a, b) > v`.
    Token {
        /// The columns, at least one, as written.
        columns: Vec<Name>,
        /// Any operator except CONTAINS, CONTAINS KEY and LIKE.
        operator: Operator,
        value: Term,
    },
    /// `(a, b) > (1, 2)`, `(a, b) > ?`.
    Tuple {
        /// The columns, at least one.
        columns: Vec<Name>,
        /// Any operator except CONTAINS, CONTAINS KEY and LIKE.
        operator: Operator,
        /// A [`Term::Tuple`] or a [`Term::Marker`].
        value: Term,
    },
    /// `(a, b) IN ((1, 2), (3, 4))`, `(a, b) IN (?, ?)`, `(a, b) IN ?`.
    TupleIn {
        /// The columns, at least one.
        columns: Vec<Name>,
        /// The tuples, each a [`Term::Tuple`] or a [`Term::Marker`].
        values: InValues,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
    ContainsKey,
    Like,
}

impl Operator {
    pub fn text(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Contains => "CONTAINS",
            Operator::ContainsKey => "CONTAINS KEY",
            Operator::Like => "LIKE",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InValues {
    /// `(a, b)`, possibly empty.
    List(Vec<Term>),
    /// `?` or `:name`: the request contains the whole list.
    Marker(Marker),
}

/// The condition of IF in UPDATE and DELETE.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    #[default]
    None,
    Exists,
    /// `IF c = 1 AND ...`, at least one condition.
    All(Vec<ColumnCondition>),
}

/// `c = v`, `c[k] > v`, `c.f IN (a, b)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnCondition {
    pub column: Name,
    pub part: Part,
    pub test: ColumnTest,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Part {
    #[default]
    Whole,
    /// `c[k]`, an element of a map, set or list.
    Element(Term),
    /// `c.f`, a field of a user-defined type.
    Field(Name),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnTest {
    /// `= v`, `< v`, `CONTAINS v`.
    Compare(Operator, Term),
    /// `IN (a, b)`.
    In(InValues),
}
