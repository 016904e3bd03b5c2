//! A run: the state that its threads share, its start and end, and the sum of their counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use ebb_threads::thread_cpu;

use super::idle_class::enter_idle_class;
use super::plan::{Operations, Plan};
use super::records::Records;
use super::tally::Tally;
use crate::threads::value_of;
use crate::ycsb::Sentinels;

/// The delay before a run starts, so that all threads exist by then.
const START_AFTER: Duration = Duration::from_millis(5);

/// The state that the threads of a run share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub plan: &'a Plan,
    pub records: &'a Records,
    /// The record that a load writes next.
    pub next_load: AtomicU64,
    pub start: Instant,
    pub threads: usize,
    issued: AtomicU64,
    failed: AtomicBool,
}

impl Shared<'_> {
    /// Returns whether the run is over at `now`, so that no further operation may begin.
    pub(super) fn is_over_at(&self, now: Instant) -> bool {
        let lasted = now.saturating_duration_since(self.start);
        self.plan.stop.load(Ordering::Relaxed)
            || self.failed.load(Ordering::Relaxed)
            || (self.plan.duration).is_some_and(|duration| lasted >= duration)
    }

    /// Counts an operation that is about to begin. Returns false if the plan allows no more
    /// operations: then the operation must not begin.
    pub(super) fn begins(&self) -> bool {
        let before = self.issued.fetch_add(1, Ordering::Relaxed);
        self.plan.operations_max.is_none_or(|max| before < max)
    }

    /// Returns the number of calls of [`begins`](Self::begins): the operations that have begun, and
    /// those that the plan did not allow.
    pub(super) fn issued(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }
}

/// Ends the run for all threads when dropped, unless the thread that owns this value has succeeded.
struct Ending<'a> {
    failed: &'a AtomicBool,
    is_well: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.is_well {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// Calls `work` with each of `parts` and its number, in a thread of its own. Adds up the tallies
/// that the calls return, and the CPU times of the threads. If the plan leaves out pauses, drops
/// the latencies of operations that were due while the machine paused.
///
/// # Errors
/// The error of a thread, which also ends the other threads; if several fail, that of the first one
/// in `parts`. A panic also ends the other threads, and continues in the caller.
pub(super) fn run<P: Send>(
    plan: &Plan,
    records: &Records,
    parts: impl ExactSizeIterator<Item = P>,
    work: impl Fn(&Shared<'_>, usize, P) -> Result<Tally> + Sync,
) -> Result<Tally> {
    // Posted before the run begins, because the first time takes a second.
    let sentinels = if plan.leave_out_pauses {
        Sentinels::post()?
    } else {
        None
    };
    let first = match &plan.operations {
        Operations::Load(numbers) => numbers.start,
        Operations::Run(..) => 0,
    };
    let shared = Shared {
        plan,
        records,
        next_load: AtomicU64::new(first),
        start: Instant::now() + START_AFTER,
        threads: parts.len(),
        issued: AtomicU64::new(0),
        failed: AtomicBool::new(false),
    };
    let in_thread = |index, part| {
        let mut ending = Ending {
            failed: &shared.failed,
            is_well: false,
        };
        // An error, here or below, leaves `is_well` false, so that the run ends for all threads.
        if plan.idle_class {
            enter_idle_class()?;
        }
        let mut tally = work(&shared, index, part)?;
        // The thread did nothing before the run, so all of its CPU time is the run's.
        tally.cpu += thread_cpu();
        ending.is_well = true;
        Ok(tally)
    };
    let in_thread = &in_thread;
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let threads: Vec<_> = (parts.enumerate())
            .map(|(index, part)| scope.spawn(move || in_thread(index, part)))
            .collect();
        let threads = threads.into_iter();
        threads.map(|thread| value_of(thread.join())).collect()
    });
    // All threads have ended by now, those that an error of another one stopped too.
    let mut sum = Tally::default();
    for tally in tallies {
        sum.add(&tally?);
    }
    // Also without sentinels, which the system may not permit: until this call the latencies are in a
    // list, and in no histogram.
    if plan.leave_out_pauses {
        let pauses = sentinels.map(Sentinels::end);
        let counts_from = shared.start + plan.lead;
        sum.leave_out(pauses.as_ref(), counts_from, shared.start + sum.elapsed);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use ebb_test_support::wait::until;

    use super::*;

    /// Runs a client with two threads: one executes `end`, and the other one runs until the run is
    /// over. Returns the result of the run.
    fn beside_an_endless_one(end: fn() -> Result<Tally>) -> Result<Tally> {
        let plan = Plan::new(Operations::Load(0..0));
        let records = Records::new(0, None, 0);
        let endless = |_: &Shared<'_>| Ok(None);
        let ending = move |_: &Shared<'_>| end().map(Some);
        type Part<'a> = &'a (dyn Fn(&Shared<'_>) -> Result<Option<Tally>> + Sync);
        let parts: [Part<'_>; 2] = [&endless, &ending];
        run(&plan, &records, parts.into_iter(), |shared, _, part| {
            if let Some(tally) = part(shared)? {
                return Ok(tally);
            }
            until("the other thread to end the run", || {
                shared.is_over_at(shared.start)
            });
            Ok(Tally::default())
        })
    }

    #[test]
    fn a_thread_that_fails_ends_the_others() {
        let ran = beside_an_endless_one(|| bail!("on purpose"));
        assert_eq!(ran.unwrap_err().to_string(), "on purpose");
    }

    #[test]
    fn a_thread_that_panics_ends_the_others() {
        let ran = std::panic::catch_unwind(|| beside_an_endless_one(|| panic!("on purpose")));
        let panic = ran.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    }

    #[test]
    fn threads_begin_as_many_operations_as_the_plan_has_and_are_summed_up() {
        let plan = Plan {
            operations_max: Some(1000),
            ..Plan::new(Operations::Load(0..0))
        };
        let records = Records::new(0, None, 0);
        let sum = run(&plan, &records, 0..3, |shared, index, part| {
            assert_eq!((index, shared.threads), (part, 3));
            let mut tally = Tally::default();
            while shared.begins() {
                tally.operations += 1;
            }
            Ok(tally)
        });
        let sum = sum.unwrap();
        assert_eq!(sum.operations, 1000);
        assert!(sum.cpu > Duration::ZERO);
    }
}
