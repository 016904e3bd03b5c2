//! Maintenance of a database: backups, verification, repair and rewriting.

mod backup;
mod damaged;
mod db_files;
mod new_dir;
mod progress;
mod repair;
mod restore;
mod rewrite;
mod space;
mod verify;

pub use backup::{Backup, BackupInfo};
pub(crate) use new_dir::has_database;
pub use progress::MaintenanceProgress;
pub use repair::{Lost, RepairReport, RepairedTable, repair};
pub(crate) use restore::restore;
pub use restore::{RestoreReport, RestoreStep, RestoredFile};
pub use rewrite::{FileLoss, LossReport};
pub(crate) use rewrite::{list_lost, rewrite_damaged};
pub use space::SpaceWatch;
pub(crate) use verify::verify_online;
pub use verify::{Finding, VerifyReport, verify};
