//! CQL types: the variants, their nesting, and CQL's rules about both.

use std::sync::Arc;

use super::{TypeError, UserType};

/// The maximal depth of nested types, user-defined types included. It bounds the recursion over a
/// type.
pub const DEPTH_MAX: usize = 64;
/// The maximal number of types in one type, where each use of a user-defined type counts anew.
/// Without this bound, twenty small user-defined types describe a million fields.
pub const NODES_MAX: usize = 4096;
/// The maximal depth of a type's text in a statement, as the parser of CQL counts: each
/// `frozen<...>` is a level too, and a user-defined type is only a name.
pub const WRITTEN_DEPTH_MAX: usize = 100;

/// A CQL type. `varchar` is [`Text`](Self::Text).
///
/// Types that come from clients or records pass through [`CqlType::parse`] or
/// [`CqlType::check`], which hold them to [`DEPTH_MAX`], [`NODES_MAX`] and CQL's rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are CQL's own names")]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    /// `list<element>`; one cell for each element unless frozen.
    List {
        element: Arc<CqlType>,
        frozen: bool,
    },
    /// `set<element>`; one cell for each element unless frozen.
    Set {
        element: Arc<CqlType>,
        frozen: bool,
    },
    /// `map<key, value>`; one cell for each key unless frozen.
    Map {
        key: Arc<CqlType>,
        value: Arc<CqlType>,
        frozen: bool,
    },
    /// `tuple<...>`, always frozen.
    Tuple(Arc<[CqlType]>),
    /// A user-defined type; one cell for each field unless frozen.
    Udt {
        definition: Arc<UserType>,
        frozen: bool,
    },
}

impl CqlType {
    /// Every native type.
    pub const NATIVE: [Self; 20] = [
        Self::Ascii,
        Self::Bigint,
        Self::Blob,
        Self::Boolean,
        Self::Counter,
        Self::Date,
        Self::Decimal,
        Self::Double,
        Self::Duration,
        Self::Float,
        Self::Inet,
        Self::Int,
        Self::Smallint,
        Self::Text,
        Self::Time,
        Self::Timestamp,
        Self::Timeuuid,
        Self::Tinyint,
        Self::Uuid,
        Self::Varint,
    ];

    /// Returns a `list` that is not frozen.
    pub fn list(element: Self) -> Self {
        Self::List {
            element: Arc::new(element),
            frozen: false,
        }
    }

    /// Returns a `set` that is not frozen.
    pub fn set(element: Self) -> Self {
        Self::Set {
            element: Arc::new(element),
            frozen: false,
        }
    }

