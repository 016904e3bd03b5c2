//! Permissions, and sets of them.

use std::fmt;

/// An operation on a resource that a role can be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    /// Creating keyspaces, tables and types, or, as a permission on roles, creating roles.
    Create,
    /// Altering keyspaces, tables and types, or, as a permission on roles, altering roles.
    Alter,
    /// Dropping keyspaces, tables and types, or, as a permission on roles, dropping roles.
    Drop,
    /// Reading rows.
    Select,
    /// Writing and removing rows.
    Modify,
    /// Granting and revoking permissions on a resource, or, as a permission on roles, granting and
    /// revoking these roles.
    Authorize,
    /// Listing all roles.
    Describe,
    /// Calling functions. It cannot be granted, because ebb has no user-defined functions.
    Execute,
    /// Creating and dropping snapshots, a permission that Cassandra does not have. Reading a snapshot
    /// requires SELECT.
    Snapshot,
}

impl Permission {
    /// All permissions: those of Cassandra in its order, then SNAPSHOT.
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

    /// Returns the keyword of the permission in statements.
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

    /// Returns the permission with this keyword, in capitals; `None` if there is none.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PermissionSet(u16);

impl PermissionSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The set of all permissions.
    pub const ALL: Self = Self::of(&Permission::ALL);

    /// Returns the set of these permissions.
    pub const fn of(permissions: &[Permission]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < permissions.len() {
            bits |= 1 << permissions[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether `permission` is in the set.
    pub fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u16) != 0
    }

    /// Returns the permissions in either set.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the permissions in both sets.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the permissions of this set that are not in `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns each permission, in the order of [`Permission::ALL`].
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
