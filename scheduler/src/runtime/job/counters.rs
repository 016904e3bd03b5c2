//! Counters of a job, over its successful attempts.

use serde::{Deserialize, Serialize};

/// Totals over the successful attempts of a job, one for each task, and the numbers of its failed,
/// retried and speculative attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Counters {
    /// Records read by maps.
    pub map_input_records: u64,
    /// Key and value bytes read by maps.
    pub map_input_bytes: u64,
    /// Records that maps emitted for reduces, before combining; 0 in a job without reduces.
    pub map_output_records: u64,
    /// Key and value bytes that maps emitted for reduces, before combining; 0 in a job without
    /// reduces.
    pub map_output_bytes: u64,
    /// Number of times that maps whose output did not fit into the buffer wrote the buffer to disk;
    /// the last part of such an output counts, too. A map whose output fits adds 0.
    pub spills: u64,
    /// Records that maps wrote to disk for reduces. A record counts again each time that a merge
    /// writes it.
    pub spilled_records: u64,
    /// Compressed bytes that maps wrote to disk for reduces, plus those that merges wrote.
    pub spilled_bytes: u64,
    /// CPU time of sorting, spilling and merging, in nanoseconds.
    pub shuffle_cpu_ns: u64,
    /// Peak memory of the buffers of one attempt, in bytes.
    pub memory_bytes_max: u64,
    /// The number of keys that were reduced.
    pub reduce_groups: u64,
    /// Records read by reduces.
    pub reduce_input_records: u64,
    /// Key and value bytes read by reduces.
    pub reduce_input_bytes: u64,
    /// Rows written to the output.
    pub output_records: u64,
    /// Key and value bytes written to the output.
    pub output_bytes: u64,
    /// The number of tasks that succeeded.
    pub tasks_done: u64,
    /// The number of attempts that failed.
    pub attempts_failed: u64,
    /// The number of failed attempts after which the task was tried again.
    pub tasks_retried: u64,
    /// The number of second attempts that were started beside slow first ones.
    pub speculative_attempts: u64,
}

impl Counters {
    /// Returns the counters that are sums: all but the peak memory, which is a maximum.
    fn sums(&mut self) -> [&mut u64; 17] {
        // A pattern with all fields, so that the compiler finds one that was forgotten.
        let Self {
            map_input_records,
            map_input_bytes,
            map_output_records,
            map_output_bytes,
            spills,
            spilled_records,
            spilled_bytes,
            shuffle_cpu_ns,
            memory_bytes_max: _,
            reduce_groups,
            reduce_input_records,
            reduce_input_bytes,
            output_records,
            output_bytes,
            tasks_done,
            attempts_failed,
            tasks_retried,
            speculative_attempts,
        } = self;
        [
            map_input_records,
            map_input_bytes,
            map_output_records,
            map_output_bytes,
            spills,
            spilled_records,
            spilled_bytes,
            shuffle_cpu_ns,
            reduce_groups,
            reduce_input_records,
            reduce_input_bytes,
            output_records,
            output_bytes,
            tasks_done,
            attempts_failed,
            tasks_retried,
            speculative_attempts,
        ]
    }

    pub(in crate::runtime) fn are_below(mut self, limit: u64) -> bool {
        self.memory_bytes_max < limit && self.sums().into_iter().all(|sum| *sum < limit)
    }

    /// Adds the counters of another attempt.
    pub fn add(&mut self, other: &Self) {
        self.memory_bytes_max = self.memory_bytes_max.max(other.memory_bytes_max);
        let mut other = *other;
        for (sum, more) in self.sums().into_iter().zip(other.sums()) {
            *sum += *more;
        }
    }
}
