//! One role, and its stored record: JSON, whose field `format` is checked first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::owned_snapshot::OwnedSnapshot;
use super::permission::{Permission, PermissionSet};
use super::resource::Resource;
use crate::schema::{SchemaError, read_record};

/// The number of the record format. This version of ebb reads and writes no other format.
const FORMAT: u32 = 1;

/// A role. Its name is the key of [`Roles`](super::Roles).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Role {
    /// A random id from the role's creation. A later role of the same name has another id.
    pub id: u64,
    /// True if the role may do everything.
    pub is_superuser: bool,
    /// True if the role may log in.
    pub can_login: bool,
    /// The hash that verifies the password; without one the role cannot log in by password. Never
    /// printed.
    pub password_hash: Option<String>,
    /// The roles that were granted to this role.
    pub member_of: BTreeSet<String>,
    /// The role's own permissions; none of the sets is empty.
    pub permissions: BTreeMap<Resource, PermissionSet>,
    /// The identities in certificates that log a client in as this role. Each identity belongs to
    /// at most one role.
    pub identities: BTreeSet<String>,
    /// The maximal number of snapshots created by the role that may exist at once; `None` for no
    /// limit.
    pub snapshots_max: Option<u32>,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role")
            .field("is_superuser", &self.is_superuser)
            .field("can_login", &self.can_login)
            .field("member_of", &self.member_of)
            .field("permissions", &self.permissions)
            .field("identities", &self.identities)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    id: u64,
    superuser: bool,
    login: bool,
    password_hash: Option<String>,
    member_of: BTreeSet<String>,
    /// The role's permissions as keywords, by the paths of their resources.
    permissions: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    identities: BTreeSet<String>,
    snapshots_max: Option<u32>,
    /// Earlier versions listed the snapshots of the role here. Now each has a record of its own, so
    /// that a new snapshot does not write all the others again.
    #[serde(default, skip_serializing)]
    snapshots: Vec<OwnedSnapshot>,
}

impl Role {
    /// Encodes the role's record.
    pub fn encode(&self) -> Vec<u8> {
        let permissions = self.permissions.iter().map(|(resource, set)| {
            let words = set.iter().map(|permission| permission.word().to_owned());
            (resource.path(), words.collect())
        });
        let record = Record {
            format: FORMAT,
            id: self.id,
            superuser: self.is_superuser,
            login: self.can_login,
            password_hash: self.password_hash.clone(),
            member_of: self.member_of.clone(),
            permissions: permissions.collect(),
            identities: self.identities.clone(),
            snapshots_max: self.snapshots_max,
            snapshots: Vec::new(),
        };
        serde_json::to_vec(&record).expect("plain values")
    }

    /// Decodes a role's record. Returns the role, and the snapshots that a record of an earlier
    /// version lists.
    ///
    /// # Errors
    /// [`SchemaError::Record`] if the record is damaged or has a format that this version does not
    /// support.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<OwnedSnapshot>), SchemaError> {
        let record: Record = read_record(bytes, FORMAT)?;
        let permissions = record.permissions.iter().map(|(path, words)| {
            let unknown = |what: &str| SchemaError::Record(format!("{what} is unknown"));
            let resource = Resource::from_path(path).ok_or_else(|| unknown(path))?;
            let permission =
                |word: &String| Permission::from_word(word).ok_or_else(|| unknown(word));
            let set: PermissionSet = words.iter().map(permission).collect::<Result<_, _>>()?;
            Ok((resource, set))
        });
        let role = Self {
            permissions: permissions.collect::<Result<_, SchemaError>>()?,
            id: record.id,
            is_superuser: record.superuser,
            can_login: record.login,
            password_hash: record.password_hash,
            member_of: record.member_of,
            identities: record.identities,
            snapshots_max: record.snapshots_max,
        };
        Ok((role, record.snapshots))
    }
}
