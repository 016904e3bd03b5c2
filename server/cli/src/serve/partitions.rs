//! The log of partitions that are too large.

use std::sync::Arc;

use ebb_cql_server::guardrails::{Guardrails, LargePartition, LargePartitions};
use ebb_tables::Catalog;
use tracing::{error, warn};

use super::line_bound::LineBound;
use super::log_levels::CQL;

/// Logs and counts partitions above the thresholds of `guardrails` from now on.
pub(super) fn watch(guardrails: &Guardrails, catalog: &Arc<Catalog>) -> Arc<LargePartitions> {
    let bound = LineBound::new();
    guardrails.watch_partitions(catalog, move |large| {
        if let Some(left_out) = bound.pass() {
            tell(large, left_out);
        }
    })
}

fn tell(large: &LargePartition, left_out: u64) {
    macro_rules! line {
        ($level:ident) => {
            $level!(
                target: CQL,
                keyspace = large.keyspace,
                table = large.table,
                key = large.key,
                bytes = large.bytes,
                threshold_bytes = large.threshold_bytes,
                left_out,
                "{}",
                large.message
            )
        };
    }
    if large.is_warning {
        line!(warn);
    } else {
        line!(error);
    }
}
