//! The division of a server's memory: one budget, with a part for each use.
//!
//! ```text
//!   --memory, or a quarter ─► MemoryLimits ─┬─► store: memtables, cache, open tables
//!   of the machine's memory                 ├─► requests, results, prepared statements
//!                                           └─► jobs: the records of their tasks
//! ```
//!
//! A server with much memory has fixed limits on requests, results and statements. With less memory,
//! the limits are shares of it: the server then rejects a large request or result, where the kernel
//! would kill the process.

use ebb_scheduler::runtime::TASK_MEMORY_BYTES_MIN;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The memory budget, in bytes, of a server whose settings have none, on a machine whose memory
/// size is unknown.
const UNKNOWN_BYTES: u64 = 1 << 30;
/// The least memory budget, in bytes, of a server whose settings have none.
const DEFAULT_BYTES_MIN: u64 = 64 << 20;

/// The most memory, in bytes, for CQL requests that are received in part. The same limit applies to
/// requests that wait for their execution. A server with a larger budget does not get more. The
/// limit is only raised for a large `request_bytes_max`, to the length of two such requests.
const HALF_OF_REQUESTS_BYTES_MAX: u64 = 128 << 20;
/// The most memory, in bytes, for results of CQL that wait for their clients. One result may have
/// 8/11 of it: 256 MiB, the limit of the protocol on the length of a message.
const RESULTS_BYTES_MAX: u64 = 352 << 20;
const STATEMENTS_BYTES_MAX: u64 = 64 << 20;

/// The limits on the memory of a server, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryLimits {
    /// The whole budget for the memory of the server.
    pub all_bytes: u64,
    /// The limit on memtables, the cache, and open tables.
    pub store_bytes: u64,
    /// The limit on requests of CQL: half of it is for those that are received in part, and half for those
    /// that wait for their execution.
    pub requests_bytes: u64,
    /// The limit on results of CQL that wait for their clients.
    pub results_bytes: u64,
    /// The limit on the memory of all prepared statements together.
    pub statements_bytes: u64,
    /// The limit on the memory in which the tasks of all jobs hold key-value records.
    pub jobs_bytes: u64,
}

impl MemoryLimits {
    /// Returns the budget of a server whose settings have none: a quarter of `machine_bytes`, or 1 GiB if the
    /// memory of the machine is unknown. The budget is at least 64 MiB, and at least twice `memtables_bytes`,
    /// the limit on memtables.
    pub fn default_bytes(machine_bytes: Option<u64>, memtables_bytes: u64) -> u64 {
        let quarter = machine_bytes.map_or(UNKNOWN_BYTES, |bytes| bytes / 4);
        let memtables = memtables_bytes.saturating_mul(2);
        quarter.max(DEFAULT_BYTES_MIN).max(memtables)
    }

    /// Divides a budget. The parts have room for requests of `request_bytes_max`, if that is at most 1/32 of
    /// the budget. The store gets at least 21/32 of the budget.
    pub fn of(all_bytes: u64, request_bytes_max: u64) -> Self {
        let share = |part: u64, most: u64| (all_bytes / part).min(most);
        let half_bytes_max = HALF_OF_REQUESTS_BYTES_MAX.max(request_bytes_max.saturating_mul(2));
        let requests_bytes = share(8, half_bytes_max.saturating_mul(2));
        let results_bytes = share(8, RESULTS_BYTES_MAX);
        let statements_bytes = share(32, STATEMENTS_BYTES_MAX);
        let jobs_bytes = all_bytes / 16;
        let others = requests_bytes + results_bytes + statements_bytes + jobs_bytes;
        Self {
            all_bytes,
            store_bytes: all_bytes - others,
            requests_bytes,
            results_bytes,
            statements_bytes,
            jobs_bytes,
        }
    }

