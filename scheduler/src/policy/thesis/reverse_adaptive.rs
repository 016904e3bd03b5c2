//! The Reverse-Adaptive Scheduler of section 5.3: goals and the forecast.

use super::fit::{FitJob, reverse_fit};
use super::placement::{Need, place_by_utility};
use super::utility::reverse_map_utility;
use crate::policy::view::{ClusterView, JobView, Preemption};
use crate::policy::workload::{Workload, required_slots};
use crate::policy::{Decision, Measure, Policy};

/// Fits the work of all jobs before their goals, the latest first, to find the work that cannot
/// wait (the thesis's Algorithm 2). Then gives one slot at a time to the job with the lowest
/// utility (Algorithm 1, with the utility of equations (13) to (15)). The utility of a job depends
/// on two needs:
///
/// - s_fit: the number of tasks that find no room between the coming cycle and the goal, rounded
///   up, given f(t) (the capacity left to analytics) and the goals of all jobs. If there are any,
///   the job's running tasks that keep their slots are added; otherwise s_fit is 0, whatever runs.
///   A job past its goal counts all its tasks.
/// - s_req: the number of slots that would suffice if availability were constant over time.
///
/// Both count until shortly before the goal, because a task that starts just before the goal still
/// has to run. In the thesis this time is k task lengths, with k = 1; here it is one task of each
/// phase still ahead, so a map and a reduce for a job whose reduces are still to come.
///
/// Jobs without a goal take no part in Algorithm 2; placement serves them from the slots that the
/// others leave.
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

/// Sums of floats may give 3.0000000001, which must not be rounded up to 4.
const TASK_EPSILON: f64 = 1e-6;

/// Returns, for each job in the order of the view, the slots that it needs to meet its goal. A job
/// without a goal needs none: its [`Need::s_fit`] and [`Need::s_req`] are 0.
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
                goal_s: view.jobs[index].job.goal_s? - workloads[index].tail_s,
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
        // A part of a task needs a whole slot.
        let new_slots = (now_tasks - TASK_EPSILON).ceil().max(0.0);
        need.s_fit = if goal_s <= view.now_s {
            // No time is left before the goal, so all remaining tasks have to run now.
            cap
        } else if new_slots > 0.0 {
            (new_slots + held_slots(view, &view.jobs[index])).min(cap)
        } else {
            // Running tasks are not a need by themselves: if they counted here, a job would keep the
            // slots that it got while it was alone, at the cost of a job that has just arrived.
            0.0
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

/// Returns the number of the job's running tasks that keep their slots until they end; 0 where tasks
/// can be paused. Counts only the kind of task that gets slots now: maps until all are done, then
/// reduces if they start after the maps.
fn held_slots(view: &ClusterView, job: &JobView) -> f64 {
    match view.preemption {
        Preemption::Never => job.running_of(view.utility_kind(job)).count() as f64,
        Preemption::EveryCycle => 0.0,
    }
}

/// Returns the remaining work of all running tasks, in hundredths of a core times seconds; 0 where
/// tasks can be paused.
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
    use crate::policy::Ras;
    use crate::policy::example::{job, running_map, slots, three_goals, view};
    use crate::policy::view::RunningTask;

    fn running(tasks: u32) -> Vec<RunningTask> {
        (0..tasks)
            .map(|index| running_map(1000 + index, 0, 0.0))
            .collect()
    }

    /// J1, J2 and J3 have 7, 12 and 20 maps of 10 s, and goals at 40, 60 and 100 s, so their last
    /// maps must start by 30, 50 and 90 s. The cycle ends at 10 s. Algorithm 2 goes backwards over
    /// the intervals:
    ///
    /// | interval | room for maps | placed |
    /// | --- | --- | --- |
    /// | 50-90 s | 16 | 16 of J3, which leaves 4 |
    /// | 30-50 s | 8 | the 4 of J3, and 4 of J2, which leaves 8 |
    /// | 10-30 s | 8 | the 8 of J2 |
    ///
    /// So the 7 maps of J1 must start now: s_fit is 7, 0 and 0. The utility of J1 is minus infinity
    /// without a slot, and negative with fewer than seven, so J1 takes seven slots first. Then J2
    /// and J3 get one each and have utilities of 1/4.8 and 1/4.44, so that the tenth slot goes to
    /// J2.
    #[test]
    fn reverse_adaptive_gives_slots_first_to_the_goal_that_cannot_wait() {
        let fit: Vec<f64> = (needs(&view(4, 400.0, three_goals())).iter())
            .map(|need| need.s_fit)
            .collect();
        assert_eq!(fit, [7.0, 0.0, 0.0]);
        let decide = |slots_n| {
            slots(
                &ReverseAdaptive.decide(&view(slots_n, 400.0, three_goals())),
                3,
            )
        };
        assert_eq!(decide(3), [3, 0, 0]);
        assert_eq!(decide(7), [7, 0, 0]);
        assert_eq!(decide(9), [7, 1, 1]);
        assert_eq!(decide(10), [7, 2, 1]);
    }

    /// J1 runs 20 tasks, has 300 more and needs s_req = 15 slots for its goal; J2 has 30 tasks and
    /// needs s_req = 5. No task has to start now, so s_fit, the number of such tasks, is 0 for
    /// both. Each slot raises the utility of J1 (the measure of whether its slots suffice) by 1/30
    /// and that of J2 by 1/10, until both are 1/2, with 15 and 5 slots. Of the five slots left J2
    /// takes one, which adds 1/50, and J1 four, which add 1/610 each. If running tasks counted as
    /// needed, J1 would have had a utility of 0 with 20 slots, and J2 would have got one slot.
    #[test]
    fn running_tasks_are_not_needed_where_no_task_has_to_start() {
        let mut holder = job(1, 0.0, Some(10.0 + 3200.0 / 15.0), 300);
        holder.running = running(20);
        let view = view(25, 2500.0, vec![holder, job(2, 0.0, Some(70.0), 30)]);
        assert_eq!(slots(&ReverseAdaptive.decide(&view), 2), [19, 6]);
        assert_eq!(slots(&Ras.decide(&view), 2), [19, 6]);
    }

    /// Four slots, tasks of 10 s, a goal at 40 s: the last task must start by 30 s. Two tasks run.
    /// They take 20 s of the four slots' 40 s in the cycle, which ends at 10 s, and nothing later.
    /// Between 10 and 30 s there is room for eight tasks, so eight pending tasks can wait. With
    /// nine, one has to start now, beside the two that run.
    #[test]
    fn running_tasks_count_where_more_have_to_start() {
        let s_fit = |maps: u32| {
            let mut one = job(1, 0.0, Some(40.0), maps);
            one.running = running(2);
            needs(&view(4, 400.0, vec![one]))[0].s_fit
        };
        assert_eq!(s_fit(8), 0.0);
        assert_eq!(s_fit(9), 3.0);
    }
}
