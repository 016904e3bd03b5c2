//! The JSON bodies of requests and responses.

mod database;
mod rows;
mod settings;
mod snapshots;
mod tables;

use ebb_jobs::history::{JobAttempt, ProfileRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::JobView;

pub use self::database::{AcceptedLoss, BackupPlace, StatsReport, VerifiedDatabase};
pub use self::rows::{GetRequest, Octets, RowPage, RowView, ScanRequest};
pub use self::settings::{Configuration, SettingSource, SettingView};
pub(super) use self::snapshots::time_to_come;
pub use self::snapshots::{SnapshotList, SnapshotRenewal, SnapshotRequest, SnapshotView};
pub use self::tables::{BookmarkView, MergeView, RunView, TableList, TableSummary, TableView};

/// A page of the list of jobs, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    /// The jobs of this page, with at most 2 MiB of JSON if it has several.
    pub jobs: Vec<JobView>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A page of the attempts at the tasks of a job, in the order in which they ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AttemptList {
    /// The attempts of this page.
    pub attempts: Vec<JobAttempt>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A page of the profiles of applications, ordered by application and job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProfileList {
    /// The profiles of this page.
    pub profiles: Vec<ProfileRecord>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// The response to a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// Whether the job will stop. False if it is too late, because the job's output is being put in place or
    /// its end is being recorded.
    pub stopping: bool,
}

/// A role of CQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleView {
    /// The name of the role.
    pub name: String,
    /// The id of the role, 16 hexadecimal digits. A role that is created again under the same name
    /// has another id.
    pub id: String,
    /// Whether the role may log in. Otherwise the tokens of the role are invalid.
    pub can_login: bool,
    /// Whether the role has all permissions.
    pub is_superuser: bool,
}

/// A page of the roles of CQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoleList {
    /// The roles of this page, ordered by name.
    pub roles: Vec<RoleView>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}

/// A page of the names of a database's keyspaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Keyspaces {
    /// The names of this page, in order.
    pub keyspaces: Vec<String>,
    /// The value of `after` for the next page; `null` on the last one.
    pub next: Option<String>,
}
