//! Earliest deadline first among the jobs that the forecast can save.

use super::draft::{Draft, Scope};
use super::given_up::{Planned, plan_anew};
use super::on_time::{Ask, Kept, Load, RoomUntil, keep_on_time};
use super::view::{ClusterView, Preemption, ReduceStart};
use super::workload::Workload;
use super::{Decision, Measure, Policy, Refill};
use crate::model::TaskKind;

/// Plans against the integral of the forecast, anew in each control cycle.
///
/// 1. *Keep* the most jobs (by weight) that can meet their goals together: Moore and
///    Hodgson's rule over what f(t) leaves; see `on_time`.
/// 2. *Measure* those that were given up by an estimate alone, and whose goal is still
///    ahead: one map each, while no more than [`PROBING_MAX`] of the CPU is taken.
/// 3. Slots to the jobs kept, the earliest goal first, as many as each can use. Among
///    them, those that were given up, where the jobs kept can spare the time; see
///    `given_up`. Then to jobs without a goal, the oldest first, and last to those
///    given up for which there was no time. One that was given up is back among the kept
///    as soon as there is room for it.
/// 4. Where tasks cannot be paused, a node is taken for a whole task, and the next
///    job may be one that must start at once. So a part of the nodes ([`RESERVE`])
///    stays idle unless the goals need it: what could not be done in time if it were
///    to start a task's length later. And jobs that were given up start tasks only
///    while no more than [`GIVEN_UP_MAX`] is taken by them and those before them, unless
///    they are still to be measured.
///
/// Maps go to idle nodes where their input lies, as far as there are such. Those of
/// jobs that are kept wait for such a node, in up to
/// [`DELAYS_MAX`](super::DELAYS_MAX) cycles, unless the goals need them now.
///
/// Not from the thesis. J. M. Moore, *An n job, one machine sequencing algorithm
/// for minimizing the number of late jobs*, 1968.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForecastEdf;

/// Part of the CPU that is not filled with what can wait. With the next one chosen
/// among 0, 0.05, 0.1, 0.2 and 0.3 on seeds 1001 and 1002 of the scenarios of figure
/// 5.21.
pub const RESERVE: f64 = 0.1;

/// Part of the CPU up to which jobs that were given up start tasks. Chosen among 0,
/// 0.3, 0.4, 0.5 and 0.8: with less they end later, with more other goals are missed.
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
        let asks = (workloads.iter().enumerate())
            .filter_map(|(index, workload)| Ask::of(view, index, workload));
        let kept = keep_on_time(&room, asks.collect());
        let mut is_kept = vec![false; view.jobs.len()];
        for kept in &kept {
            is_kept[kept.ask.job] = true;
        }

        let all_hundredths: f64 = (view.nodes.iter())
            .map(|node| f64::from(node.capacity.cpu_hundredths))
            .sum();
        let (at_ease, given_up_max) = match view.preemption {
            Preemption::Never => (
                (1.0 - RESERVE) * all_hundredths,
                GIVEN_UP_MAX * all_hundredths,
            ),
            Preemption::EveryCycle => (all_hundredths, all_hundredths),
        };
        let running: f64 = (kept.iter())
            .flat_map(|kept| {
                let job = &view.jobs[kept.ask.job];
                (job.running.iter()).map(|task| job.profile.demand(task.phase).cpu_hundredths)
            })
            .map(f64::from)
            .sum();
        let needed = running + needed_hundredths(&room, &kept);

        let mut filling = Filling {
            draft: Draft::new(Scope::all(view, Measure::Resources)),
            view,
            workloads: &workloads,
            used: 0.0,
            must: vec![0; view.jobs.len()],
        };
        filling.reduces(|job| is_kept[job]);
        let has_goal = |job: usize| view.jobs[job].job.goal_s.is_some();
        let given_up = view.by_urgency(|job| !is_kept[job] && has_goal(job));
        let unmeasured = |job: usize| {
            let (view, job) = (view, &view.jobs[job]);
            view.utility_kind(job) == TaskKind::Map
                && job.done_maps == 0
                && job.deadline_s() > view.now_s
        };
        for &job in given_up.iter().filter(|&&job| unmeasured(job)) {
            filling.probe(job, PROBING_MAX * all_hundredths, all_hundredths - needed);
        }
        let needed = needed + filling.used;
        let mut planned = (plan_anew(view, &room, &kept, given_up).into_iter()).peekable();
        // What nobody has measured may well be met.
        let limit = |job: usize| match unmeasured(job) {
            true => at_ease,
            false => given_up_max,
        };
        for (at, kept) in kept.iter().enumerate() {
            while let Some(Planned { job, .. }) = planned.next_if(|planned| planned.before == at) {
                filling.fill(job, limit(job), 0.0);
            }
            filling.fill(kept.ask.job, at_ease.max(needed), needed);
        }
        filling.reduces(|job| !is_kept[job]);
        for job in view.by_age(|job| !has_goal(job)) {
            filling.fill(job, at_ease, at_ease);
        }
        for Planned { job, .. } in planned {
            filling.fill(job, limit(job), limit(job));
        }
        let Filling { draft, must, .. } = filling;
        let (placement, waits) = draft.carry_out_near(&must);
        let near = |kept: &Kept| view.jobs[kept.ask.job].local.is_some();
        Decision {
            placement,
            // Where all must go on, what is free must not wait for the next cycle.
            refill: match needed < at_ease && kept.iter().any(near) {
                true => Refill::LocalTask,
                false => Refill::AnyTask,
            },
            waits,
        }
    }
}

