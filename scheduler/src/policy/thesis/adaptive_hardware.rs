//! The Adaptive Scheduler with hardware affinity (thesis section 3.4.3).

use super::priority::{Class, Priority, class_of_need, draft_by_priority, lack};
use crate::model::{Pool, TaskKind};
use crate::policy::decision::Measure;
use crate::policy::draft::{Draft, Scope};
use crate::policy::matrix::Placement;
use crate::policy::view::{ClusterView, JobView, ReduceStart};
use crate::policy::workload::Workload;
use crate::policy::{Decision, Policy};

/// The least speedup that makes a job accelerable; the thesis calls it a configurable threshold and
/// gives no value. 1.5 is more than the noise of two tasks, and less than the speedups of the
/// accelerable jobs in the thesis (2.5 and 25).
pub const SPEEDUP_MIN: f64 = 1.5;

/// Like [`Adaptive`](crate::policy::Adaptive), with two pools of machines: P_reg, the regular ones,
/// and P_acc, those with an accelerator. A map of a job takes mu_reg on P_reg and mu_acc on P_acc,
/// on average.
///
/// - *Calibration*: a job with an accelerated version of its maps runs one map on each pool, and
///   nothing else until both have finished.
/// - The job is *accelerable* if its speedup, mu_reg / mu_acc, is at least [`SPEEDUP_MIN`]. It then
///   queues for P_acc with s_req,acc of equation (2), the number of slots there that would meet its
///   goal. It gets slots of P_reg only for the part that exceeds P_acc: (mu_reg / mu_acc)
///   (s_req,acc - slots of P_acc), equation (3).
/// - All others are regular: they queue for P_reg, and for P_acc with the slots that they still
///   lack after P_reg. Slots of P_acc that no job lacks go to accelerable jobs first.
///
/// Jobs without a goal get slots once the jobs with a goal have those that they need. With one
/// pool, as in the live runtime, this is the Adaptive Scheduler.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaptiveHardware;

impl Policy for AdaptiveHardware {
    fn name(&self) -> &'static str {
        "adaptive-hardware"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let pools = Pools::new(view);
        let none = vec![0; view.jobs.len()];
        let regular = pools.draft(Pool::Regular, &none, &accelerated_reduces(view));
        let given: Vec<u32> = (0..view.jobs.len())
            .map(|job| regular.slots(job, pools.workloads[job].kind))
            .collect();
        let reduces: Vec<u32> = (0..view.jobs.len())
            .map(|job| regular.slots(job, TaskKind::Reduce))
            .collect();
        let accelerated = pools.draft(Pool::Accelerated, &given, &reduces);
        let mut slots = regular.place_all();
        slots.extend(accelerated.place_all());
        Placement::of_slots(slots).into()
    }
}

/// The relation of a job to accelerated machines. A job with an accelerated version is first
/// measured (calibrated) with one map on each pool of machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Affinity {
    /// The job has no accelerated version, too little speedup, or no free capacity on one of the
    /// pools.
    Regular,
    /// A calibrating map still has to finish on each pool whose entry is true, in the order of
    /// [`Pool::ALL`].
    Calibrating([bool; 2]),
    /// The job prefers machines with accelerators: its maps run this many times as fast there as on
    /// regular ones.
    Accelerable(f64),
}

struct Pools<'a> {
    view: &'a ClusterView,
    affinities: Vec<Affinity>,
    /// The remaining work of each job, in tasks. For an accelerable job (the thesis's equation
    /// (2)), a map counts with the mean length of the job's maps on accelerated machines, and maps
    /// that run on regular machines are left out. All other tasks count with their mean length
    /// (equation (1)).
    workloads: Vec<Workload>,
    /// Number of map slots in the pool of machines with accelerators (the thesis's P_acc). A node
    /// without typed slots counts as one slot for each core.
    accelerated_slots: f64,
}

impl<'a> Pools<'a> {
    fn new(view: &'a ClusterView) -> Self {
        let affinities = affinities(view);
        let workloads = (view.jobs.iter().zip(&affinities))
            .map(|(job, affinity)| match (affinity, job.map_s_on[1]) {
                (Affinity::Accelerable(_), Some(map_s)) => {
                    Workload::on_pool(view, job, Pool::Accelerated, map_s)
                }
                _ => Workload::of(view, job),
            })
            .collect();
        let slots = (view.nodes.iter())
            .filter(|node| node.pool == Pool::Accelerated)
            .map(|node| match node.slots {
                Some(slots) => f64::from(slots.maps),
                None => f64::from(node.capacity.cpu_hundredths) / 100.0,
            });
        Self {
            view,
            affinities,
            workloads,
            accelerated_slots: slots.sum(),
        }
    }

