//! The line of the log about the start: version, addresses, limits, and the bytes of the replayed log.

use std::net::SocketAddr;
use std::time::Duration;

use ebb_server::memory::MemoryLimits;
use ebb_storage::Db;
use tracing::info;

use super::descriptors::DescriptorBudget;
use super::log_levels::SERVER;
use super::reopenings::Reopenings;
use super::settings::Settings;

/// Logs the start of a server at these addresses. Opening its database took the time `opened_in`. The line has
/// the number of `reopenings` if a failed write has led to this start.
pub(super) fn log(
    db: &Db,
    settings: &Settings,
    (descriptors, memory): (&DescriptorBudget, &MemoryLimits),
    (cql, http): (SocketAddr, Option<SocketAddr>),
    opened_in: Duration,
    reopenings: &Reopenings,
) {
    let reopenings = reopenings.count();
    let stats = db.stats();
    let tables = stats.tables.iter().filter(|table| !table.dropped).count();
    info!(
        target: SERVER,
        version = env!("CARGO_PKG_VERSION"),
        cql = %cql,
        http = http.map(|http| http.to_string()),
        data = %settings.data.display(),
        connections_max = descriptors.cql,
        open_files_max = descriptors.limit,
        memory_bytes_max = memory.all_bytes,
        store_bytes_max = memory.store_bytes,
        memtable_bytes_max = stats.memtable_bytes_max,
        cache_bytes_max = stats.cache_bytes_max,
        requests_bytes_max = memory.requests_bytes,
        results_bytes_max = memory.results_bytes,
        statements_bytes_max = memory.statements_bytes,
        jobs_bytes_max = memory.jobs_bytes,
        analytics_floor_cores = settings.analytics_floor,
        tables,
        wal_bytes_replayed = stats.wal_bytes_replayed,
        opened_ms = opened_in.as_millis() as u64,
        reopenings = (reopenings > 0).then_some(reopenings),
        "started"
    );
}
