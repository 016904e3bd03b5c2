//! The text of types in `system_schema`: `frozen<map<text, int>>`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::identifier::{Quoted, RESERVED_TYPES};
use super::{CqlType, DEPTH_MAX, TypeError, UserType};

impl CqlType {
    /// Parses a type. `resolve` finds the user-defined types of the keyspace by name.
    ///
    /// # Errors
    /// If the text is no type, a name is unknown, or [`CqlType::check`] fails.
    pub fn parse(
        text: &str,
        resolve: &dyn Fn(&str) -> Option<Arc<UserType>>,
    ) -> Result<Self, TypeError> {
        let ty = Parser::new(text, resolve).parse_all()?;
        ty.check()?;
        Ok(ty)
    }

    /// Parses a type from a record. Earlier versions wrote no quotes around the name of a
    /// user-defined type that is also the name of a native type. In `frozen<int>`, `int` can only
    /// be a user-defined type, and is parsed as such.
    ///
    /// # Errors
    /// See [`parse`](Self::parse).
    pub fn parse_stored(
        text: &str,
        resolve: &dyn Fn(&str) -> Option<Arc<UserType>>,
    ) -> Result<Self, TypeError> {
        let parser = Parser {
            is_stored: true,
            ..Parser::new(text, resolve)
        };
        let ty = parser.parse_all()?;
        ty.check()?;
        Ok(ty)
    }

    /// Returns the names of the user-defined types in the text of a type from a record. The types
    /// need not exist.
    ///
    /// # Errors
    /// If the text is no type.
    pub fn names_in(text: &str) -> Result<BTreeSet<String>, TypeError> {
        let any = Arc::new(UserType::new("", "", [])?);
        let names = RefCell::new(BTreeSet::new());
        let note = |name: &str| {
            names.borrow_mut().insert(name.to_owned());
            Some(any.clone())
        };
        let parser = Parser {
            is_stored: true,
            ..Parser::new(text, &note)
        };
        parser.parse_all()?;
        Ok(names.into_inner())
    }

    /// Returns the native type of a name in upper or lower case; `varchar` is `text`.
    pub fn native(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("varchar") {
            return Some(Self::Text);
        }
        Self::NATIVE.into_iter().find(|t| {
            t.native_name()
                .is_some_and(|n| n.eq_ignore_ascii_case(name))
        })
    }

    fn native_name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Ascii => "ascii",
            Self::Bigint => "bigint",
            Self::Blob => "blob",
            Self::Boolean => "boolean",
            Self::Counter => "counter",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Duration => "duration",
            Self::Float => "float",
            Self::Inet => "inet",
            Self::Int => "int",
            Self::Smallint => "smallint",
            Self::Text => "text",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timeuuid => "timeuuid",
            Self::Tinyint => "tinyint",
            Self::Uuid => "uuid",
            Self::Varint => "varint",
            _ => return None,
        })
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.native_name() {
            return f.write_str(name);
        }
        let frozen = !self.is_multi_cell();
        if frozen {
            f.write_str("frozen<")?;
        }
        match self {
            Self::List { element, .. } => write!(f, "list<{element}>")?,
            Self::Set { element, .. } => write!(f, "set<{element}>")?,
            Self::Map { key, value, .. } => write!(f, "map<{key}, {value}>")?,
            Self::Tuple(types) => {
                f.write_str("tuple<")?;
                for (i, ty) in types.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{ty}")?;
                }
                f.write_str(">")?;
            }
            Self::Udt { definition, .. } => write!(f, "{}", QuotedType(definition.name()))?,
            _ => unreachable!("native types have names"),
        }
        if frozen {
            f.write_str(">")?;
        }
        Ok(())
    }
}

/// Names of types that have other types as parameters. `set` is missing, because it is a reserved
/// word, which must be quoted in any case.
const GENERIC_TYPES: [&str; 5] = ["frozen", "list", "map", "tuple", "vector"];

/// The name of a user-defined type, quoted if it would otherwise read as one of CQL's own types:
/// `"int"` is a type that a user created, `int` is not.
pub struct QuotedType<'a>(pub &'a str);

