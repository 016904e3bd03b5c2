//! Printing of selectors, and of the relations of a WHERE clause.

use std::fmt::{Display, Formatter, Result};

use super::term::FunctionName;
use super::{Pairs, comma, quoted};
use crate::syntax::ast::{InValues, Operator, Relation, Selector};

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            // After SELECT these words may be modifiers.
            Selector::Column(name) if ["as", "distinct", "json"].contains(&name.as_str()) => {
                quoted(name).fmt(f)
            }
            Selector::Column(name) => name.fmt(f),
            Selector::Constant(constant) => constant.fmt(f),
            Selector::Null => f.write_str("NULL"),
            Selector::Marker(marker) => marker.fmt(f),
            Selector::CountRows => f.write_str("count(*)"),
            Selector::WriteTime(of) => write!(f, "writetime({of})"),
            Selector::MaxWriteTime(of) => write!(f, "maxwritetime({of})"),
            Selector::Ttl(of) => write!(f, "ttl({of})"),
            Selector::Call { function, args } => {
                write!(f, "{}({})", FunctionName(function), comma(args))
            }
            Selector::Cast { selector, to } => write!(f, "CAST({selector} AS {to})"),
            // Without the space, a number would include the point.
            Selector::Field { of, field } if ends_with_constant(of) => {
                write!(f, "{of} .{field}")
            }
            Selector::Field { of, field } => write!(f, "{of}.{field}"),
            Selector::Element { of, key } => write!(f, "{of}[{key}]"),
            Selector::Slice { of, from, to } => {
                write!(f, "{of}[")?;
                if let Some(from) = from {
                    // Without the space, a number would include the first point.
                    write!(f, "{from} ")?;
                }
                f.write_str("..")?;
                if let Some(to) = to {
                    write!(f, " {to}")?;
                }
                f.write_str("]")
            }
            Selector::Hint { to, selector } => write!(f, "({to}) {selector}"),
            Selector::Tuple(items) => write!(f, "({})", comma(items)),
            Selector::List(items) => write!(f, "[{}]", comma(items)),
            Selector::Set(items) => write!(f, "{{{}}}", comma(items)),
            Selector::Map(entries) => write!(f, "{{{}}}", Pairs(entries)),
            // Two signs without a space would begin a comment.
            Selector::Negation(selector) => write!(f, "- {selector}"),
            Selector::Arithmetic {
                left,
                operator,
                right,
            } => write!(f, "{left} {} {right}", operator.symbol()),
        }
    }
}

fn ends_with_constant(selector: &Selector) -> bool {
    match selector {
        Selector::Constant(_) => true,
        Selector::Hint { selector, .. } => ends_with_constant(selector),
        _ => false,
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.text())
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Relation::Column {
                column,
                operator,
                value,
            } => write!(f, "{column} {operator} {value}"),
            Relation::In { column, values } => write!(f, "{column} IN {values}"),
            Relation::IsNotNull(column) => write!(f, "{column} IS NOT NULL"),
            Relation::Element {
                column,
                key,
                operator,
                value,
            } => write!(f, "{column}[{key}] {operator} {value}"),
            Relation::Token {
                columns,
                operator,
                value,
            } => write!(f, "token({}) {operator} {value}", comma(columns)),
            Relation::Tuple {
                columns,
                operator,
                value,
            } => write!(f, "({}) {operator} {value}", comma(columns)),
            Relation::TupleIn { columns, values } => {
                write!(f, "({}) IN {values}", comma(columns))
            }
        }
    }
}

impl Display for InValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            InValues::List(values) => write!(f, "({})", comma(values)),
            InValues::Marker(marker) => marker.fmt(f),
        }
    }
}
