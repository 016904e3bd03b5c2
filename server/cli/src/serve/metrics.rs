//! The metrics of the CQL server, of the logs and of the process, for the node's `/metrics`.

use std::fmt;
use std::sync::Arc;

use ebb_cql_server::guardrails::LargePartitions;
use ebb_cql_server::serve::Counters;
use ebb_server::memory::MemoryLimits;
use ebb_server::metrics::{REQUEST_BOUNDS_S, STAGE_BOUNDS_S, latency_buckets};
use procfs::ProcResult;
use procfs::process::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::audit::AuditLogs;
use super::log::DroppedLines;
use crate::open_files;

/// The counters of the CQL server and of the logs. The node adds the prefix `ebb_` to their names.
#[derive(Debug)]
pub(super) struct CqlCollector {
    pub(super) counters: Counters,
    pub(super) large_partitions: Arc<LargePartitions>,
    pub(super) dropped_lines: DroppedLines,
    pub(super) audit: AuditLogs,
}

impl Collector for CqlCollector {
    /// Encodes the metrics. The encoder adds `_total` to the names of counters. No unit is passed, because
    /// the encoder would add it to names that contain it already.
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
                "Requests rejected with the error OVERLOADED because they had waited too long; \
                 cql_errors counts those for lack of memory, too",
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
            (
                "audit_entries_lost",
                "Entries of the audit log that could not be written",
                self.audit.changes.lost(),
            ),
            (
                "audit_write_entries_lost",
                "Entries of the audit log of writes that were dropped or could not be written",
                // 0 without the log of writes, which is optional.
                self.audit.writes.as_ref().map_or(0, |log| log.lost()),
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        let (name, help) = ("cql_requests", "Requests received, by their opcode");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (opcode, count) in self.counters.requests() {
            let labels = [("opcode", opcode)];
            let mut one = metric.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        let (name, help) = ("cql_errors", "Errors that clients got, by their code");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (code, count) in self.counters.errors() {
            let labels = [("code", format!("0x{code:04X}"))];
            let mut one = metric.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        let name = "cql_scan_duration_seconds";
        let help =
            "Latencies of pages of scans (lane scan) and of reads without a partition (range)";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (lane, counts) in self.counters.scans() {
            let (sum_s, buckets) = latency_buckets(&counts, &REQUEST_BOUNDS_S);
            let labels = [("lane", lane)];
            let mut one = metric.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(sum_s, counts.total(), &buckets, None)?;
        }
        // `None` unless the setting `stage-latencies` is on.
        if let Some(stages) = self.counters.stages() {
            let name = "cql_stage_duration_seconds";
            let help = "Latencies of point requests by stage: queued, executed, sent";
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (stage, counts) in stages {
                let (sum_s, buckets) = latency_buckets(&counts, &STAGE_BOUNDS_S);
                let labels = [("stage", stage)];
                let mut one = metric.encode_family(&labels)?;
                one.encode_histogram::<NoLabelSet>(sum_s, counts.total(), &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// The limits on the memory of the server. The node adds the prefix `ebb_` to the name.
#[derive(Debug)]
pub(super) struct MemoryCollector(pub(super) MemoryLimits);

impl Collector for MemoryCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("memory_limit_bytes", "Limits on memory, by its use");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (part, bytes) in self.0.parts() {
            let labels = [("part", part)];
            metric
                .encode_family(&labels)?
                .encode_gauge(&(bytes as f64))?;
        }
        Ok(())
    }
}

/// The time at which a failed write last made the server open its database again. The node adds the prefix
/// `ebb_` to the name. No other metric shows this for long: the process and its start time stay the same.
#[derive(Debug)]
pub(super) struct ReopeningCollector {
    /// Seconds since the boot of the machine; `None` if no failed write has led to this start.
    pub(super) last_s: Option<u64>,
}

impl Collector for ReopeningCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let last_unix_s = match self.last_s {
            None => 0,
            // Without a descriptor the system gives no figure. The other metrics are of use then, too.
            Some(last_s) => match procfs::boot_time_secs() {
                Ok(boot_s) => boot_s + last_s,
                Err(_) => return Ok(()),
            },
        };
        encoder
            .encode_descriptor(
                "last_reopening_timestamp_seconds",
                "The time at which a failed write last made the server open its database again; 0 if none \
                 has led to this start",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&(last_unix_s as f64))
    }
}

/// The metrics of this process, such as its CPU time, under the names that the client libraries of
/// Prometheus use.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = || {
            let process = Process::myself()?;
            let (stat, files) = (process.stat()?, process.fd_count()?);
            ProcResult::Ok((stat, files, procfs::boot_time_secs()?))
        };
        // Without a descriptor the system gives no figures. The other metrics are of use then, too.
        let Ok((stat, files, boot_s)) = read() else {
            return Ok(());
        };
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        let (name, help) = ("process_cpu_seconds", "CPU time in user and system mode");
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&seconds(stat.utime + stat.stime), None)?;
        let resident_bytes = (stat.rss * procfs::page_size()) as f64;
        let started_s = boot_s as f64 + seconds(stat.starttime);
        let files_max = f64::from(open_files::limit());
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory",
                resident_bytes,
            ),
            ("process_open_fds", "Open file descriptors", files as f64),
            (
                "process_max_fds",
                "File descriptors that may be open",
                files_max,
            ),
            (
                "process_start_time_seconds",
                "Time of the start since 1970",
                started_s,
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn last_reopening_unix_s(last_s: Option<u64>) -> f64 {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ReopeningCollector { last_s }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let name = "\nlast_reopening_timestamp_seconds ";
        let (_, rest) = text.split_once(name).expect(&text);
        rest.lines().next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_time_of_a_reopening_counts_from_1970() {
        assert_eq!(last_reopening_unix_s(None), 0.0);
        // The machine was booted after September 2020.
        assert!(last_reopening_unix_s(Some(100)) > 1.6e9);
    }
}
