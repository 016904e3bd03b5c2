//! One role, and the bytes that are stored of it: JSON whose `format` is looked at first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::permission::{Permission, PermissionSet};
use super::resource::Resource;
use crate::schema::{SchemaError, read_record};

/// The format that is written, and the only one that is read.
const FORMAT: u32 = 1;

/// A role. Its name is with whoever holds it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Role {
    /// Drawn when it is created: another role of the same name is another one.
    pub id: u64,
    /// It may do everything.
    pub is_superuser: bool,
    /// It may log in.
    pub can_login: bool,
    /// What its password is verified with; it cannot log in without. Never shown.
    pub password_hash: Option<String>,
    /// The roles that were granted to it.
    pub member_of: BTreeSet<String>,
    /// Its own permissions; none of them is empty.
    pub permissions: BTreeMap<Resource, PermissionSet>,
    /// The identities in certificates that log a client in as this role. No other role has one of
    /// them.
    pub identities: BTreeSet<String>,
    /// How many snapshots that it created may be there at once.
    pub snapshots_max: Option<u32>,
    /// Snapshots that it created. Some may be gone.
    pub snapshots: Vec<OwnedSnapshot>,
}

/// A snapshot that a role created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedSnapshot {
    /// What it is of.
    pub keyspace: String,
    /// Its name there.
    pub name: String,
    /// The commit at which it stands: a later one of this name is another.
    pub seq: u64,
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
    /// By paths of resources, words.
    permissions: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    identities: BTreeSet<String>,
    snapshots_max: Option<u32>,
    snapshots: Vec<OwnedSnapshot>,
}

impl Role {
    /// What is stored.
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
            snapshots: self.snapshots.clone(),
        };
        serde_json::to_vec(&record).expect("plain values")
    }

    /// From what is stored.
    ///
    /// # Errors
    /// [`SchemaError::Record`] when it is damaged, or of a format that this version does not
    /// know.
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        let record: Record = read_record(bytes, FORMAT)?;
        let permissions = record.permissions.iter().map(|(path, words)| {
            let unknown = |what: &str| SchemaError::Record(format!("{what} is unknown"));
            let resource = Resource::from_path(path).ok_or_else(|| unknown(path))?;
            let permission =
                |word: &String| Permission::from_word(word).ok_or_else(|| unknown(word));
            let set: PermissionSet = words.iter().map(permission).collect::<Result<_, _>>()?;
            Ok((resource, set))
        });
        Ok(Self {
            permissions: permissions.collect::<Result<_, SchemaError>>()?,
            id: record.id,
            is_superuser: record.superuser,
            can_login: record.login,
            password_hash: record.password_hash,
            member_of: record.member_of,
            identities: record.identities,
            snapshots_max: record.snapshots_max,
            snapshots: record.snapshots,
        })
    }
}
