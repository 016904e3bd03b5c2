//! How far a backup, a verification or a repair has come.

/// How far a backup, a verification or a repair has come, for who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceProgress {
    /// Bytes that are dealt with; never falls.
    pub bytes_done: u64,
    /// Bytes there are, as far as is known; at least those done. May grow.
    pub bytes_total: u64,
}
