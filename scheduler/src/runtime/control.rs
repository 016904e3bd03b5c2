//! The "ebb-control" thread, which turns jobs into shares once per control cycle.
//!
//! It claims tasks that the new shares can run. Where such tasks find no memory, it preempts
//! attempts of other jobs, and the thread of an attempt that ends claims the task.
//!
//! Capacity, view, policy and shares are computed outside the lock; the thread takes the lock to
//! read the jobs before, and to set the shares after. A submission, the end of a phase and the end
//! of a job each start a cycle at once.
//!
//! Policy and capacity source are the user's code. If one of them panics there is no plan. An old
//! plan would hide the failure, so the jobs fail with the cause, and the thread goes on for later
//! jobs.

use super::capacity::{Capacity, CapacityRequest};
use super::job_entry::Assignment;
use super::options::Management;
use super::panics::catch;
use super::schedule::live_view::{LiveJob, Slot, live_view};
use super::schedule::shares::{Claimant, concurrency, floor_concurrency, shares};
use super::state::{Shared, State};
use super::worker;
use crate::availability::Availability;
use crate::model::JobId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The least time between the starts of two cycles. It limits the cost of many short leases: each
/// one requests a cycle.
const CYCLES_APART: Duration = Duration::from_millis(1);

/// Runs the control cycles until a shutdown is requested and every job has ended.
pub(super) fn run(shared: &Arc<Shared>) {
    let mut began: Option<Instant> = None;
    while wait_for_cycle(shared) {
        if let Some(rest) = began.and_then(|began| CYCLES_APART.checked_sub(began.elapsed())) {
            thread::park_timeout(rest);
        }
        began = Some(Instant::now());
        for assignment in cycle(shared) {
            worker::spawn(shared, assignment);
        }
        reap(shared);
    }
    // Threads that were left behind are not in `workers`.
    let workers = std::mem::take(&mut shared.lock().workers);
    for worker in workers.into_values() {
        // A worker catches the panics of its tasks, so the result has nothing to add.
        let _ = worker.join();
    }
}

/// Waits until the next cycle is due: after the length of a cycle, or earlier if a thread requests
/// one. Returns false if the runtime shuts down and no job is left.
fn wait_for_cycle(shared: &Shared) -> bool {
    let state = shared.lock();
    let cycle = Duration::from_secs_f64(shared.options.cycle_s);
    let waited = shared
        .kick
        .wait_timeout_while(state, cycle, |state| !state.kicked);
    let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
    state.kicked = false;
    !(state.shutting_down && state.jobs.is_empty())
}

fn cycle(shared: &Shared) -> Vec<Assignment> {
    let options = &shared.options;
    let now_s = shared.clock.now_s();
    shared.watch(now_s);
    let newest = JobId(shared.lock().last_id);
    let plan = plan(shared, now_s).unwrap_or_else(|cause| {
        shared.fail_up_to(newest, &cause);
        Plan::default()
    });

    let mut state = shared.lock();
    state.capacity_hundredths = plan.capacity_hundredths;
    state.forecast = plan.forecast;
    state.memory.start_cycle(plan.memory_bytes, now_s);
    // Set before the shares: threads that wait for a share continue in this class.
    let is_on_floor = shared.class_of_tasks.set_on_floor(plan.is_on_floor);
    state.floor_since_s = is_on_floor.then(|| state.floor_since_s.unwrap_or(now_s));
    for (id, job) in &mut state.jobs {
        job.set_share(plan.shares.get(id).copied().unwrap_or(0), now_s);
        job.concurrency = if is_on_floor {
            floor_concurrency(job.share_hundredths)
        } else {
            concurrency(job.share_hundredths, job.cores(options.cores))
        };
    }
    state.sample(now_s);
    let claimed = claim_all(shared, &mut state);
    let preempted = match options.management {
        Management::Managed => state.preempt(now_s, options.cycle_s),
        // Without shares no job has a claim to the memory of another one.
        Management::Unmanaged => Vec::new(),
    };
    drop(state);
    for job in preempted {
        job.give_up_memory();
    }
    claimed
}

/// The planned capacity and shares of a control cycle. The default plan, which grants nothing,
/// applies if the policy or the capacity source panics.
#[derive(Default)]
struct Plan {
    capacity_hundredths: u32,
    /// The limit for the memory of all attempts, in bytes, if it is less than
    /// `RuntimeOptions::memory_bytes`; `None` if it is not.
    memory_bytes: Option<u64>,
    /// True if tasks run on the floor (in the ordinary class, with a high nice value), not in the
    /// idle class; false if the runtime does not limit jobs to a capacity.
    is_on_floor: bool,
    /// The forecast f(t) of the capacity; `None` if the runtime does not limit jobs to a capacity
    /// ([`Management::Unmanaged`]).
    forecast: Option<Arc<Availability>>,
    /// The shares of jobs, in hundredths of a core; empty if the runtime does not limit jobs to a
    /// capacity.
    shares: BTreeMap<JobId, u32>,
}

