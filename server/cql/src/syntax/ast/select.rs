//! SELECT, its selectors.

pub use ebb_model::key::Order;

use super::{ArithmeticOperator, Constant, Marker, Name, QualifiedName, Relation, Term, TypeName};

/// ```text
/// SELECT [JSON] [DISTINCT] selection FROM table [USING SNAPSHOT s] [WHERE relations]
///   [GROUP BY ...] [ORDER BY ...] [PER PARTITION LIMIT n] [LIMIT n] [ALLOW FILTERING]
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// Each row as one JSON text.
    pub json: bool,
    /// Each partition once.
    pub distinct: bool,
    pub selection: Selection,
    pub from: QualifiedName,
    /// `USING SNAPSHOT s`, ebb's own: the table as it was then.
    pub snapshot: Option<Name>,
    /// Which rows; all of them must hold.
    pub relations: Vec<Relation>,
    /// Columns or calls over columns.
    pub group_by: Vec<Selector>,
    /// By which columns, in this order.
    pub order_by: Vec<(Name, Order)>,
    /// A [`Term::Constant`] or a [`Term::Marker`].
    pub per_partition_limit: Option<Term>,
    /// A [`Term::Constant`] or a [`Term::Marker`].
    pub limit: Option<Term>,
    pub allow_filtering: bool,
}

/// What of each row is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    All,
    /// At least one.
    Some(Vec<Selected>),
}

/// `selector [AS alias]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    pub selector: Selector,
    /// What the result's column is called, where it is said.
    pub alias: Option<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    Column(Name),
    Constant(Constant),
    Null,
    Marker(Marker),
    /// `count(*)`; also `count` of any constant.
    CountRows,
    /// `writetime(c)`.
    WriteTime(Box<Selector>),
    /// `maxwritetime(c)`.
    MaxWriteTime(Box<Selector>),
    /// `ttl(c)`. What these three ask of is a [`Selector::Column`], or parts of one by
    /// [`Selector::Field`], [`Selector::Element`] and [`Selector::Slice`].
    Ttl(Box<Selector>),
    /// `f(a, b)`.
    Call {
        function: QualifiedName,
        args: Vec<Selector>,
    },
    /// `CAST(value AS type)`; Cassandra takes native types only.
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
    /// `(a, b)`, at least one. `(a)` with a single one is a tuple or a value between
    /// parentheses.
    Tuple(Vec<Selector>),
    /// `[a, b]`.
    List(Vec<Selector>),
    /// `{a, b}`; also `{}`, which may mean an empty map.
    Set(Vec<Selector>),
    /// `{a: b}`, at least one: a map, or a user-defined type where every key is a
    /// [`Selector::Column`] that is called as a field.
    Map(Vec<(Selector, Selector)>),
    /// `-value`, of a value that is not a number as it stands there.
    Negation(Box<Selector>),
    /// `a + b`. Operands that bind less than the operator are a [`Selector::Tuple`] of
    /// one.
    Arithmetic {
        left: Box<Selector>,
        operator: ArithmeticOperator,
        right: Box<Selector>,
    },
}
