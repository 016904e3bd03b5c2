//! Progress of a backup, a verification or a repair.

use std::ops::ControlFlow;

/// The progress of a backup, a verification or a repair, for a progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceProgress {
    /// Bytes that have been processed; never falls.
    pub bytes_done: u64,
    /// The estimated total of bytes; at least `bytes_done`. May grow while the
    /// work goes on.
    pub bytes_total: u64,
}

/// The callback that a backup or a verification calls with its progress after each piece of a file.
/// It may wait, and it ends the work by returning `Break`.
pub(super) type Step<'s> = &'s mut dyn FnMut(MaintenanceProgress) -> ControlFlow<()>;
