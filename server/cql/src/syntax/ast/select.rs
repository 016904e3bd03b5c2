//! Syntax trees of SELECT and its selectors.

pub use ebb_model::key::Order;

use super::{ArithmeticOperator, Constant, Marker, Name, QualifiedName, Relation, Term, TypeName};

/// ```text
/// SELECT [JSON] [DISTINCT] selection FROM table [USING SNAPSHOT s] [WHERE relations]
///   [GROUP BY ...] [ORDER BY ...] [PER PARTITION LIMIT n] [LIMIT n] [ALLOW FILTERING]
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// True to return each row as one JSON text.
    pub json: bool,
    /// True to return each partition once.
    pub distinct: bool,
    pub selection: Selection,
    pub from: QualifiedName,
    /// `USING SNAPSHOT s`, an addition of ebb: the table as of that snapshot.
    pub snapshot: Option<Name>,
    /// The conditions of WHERE. The selected rows satisfy all of them.
    pub relations: Vec<Relation>,
    /// The elements of GROUP BY, such as columns or calls of functions; empty without GROUP BY.
    pub group_by: Vec<Selector>,
    /// The columns to sort by, the most significant first.
    pub order_by: Vec<(Name, Order)>,
    /// A [`Term::Constant`] or a [`Term::Marker`].
    pub per_partition_limit: Option<Term>,
    /// A [`Term::Constant`] or a [`Term::Marker`].
    pub limit: Option<Term>,
    pub allow_filtering: bool,
}

/// The selected parts of each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    All,
    /// At least one selector.
    Some(Vec<Selected>),
}

/// `selector [AS alias]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    pub selector: Selector,
    /// The name of the result's column, if the statement gives one.
    pub alias: Option<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    Column(Name),
    Constant(Constant),
    Null,
    Marker(Marker),
    /// `count(*)`, or `count` of one constant, as in `count(1)`.
    CountRows,
    /// `writetime(c)`. The argument is a [`Selector::Column`], or a part of a column: a
    /// [`Selector::Field`], [`Selector::Element`] or [`Selector::Slice`].
    WriteTime(Box<Selector>),
    /// `maxwritetime(c)`. The argument is like that of [`Selector::WriteTime`].
    MaxWriteTime(Box<Selector>),
    /// `ttl(c)`. The argument is like that of [`Selector::WriteTime`].
    Ttl(Box<Selector>),
    /// `f(a, b)`.
    Call {
        function: QualifiedName,
        args: Vec<Selector>,
    },
    /// `CAST(value AS type)`; Cassandra accepts only native types.
    Cast {
        selector: Box<Selector>,
        to: TypeName,
    },
    /// `u.field`.
    Field {
        of: Box<Selector>,
        field: Name,
    },
    /// `m[k]`.
    Element {
        of: Box<Selector>,
        key: Term,
    },
    /// `m[a..b]`, `m[a..]`, `m[..b]`; at least one end.
    Slice {
        of: Box<Selector>,
        from: Option<Term>,
        to: Option<Term>,
    },
    /// `(type) value`.
    Hint {
        to: TypeName,
        selector: Box<Selector>,
    },
    /// `(a, b)`, at least one element. `(a)` with a single one is a tuple or a value in
    /// parentheses.
    Tuple(Vec<Selector>),
    /// `[a, b]`.
    List(Vec<Selector>),
    /// `{a, b}`; also `{}`, which may be an empty map.
    Set(Vec<Selector>),
    /// `{a: b}`, at least one entry: a map, or a user-defined type if every key is a
    /// [`Selector::Column`] with the name of a field.
    Map(Vec<(Selector, Selector)>),
    /// `-value`, for a value that is not a literal number.
    Negation(Box<Selector>),
    /// `a + b`. An operand in parentheses, as in `(a + b) * c`, is a [`Selector::Tuple`] with one
    /// element.
    Arithmetic {
        left: Box<Selector>,
        operator: ArithmeticOperator,
        right: Box<Selector>,
    },
}
