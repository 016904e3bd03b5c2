//! Rules of weighted completion time: they order jobs or tasks by one number, without goals or
//! forecast.
//!
//! [`crate::msjo`] has the same rules for tasks that are known one by one; a policy has only the
//! number of tasks and their mean length. HTWF exists only there, because tasks have no weights of
//! their own here.

use super::decision::Measure;
use super::draft::{Draft, Scope};
use super::view::{ClusterView, JobView};
use super::{Decision, Policy};
use crate::model::TaskKind;
use crate::ordered_f64::OrderedF64;

const KINDS: [TaskKind; 2] = [TaskKind::Map, TaskKind::Reduce];

/// HUWF, high unit weight first: the job with the highest weight per second of work takes every
/// slot that it can use before the next one gets any. A job's work includes its finished maps, but
/// not its finished reduces, so a job near its end rises.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighUnitWeightFirst;

impl Policy for HighUnitWeightFirst {
    fn name(&self) -> &'static str {
        "huwf"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        by_key(view, |job, _| -job.job.weight / work_s(job))
    }
}

/// HJWF, high job weight first: the job with the highest weight takes every slot that it can use
/// before the next one gets any.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighJobWeightFirst;

impl Policy for HighJobWeightFirst {
    fn name(&self) -> &'static str {
        "hjwf"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        by_key(view, |job, _| -job.job.weight)
    }
}

/// STF, shortest task first: the maps or reduces with the shortest mean length take every slot that
/// they can use before the next ones get any.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortestTaskFirst;

impl Policy for ShortestTaskFirst {
    fn name(&self) -> &'static str {
        "stf"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        by_key(view, |job, kind| job.profile.task_s(kind))
    }
}

/// Returns the work of a job, in seconds in a slot: of all its maps, and of the reduces that are
/// not done.
fn work_s(job: &JobView) -> f64 {
    let maps = f64::from(job.left(TaskKind::Map) + job.done_maps);
    let reduces = f64::from(job.left(TaskKind::Reduce));
    maps * job.profile.task_s(TaskKind::Map) + reduces * job.profile.task_s(TaskKind::Reduce)
}

/// Gives slots to pairs of a job and a kind of task, in ascending order of `key`: a pair gets all
/// slots that it can use before the next pair gets any. Ties: the oldest job, then maps.
pub(super) fn by_key(view: &ClusterView, key: impl Fn(&JobView, TaskKind) -> f64) -> Decision {
    let place = |job: &JobView, kind| (OrderedF64(key(job, kind)), job.job.age(), kind);
    let mut order: Vec<_> = (view.jobs.iter().enumerate())
        .flat_map(|(at, job)| KINDS.map(|kind| (place(job, kind), at)))
        .collect();
    order.sort_unstable();
    let mut draft = Draft::new(Scope::all(view, Measure::Slots));
    for ((_, _, kind), job) in order {
        if draft.is_full() {
            break;
        }
        let usable = view.usable(&view.jobs[job], kind);
        while draft.slots(job, kind) < usable && draft.add(job, kind) {}
    }
    draft.carry_out().into()
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, slots, view};
    use super::*;

    /// Returns three jobs of 20, 12 and 3 maps of 10 s, which are work of 200, 120 and 30 s. With
    /// weights of 4, 3 and 0.5 they have a weight of 0.02, 0.025 and 0.0167 per second of work.
    fn three() -> Vec<JobView> {
        let mut jobs = vec![
            job(1, 0.0, None, 20),
            job(2, 1.0, None, 12),
            job(3, 2.0, None, 3),
        ];
        for (job, weight) in jobs.iter_mut().zip([4.0, 3.0, 0.5]) {
            job.job.weight = weight;
        }
        jobs
    }

    #[test]
    fn huwf_serves_the_highest_weight_per_second_of_work() {
        let decide = |jobs| slots(&HighUnitWeightFirst.decide(&view(14, 1400.0, jobs)), 3);
        assert_eq!(decide(three()), [2, 12, 0]);
        // Finished maps count: 320 s of work have a weight of 0.0125 a second.
        let mut jobs = three();
        jobs[0].done_maps = 12;
        assert_eq!(decide(jobs), [0, 12, 2]);
    }

    #[test]
    fn hjwf_serves_the_highest_weight() {
        let decide = |room| slots(&HighJobWeightFirst.decide(&view(room, 1e6, three())), 3);
        assert_eq!(decide(14), [14, 0, 0]);
        assert_eq!(decide(33), [20, 12, 1]);
    }

    /// Shortest task first: J3, whose maps take 5 s, comes before J1 and J2, whose maps take 10 s;
    /// of these the older, J1, comes first.
    #[test]
    fn stf_serves_the_shortest_tasks() {
        let mut jobs = three();
        jobs[2].profile.map.task_s = 5.0;
        let decision = ShortestTaskFirst.decide(&view(14, 1400.0, jobs));
        assert_eq!(slots(&decision, 3), [11, 0, 3]);
    }
}