impl fmt::Display for QuotedType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_taken = CqlType::native(self.0).is_some()
            || RESERVED_TYPES.contains(&self.0)
            || GENERIC_TYPES.contains(&self.0);
        if is_taken {
            // None of these words contains a quote.
            write!(f, "\"{}\"", self.0)
        } else {
            Quoted(self.0).fmt(f)
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    text: &'a str,
    resolve: &'a dyn Fn(&str) -> Option<Arc<UserType>>,
    /// Whether the text is from a record: see [`CqlType::parse_stored`].
    is_stored: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, resolve: &'a dyn Fn(&str) -> Option<Arc<UserType>>) -> Self {
        Self {
            rest: text,
            text,
            resolve,
            is_stored: false,
        }
    }

    /// Parses the whole text as one type, without [`CqlType::check`].
    fn parse_all(mut self) -> Result<CqlType, TypeError> {
        let ty = self.parse_type(0)?;
        if !self.rest.trim_start().is_empty() {
            return Err(self.refuse("more than one type"));
        }
        Ok(ty)
    }

    fn refuse(&self, what: &str) -> TypeError {
        let at = self.text.len() - self.rest.len();
        TypeError::new(format!("Unknown type {}: {what} at {at}", self.text))
    }

    fn take(&mut self, symbol: char) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(symbol) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) -> Result<(), TypeError> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(self.refuse(&format!("'{symbol}' expected")))
        }
    }

    /// Parses a name, in lower case unless it is quoted, and returns whether it was quoted.
    fn name(&mut self) -> Result<(String, bool), TypeError> {
        self.rest = self.rest.trim_start();
        if let Some(mut rest) = self.rest.strip_prefix('"') {
            let mut name = String::new();
            loop {
                let end = rest
                    .find('"')
                    .ok_or_else(|| self.refuse("a quote without its end"))?;
                name.push_str(&rest[..end]);
                rest = &rest[end + 1..];
                match rest.strip_prefix('"') {
                    Some(after) => {
                        name.push('"');
                        rest = after;
                    }
                    None => break,
                }
            }
            self.rest = rest;
            return Ok((name, true));
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.refuse("a name expected"));
        }
        let name = self.rest[..end].to_ascii_lowercase();
        self.rest = &self.rest[end..];
        Ok((name, false))
    }

    fn parse_type(&mut self, depth: usize) -> Result<CqlType, TypeError> {
        // `frozen<...>` is a level of this recursion, but not of the type.
        if depth > 2 * DEPTH_MAX {
            return Err(TypeError::new(format!(
                "A type may nest {DEPTH_MAX} deep at most, frozen<> not counted"
            )));
        }
        let (name, quoted) = self.name()?;
        if !quoted && self.take('<') {
            let ty = self.parse_generic(&name, depth)?;
            self.expect('>')?;
            return Ok(ty);
        }
        if !quoted && let Some(native) = CqlType::native(&name) {
            return Ok(native);
        }
        match (self.resolve)(&name) {
            Some(definition) => Ok(CqlType::udt(definition)),
            None => Err(TypeError::new(format!("Unknown type {}", Quoted(&name)))),
        }
    }

    fn parse_generic(&mut self, name: &str, depth: usize) -> Result<CqlType, TypeError> {
        let before = self.rest;
        let inner = self.parse_type(depth + 1)?;
        Ok(match name {
            "list" => CqlType::list(inner),
            "set" => CqlType::set(inner),
            "map" => {
                self.expect(',')?;
                CqlType::map(inner, self.parse_type(depth + 1)?)
            }
            "tuple" => {
                let mut types = vec![inner];
                while self.take(',') {
                    types.push(self.parse_type(depth + 1)?);
                }
                CqlType::tuple(types)
            }
            "frozen" if inner.is_native() => {
                let native = before[..before.len() - self.rest.len()].trim();
                let native = native.to_ascii_lowercase();
                if self.is_stored
                    && let Some(definition) = (self.resolve)(&native)
                {
                    return Ok(CqlType::udt(definition).freeze());
                }
                return Err(TypeError::new(format!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
                )));
            }
            "frozen" => inner.freeze(),
            _ => return Err(self.refuse("only list, set, map, tuple and frozen take types")),
        })
    }
}
