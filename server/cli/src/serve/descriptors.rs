//! The budget of file descriptors: which share of the files that the process may open is for SSTables,
//! for connections, and for everything else.

use tracing::{info, warn};

use super::log_levels::SERVER;
use crate::open_files::RAISE_LIMIT;

/// The greatest number of connections for CQL if the settings name none.
const CQL_DEFAULT: u32 = 20_000;
/// The number of files reserved for uses other than SSTables and connections: the log, the manifest, merges,
/// spilled runs, health checks, `/proc` and child processes. One more file is reserved for each thread,
/// because a thread may use a file that the shares do not count, such as an SSTable that the cache is about
/// to close. Merges of spilled runs may open more files than that, but read fewer runs at once where no more
/// files can be opened.
const RESERVE: u32 = 64;

/// The shares of a limit of open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DescriptorBudget {
    /// The number of files that the process may have open.
    pub(super) limit: u32,
    reserve: u32,
    /// The greatest number of SSTables that are open at once.
    pub(super) tables: u32,
    /// The greatest number of connections to the port for CQL.
    pub(super) cql: u32,
    /// The greatest number of connections to the port for HTTP. The same number of files is
    /// reserved, in addition, for connections to the socket for jobs.
    pub(super) http: u32,
}

impl DescriptorBudget {
    /// Divides `limit` for a server with `threads` threads. `cql_max` is the greatest number of
    /// connections for CQL by the settings, if they name one.
    ///
    /// SSTables get three eighths of the files. In an embedded store they get half, but half would
    /// leave fewer than 500 files for connections if the limit is 1,024, a common one. HTTP gets as
    /// much of the rest as still leaves these. Half of its connections may be event streams, and
    /// each open console has one.
    pub(super) fn of(limit: u32, threads: u32, cql_max: Option<u32>) -> Self {
        let tables = (limit / 8 * 3).clamp(16, 1 << 20);
        let reserve = RESERVE.saturating_add(threads).min(limit / 4);
        let rest = limit.saturating_sub(tables).saturating_sub(reserve);
        let http = (rest / 16).clamp(4, 512);
        let left = rest.saturating_sub(2 * http).max(1);
        Self {
            limit,
            reserve,
            tables,
            cql: cql_max.unwrap_or(CQL_DEFAULT).min(left),
            http,
        }
    }

    /// Logs how many of the files that may be open are for tables, for connections and for other
    /// uses. Warns if this leaves fewer connections for CQL than `cql_max`, the number in the
    /// settings.
    pub(super) fn log(&self, cql_max: Option<u32>) {
        let Self {
            limit,
            reserve,
            tables,
            cql,
            http,
        } = *self;
        info!(
            target: SERVER,
            "open files: of {limit} at most {tables} are SSTables, {cql} are connections for CQL, \
             {http} each are connections to HTTP and jobs.sock, and {reserve} are others"
        );
        if let Some(asked) = cql_max.filter(|&asked| asked > cql) {
            warn!(
                target: SERVER,
                "connections-max is {asked}, but of {limit} open files {cql} may be connections \
                 for CQL; {RAISE_LIMIT}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_no_more_than_the_limit() {
        for limit in (64..4096).chain([20_000, 1 << 20, u32::MAX]) {
            let budget = DescriptorBudget::of(limit, 16, Some(u32::MAX));
            let shares = [budget.tables, budget.reserve, budget.cql, budget.http];
            let sum: u64 = shares.into_iter().map(u64::from).sum();
            let sum = sum + u64::from(budget.http);
            assert!(sum <= u64::from(limit), "{budget:?}");
        }
        assert_eq!(DescriptorBudget::of(0, 16, None).cql, 1);
    }

    #[test]
    fn a_limit_of_1024_leaves_500_connections_and_fewer_can_be_set() {
        let cql = |limit, cql_max| DescriptorBudget::of(limit, 4, cql_max).cql;
        assert!(cql(1024, None) >= 500);
        assert_eq!(cql(1024, Some(20_000)), cql(1024, None));
        assert_eq!(cql(1024, Some(7)), 7);
        assert_eq!(cql(1 << 20, None), CQL_DEFAULT);
        assert_eq!(cql(1 << 20, Some(50_000)), 50_000);
    }
}
