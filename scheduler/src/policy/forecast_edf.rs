//! Earliest deadline first among the jobs that the forecast can save.

use super::draft::{Draft, Scope};
use super::given_up::{PlannedJob, plan_given_up};
use super::on_time::{DueWork, KeptJob, Load, RoomUntil, keep_on_time};
use super::view::{ClusterView, Preemption, ReduceStart};
use super::workload::Workload;
use super::{Decision, Measure, Policy, Refill};
use crate::model::TaskKind;

/// Serves the jobs that can meet their goals, the earliest goal first. In each control cycle, plans
/// anew against the forecast of the capacity left to analytics, f(t):
///
/// 1. *Keep* the most jobs (by weight) that can meet their goals together: Moore and Hodgson's rule
///    over the forecast capacity f(t); see `on_time`.
/// 2. *Measure* jobs that were given up only because of an estimate, and whose goal is still ahead:
///    start one map of each, while these maps take at most [`PROBING_MAX`] of the CPU.
/// 3. Give slots to the kept jobs, the earliest goal first, as many as each can use. Jobs that were
///    given up come in between, where the kept jobs have time to spare; see `given_up`. Then come
///    jobs without a goal, the oldest first, and last the given-up jobs that the kept jobs have no
///    time for. A job that was given up is kept again as soon as there is room for it.
/// 4. Where tasks cannot be paused, a task takes its node until it ends, and the next job to arrive
///    may have to start at once. So a part of the nodes ([`RESERVE`]) stays idle unless the goals
///    need it, that is, unless some work would be late if it started one task length later. And
///    given-up jobs start tasks only while at most [`GIVEN_UP_MAX`] of the CPU is taken by them and
///    the jobs before them; jobs that are still unmeasured are exempt.
///
/// Maps go to idle nodes with their input as far as there are such nodes. Maps of kept jobs, and of
/// the given-up jobs that come in between, wait for such a node, for up to
/// [`DELAYS_MAX`](super::DELAYS_MAX) cycles, unless the goals need them now. Maps of the jobs behind
/// all kept ones do not wait.
///
/// This policy is not from the thesis. Moore and Hodgson's rule is from J. M. Moore, *An n job, one
/// machine sequencing algorithm for minimizing the number of late jobs*, 1968.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForecastEdf;

/// Part of the CPU that stays idle as long as no goal needs it, for jobs that may arrive and have
/// to start at once. Where tasks can be paused, nothing is reserved. Chosen together with
/// `GIVEN_UP_MAX` among 0, 0.05, 0.1, 0.2 and 0.3 on seeds 1001 and 1002 of the scenarios of the
/// thesis's figure 5.21.
pub const RESERVE: f64 = 0.1;

/// Jobs that were given up start tasks only while at most this part of the CPU is taken by them and
/// the jobs before them. Exempt are jobs whose task lengths are not measured yet, and all jobs
/// where tasks can be paused. Chosen among 0, 0.3, 0.4, 0.5 and 0.8: a smaller part delays these
/// jobs, a larger part makes other jobs miss their goals.
pub const GIVEN_UP_MAX: f64 = 0.4;

