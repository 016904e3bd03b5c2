//! The Reverse-Adaptive Scheduler of section 5.3: goals and the forecast.

use super::fit::{FitJob, reverse_fit};
use super::placement::{Need, place_by_utility};
use super::utility::reverse_map_utility;
use crate::policy::view::{ClusterView, JobView, Preemption};
use crate::policy::workload::{Workload, required_slots};
use crate::policy::{Decision, Measure, Policy};

/// Algorithm 2 for what cannot wait (s_fit), then Algorithm 1 with the utility
/// of equations (13)-(15).
///
/// - s_fit: tasks that find no room between the coming cycle and the goals,
///   given f(t) and everyone else's goals, rounded up, plus running tasks that
///   hold their slots. All tasks of a job past its goal.
/// - s_req: the slots that would do if availability were even over time.
///
/// Jobs without a goal take no part in Algorithm 2; placement serves them from
/// what the others leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseAdaptive;

impl Policy for ReverseAdaptive {
    fn name(&self) -> &'static str {
        "reverse-adaptive"
    }

    fn measure(&self) -> Measure {
        Measure::Resources
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        place_by_utility(view, &needs(view), |need, slots| {
            reverse_map_utility(slots, need.s_fit, need.s_req, f64::from(need.workload.left))
        })
    }
}

/// Rounding up must not turn 3.0000000001, an artefact of summing, into 4.
const TASK_EPSILON: f64 = 1e-6;

pub(in crate::policy) fn needs(view: &ClusterView) -> Vec<Need> {
    let workloads: Vec<Workload> = view
        .jobs
        .iter()
        .map(|job| Workload::of(view, job))
        .collect();
    let mut order: Vec<usize> = (0..view.jobs.len()).collect();
    // Algorithm 2 breaks ties between equal goals by position.
    order.sort_by_key(|&index| view.jobs[index].job.id);
    let fit_jobs: Vec<FitJob> = (order.iter())
        .filter_map(|&index| {
            Some(FitJob {
                goal_s: view.jobs[index].job.goal_s?,
                pending_tasks: workloads[index].unplaced_tasks,
                task_work: workloads[index].task_work,
            })
        })
        .collect();
    let fit = reverse_fit(
        view.now_s,
        view.cycle_s,
        &view.availability,
        running_work(view),
        &fit_jobs,
    );
    let mut now_tasks = fit.now_tasks.into_iter();

    let mut needs: Vec<Need> = (workloads.iter())
        .map(|&workload| Need {
            workload,
            s_fit: 0.0,
            s_req: 0.0,
        })
        .collect();
    for index in order {
        let Some(goal_s) = view.jobs[index].job.goal_s else {
            continue;
        };
        let now_tasks = now_tasks.next().expect("one result per job with a goal");
        let need = &mut needs[index];
        let cap = f64::from(need.workload.left);
        let slots =
            (now_tasks - TASK_EPSILON).ceil().max(0.0) + held_slots(view, &view.jobs[index]);
        need.s_fit = if goal_s <= view.now_s {
            cap
        } else {
            slots.min(cap)
        };
        need.s_req = required_slots(
            need.workload.work_s(),
            goal_s,
            need.workload.tail_s,
            view.now_s,
            cap,
        );
    }
    needs
}

/// Running tasks that keep their slots, of the kind placed by utility.
fn held_slots(view: &ClusterView, job: &JobView) -> f64 {
    match view.preemption {
        Preemption::Never => job.running_of(view.utility_kind(job)).count() as f64,
        Preemption::EveryCycle => 0.0,
    }
}

/// What tasks that keep their slots still need, in hundredths times seconds.
fn running_work(view: &ClusterView) -> f64 {
    if view.preemption == Preemption::EveryCycle {
        return 0.0;
    }
    (view.jobs.iter())
        .flat_map(|job| {
            job.running.iter().map(|task| {
                let remaining_s = job.remaining_s(task, job.profile.map.task_s, view.now_s);
                remaining_s * f64::from(job.profile.demand(task.phase).cpu_hundredths)
            })
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NodeId, Phase};
    use crate::policy::Ras;
    use crate::policy::example::{job, slots, three_goals, view};
    use crate::policy::view::RunningTask;

    /// s_fit = 3, 0, 0 as in the walk by hand. J1 climbs from minus infinity to 0
    /// with three slots; then all stand at 0 and the earliest goal takes the fourth
    /// (u = 1/4). With more room J2 and J3 follow: u = 1/4.8 and 1/4.44, so a seventh
    /// goes to J2.
    #[test]
    fn reverse_adaptive_gives_what_cannot_wait_to_the_first_goal() {
        let decide = |slots_n| {
            slots(
                &ReverseAdaptive.decide(&view(slots_n, 400.0, three_goals())),
                3,
            )
        };
        assert_eq!(decide(3), [3, 0, 0]);
        assert_eq!(decide(4), [4, 0, 0]);
        assert_eq!(decide(6), [4, 1, 1]);
        assert_eq!(decide(7), [4, 2, 1]);
    }

    /// J1 runs 20 tasks, has 300 more and s_req = 15; J2 has 30 and s_req = 5; nothing
    /// has to start now. J1 stands at 0 with 20 slots and climbs by 1/300, J2 by 1/10
    /// from its first slot on: of the five that are free J1 takes four. RAS, for which
    /// J1 holds more than it needs, gives J2 what it lacks.
    #[test]
    fn what_runs_counts_as_what_is_needed() {
        let mut holder = job(1, 0.0, Some(10.0 + 3200.0 / 15.0), 300);
        holder.running = (0..20)
            .map(|index| RunningTask {
                index,
                node: NodeId(0),
                phase: Phase::Map,
                since_s: 0.0,
            })
            .collect();
        let view = view(25, 2500.0, vec![holder, job(2, 0.0, Some(70.0), 30)]);
        assert_eq!(slots(&ReverseAdaptive.decide(&view), 2), [24, 1]);
        assert_eq!(slots(&Ras.decide(&view), 2), [19, 6]);
    }
}