/// Returns the plan for the cycle that starts at `now_s`. If the policy or the capacity source
/// panics, returns an error that names the one that panicked, with the text of the panic.
fn plan(shared: &Shared, now_s: f64) -> Result<Plan, String> {
    let options = &shared.options;
    let held_bytes = shared.lock().held_bytes();
    let request = CapacityRequest {
        now_s,
        held_bytes,
        needed_hundredths: shared.needed_hundredths(now_s),
    };
    let mut capacity = catch(|| options.capacity.capacity(request))
        .map_err(|message| format!("the capacity source panicked: {message}"))?;
    let cores_hundredths = options.cores.saturating_mul(100);
    capacity.cpu_hundredths = capacity.cpu_hundredths.min(cores_hundredths);
    let mut plan = Plan {
        capacity_hundredths: capacity.cpu_hundredths,
        ..Plan::default()
    };
    if options.management == Management::Managed {
        shared.reads.set_rate(capacity.read_bytes_per_s, now_s);
        plan.memory_bytes = capacity.memory_bytes;
        plan.is_on_floor = capacity.is_on_floor;
        plan.forecast = Some(Arc::clone(&capacity.forecast));
        plan.shares = managed_shares(shared, now_s, capacity)?;
    }
    Ok(plan)
}

fn managed_shares(
    shared: &Shared,
    now_s: f64,
    capacity: Capacity,
) -> Result<BTreeMap<JobId, u32>, String> {
    let options = &shared.options;
    let capacity_hundredths = capacity.cpu_hundredths;
    let slot_hundredths = options.slot_share_hundredths;
    let live = (shared.lock().jobs.values())
        .filter_map(|job| Some((job.tracker.live()?, job.cores(options.cores))))
        .collect::<Vec<_>>();
    let (live, cores): (Vec<LiveJob>, Vec<u32>) = live.into_iter().unzip();
    let view = live_view(
        (now_s, options.cycle_s),
        options.planned_margin(),
        Slot::new(slot_hundredths),
        capacity_hundredths,
        capacity.forecast,
        &live,
    );
    let decided = catch(|| options.policy.decide(&view).placement);
    let placement = decided.map_err(|message| {
        let policy = catch(|| options.policy.name()).unwrap_or("without a name");
        format!("the policy {policy} panicked: {message}")
    })?;
    let claimants: Vec<Claimant> = (live.iter().zip(&cores))
        .map(|(job, &cores)| {
            let runnable_tasks = job.runnable_tasks().min(cores);
            let speculative = if options.speculation {
                job.speculative
            } else {
                0
            };
            Claimant {
                job: job.job,
                slots: placement.slots(job.job.id),
                runnable_tasks,
                speculative: speculative.min(cores - runnable_tasks),
            }
        })
        .collect();
    Ok(shares(capacity_hundredths, slot_hundredths, &claimants)
        .into_iter()
        .collect())
}

fn claim_all(shared: &Shared, state: &mut State) -> Vec<Assignment> {
    // Read anew, after the start of the cycle: a job may have ended since.
    let now_s = shared.clock.now_s();
    let mut claimed = std::mem::take(&mut state.commits);
    claimed.extend(std::iter::from_fn(|| state.claim(&shared.options, now_s)));
    claimed
}

/// Joins worker threads that have ended.
fn reap(shared: &Shared) {
    let finished: Vec<_> = shared
        .lock()
        .workers
        .extract_if(.., |_, worker| worker.is_finished())
        .collect();
    for (_, worker) in finished {
        let _ = worker.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{ForecastEdf, Policy, ReverseAdaptive};
    use crate::runtime::RuntimeOptions;

    #[test]
    fn only_a_just_in_time_policy_plans_with_earlier_goals() {
        let margin = |policy: Arc<dyn Policy>| {
            let options = RuntimeOptions {
                policy,
                goal_margin: 0.2,
                ..RuntimeOptions::new(2)
            };
            options.planned_margin()
        };
        assert_eq!(margin(Arc::new(ReverseAdaptive)), 0.2);
        assert_eq!(margin(Arc::new(ForecastEdf)), 0.0);
    }
}
