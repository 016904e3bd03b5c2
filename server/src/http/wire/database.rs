//! The database as a whole, as JSON: its statistics, its verification, and its backups.

use ebb_storage::{Db, Stats, VerifyReport};
use ebb_tables::{Unreadable, unreadable_objects};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::memory::MemoryLimits;

/// The statistics of a database, and the parts of its schema that cannot be read.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StatsReport {
    /// The statistics of the store.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub stats: Stats,
    /// The tables, roles and other objects whose records cannot be read. The CQL server refuses to use them.
    #[schema(value_type = Vec<Object>)]
    pub unreadable: Vec<Unreadable>,
    /// The error that kept the schema from being read; absent if the schema was read. With such an error,
    /// `unreadable` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_not_read: Option<String>,
    /// The limits on the memory of the server; absent if the server has none, or if the statistics do not come
    /// from a running server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimits>,
}

impl StatsReport {
    /// Returns the statistics of `db`, without memory limits. Reads the schema of each table in each
    /// snapshot.
    pub fn of(db: &Db) -> Self {
        let stats = db.stats();
        let unreadable = unreadable_objects(db);
        Self {
            stats,
            schema_not_read: unreadable.as_ref().err().map(ToString::to_string),
            unreadable: unreadable.unwrap_or_default(),
            memory: None,
        }
    }
}

/// The damage in the files of a database, and the parts of its schema that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifiedDatabase {
    /// The damage in the files.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub files: VerifyReport,
    /// The tables, roles and other objects whose records a server cannot read.
    #[schema(value_type = Vec<Object>)]
    pub unreadable: Vec<Unreadable>,
    /// The error that kept the schema from being read while files are damaged; absent if the schema was read.
    /// With such an error, `unreadable` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_not_read: Option<String>,
}

impl VerifiedDatabase {
    /// Creates the report from the damage in the files and the unreadable objects. If those objects could not
    /// be listed and files are damaged, the error of `unreadable` becomes a part of the report.
    ///
    /// # Errors
    /// The error of `unreadable`, if no file is damaged.
    pub fn new<E: ToString>(
        files: VerifyReport,
        unreadable: Result<Vec<Unreadable>, E>,
    ) -> Result<Self, E> {
        let (unreadable, schema_not_read) = match unreadable {
            Ok(unreadable) => (unreadable, None),
            Err(error) if !files.findings.is_empty() => (Vec::new(), Some(error.to_string())),
            Err(error) => return Err(error),
        };
        Ok(Self {
            files,
            unreadable,
            schema_not_read,
        })
    }
}

/// A request to rewrite the damaged files of a table without the data that is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptedLoss {
    /// The value of `token` in the list of lost data: the client accepts exactly the loss in that list.
    pub token: String,
}

/// The folder of a backup. A request must have either `name` or `directory`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupPlace {
    /// The name of a folder below the folder for backups: letters, digits, `_`, `-` and `.`, with
    /// no `.` first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_-][A-Za-z0-9_.-]*$"
    )]
    pub name: Option<String>,
    /// The absolute path of the backup's folder on the server's machine. A request over the network may only
    /// use folders below the folder for backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}
