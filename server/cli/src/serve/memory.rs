//! The memory of the server: the settings' budget, and the limits that follow from it.

use ebb_colocate::MemoryMonitor;
use ebb_cql_server::serve::ServeOptions;
use ebb_scheduler::runtime::RuntimeOptions;
use ebb_server::memory::MemoryLimits;
use indicatif::HumanBytes;
use tracing::warn;

use super::log_levels::SERVER;
use super::settings::Settings;

/// Divides the memory of the server. If a request may have fewer bytes than the settings allow,
/// because the memory is too small, logs a warning.
pub(super) fn limits(settings: &Settings) -> MemoryLimits {
    let limits = settings.memory_limits(MemoryMonitor::start().total_bytes());
    let asked = settings.request_bytes_max.as_u64();
    let fits = limits.request_bytes_max();
    if asked > fits {
        let (asked, fits, all) = (
            HumanBytes(asked),
            HumanBytes(fits),
            HumanBytes(limits.all_bytes),
        );
        warn!(
            target: SERVER,
            "request-bytes-max is {asked}, but requests longer than {fits}, 1/32 of the memory of \
             {all}, are rejected: give more --memory, or lower --request-bytes-max"
        );
    }
    limits
}

pub(super) fn limit_jobs(runtime: &mut RuntimeOptions, limits: &MemoryLimits) {
    let task_bytes = runtime
        .task_memory_bytes
        .min(limits.task_bytes(runtime.cores));
    runtime.task_memory_bytes = task_bytes;
    // The runtime refuses options whose memory has no room for one task.
    runtime.memory_bytes = Some(limits.jobs_bytes.max(task_bytes as u64));
}

/// Returns the options of a server of CQL with these limits on requests, results and statements.
pub(super) fn limited(settings: &Settings, limits: &MemoryLimits) -> ServeOptions {
    let body_bytes_max = settings.request_bytes_max.as_u64();
    ServeOptions {
        body_bytes_max: body_bytes_max.min(limits.request_bytes_max()) as usize,
        request_bytes_max: (limits.requests_bytes / 2) as usize,
        lane_result_bytes_max: limits.results_bytes as usize,
        statement_bytes_max: limits.statements_bytes as usize,
        ..ServeOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;
    use ebb_cql_server::read::Limits;

    use super::*;

    fn settings(memory: ByteSize) -> Settings {
        Settings {
            memory: Some(memory),
            ..Settings::default()
        }
    }

    #[test]
    fn a_large_budget_changes_no_limit_of_cql() {
        let settings = settings(ByteSize::gib(4));
        let limits = settings.memory_limits(None);
        let (limited, default) = (limited(&settings, &limits), ServeOptions::default());
        assert_eq!(limited.body_bytes_max, default.body_bytes_max);
        assert_eq!(limited.request_bytes_max, default.request_bytes_max);
        assert_eq!(limited.lane_result_bytes_max, default.lane_result_bytes_max);
        assert_eq!(limited.statement_bytes_max, default.statement_bytes_max);
        let result_bytes = Limits::default().result_bytes as u64;
        assert_eq!(limits.result_bytes_max(), result_bytes);
    }

    #[test]
    fn a_small_budget_limits_requests_and_the_tasks_of_jobs() {
        let settings = settings(ByteSize::mib(64));
        let limits = settings.memory_limits(None);
        let limited = limited(&settings, &limits);
        assert_eq!(limited.body_bytes_max, 2 << 20);
        assert_eq!(limited.request_bytes_max, 4 << 20);
        let mut runtime = RuntimeOptions::new(2);
        limit_jobs(&mut runtime, &limits);
        assert_eq!(runtime.task_memory_bytes, 2 << 20);
        assert_eq!(runtime.memory_bytes, Some(4 << 20));
        let mut runtime = RuntimeOptions::new(1 << 20);
        limit_jobs(&mut runtime, &limits);
        assert!(runtime.memory_bytes >= Some(runtime.task_memory_bytes as u64));
    }
}