/// What has to be started now, in hundredths of a core: the work that would not
/// fit any more a task's length from now, spread over that time.
fn needed_hundredths(room: &RoomUntil<'_>, kept: &[Kept]) -> f64 {
    let mut load = Load::default();
    let mut needed = 0.0_f64;
    for Kept { ask, room: until } in kept.iter().filter(|kept| kept.ask.work > 0.0) {
        load.add(ask);
        let later = (until - room.fluid(room.now_s + ask.task_s)).max(0.0);
        if ask.task_s > 0.0 {
            needed = needed.max((load.at_least(ask.task_s) - later) / ask.task_s);
        }
    }
    needed
}

/// Part of the CPU with which jobs are measured that were given up by an estimate. A job
/// that cannot be met is worth one task; were they many, they would cost others theirs.
pub const PROBING_MAX: f64 = 0.1;

struct Filling<'a> {
    draft: Draft<'a>,
    view: &'a ClusterView,
    workloads: &'a [Workload],
    /// CPU of the slots given out, in hundredths of a core.
    used: f64,
    /// Per job: slots that may not wait for nodes near their input.
    must: Vec<u32>,
}

impl Filling<'_> {
    /// Slots for the reduces that overlap the maps of `some` of the jobs.
    fn reduces(&mut self, some: impl Fn(usize) -> bool) {
        if self.view.reduce_start == ReduceStart::Overlapped {
            let jobs = &self.view.jobs;
            self.draft.add_reduces(|job| match some(job) {
                true => jobs[job].left(TaskKind::Reduce),
                false => 0,
            });
        }
    }

    /// One slot for `job`, while no more than `limit` hundredths of a core are given out,
    /// or none yet, and no more than `spare` in any case.
    fn probe(&mut self, job: usize, limit: f64, spare: f64) {
        let Workload { kind, left, .. } = self.workloads[job];
        let view = &self.view.jobs[job];
        let demand = view.profile.demand(view.starting_phase(kind));
        let used = self.used + f64::from(demand.cpu_hundredths);
        let few = used <= limit || self.used == 0.0;
        if left > 0 && few && used <= spare && self.draft.add(job, kind) {
            self.must[job] += 1;
            self.used = used;
        }
    }

    /// As many slots as `job` can use while no more than `limit` hundredths of a
    /// core are given out; one in any case when there are none yet. Those up to
    /// `needed` may not wait.
    fn fill(&mut self, job: usize, limit: f64, needed: f64) {
        let Workload { kind, left, .. } = self.workloads[job];
        let view = &self.view.jobs[job];
        let demand = view.profile.demand(view.starting_phase(kind));
        let cpu = f64::from(demand.cpu_hundredths);
        while self.draft.slots(job, kind) < left
            && (self.used + cpu <= limit || self.used == 0.0)
            && self.draft.add(job, kind)
        {
            self.must[job] += u32::from(self.used < needed);
            self.used += cpu;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, slots, three_goals, view};
    use super::*;

    /// Four slots, tasks of 10 s, goals at 40, 60 and 100 s with room for 16, 24
    /// and 40 tasks: 7, 19 and 39 are asked for until then, so all are kept and the
    /// first goal takes all slots but the reserve. Without J3 nothing is tight, and
    /// three of four slots are filled (90% are 3.6).
    ///
    /// With J3, 39 of 40 are needed until 100 s: a task's length later, room for
    /// 36 would be left. So three must start now.
    #[test]
    fn the_earliest_goal_that_can_be_met_goes_first() {
        let decide = |jobs| slots(&ForecastEdf.decide(&view(4, 400.0, jobs)), 3);
        assert_eq!(decide(three_goals()), [3, 0, 0]);
        let mut jobs = three_goals();
        jobs[2].pending_maps = 21;
        assert_eq!(decide(jobs.clone()), [4, 0, 0], "none can wait");
        // Room for 12 until 30 s: J1 can be met only without J2, which is larger.
        jobs[0].pending_maps = 12;
        jobs[1].job.goal_s = Some(50.0);
        jobs[0].job.goal_s = Some(39.0);
        assert_eq!(decide(jobs.clone()), [4, 0, 0]);
        // And not at all once it needs 13, except to measure it.
        jobs[0].pending_maps = 13;
        assert_eq!(decide(jobs.clone())[0], 1);
        jobs[0].done_maps = 1;
        assert_eq!(decide(jobs)[0], 0);
    }

    /// By its estimate J1 cannot be done by 30 s: a map takes 50. Nobody knows, so one map
    /// starts before anything else. When it has been measured, and takes as long, it waits;
    /// past its goal nothing is to be gained by measuring it.
    #[test]
    fn a_job_that_an_estimate_condemns_is_measured() {
        let mut jobs = vec![job(1, 0.0, Some(30.0), 4), job(2, 1.0, Some(60.0), 50)];
        jobs[0].profile.map.task_s = 50.0;
        let mut view = view(10, 1000.0, jobs);
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [1, 8]);
        view.jobs[0].done_maps = 1;
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [0, 9]);
        view.jobs[0].done_maps = 0;
        view.jobs[0].job.goal_s = Some(-1.0);
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [0, 9]);
        // Where the goals need all there is, nothing is spared for it.
        view.jobs[0].job.goal_s = Some(30.0);
        view.jobs[1].pending_maps = 60;
        assert_eq!(slots(&ForecastEdf.decide(&view), 2), [0, 10]);
    }

    /// J1 cannot be done by 15 s. Ten slots until 60 s are 60 maps. J2 asks for two, so
    /// there is time for J1's 20 before it, in as many slots as jobs given up may take,
    /// four; with 41 of J2 there is not, and J1 waits behind J2 and J3.
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
    fn nothing_is_held_back_where_tasks_can_be_paused() {
        let mut view = view(10, 1000.0, vec![job(1, 0.0, None, 20)]);
        assert_eq!(slots(&ForecastEdf.decide(&view), 1), [9]);
        view.preemption = Preemption::EveryCycle;
        assert_eq!(slots(&ForecastEdf.decide(&view), 1), [10]);
    }
}
