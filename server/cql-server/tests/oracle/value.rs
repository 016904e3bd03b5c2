//! Values and their types, in CQL and in the protocol.

use std::fmt;

/// The types of columns. The values of all types consist of a few different ints: the test is about
/// which write wins, and not about the encoding of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Int,
    List,
    Set,
    Map,
    /// The user-defined type `pair`, unfrozen.
    Udt,
    FrozenList,
    FrozenUdt,
    Tuple,
}

/// The names of the fields of `pair`, the user-defined type of the tests. A tuple has the same
/// fields, without names.
pub const FIELDS: [&str; 3] = ["x", "y", "z"];

impl Type {
    pub const ALL: [Self; 8] = [
        Self::Int,
        Self::List,
        Self::Set,
        Self::Map,
        Self::Udt,
        Self::FrozenList,
        Self::FrozenUdt,
        Self::Tuple,
    ];

    pub fn cql(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::List => "list<int>",
            Self::Set => "set<int>",
            Self::Map => "map<int, int>",
            Self::Udt => "pair",
            Self::FrozenList => "frozen<list<int>>",
            Self::FrozenUdt => "frozen<pair>",
            Self::Tuple => "tuple<int, int, int>",
        }
    }

    /// Returns whether the elements or fields of a value are stored in separate cells.
    pub fn is_multi_cell(self) -> bool {
        matches!(self, Self::List | Self::Set | Self::Map | Self::Udt)
    }
}

/// A value that is not null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Int(i32),
    Bigint(i64),
    List(Vec<i32>),
    /// The members, ascending.
    Set(Vec<i32>),
    /// The entries, ascending by key.
    Map(Vec<(i32, i32)>),
    /// The three fields of `pair` or of the tuple.
    Fields(Vec<Option<i32>>),
}

impl Value {
    /// Returns the value as a CQL literal. Only the literals of tuples and user-defined types
    /// depend on `ty`.
    pub fn literal(&self, ty: Type) -> String {
        let all = |values: &[i32]| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            values.join(", ")
        };
        match self {
            Self::Int(value) => value.to_string(),
            Self::Bigint(value) => value.to_string(),
            Self::List(values) => format!("[{}]", all(values)),
            Self::Set(values) => format!("{{{}}}", all(values)),
            Self::Map(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                format!("{{{}}}", pairs.join(", "))
            }
            Self::Fields(fields) if ty == Type::Tuple => {
                let fields = fields.iter().map(|field| or_null(*field));
                format!("({})", fields.collect::<Vec<_>>().join(", "))
            }
            Self::Fields(fields) => {
                let fields = FIELDS.iter().zip(fields);
                let fields = fields.map(|(name, field)| format!("{name}: {}", or_null(*field)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Returns the value in the encoding of the protocol.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut part = |value: Option<i32>| match value {
            None => out.extend((-1_i32).to_be_bytes()),
            Some(value) => {
                out.extend(4_i32.to_be_bytes());
                out.extend(value.to_be_bytes());
            }
        };
        let count = match self {
            Self::Int(value) => return value.to_be_bytes().to_vec(),
            Self::Bigint(value) => return value.to_be_bytes().to_vec(),
            Self::Fields(fields) => {
                fields.iter().for_each(|field| part(*field));
                return out;
            }
            Self::List(values) | Self::Set(values) => {
                values.iter().for_each(|value| part(Some(*value)));
                values.len()
            }
            Self::Map(pairs) => {
                for (key, value) in pairs {
                    part(Some(*key));
                    part(Some(*value));
                }
                pairs.len()
            }
        };
        [&(count as i32).to_be_bytes()[..], &out].concat()
    }

    /// Decodes a value of a result; `None` for invalid bytes.
    pub fn read(ty: Type, bytes: &[u8]) -> Option<Self> {
        if ty == Type::Int {
            return Some(Self::Int(i32::from_be_bytes(bytes.try_into().ok()?)));
        }
        let is_fields = matches!(ty, Type::Udt | Type::FrozenUdt | Type::Tuple);
        let (count, mut rest) = if is_fields {
            (None, bytes)
        } else {
            let (count, rest) = bytes.split_first_chunk::<4>()?;
            (Some(i32::from_be_bytes(*count)), rest)
        };
        let mut parts = Vec::new();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = i32::from_be_bytes(*len);
            let (value, after) = match usize::try_from(len) {
                Err(_) => (None, after),
                Ok(_) => {
                    let (value, after) = after.split_first_chunk::<4>()?;
                    (Some(i32::from_be_bytes(*value)), after)
                }
            };
            parts.push(value);
            rest = after;
        }
        if !rest.is_empty() {
            return None;
        }
        if is_fields {
            // Null fields at the end may be left out.
            parts.resize(FIELDS.len(), None);
            return Some(Self::Fields(parts));
        }
        let parts: Vec<i32> = parts.into_iter().collect::<Option<_>>()?;
        let value = match ty {
            Type::Set => Self::Set(parts),
            Type::Map => Self::Map(parts.chunks_exact(2).map(|p| (p[0], p[1])).collect()),
            _ => Self::List(parts),
        };
        let len = match &value {
            Self::Map(pairs) => pairs.len(),
            Self::List(values) | Self::Set(values) => values.len(),
            _ => 0,
        };
        (count == i32::try_from(len).ok()).then_some(value)
    }
}

fn or_null(value: Option<i32>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}

/// Prints values in messages as CQL literals, except that a user-defined type looks like a tuple.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.literal(Type::Tuple))
    }
}