    /// Returns a `map` that is not frozen.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map {
            key: Arc::new(key),
            value: Arc::new(value),
            frozen: false,
        }
    }

    /// Returns a `tuple` of `types`, each of them frozen.
    pub fn tuple(types: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(types.into_iter().map(Self::freeze).collect())
    }

    /// Returns a user-defined type that is not frozen.
    pub fn udt(definition: Arc<UserType>) -> Self {
        Self::Udt {
            definition,
            frozen: false,
        }
    }

    /// Returns the type as `frozen<...>` makes it: one cell, with all nested types frozen too. (The
    /// definitions of user-defined types stay unchanged: their fields may have types that are not
    /// frozen.) A type of one cell is returned as it is, without a copy: its nested types are frozen
    /// already.
    #[must_use]
    pub fn freeze(self) -> Self {
        if !self.is_multi_cell() {
            return self;
        }
        let inner = |t: Arc<Self>| {
            if t.is_multi_cell() {
                Arc::new(Arc::unwrap_or_clone(t).freeze())
            } else {
                t
            }
        };
        match self {
            Self::List { element, .. } => Self::List {
                element: inner(element),
                frozen: true,
            },
            Self::Set { element, .. } => Self::Set {
                element: inner(element),
                frozen: true,
            },
            Self::Map { key, value, .. } => Self::Map {
                key: inner(key),
                value: inner(value),
                frozen: true,
            },
            Self::Udt { definition, .. } => Self::Udt {
                definition,
                frozen: true,
            },
            of_one_cell => of_one_cell,
        }
    }

    /// Returns whether a value consists of several cells: true for collections and user-defined
    /// types that are not frozen.
    pub fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            Self::List { frozen: false, .. }
                | Self::Set { frozen: false, .. }
                | Self::Map { frozen: false, .. }
                | Self::Udt { frozen: false, .. }
        )
    }

    /// Returns whether the type is a list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(
            self,
            Self::List { .. } | Self::Set { .. } | Self::Map { .. }
        )
    }

    /// Returns whether the type is neither a collection, a tuple nor a user-defined type.
    pub fn is_native(&self) -> bool {
        !self.is_collection() && !matches!(self, Self::Tuple(_) | Self::Udt { .. })
    }

    /// Returns whether the type is or contains a duration. Such values have no order and cannot be
    /// keys.
    pub fn contains_duration(&self) -> bool {
        match self {
            Self::Duration => true,
            Self::Udt { definition, .. } => definition.contains_duration(),
            other => other.parts().any(Self::contains_duration),
        }
    }

    /// Returns whether the type is or contains the user-defined type `name`, at any depth.
    pub fn mentions(&self, name: &str) -> bool {
        self.user_type(name).is_some()
    }

    /// Returns the user-defined type `name`, if this type is or contains it, at any depth.
    pub fn user_type(&self, name: &str) -> Option<&Arc<UserType>> {
        match self {
            Self::Udt { definition, .. } if definition.name() == name => Some(definition),
            Self::Udt { definition, .. } => {
                let mut fields = definition.fields().iter();
                fields.find_map(|(_, field)| field.user_type(name))
            }
            other => other.parts().find_map(|part| part.user_type(name)),
        }
    }

    /// Returns the depth of the nested types; a native type has depth 1.
    pub fn depth(&self) -> usize {
        match self {
            Self::Udt { definition, .. } => definition.depth() + 1,
            other => 1 + other.parts().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// Returns the depth of the type's text as DESCRIBE prints it: see [`WRITTEN_DEPTH_MAX`].
    pub(crate) fn written_depth(&self) -> usize {
        let is_in_frozen = !self.is_native() && !self.is_multi_cell();
        let inner = self.parts().map(Self::written_depth).max();
        1 + usize::from(is_in_frozen) + inner.unwrap_or(0)
    }

    /// Returns the number of types in this type, this one included.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Udt { definition, .. } => definition.nodes().saturating_add(1),
            other => other
                .parts()
                .fold(1, |sum: usize, t| sum.saturating_add(t.nodes())),
        }
    }

    /// Returns the types directly below this one, except for the fields of user-defined types.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        let (one, two, many): (Option<&Self>, Option<&Self>, &[Self]) = match self {
            Self::List { element, .. } | Self::Set { element, .. } => (Some(element), None, &[]),
            Self::Map { key, value, .. } => (Some(key), Some(value), &[]),
            Self::Tuple(types) => (None, None, types),
            _ => (None, None, &[]),
        };
        one.into_iter().chain(two).chain(many)
    }

    /// Returns the types of the components of a tuple, or of the fields of a user-defined type. Other
    /// types have none.
    pub(crate) fn components(&self) -> impl Iterator<Item = &Self> {
        let (types, fields): (&[Self], &[(Arc<str>, Self)]) = match self {
            Self::Tuple(types) => (types, &[]),
            Self::Udt { definition, .. } => (&[], definition.fields()),
            _ => (&[], &[]),
        };
        types.iter().chain(fields.iter().map(|(_, ty)| ty))
    }

    /// Checks the type against CQL's rules and against [`DEPTH_MAX`] and [`NODES_MAX`].
    ///
    /// # Errors
    /// For a type that exceeds these bounds. Cassandra's messages for counters and durations where
    /// CQL does not allow them, and for collections and user-defined types that are not frozen
    /// inside of others.
    pub fn check(&self) -> Result<(), TypeError> {
        self.check_bounds()?;
        self.check_rules()
    }

    /// Checks a type that a statement gives to a column or field. DESCRIBE prints types in full
    /// (`frozen<list<list<int>>>` as `frozen<list<frozen<list<int>>>>`), and the printed type must
    /// be valid in a statement too. This check does not apply to types of stored records, because
    /// earlier versions accepted deeper ones.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check), and one for a type whose text nests too deep.
    pub fn check_new(&self) -> Result<(), TypeError> {
        self.check()?;
        let depth = self.written_depth();
        if depth > WRITTEN_DEPTH_MAX {
            return Err(TypeError::new(format!(
                "A type may nest {WRITTEN_DEPTH_MAX} levels deep at most. With the frozen<> that \
                 DESCRIBE prints around each type in a frozen one, this one has {depth}: use fewer \
                 levels, or a user-defined type for the inner ones"
            )));
        }
        Ok(())
    }

    pub(super) fn check_bounds(&self) -> Result<(), TypeError> {
        if self.depth() > DEPTH_MAX {
            return Err(TypeError::new(format!(
                "A type may nest {DEPTH_MAX} deep at most, frozen<> not counted"
            )));
        }
        if self.nodes() > NODES_MAX {
            return Err(TypeError::new(format!(
                "A type may be made of {NODES_MAX} types at most"
            )));
        }
        Ok(())
    }

    fn check_rules(&self) -> Result<(), TypeError> {
        let refuse = |what: &str| Err(TypeError::new(format!("{what}: {self}")));
        if self.parts().any(|t| *t == Self::Counter) {
            return refuse(match self {
                Self::Tuple(_) => "Counters are not allowed inside tuples",
                _ => "Counters are not allowed inside collections",
            });
        }
        match self {
            Self::Set { element, .. } if **element == Self::Duration => {
                return refuse("Durations are not allowed inside sets");
            }
            Self::Map { key, .. } if **key == Self::Duration => {
                return refuse("Durations are not allowed as map keys");
            }
            Self::Udt {
                definition,
                frozen: false,
            } if definition.fields().iter().any(|(_, t)| t.is_multi_cell()) => {
                return Err(TypeError::new(
                    "Non-frozen UDTs with nested non-frozen collections are not supported",
                ));
            }
            _ => {}
        }
        if let Some(inner) = self.parts().find(|t| t.is_multi_cell()) {
            return refuse(match inner {
                Self::Udt { .. } => "Non-frozen UDTs are not allowed inside collections",
                _ => "Non-frozen collections are not allowed inside collections",
            });
        }
        self.parts().try_for_each(Self::check_rules)
    }
}
