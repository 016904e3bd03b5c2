//! What may be done.

use std::fmt;

/// What may be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    /// Making keyspaces, tables, types; or roles.
    Create,
    /// Changing what they are.
    Alter,
    /// Removing them.
    Drop,
    /// Reading rows.
    Select,
    /// Writing and removing rows.
    Modify,
    /// Granting and revoking permissions, or roles.
    Authorize,
    /// Listing all roles.
    Describe,
    /// Calling functions, of which there are none that it could be granted on.
    Execute,
    /// Creating and dropping snapshots: ebb's own. Reading one takes SELECT.
    Snapshot,
}

impl Permission {
    /// All, in Cassandra's order.
    pub const ALL: [Self; 9] = [
        Self::Create,
        Self::Alter,
        Self::Drop,
        Self::Select,
        Self::Modify,
        Self::Authorize,
        Self::Describe,
        Self::Execute,
        Self::Snapshot,
    ];

    /// The word of statements.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Alter => "ALTER",
            Self::Drop => "DROP",
            Self::Select => "SELECT",
            Self::Modify => "MODIFY",
            Self::Authorize => "AUTHORIZE",
            Self::Describe => "DESCRIBE",
            Self::Execute => "EXECUTE",
            Self::Snapshot => "SNAPSHOT",
        }
    }

    /// The one of this word, in capitals.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Some permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PermissionSet(u16);

impl PermissionSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self::of(&Permission::ALL);

    /// These.
    pub const fn of(permissions: &[Permission]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < permissions.len() {
            bits |= 1 << permissions[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this is one of them.
    pub fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u16) != 0
    }

    /// Those of either.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in the other.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Each, in the order of [`Permission::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        let all = Permission::ALL.into_iter();
        all.filter(move |permission| self.contains(*permission))
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(all: I) -> Self {
        let add = |set: Self, one| set.union(Self::of(&[one]));
        all.into_iter().fold(Self::NONE, add)
    }
}

impl fmt::Debug for PermissionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