impl Policy for ForecastEdf {
    fn name(&self) -> &'static str {
        "forecast-edf"
    }

    fn measure(&self) -> Measure {
        Measure::Resources
    }

    fn finishes_just_in_time(&self) -> bool {
        false
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let workloads = Workload::all(view);
        let room = RoomUntil::of(view);
        let due_work = (workloads.iter().enumerate())
            .filter_map(|(index, workload)| DueWork::of(view, index, workload));
        let kept = keep_on_time(&room, due_work.collect());
        let mut is_kept = vec![false; view.jobs.len()];
        for kept in &kept {
            is_kept[kept.due.job] = true;
        }

        let all_hundredths: f64 = (view.nodes.iter())
            .map(|node| f64::from(node.capacity.cpu_hundredths))
            .sum();
        // Tasks that can be paused give their CPU back in the next cycle, so nothing is held back.
        let (unreserved, given_up_max) = match view.preemption {
            Preemption::Never => (
                (1.0 - RESERVE) * all_hundredths,
                GIVEN_UP_MAX * all_hundredths,
            ),
            Preemption::EveryCycle => (all_hundredths, all_hundredths),
        };
        let running: f64 = (kept.iter())
            .flat_map(|kept| {
                let job = &view.jobs[kept.due.job];
                (job.running.iter()).map(|task| job.profile.demand(task.phase).cpu_hundredths)
            })
            .map(f64::from)
            .sum();
        // The slots of running tasks are drafted again below, so they count as needed.
        let needed = running + needed_hundredths(&room, &kept);

        let mut filler = DraftFiller {
            draft: Draft::new(Scope::all(view, Measure::Resources)),
            view,
            workloads: &workloads,
            used: 0.0,
            urgent: vec![0; view.jobs.len()],
        };
        // First, or a job whose maps are done would wait for slots behind the maps of all other jobs.
        filler.reduces(|job| is_kept[job]);
        let has_goal = |job: usize| view.jobs[job].job.goal_s.is_some();
        let given_up = view.by_urgency(|job| !is_kept[job] && has_goal(job));
        let unmeasured = |job: usize| {
            let (view, job) = (view, &view.jobs[job]);
            view.utility_kind(job) == TaskKind::Map
                && job.done_maps == 0
                && job.deadline_s() > view.now_s
        };
        for &job in given_up.iter().filter(|&&job| unmeasured(job)) {
            filler.probe(job, PROBING_MAX * all_hundredths, all_hundredths - needed);
        }
        // `fill` compares this with all CPU in the draft, which already has the maps for measuring.
        let needed = needed + filler.used;
        let mut planned = (plan_given_up(view, &room, &kept, given_up).into_iter()).peekable();
        // The estimate of an unmeasured job may be wrong, and its goal within reach.
        let limit = |job: usize| {
            if unmeasured(job) {
                unreserved
            } else {
                given_up_max
            }
        };
        for (at, kept) in kept.iter().enumerate() {
            while let Some(PlannedJob { job, .. }) = planned.next_if(|planned| planned.before == at)
            {
                filler.fill(job, limit(job), 0.0);
            }
            // What the goals need now may take the reserve.
            filler.fill(kept.due.job, unreserved.max(needed), needed);
        }
        filler.reduces(|job| !is_kept[job]);
        // From here on all slots count as needed, so that none waits for a node near its input. These
        // jobs have a slot only while the kept ones leave it, so a wait might cost them the slot.
        for job in view.by_age(|job| !has_goal(job)) {
            filler.fill(job, unreserved, unreserved);
        }
        for PlannedJob { job, .. } in planned {
            filler.fill(job, limit(job), limit(job));
        }
        let DraftFiller { draft, urgent, .. } = filler;
        let (placement, waits) = draft.carry_out_near(&urgent);
        let near = |kept: &KeptJob| view.jobs[kept.due.job].local.is_some();
        Decision {
            placement,
            // While the goals leave some of the unreserved CPU unneeded, a map starts in a slot that becomes
            // free only if its input is on the slot's node, so that maps wait for their nodes between cycles
            // as they do within them. If the goals need all of that CPU, or if all nodes are equally near to
            // the input of each kept job, any task starts at once.
            refill: if needed < unreserved && kept.iter().any(near) {
                Refill::LocalTask
            } else {
                Refill::AnyTask
            },
            waits,
        }
    }
}

/// Returns the CPU, in hundredths of a core, on which work has to start now: the work that would no
/// longer fit before its goal if it started one task length later, divided by that length.
fn needed_hundredths(room: &RoomUntil<'_>, kept: &[KeptJob]) -> f64 {
    let mut load = Load::default();
    let mut needed = 0.0_f64;
    for KeptJob { due, room: until } in kept.iter().filter(|kept| kept.due.work > 0.0) {
        load.add(due);
        let later = (until - room.fluid(room.now_s + due.task_s)).max(0.0);
        if due.task_s > 0.0 {
            needed = needed.max((load.at_least(due.task_s) - later) / due.task_s);
        }
    }
    needed
}

/// The largest part of the CPU for maps that are started to measure the true length of a job's tasks.
/// At most one runs for each job that was given up because of an estimate. Without this limit, many
/// such jobs would make others miss their goals. As large as [`RESERVE`]; other values were not tried.
pub const PROBING_MAX: f64 = 0.1;

struct DraftFiller<'a> {
    draft: Draft<'a>,
    view: &'a ClusterView,
    workloads: &'a [Workload],
    /// CPU of all slots that [`probe`](Self::probe) and [`fill`](Self::fill) have added, in hundredths
    /// of a core. Slots for reduces that overlap the maps do not count.
    used: f64,
    /// For each job, the number of its slots that may not wait for nodes that hold their input.
    urgent: Vec<u32>,
}

