//! The memory that all attempts of all jobs together may hold.
//!
//! An attempt reserves a task's memory when it is claimed, and releases it when its thread is done
//! with it. Stopping an attempt, or leaving it behind, frees nothing: as long as its thread runs,
//! it holds its memory.

use crate::runtime::options::RuntimeOptions;

/// The memory that attempts have reserved, as a number of attempts, and its limits.
#[derive(Debug)]
pub(in crate::runtime) struct MemoryBudget {
    task_bytes: u64,
    /// The limit in the options; `None` for no limit.
    limit_bytes: Option<u64>,
    /// The limit of the present control cycle; `None` for no limit beyond the options.
    left_bytes: Option<u64>,
    attempts: u32,
    /// The most attempts that held memory at once since the last call of `take_peak_bytes`.
    attempts_peak: u32,
    /// The start of the first control cycle from which on attempts have held more than the limit at
    /// the start of each cycle, in seconds; `None` if they held no more than the limit at the start
    /// of the last cycle.
    exceeded_since_s: Option<f64>,
}

impl Default for MemoryBudget {
    /// Returns a budget without a limit.
    fn default() -> Self {
        Self {
            task_bytes: 1,
            limit_bytes: None,
            left_bytes: None,
            attempts: 0,
            attempts_peak: 0,
            exceeded_since_s: None,
        }
    }
}

impl MemoryBudget {
    pub fn new(options: &RuntimeOptions) -> Self {
        Self {
            task_bytes: (options.task_memory_bytes as u64).max(1),
            limit_bytes: options.memory_bytes,
            ..Self::default()
        }
    }

    /// Starts the control cycle at `now_s`, in seconds, with the limit `left_bytes`; `None` for the
    /// limit in the options.
    pub fn start_cycle(&mut self, left_bytes: Option<u64>, now_s: f64) {
        self.left_bytes = left_bytes;
        let since_s = self.exceeded_since_s.unwrap_or(now_s);
        let is_exceeded = self.attempts > self.attempts_max();
        self.exceeded_since_s = is_exceeded.then_some(since_s);
    }

    /// Returns whether attempts have held more than the limit for at least `for_s` seconds: at the
    /// start of each control cycle in that time.
    pub fn is_exceeded(&self, now_s: f64, for_s: f64) -> bool {
        (self.exceeded_since_s).is_some_and(|since_s| now_s - since_s >= for_s)
    }

    /// Returns the most attempts that may hold memory at once in this cycle, by the lower of the
    /// two limits.
    pub fn attempts_max(&self) -> u32 {
        let bytes = [self.limit_bytes, self.left_bytes];
        let least = bytes.into_iter().flatten().min();
        least.map_or(u32::MAX, |bytes| self.attempts_in(bytes))
    }

    /// Returns the most attempts that may hold memory at once in any cycle, by the limit in the
    /// options alone.
    pub fn attempts_limit(&self) -> u32 {
        self.limit_bytes
            .map_or(u32::MAX, |bytes| self.attempts_in(bytes))
    }

    fn attempts_in(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / self.task_bytes).unwrap_or(u32::MAX)
    }

    /// Returns whether one more attempt fits.
    pub fn has_room(&self) -> bool {
        self.attempts < self.attempts_max()
    }

    /// Reserves memory for an attempt that was claimed.
    pub fn reserve(&mut self) {
        self.attempts += 1;
        self.attempts_peak = self.attempts_peak.max(self.attempts);
    }

    /// Releases the memory of an attempt whose thread is done with it.
    pub fn release(&mut self) {
        debug_assert!(self.attempts > 0, "a release without a reservation");
        self.attempts = self.attempts.saturating_sub(1);
    }

    /// Returns the reserved memory, in bytes.
    pub fn reserved_bytes(&self) -> u64 {
        u64::from(self.attempts) * self.task_bytes
    }

    /// Returns the most memory, in bytes, that was reserved at once since the last call.
    pub fn take_peak_bytes(&mut self) -> u64 {
        let peak = std::mem::replace(&mut self.attempts_peak, self.attempts);
        u64::from(peak) * self.task_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit_bytes: Option<u64>) -> MemoryBudget {
        MemoryBudget {
            task_bytes: 100,
            limit_bytes,
            ..MemoryBudget::default()
        }
    }

    #[test]
    fn the_smaller_of_two_limits_holds_and_only_complete_tasks_count() {
        let mut budget = budget(Some(399));
        assert_eq!((budget.attempts_max(), budget.attempts_limit()), (3, 3));
        budget.start_cycle(Some(250), 0.0);
        assert_eq!((budget.attempts_max(), budget.attempts_limit()), (2, 3));
        budget.start_cycle(Some(99), 0.0);
        assert!(!budget.has_room());
        budget.start_cycle(Some(1_000), 0.0);
        assert_eq!(budget.attempts_max(), 3);
        assert_eq!(self::budget(None).attempts_max(), u32::MAX);
        assert_eq!(self::budget(Some(u64::MAX)).attempts_max(), u32::MAX);
    }

    #[test]
    fn memory_is_reserved_until_it_is_released() {
        let mut budget = budget(Some(200));
        for attempts in [1, 2] {
            assert!(budget.has_room());
            budget.reserve();
            assert_eq!(budget.reserved_bytes(), attempts * 100);
        }
        assert!(!budget.has_room());
        budget.release();
        assert!(budget.has_room());
        assert_eq!(budget.take_peak_bytes(), 200);
        assert_eq!(budget.take_peak_bytes(), 100);
    }

    #[test]
    fn the_limit_counts_as_exceeded_from_the_first_cycle_with_too_many_attempts() {
        let mut budget = budget(None);
        budget.reserve();
        budget.reserve();
        budget.start_cycle(Some(200), 1.0);
        assert!(!budget.is_exceeded(9.0, 0.0), "two attempts just fit");
        budget.start_cycle(Some(100), 2.0);
        assert!(!budget.is_exceeded(2.4, 0.5));
        budget.start_cycle(Some(0), 2.5);
        assert!(budget.is_exceeded(2.5, 0.5));
        budget.release();
        budget.start_cycle(Some(100), 3.0);
        assert!(!budget.is_exceeded(9.0, 0.5));
        budget.start_cycle(Some(0), 4.0);
        assert!(
            !budget.is_exceeded(4.4, 0.5),
            "an earlier excess does not count"
        );
    }
}
