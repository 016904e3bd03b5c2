//! Types as in statements and in `system_schema`.

use std::collections::BTreeMap;
use std::fmt;

use super::names::{quoted, unquoted};

/// A type as written, including `frozen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Native(&'static str),
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Tuple(Vec<Type>),
    Frozen(Box<Type>),
    User(String),
}

/// The user-defined types of a keyspace: their fields, in order.
pub type Types = BTreeMap<String, Vec<(String, Type)>>;

pub const NATIVE: [&str; 20] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
];

impl Type {
    /// Returns the normal form, with `frozen` wherever it has an effect but never twice. Two types
    /// are the same if their normal forms are equal.
    pub fn normal(&self) -> Self {
        self.normal_within(false)
    }

    fn normal_within(&self, frozen: bool) -> Self {
        let inner = |ty: &Self| Box::new(ty.normal_within(frozen));
        let normal = match self {
            Self::Native(name) => return Self::Native(name),
            Self::Frozen(ty) => return ty.normal_within(true),
            Self::Tuple(parts) => {
                let parts = parts.iter().map(|part| part.normal_within(true));
                return Self::Frozen(Box::new(Self::Tuple(parts.collect())));
            }
            Self::List(element) => Self::List(inner(element)),
            Self::Set(element) => Self::Set(inner(element)),
            Self::Map(key, value) => Self::Map(inner(key), inner(value)),
            Self::User(name) => Self::User(name.clone()),
        };
        if frozen {
            Self::Frozen(Box::new(normal))
        } else {
            normal
        }
    }

    /// Returns the type without the `frozen<...>` around it.
    pub fn thawed(&self) -> &Self {
        match self {
            Self::Frozen(ty) => ty.thawed(),
            other => other,
        }
    }

    pub fn is_collection(&self) -> bool {
        matches!(self.thawed(), Self::List(_) | Self::Set(_) | Self::Map(..))
    }

    /// Returns the names of the user-defined types in this type, without those in their fields.
    pub fn user_types(&self) -> Vec<&str> {
        match self {
            Self::Native(_) => Vec::new(),
            Self::User(name) => vec![name.as_str()],
            Self::List(ty) | Self::Set(ty) | Self::Frozen(ty) => ty.user_types(),
            Self::Map(key, value) => [key.user_types(), value.user_types()].concat(),
            Self::Tuple(parts) => parts.iter().flat_map(Self::user_types).collect(),
        }
    }

    /// Returns the number of types that this type consists of, including the fields of user-defined
    /// types, but at most `max`.
    pub fn nodes(&self, types: &Types, max: usize) -> usize {
        let mut count = 0;
        let mut left = vec![self];
        while let Some(ty) = left.pop()
            && count < max
        {
            count += 1;
            match ty {
                Self::Native(_) => {}
                Self::List(ty) | Self::Set(ty) | Self::Frozen(ty) => left.push(ty),
                Self::Map(key, value) => left.extend([&**key, &**value]),
                Self::Tuple(parts) => left.extend(parts),
                Self::User(name) => {
                    let fields = types.get(name).into_iter().flatten();
                    left.extend(fields.map(|(_, ty)| ty));
                }
            }
        }
        count
    }

    /// Parses a type of `system_schema`; `None` if the text is no type.
    pub fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        let ty = read(&mut rest)?;
        rest.is_empty().then_some(ty)
    }
}

/// Parses a type at the start of a text, and removes it from the text. Returns `None` if the text
/// does not begin with a type.
fn read(rest: &mut &str) -> Option<Type> {
    let text = *rest;
    if text.starts_with('"') {
        let end = end_of_quoted(text)?;
        *rest = &text[end..];
        return Some(Type::User(unquoted(&text[..end])));
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let word = &text[..end];
    *rest = &text[end..];
    if !rest.starts_with('<') {
        let word = if word == "varchar" { "text" } else { word };
        let native = NATIVE.into_iter().find(|name| *name == word);
        return match native {
            Some(name) => Some(Type::Native(name)),
            None => (!word.is_empty()).then(|| Type::User(word.to_owned())),
        };
    }
    let mut parts = Vec::new();
    while let Some(after) = rest.strip_prefix(['<', ',']) {
        *rest = after.trim_start();
        parts.push(read(rest)?);
    }
    *rest = rest.strip_prefix('>')?;
    let mut parts = parts.into_iter();
    let mut next = || parts.next().map(Box::new);
    let ty = match word {
        "list" => Type::List(next()?),
        "set" => Type::Set(next()?),
        "map" => Type::Map(next()?, next()?),
        "frozen" => Type::Frozen(next()?),
        "tuple" => return Some(Type::Tuple(parts.collect())),
        _ => return None,
    };
    parts.next().is_none().then_some(ty)
}

/// Returns the index after the closing quote of the name at the start of a text; `None` if the name
/// has no closing quote.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].find('"')? + 1;
        if !text[at..].starts_with('"') {
            return Some(at);
        }
        at += 1;
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(name) => f.write_str(name),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Set(element) => write!(f, "set<{element}>"),
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "tuple<{}>", parts.join(", "))
            }
            Self::Frozen(ty) => write!(f, "frozen<{ty}>"),
            Self::User(name) => f.write_str(&quoted(name)),
        }
    }
}