    /// Computes how many slots each job gets on one pool of machines. `elsewhere[i]` is the number
    /// of slots that the job at position i has on the other pool for the kind of task in
    /// `workloads[i].kind`, and `reduces_elsewhere[i]` the number of its reduces there.
    fn draft(&self, pool: Pool, elsewhere: &[u32], reduces_elsewhere: &[u32]) -> Draft<'a> {
        let scope = Scope {
            view: self.view,
            measure: Measure::Slots,
            pool: Some(pool),
        };
        draft_by_priority(scope, &self.workloads, reduces_elsewhere, |job, slots| {
            let workload = &self.workloads[job];
            if elsewhere[job] + slots >= workload.left {
                return None;
            }
            match (workload.kind, self.affinities[job]) {
                (TaskKind::Map, Affinity::Calibrating(due)) => (due[pool.index()] && slots == 0)
                    .then(|| Priority::new(self.view, job, Class::Unmeasured, 0.0)),
                (TaskKind::Map, Affinity::Accelerable(speedup)) if pool == Pool::Regular => {
                    self.beyond_the_accelerated(job, speedup, slots)
                }
                (TaskKind::Map, Affinity::Accelerable(_)) => {
                    Some(Priority::of(self.view, job, workload, slots))
                }
                _ => {
                    let all = elsewhere[job] + slots;
                    let mut priority = Priority::of(self.view, job, workload, all);
                    if pool == Pool::Accelerated && priority.class == Class::Satisfied {
                        priority.class = Class::Guest;
                    }
                    Some(priority)
                }
            }
        })
    }

    /// Returns the priority of an accelerable job for one more slot of the regular pool, where it has
    /// `slots` so far, by the thesis's equation (3). `None` if these and the accelerated pool suffice
    /// for its goal, or if it has no goal.
    fn beyond_the_accelerated(&self, job: usize, speedup: f64, slots: u32) -> Option<Priority> {
        let goal_s = self.view.jobs[job].job.goal_s?;
        let needed = lack(self.view, &self.workloads[job], goal_s, 0);
        let extra = speedup * (needed - self.accelerated_slots) - f64::from(slots);
        let (class, urgency) = class_of_need(extra);
        (class == Class::Needy).then(|| Priority::new(self.view, job, class, urgency))
    }
}

/// Returns the number of reduces of each job that run on machines with accelerators: they need no
/// slot on regular ones.
fn accelerated_reduces(view: &ClusterView) -> Vec<u32> {
    let on_accelerated = |job: &JobView| {
        let reduces = job.running_of(TaskKind::Reduce);
        reduces
            .filter(|task| view.pool(task.node) == Pool::Accelerated)
            .count() as u32
    };
    view.jobs.iter().map(on_accelerated).collect()
}

/// Returns which pool of machines each job prefers. A pool without free capacity for a map counts
/// as absent, so that jobs do not wait for it: reduces may have taken its capacity, or f(t), the
/// capacity left to analytics, may be low.
fn affinities(view: &ClusterView) -> Vec<Affinity> {
    if !view.jobs.iter().any(|job| job.accelerated) {
        return vec![Affinity::Regular; view.jobs.len()];
    }
    let mut reduces = accelerated_reduces(view);
    let pools = Pool::ALL.map(|pool| {
        let mut draft = Draft::new(Scope {
            pool: Some(pool),
            ..Scope::all(view, Measure::Slots)
        });
        if view.reduce_start == ReduceStart::Overlapped {
            draft.add_reduces(|job| {
                let left = view.jobs[job].left(TaskKind::Reduce);
                left.saturating_sub(reduces[job])
            });
        }
        for (job, reduces) in reduces.iter_mut().enumerate() {
            *reduces = draft.slots(job, TaskKind::Reduce);
        }
        draft
    });
    let both = |job: usize| pools.iter().all(|pool| pool.has_room_for_map(job));
    let affinity = |(index, job): (usize, &JobView)| affinity(job, both(index));
    view.jobs.iter().enumerate().map(affinity).collect()
}