    /// Returns the parts of the budget: the name and the bytes of each.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("store", self.store_bytes),
            ("requests", self.requests_bytes),
            ("results", self.results_bytes),
            ("statements", self.statements_bytes),
            ("jobs", self.jobs_bytes),
        ]
    }

    /// Returns the greatest length of a request, in bytes. Half of the memory of requests is for those that
    /// are received in part, and half for those that wait. Two requests of this length fit into each half.
    pub fn request_bytes_max(&self) -> u64 {
        self.requests_bytes / 4
    }

    /// Returns the greatest size of the cells of a result: 8/11 of the memory of results. A quarter of that
    /// memory is reserved for results of at most a page, which must not wait for large ones. 1/44 is for the
    /// bytes of a response around its cells.
    pub fn result_bytes_max(&self) -> u64 {
        self.results_bytes / 11 * 8
    }

    /// Returns the memory, in bytes, that one task of a job may use when each of `cores` cores runs one, but
    /// not less than [`TASK_MEMORY_BYTES_MIN`].
    pub fn task_bytes(&self, cores: u32) -> usize {
        let bytes = self.jobs_bytes / u64::from(cores.max(1));
        usize::try_from(bytes).map_or(usize::MAX, |bytes| bytes.max(TASK_MEMORY_BYTES_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn parts_shrink_with_the_budget_and_never_exceed_it() {
        let limits = |all_mib: u64| MemoryLimits::of(all_mib * MIB, 16 * MIB);
        for (all, [store, requests, results, statements, jobs]) in [
            (16, [10752, 2048, 2048, 512, 1024]),
            (256, [172_032, 32_768, 32_768, 8192, 16_384]),
            (1024, [688_128, 131_072, 131_072, 32_768, 65_536]),
            (8192, [7_176_192, 262_144, 360_448, 65_536, 524_288]),
        ] {
            let expected: [(&str, u64); 5] = [
                ("store", store << 10),
                ("requests", requests << 10),
                ("results", results << 10),
                ("statements", statements << 10),
                ("jobs", jobs << 10),
            ];
            assert_eq!(limits(all).parts(), expected, "{all} MiB");
        }
        for bytes in [0, 1, 31, 16 * MIB + 7, 3 << 40, u64::MAX] {
            let limits = MemoryLimits::of(bytes, 256 * MIB);
            let sum: u64 = limits.parts().iter().map(|(_, part)| part).sum();
            assert_eq!(sum, bytes);
            assert!(limits.store_bytes >= bytes / 32 * 21);
        }
    }

    #[test]
    fn requests_results_and_tasks_are_as_long_as_fits() {
        let limits = |all_mib: u64, request_mib| MemoryLimits::of(all_mib * MIB, request_mib * MIB);
        assert_eq!(limits(512, 16).request_bytes_max(), 16 * MIB);
        assert_eq!(limits(64, 16).request_bytes_max(), 2 * MIB);
        assert_eq!(limits(16_384, 256).request_bytes_max(), 256 * MIB);
        assert_eq!(limits(8192, 16).result_bytes_max(), 256 * MIB);
        assert_eq!(limits(1024, 16).task_bytes(4), 16 << 20);
        assert_eq!(limits(64, 16).task_bytes(4), 1 << 20);
        assert_eq!(limits(16, 16).task_bytes(1024), TASK_MEMORY_BYTES_MIN);
        assert_eq!(limits(16, 16).task_bytes(0), 1 << 20);
    }

    #[test]
    fn the_default_is_a_quarter_of_the_machine_with_room_for_memtables() {
        assert_eq!(MemoryLimits::default_bytes(Some(8 << 30), 0), 2 << 30);
        assert_eq!(MemoryLimits::default_bytes(Some(100 * MIB), 0), 64 * MIB);
        assert_eq!(MemoryLimits::default_bytes(None, 0), 1 << 30);
        for memtables in [512 * MIB, 5 << 30] {
            let all = MemoryLimits::default_bytes(Some(1 << 30), memtables);
            assert!(MemoryLimits::of(all, 256 * MIB).store_bytes > memtables);
        }
    }
}
