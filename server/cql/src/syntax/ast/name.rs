//! Names, and names in a keyspace.

/// The name of a keyspace, table, column, type, field, function, index, snapshot or role, in the
/// form in which names are compared: names without quotes in small letters, quoted names unchanged.
///
/// Any text is possible, also the empty one: the syntax does not restrict the names of tables. The
/// name `ks@s` of a keyspace at a snapshot is a single name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Creates a name. `name` must have the form in which names are compared: small letters, unless
    /// the name was quoted.
    pub fn new(name: impl Into<String>) -> Self {
        Name(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Name::new(name)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

/// `ks.name`, or `name` in the keyspace in use: a table, type, function, aggregate,
/// index or view.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// The keyspace, if one is named.
    pub keyspace: Option<Name>,
    pub name: Name,
}

impl From<Name> for QualifiedName {
    fn from(name: Name) -> Self {
        QualifiedName {
            keyspace: None,
            name,
        }
    }
}