fn affinity(job: &JobView, both_pools: bool) -> Affinity {
    if !job.accelerated || !both_pools {
        return Affinity::Regular;
    }
    match job.map_s_on {
        [Some(regular_s), Some(accelerated_s)] => {
            let speedup = regular_s / accelerated_s;
            if speedup >= SPEEDUP_MIN {
                Affinity::Accelerable(speedup)
            } else {
                Affinity::Regular
            }
        }
        observed => Affinity::Calibrating(observed.map(|length_s| length_s.is_none())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, Node, NodeId};
    use crate::policy::example::{job, view};

    /// Returns a view of ten nodes with accelerators (the thesis's pool P_acc) and thirty regular
    /// ones (P_reg), one slot each.
    fn two_pools(jobs: Vec<JobView>) -> ClusterView {
        let mut view = view(1, 4000.0, jobs);
        view.nodes = (0..40)
            .map(|id| Node {
                id: NodeId(id),
                pool: if id < 10 {
                    Pool::Accelerated
                } else {
                    Pool::Regular
                },
                ..view.nodes[0]
            })
            .collect();
        view
    }

    fn on_pools(view: &ClusterView, id: u64) -> (u32, u32) {
        let placement = AdaptiveHardware.decide(view).placement;
        let on = |pool: Pool| {
            (placement.cells().iter())
                .filter(|cell| cell.job == JobId(id) && view.pool(cell.node) == pool)
                .map(|cell| cell.slots)
                .sum()
        };
        (on(Pool::Accelerated), on(Pool::Regular))
    }

    fn accelerable(id: u64, goal_s: f64, maps: u32) -> JobView {
        let mut job = job(id, 0.0, Some(goal_s), maps);
        job.accelerated = true;
        job.done_maps = 2;
        job.map_s_on = [Some(100.0), Some(50.0)];
        job
    }

    /// The thesis's example in 3.4.3: maps take 50 s on an accelerator and 100 s on a regular
    /// machine. The job has 550 s, the last of its maps takes 50 s: 150 maps of 50 s in 550 - 50 s
    /// need 15 accelerated slots. There are ten, and the other five are replaced by (100 / 50)
    /// (15 - 10) = 10 regular ones. With twice the time 150 maps need 7.1 accelerated slots and no
    /// regular ones; they still get all accelerated ones, which no other job uses.
    #[test]
    fn fifteen_accelerated_slots_become_ten_and_ten_regular_ones() {
        let view = two_pools(vec![accelerable(1, 550.0, 150)]);
        assert_eq!(on_pools(&view, 1), (10, 10));
        let view = two_pools(vec![accelerable(1, 1100.0, 150)]);
        assert_eq!(on_pools(&view, 1), (10, 0));
    }

    #[test]
    fn a_new_job_runs_one_map_on_each_pool_until_both_are_measured() {
        let mut new = job(1, 0.0, Some(1e4), 100);
        new.accelerated = true;
        assert_eq!(on_pools(&two_pools(vec![new.clone()]), 1), (1, 1));
        new.map_s_on[0] = Some(100.0);
        new.done_maps = 1;
        assert_eq!(on_pools(&two_pools(vec![new.clone()]), 1), (1, 0));
        // 1.25 times as fast is not worth it: a regular job.
        new.map_s_on[1] = Some(80.0);
        assert_eq!(on_pools(&two_pools(vec![new]), 1), (10, 30));
    }

    /// A regular job of 700 maps of 10 s has 200 s, the last 10 s for its last map. It needs 7000 /
    /// 190 = 36.8 slots, and gets the 30 of the regular pool. It lacks 6.8 more, so it goes before
    /// an accelerable job that lacks 4.8 (50 maps of 50 s in 520 s), until both lack the same.
    #[test]
    fn a_regular_job_in_need_takes_accelerated_nodes_too() {
        let mut regular = job(2, 0.0, Some(200.0), 700);
        regular.done_maps = 1;
        let view = two_pools(vec![accelerable(1, 570.0, 50), regular]);
        assert_eq!(on_pools(&view, 1), (4, 0));
        assert_eq!(on_pools(&view, 2), (6, 30));
    }
}