impl DraftFiller<'_> {
    /// Adds slots for reduces to the jobs for which `some` returns true, if reduces may overlap the
    /// maps; otherwise does nothing.
    fn reduces(&mut self, some: impl Fn(usize) -> bool) {
        if self.view.reduce_start == ReduceStart::Overlapped {
            let jobs = &self.view.jobs;
            self.draft.add_reduces(|job| {
                if some(job) {
                    jobs[job].left(TaskKind::Reduce)
                } else {
                    0
                }
            });
        }
    }

    /// Adds one slot for `job`, unless with it all slots added so far would take more than `spare`
    /// hundredths of a core, or more than `limit`. The very first slot may exceed `limit`, but not
    /// `spare`.
    fn probe(&mut self, job: usize, limit: f64, spare: f64) {
        let Workload { kind, left, .. } = self.workloads[job];
        let view = &self.view.jobs[job];
        let demand = view.profile.demand(view.starting_phase(kind));
        let used = self.used + f64::from(demand.cpu_hundredths);
        let few = used <= limit || self.used == 0.0;
        if left > 0 && few && used <= spare && self.draft.add(job, kind) {
            self.urgent[job] += 1;
            self.used = used;
        }
    }

    /// Adds slots for `job` until it has all that it can use, or all slots added so far would take
    /// more than `limit` hundredths of a core. The very first slot may exceed `limit`. Slots that
    /// begin within the first `needed` hundredths are urgent: their tasks must start at once, and
    /// do not wait for nodes that hold their input.
    fn fill(&mut self, job: usize, limit: f64, needed: f64) {
        let Workload { kind, left, .. } = self.workloads[job];
        let view = &self.view.jobs[job];
        let demand = view.profile.demand(view.starting_phase(kind));
        let cpu = f64::from(demand.cpu_hundredths);
        while self.draft.slots(job, kind) < left
            && (self.used + cpu <= limit || self.used == 0.0)
            && self.draft.add(job, kind)
        {
            self.urgent[job] += u32::from(self.used < needed);
            self.used += cpu;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, slots, three_goals, view};
    use super::*;

    /// Four slots, tasks of 10 s. Until the goals at 40, 60 and 100 s there is time for 16, 24 and
    /// 40 tasks; J1 needs 7 of them, J1 and J2 19, and all three jobs 39. So no job is given up.
    /// J1, with the earliest goal, takes all slots but the reserve of 10%: three of four.
    ///
    /// With one more map of J3, 40 of 40 tasks are needed until 100 s. If some started one task
    /// length later, there would be time for only 36. So nothing may be held in reserve, and four
    /// tasks start now.
    #[test]
    fn the_earliest_goal_that_can_be_met_goes_first() {
        let decide = |jobs| slots(&ForecastEdf.decide(&view(4, 400.0, jobs)), 3);
        assert_eq!(decide(three_goals()), [3, 0, 0]);
        let mut jobs = three_goals();
        jobs[2].pending_maps = 21;
        assert_eq!(decide(jobs.clone()), [4, 0, 0], "none can wait");
        // Room for 12 until 30 s: J1 can meet its goal only without J2, which is larger.
        jobs[0].pending_maps = 12;
        jobs[1].job.goal_s = Some(50.0);
        jobs[0].job.goal_s = Some(39.0);
        assert_eq!(decide(jobs.clone()), [4, 0, 0]);
        // With 13 maps J1 cannot meet its goal; one map starts to measure it.
        jobs[0].pending_maps = 13;
        assert_eq!(decide(jobs.clone())[0], 1);
        jobs[0].done_maps = 1;
        assert_eq!(decide(jobs)[0], 0);
    }

    /// By its estimate J1 cannot be done by 30 s: a map takes 50. The estimate may be wrong, so one
    /// map starts before anything else. Once a map was measured and took as long, J1 waits. After
    /// its goal has passed, a measurement has no use.
    #[test]
    fn a_job_that_misses_its_goal_by_its_estimate_is_measured() {
        let mut jobs = vec![job(1, 0.0, Some(30.0), 4), job(2, 1.0, Some(60.0), 50)];
        jobs[0].profile.map.task_s = 50.0;
        let mut view = view(10, 1000.0, jobs);
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [1, 8]);
        view.jobs[0].done_maps = 1;
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [0, 9]);
        view.jobs[0].done_maps = 0;
        view.jobs[0].job.goal_s = Some(-1.0);
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [0, 9]);
        // Where the goals need all CPU, J1 gets no slot to be measured.
        view.jobs[0].job.goal_s = Some(30.0);
        view.jobs[1].pending_maps = 60;
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [0, 10]);
    }

    /// J1 cannot be done by 15 s. Ten slots until 60 s have room for 60 maps. J2 needs two, so
    /// there is time for the 20 maps of J1 before it, in four slots, the most that given-up jobs
    /// may take. If J2 needs 41 maps, there is no such time, and J1 waits behind J2 and J3.
    #[test]
    fn a_job_that_cannot_be_saved_goes_before_those_that_can_wait() {
        let mut jobs = vec![
            job(1, 0.0, Some(15.0), 20),
            job(2, 1.0, Some(60.0), 2),
            job(3, 2.0, None, 3),
        ];
        jobs[0].done_maps = 1;
        let mut view = view(10, 1000.0, jobs);
        assert_eq!(slots(&ForecastEdf.decide(&view), 3), [4, 2, 3]);
        view.jobs[1].pending_maps = 41;
        assert_eq!(slots(&ForecastEdf.decide(&view), 3), [0, 9, 0]);
        view.jobs.remove(1);
        assert_eq!(slots(&ForecastEdf.decide(&view), 3), [1, 0, 3]);
        view.jobs.truncate(1);
        assert_eq!(slots(&ForecastEdf.decide(&view), 3), [4, 0, 0]);
        view.preemption = Preemption::EveryCycle;
        assert_eq!(slots(&ForecastEdf.decide(&view), 3), [10, 0, 0]);
    }

    #[test]
    fn no_cpu_is_reserved_where_tasks_can_be_paused() {
        let mut view = view(10, 1000.0, vec![job(1, 0.0, None, 20)]);
        assert_eq!(slots(&ForecastEdf.decide(&view), 1), [9]);
        view.preemption = Preemption::EveryCycle;
        assert_eq!(slots(&ForecastEdf.decide(&view), 1), [10]);
    }
}
