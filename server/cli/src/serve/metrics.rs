//! The metrics of the CQL server and of the log, for the node's `/metrics`.

use std::fmt;
use std::sync::Arc;

use ebb_cql_server::guardrails::LargePartitions;
use ebb_cql_server::serve::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::log::DroppedLines;

/// The counters of the CQL server and of the log. The node adds the prefix `ebb_` to their names.
#[derive(Debug)]
pub(super) struct CqlCollector {
    pub(super) counters: Counters,
    pub(super) large_partitions: Arc<LargePartitions>,
    pub(super) dropped_lines: DroppedLines,
}

impl Collector for CqlCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.counters.counts();
        encoder
            .encode_descriptor(
                "cql_connections",
                "Open CQL connections",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&counts.connections)?;
        for (name, help, value) in [
            (
                "cql_connections_refused",
                "Connections closed at once because there were too many",
                counts.connections_refused,
            ),
            (
                "cql_requests_refused",
                "Requests rejected with the error OVERLOADED",
                counts.requests_refused,
            ),
            (
                "cql_passwords_verified",
                "Passwords verified, each at the cost of about 20 ms of a core",
                counts.passwords_verified,
            ),
            (
                "cql_logins_failed",
                "Logins with a wrong password",
                counts.logins_failed,
            ),
            (
                "cql_logins_refused",
                "Logins rejected because their address had tried too many wrong passwords",
                counts.logins_refused,
            ),
            (
                "cql_partition_size_warnings",
                "Partitions written above partition_size_warn_threshold, each time by a flush or \
                 merge",
                self.large_partitions.warnings(),
            ),
            (
                "cql_partition_size_failures",
                "Partitions written above partition_size_fail_threshold, each time by a flush or \
                 merge",
                self.large_partitions.failures(),
            ),
            (
                "log_lines_dropped",
                "Lines of the log dropped because more came than could be written",
                self.dropped_lines.count(),
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }
}
