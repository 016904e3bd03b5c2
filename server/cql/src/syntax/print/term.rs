//! Printing of values and types.

use std::fmt::{Display, Formatter, Result};

use ebb_model::types::CqlType;
use ebb_model::types::identifier::is_word;

use super::{Pairs, comma, quoted};
use crate::syntax::ast::{Constant, ConstantKind, Marker, Name, QualifiedName, Term, TypeName};
use crate::syntax::words;

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.kind {
            ConstantKind::String => string(&self.text).fmt(f),
            _ => f.write_str(&self.text),
        }
    }
}

/// Returns a string in quotes.
pub(super) fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Display for Marker {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.name {
            Some(name) => write!(f, ":{name}"),
            None => f.write_str("?"),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Term::Constant(constant) => constant.fmt(f),
            Term::Null => f.write_str("NULL"),
            Term::Marker(marker) => marker.fmt(f),
            Term::List(items) => write!(f, "[{}]", comma(items)),
            Term::Set(items) => write!(f, "{{{}}}", comma(items)),
            Term::Map(entries) => write!(f, "{{{}}}", Pairs(entries)),
            Term::Udt(fields) => write!(f, "{{{}}}", Pairs(fields)),
            Term::Tuple(items) => write!(f, "({})", comma(items)),
            Term::Call { function, args } => {
                write!(f, "{}({})", FunctionName(function), comma(args))
            }
            Term::Hint { to, term } => write!(f, "({to}) {term}"),
            Term::Cast { term, to } => write!(f, "CAST({term} AS {to})"),
            // Two signs without a space would begin a comment.
            Term::Negation(term) => write!(f, "- {term}"),
            Term::Arithmetic {
                left,
                operator,
                right,
            } => write!(f, "{left} {} {right}", operator.symbol()),
        }
    }
}

/// Prints the name of a function before its parenthesis, in quotes if the parser would not read the
/// plain word and a parenthesis as a call.
pub(super) struct FunctionName<'a>(pub &'a QualifiedName);

impl Display for FunctionName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let QualifiedName { keyspace, name } = self.0;
        if let Some(keyspace) = keyspace {
            write!(f, "{keyspace}.")?;
        }
        if is_word(name.as_str()) && words::is_function(name.as_str()) {
            f.write_str(name.as_str())
        } else {
            quoted(name).fmt(f)
        }
    }
}

/// Prints the name of a user-defined type, in quotes if it would be parsed as another type otherwise.
pub(super) struct TypeReference<'a>(pub &'a QualifiedName);

impl Display for TypeReference<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let QualifiedName { keyspace, name } = self.0;
        let careful = |f: &mut Formatter<'_>, name: &Name| {
            let is_native = CqlType::native(name.as_str()).is_some();
            if is_native || words::RESERVED_TYPES.contains(&name.as_str()) {
                quoted(name).fmt(f)
            } else {
                name.fmt(f)
            }
        };
        if let Some(keyspace) = keyspace {
            careful(f, keyspace)?;
            return write!(f, ".{name}");
        }
        careful(f, name)
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            TypeName::Native(native) => native.fmt(f),
            TypeName::List(of) => write!(f, "list<{of}>"),
            TypeName::Set(of) => write!(f, "set<{of}>"),
            TypeName::Map(key, value) => write!(f, "map<{key}, {value}>"),
            TypeName::Tuple(types) => write!(f, "tuple<{}>", comma(types)),
            TypeName::Vector(of, dimensions) => write!(f, "vector<{of}, {dimensions}>"),
            TypeName::Frozen(of) => write!(f, "frozen<{of}>"),
            TypeName::User(name) => TypeReference(name).fmt(f),
            TypeName::Custom(class) => string(class).fmt(f),
        }
    }
}
