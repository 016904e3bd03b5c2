//! The jobs that can still meet their goals together, by the forecast.
//!
//! All jobs in the view have been released, so Moore and Hodgson's rule finds the largest set: walk
//! the jobs by goal and keep each. Whenever the kept jobs need more than the capacity that is free
//! until this goal (the *room*), give up the one with the most remaining work (per weight). So a
//! job that cannot be saved is given up before it makes others late. Plain earliest-deadline-first
//! fails under overload for lack of this rule: each job in turn takes the time that the next one
//! would have needed.
//!
//! ```text
//!   room(D) = integral of f over [now, D] - the use of running tasks until D
//!             - the loss at D
//! ```
//!
//! Tasks cannot be divided. On a node that becomes free at t only complete tasks fit between t and
//! D; the remaining time is lost to this goal (not to later ones). Shorter tasks can still use it.
//! So the jobs with tasks of at least some length must find room in tasks of that length, and all
//! jobs together in tasks of the shortest length. Lengths are compared in powers of two.

use super::view::{ClusterView, JobView, Preemption};
use super::workload::Workload;
use crate::availability::Availability;
use crate::model::Phase;
use crate::ordered_f64::OrderedF64;
use std::collections::BinaryHeap;

/// The unstarted work of a job, and its goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DueWork {
    /// Position of the job in the view.
    pub job: usize,
    pub goal_s: f64,
    /// Work of the tasks that have no slot yet, in hundredths of a core times seconds; with
    /// preemption, the remaining work of running tasks, too.
    pub work: f64,
    /// Length of one task of the kind that is placed next, in seconds.
    pub task_s: f64,
    /// The least time in which the job can end, in seconds: some of its tasks can only run one
    /// after the other.
    pub tail_s: f64,
    pub weight: f64,
}

impl DueWork {
    /// Returns the work that the job at position `index` must complete by its goal; `None` for a
    /// job without a goal.
    pub fn of(view: &ClusterView, index: usize, workload: &Workload) -> Option<Self> {
        let job = &view.jobs[index];
        Some(Self {
            job: index,
            goal_s: job.job.goal_s?,
            work: unstarted_work(view, job),
            task_s: workload.task_s,
            tail_s: tail_s(view, job, workload),
            weight: job.job.weight,
        })
    }
}

/// Returns the least time that the job still takes, in seconds: the lengths of its next task and of
/// the phases after it. Where tasks can be paused, running tasks count as unstarted work. So if all
/// remaining tasks of the next kind (maps or reduces) are running, the longest of their remaining
/// times replaces the length of the next task.
fn tail_s(view: &ClusterView, job: &JobView, workload: &Workload) -> f64 {
    if view.preemption == Preemption::Never || job.pending(workload.kind) > 0 {
        return workload.tail_s;
    }
    let left_s = (job.running_of(workload.kind))
        .map(|task| job.remaining_s(task, job.profile.map.task_s, view.now_s));
    left_s.fold(0.0, f64::max) + workload.tail_s - workload.task_s
}

/// A job that the policy keeps: it can meet its goal together with all other kept jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeptJob {
    pub due: DueWork,
    /// The capacity until the job's goal that tasks as long as its own can use, in hundredths of a
    /// core times seconds. The job shares this capacity with the earlier kept jobs whose tasks are
    /// as long or longer.
    pub room: f64,
}

/// The unstarted work of the jobs whose goals are not after some point in time: one sum for each
/// class of task lengths.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    classes: [Class; CLASSES],
}

/// The jobs of a [`Load`] whose tasks are of similar length; see [`CLASSES`].
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    jobs: u32,
    /// Unstarted work of the jobs in this class, in hundredths of a core times seconds.
    work: f64,
    /// Task length of the job added last, in seconds.
    task_s: f64,
}

/// The number of classes of task lengths: below 2 s, from 2 s to below 4 s, and so on, each twice
/// as long as the class before. The last one has all lengths from 32,768 s on.
const CLASSES: usize = 16;

fn class_of(task_s: f64) -> usize {
    (task_s.max(1.0).log2() as usize).min(CLASSES - 1)
}

impl Load {
    pub fn add(&mut self, due: &DueWork) {
        let class = &mut self.classes[class_of(due.task_s)];
        class.jobs += 1;
        class.work += due.work;
        class.task_s = due.task_s;
    }

    fn remove(&mut self, due: &DueWork) {
        let class = &mut self.classes[class_of(due.task_s)];
        class.jobs -= 1;
        class.work -= due.work;
    }

    /// Returns the work of the jobs in the class of `task_s` and in the classes of longer tasks, in
    /// hundredths of a core times seconds.
    pub fn at_least(&self, task_s: f64) -> f64 {
        let longer = &self.classes[class_of(task_s)..];
        longer.iter().map(|class| class.work).sum()
    }

    /// Returns the capacity until `goal_s`, for tasks of `task_s` seconds, that the work of this load
    /// leaves free, in hundredths of a core times seconds; negative if there is too much work.
    pub fn left(&self, room: &RoomUntil<'_>, goal_s: f64, task_s: f64) -> f64 {
        let own = room.until(goal_s, task_s) - self.at_least(task_s);
        let shorter = self.classes[..class_of(task_s)].iter();
        (shorter.filter(|class| class.jobs > 0))
            .map(|class| room.until(goal_s, class.task_s) - self.at_least(class.task_s))
            .fold(own, f64::min)
    }
}

/// Returns the jobs that are kept on time: they can all meet their goals together. The earliest
/// goal comes first. The other jobs are given up.
///
/// `due_work` may be in any order; position breaks ties between equal goals.
pub(super) fn keep_on_time(room: &RoomUntil<'_>, mut due_work: Vec<DueWork>) -> Vec<KeptJob> {
    due_work.sort_by(|a, b| (a.goal_s.total_cmp(&b.goal_s)).then(a.job.cmp(&b.job)));
    let mut kept: Vec<KeptJob> = Vec::with_capacity(due_work.len());
    let mut given_up: Vec<bool> = Vec::with_capacity(due_work.len());
    let mut largest: [BinaryHeap<SizedJob>; CLASSES] = Default::default();
    let mut load = Load::default();
    for due in due_work {
        let time_s = due.goal_s - room.now_s;
        if time_s <= 0.0 || (due.work > 0.0 && time_s < due.tail_s) {
            continue;
        }
        let until = room.until(due.goal_s, due.task_s);
        if due.work > until {
            // Too late even alone: no reason to give up another job for it.
            continue;
        }
        let own = class_of(due.task_s);
        load.add(&due);
        largest[own].push(SizedJob {
            size: OrderedF64(due.work / due.weight),
            at: kept.len(),
        });
        kept.push(KeptJob { due, room: until });
        given_up.push(false);
        for class in (0..=own).rev() {
            let Class { jobs, task_s, .. } = load.classes[class];
            if jobs == 0 {
                continue;
            }
            let until = if class == own {
                until
            } else {
                room.until(due.goal_s, task_s)
            };
            while load.at_least(task_s) > until
                && let Some(from) = (class..CLASSES)
                    .max_by(|&a, &b| (largest[a].peek().cmp(&largest[b].peek())).then(b.cmp(&a)))
                && let Some(SizedJob { at, .. }) = largest[from].pop()
            {
                given_up[at] = true;
                load.remove(&kept[at].due);
            }
        }
    }
    let mut given_up = given_up.into_iter();
    kept.retain(|_| !given_up.next().expect("one each"));
    kept
}

/// A candidate to be given up: the largest comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SizedJob {
    /// The unstarted work of the job, divided by its weight.
    size: OrderedF64,
    /// Position of the job among the jobs that were kept at first. Jobs that were given up since are
    /// still counted.
    at: usize,
}

/// The capacity that is free for unstarted work until a point in time: the forecast, without the
/// use of running tasks.
pub(super) struct RoomUntil<'a> {
    pub now_s: f64,
    availability: &'a Availability,
    running_load: RunningLoad,
    /// The present capacity minus the forecast, in hundredths of a core; 0 where tasks can be
    /// paused.
    deviation: f64,
    /// The times at which CPU becomes free, in seconds from now, and its amounts in hundredths of a
    /// core.
    free_after: Vec<(f64, f64)>,
    free_hundredths: f64,
}

/// The time in which a present error of the forecast is assumed to fall to 1/e. Errors of measured
/// forecasts last for 2.5 to 8 hours.
const DEVIATION_S: f64 = 3.0 * 3600.0;

/// The most times at which CPU becomes free that are stored one by one. If there are more, neighbours
/// are merged in groups, so that a decision does not get slower with each running task.
const FREE_TIMES_MAX: usize = 64;

/// CPU that running tasks use from now on, until they end.
#[derive(Default)]
struct RunningLoad {
    /// Remaining time of each task, in seconds, ascending.
    left_s: Vec<f64>,
    /// `work[i]`: CPU that the first i tasks use in total, in hundredths of a core times seconds.
    work: Vec<f64>,
    /// `hundredths[i]`: CPU that all tasks but the first i use together while they run, in
    /// hundredths of a core.
    hundredths: Vec<f64>,
}

impl RunningLoad {
    /// Builds the load from a pair for each running task: the seconds until its end, and its CPU in
    /// hundredths of a core.
    fn new(mut tasks: Vec<(f64, f64)>) -> Self {
        tasks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut running_load = Self {
            left_s: tasks.iter().map(|(left_s, _)| *left_s).collect(),
            work: vec![0.0],
            hundredths: vec![tasks.iter().map(|(_, cpu)| cpu).sum()],
        };
        for (at, (left_s, cpu)) in tasks.into_iter().enumerate() {
            running_load.work.push(running_load.work[at] + left_s * cpu);
            running_load
                .hundredths
                .push(running_load.hundredths[at] - cpu);
        }
        running_load
    }

    /// Returns the CPU that the running tasks use from now until `after_s` seconds from now, in
    /// hundredths of a core times seconds. Their use after that does not count.
    fn until(&self, after_s: f64) -> f64 {
        if self.left_s.is_empty() {
            return 0.0;
        }
        let ended = self.left_s.partition_point(|&left_s| left_s <= after_s);
        self.work[ended] + self.hundredths[ended].max(0.0) * after_s
    }
}

impl<'a> RoomUntil<'a> {
    pub fn of(view: &'a ClusterView) -> Self {
        let available = view.availability.at(view.now_s);
        let mut free_after: Vec<(f64, f64)> = Vec::new();
        if view.preemption == Preemption::Never {
            for job in &view.jobs {
                for task in &job.running {
                    let cpu = f64::from(job.profile.demand(task.phase).cpu_hundredths);
                    let left_s = job.remaining_s(task, job.profile.map.task_s, view.now_s);
                    free_after.push((left_s, cpu));
                }
            }
        }
        // Tasks that can be paused are as good as divisible: no time is lost. What is left of running
        // tasks is then part of the unstarted work, so they take no capacity here.
        if view.preemption == Preemption::EveryCycle {
            return Self {
                now_s: view.now_s,
                availability: &view.availability,
                running_load: RunningLoad::default(),
                // The live runtime may pause all jobs for a moment. If a capacity of 0 counted as an
                // error of the forecast that lasts, there would be no room for any job.
                deviation: 0.0,
                free_hundredths: available,
                free_after,
            };
        }
        let running_load = RunningLoad::new(free_after.clone());
        let nodes = view.nodes.iter();
        let now = nodes.map(|node| f64::from(node.capacity.cpu_hundredths));
        let deviation = now.sum::<f64>() - available;
        // Where f(t) fell, the CPU that would become free first is gone: that of the longest tasks is
        // kept as far as the present f(t) reaches.
        free_after.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut left = available;
        free_after.retain_mut(|(_, cpu)| {
            *cpu = cpu.min(left);
            left -= *cpu;
            *cpu > 0.0
        });
        // The rest of the present f(t) is idle: it is free now.
        if left > 0.0 {
            free_after.push((0.0, left));
        }
        // `until` walks these times for each job, so neighbours are merged into their weighted mean.
        let per_group = free_after.len().div_ceil(FREE_TIMES_MAX);
        let free_after = if per_group > 1 {
            let group = |group: &[(f64, f64)]| {
                let cpu: f64 = group.iter().map(|(_, cpu)| cpu).sum();
                let weighed: f64 = group.iter().map(|(after_s, cpu)| after_s * cpu).sum();
                (weighed / cpu, cpu)
            };
            free_after.chunks(per_group).map(group).collect()
        } else {
            free_after
        };
        Self {
            now_s: view.now_s,
            availability: &view.availability,
            running_load,
            deviation,
            free_hundredths: available,
            free_after,
        }
    }

    /// Returns the CPU that is free until `t_s` if work can be divided at will, in hundredths of a
    /// core times seconds; [`Self::until`] also subtracts the time that complete tasks cannot use.
    pub fn fluid(&self, t_s: f64) -> f64 {
        let after_s = (t_s - self.now_s).max(0.0);
        let lasting_s = DEVIATION_S * (1.0 - (-after_s / DEVIATION_S).exp());
        let available = self.availability.integral(self.now_s, t_s) + self.deviation * lasting_s;
        (available - self.running_load.until(after_s)).max(0.0)
    }

    /// Returns the capacity that is free until `t_s` for complete tasks of `task_s` seconds each,
    /// in hundredths of a core times seconds.
    pub fn until(&self, t_s: f64, task_s: f64) -> f64 {
        let fluid = self.fluid(t_s);
        if task_s <= 0.0 || self.free_hundredths <= 0.0 {
            return fluid;
        }
        let after_s = t_s - self.now_s;
        let lost = self.free_after.iter().map(|(free_s, cpu)| {
            let tasks = (after_s - free_s).max(0.0) / task_s;
            // Rounding must not lose a task that just fits.
            cpu * (tasks - (tasks + 1e-9).floor()).max(0.0)
        });
        // The loss assumes the present number of nodes; scale it by the capacity at that time.
        let from_s = (t_s - task_s).max(self.now_s);
        let then = self.availability.mean(from_s, t_s) / self.free_hundredths;
        (fluid - lost.sum::<f64>() * task_s * then).max(0.0)
    }
}

/// Returns the capacity that is free for the job at position `job` until `goal_s`, as a multiple of
/// its unstarted work: 1 is just enough. Other jobs that are kept on time and have an earlier or
/// equal goal take their capacity first. Returns 0 if `goal_s` is too near for tasks that must run
/// one after the other, and otherwise infinity if the job has no unstarted work.
#[must_use]
pub fn room_per_work(view: &ClusterView, job: usize, goal_s: f64) -> f64 {
    let workloads = |index: usize| Workload::of(view, &view.jobs[index]);
    let own = workloads(job);
    let work = unstarted_work(view, &view.jobs[job]);
    if goal_s < view.now_s + tail_s(view, &view.jobs[job], &own) {
        return 0.0;
    }
    let room = RoomUntil::of(view);
    let others = (0..view.jobs.len()).filter(|&other| other != job);
    let due_work = others.filter_map(|other| DueWork::of(view, other, &workloads(other)));
    let mut before = Load::default();
    for kept in keep_on_time(&room, due_work.collect()) {
        if kept.due.goal_s <= goal_s {
            before.add(&kept.due);
        }
    }
    if work > 0.0 {
        before.left(&room, goal_s, own.task_s).max(0.0) / work
    } else {
        f64::INFINITY
    }
}

/// Returns the work of `job` that has no slot yet, in hundredths of a core times seconds. With
/// preemption, the remaining work of running tasks is included.
pub(super) fn unstarted_work(view: &ClusterView, job: &JobView) -> f64 {
    let of = |tasks: u32, phase: Phase, task_s: f64| {
        f64::from(tasks) * task_s * f64::from(job.profile.demand(phase).cpu_hundredths)
    };
    let profile = &job.profile;
    let mut work = of(job.pending_maps, Phase::Map, profile.map.task_s)
        + of(job.pending_reduces, Phase::Reduce, profile.reduce.task_s);
    if view.preemption == Preemption::EveryCycle {
        work += (job.running.iter())
            .map(|task| {
                let left_s = job.remaining_s(task, profile.map.task_s, view.now_s);
                left_s * f64::from(profile.demand(task.phase).cpu_hundredths)
            })
            .sum::<f64>();
    }
    work
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, running_map, view};
    use super::*;

    fn kept(view: &ClusterView) -> Vec<u64> {
        let due_work = (view.jobs.iter().enumerate())
            .filter_map(|(index, job)| DueWork::of(view, index, &Workload::of(view, job)));
        let room = RoomUntil::of(view);
        (keep_on_time(&room, due_work.collect()).iter())
            .map(|kept| view.jobs[kept.due.job].job.id.0)
            .collect()
    }

    /// Four slots, tasks of 10 s: 8 tasks until 20, 16 until 40 and 20 until 50. J1 to J3 need 6, 9
    /// and 5: J2 is the largest and is given up, although J3 is the one that does not fit.
    #[test]
    fn the_largest_of_jobs_that_do_not_fit_together_is_given_up() {
        let jobs = vec![
            job(1, 0.0, Some(20.0), 6),
            job(2, 0.0, Some(40.0), 9),
            job(3, 0.0, Some(40.0), 5),
        ];
        let mut view = view(4, 400.0, jobs);
        assert_eq!(kept(&view), [1, 3]);
        view.jobs[1].job.weight = 3.0;
        assert_eq!(kept(&view), [2, 3], "6 of J1 weigh more than 9 / 3 of J2");
        view.jobs[2].job.goal_s = Some(50.0);
        assert_eq!(kept(&view), [1, 2, 3]);
    }

    #[test]
    fn a_job_that_is_too_late_alone_costs_no_other_job_its_goal() {
        let late = job(2, 0.0, Some(30.0), 13);
        let jobs = vec![job(1, 0.0, Some(20.0), 8), late, job(3, 0.0, Some(40.0), 8)];
        assert_eq!(kept(&view(4, 400.0, jobs)), [1, 3]);
    }

    /// Two nodes are idle, two become free after 4 and 8 s. Until the goal at 29 s they have 29,
    /// 29, 25 and 21 s: each has time for two complete tasks of 10 s, eight in all, and the rest
    /// cannot be used. Until 18 s there is time for one task on each node, until 17 s on three of
    /// them, until 9 s on none.
    #[test]
    fn only_complete_tasks_fit_between_the_end_of_a_task_and_the_goal() {
        let mut running = job(1, 0.0, None, 0);
        running.running = [(0, -6.0), (1, -2.0)]
            .map(|(index, since_s)| running_map(index, 0, since_s))
            .to_vec();
        let view = view(4, 400.0, vec![running]);
        let room = RoomUntil::of(&view);
        assert!((room.until(29.0, 10.0) - 8.0 * 1000.0).abs() < 1e-6);
        assert!((room.until(18.0, 10.0) - 4.0 * 1000.0).abs() < 1e-6);
        assert!((room.until(17.0, 10.0) - 3.0 * 1000.0).abs() < 1e-6);
        assert_eq!(room.until(9.0, 10.0), 0.0);
        assert_eq!(room.fluid(10.0), 4000.0 - 1200.0);
    }

    /// Two of four nodes run tasks for another 1,000 s. The other two have room for four maps of 10
    /// s each until 40 s, however long the first two run after that.
    #[test]
    fn run_time_beyond_a_goal_takes_no_room_from_that_goal() {
        let mut long = job(1, 0.0, None, 0);
        long.profile.map.task_s = 1000.0;
        long.running = (0..2).map(|index| running_map(index, 0, 0.0)).collect();
        let mut view = view(4, 400.0, vec![long, job(2, 0.0, Some(40.0), 8)]);
        assert_eq!(kept(&view), [2]);
        view.jobs[1].pending_maps = 9;
        assert!(kept(&view).is_empty());
    }

    /// Four nodes; J1 has tasks of 40 s, J2 tasks of 10 s, and both goals are at 60 s. Each node
    /// has time for one task of 40 s and then for two of 10 s: four tasks of J1 and eight of J2. If
    /// only complete tasks of 40 s counted, there would be room for J1 alone.
    #[test]
    fn short_tasks_fill_the_time_that_long_ones_leave() {
        let mut long = job(1, 0.0, Some(60.0), 4);
        long.profile.map.task_s = 40.0;
        let mut view = view(4, 400.0, vec![long, job(2, 0.0, Some(60.0), 8)]);
        assert_eq!(kept(&view), [1, 2]);
        view.jobs[1].pending_maps = 9;
        assert_eq!(kept(&view), [2]);
        view.jobs[0].pending_maps = 5;
        view.jobs[1].pending_maps = 1;
        assert_eq!(kept(&view), [2], "a fifth long one does not fit");
    }

    /// A task of 10 s has 2 s left, and its goal is in 3 s: too late for a new task, but in time
    /// for this one.
    #[test]
    fn a_task_near_its_end_is_on_time_where_it_can_be_paused() {
        let mut last = job(1, 0.0, Some(3.0), 0);
        last.running = vec![running_map(0, 0, -8.0)];
        let mut view = view(4, 400.0, vec![last, job(2, 0.0, Some(30.0), 11)]);
        assert_eq!(kept(&view), [1, 2]);
        view.preemption = Preemption::EveryCycle;
        assert_eq!(kept(&view), [1, 2]);
        // Work of 200 and 12,000 is more than the 12,000 until 30 s.
        view.jobs[1].pending_maps = 12;
        assert_eq!(kept(&view), [1]);
    }

    /// Three cores are there where one was forecast. The surplus of two cores is assumed to decay
    /// with a time constant of 3 h, so in total it gives as much CPU as two cores in 3 h. In the
    /// next ten seconds it gives nearly all that two cores can.
    #[test]
    fn a_forecast_that_is_off_now_is_assumed_to_be_off_for_a_while() {
        let view = view(3, 100.0, Vec::new());
        let room = RoomUntil::of(&view);
        assert!((room.fluid(10.0) - 3000.0).abs() < 1.0);
        let all = room.fluid(1e6) - 1e8;
        assert!((all - 200.0 * DEVIATION_S).abs() < 1.0, "{all}");
    }

    #[test]
    fn no_job_is_on_time_where_no_cpu_is_free() {
        assert!(kept(&view(0, 0.0, vec![job(1, 0.0, Some(1e6), 1)])).is_empty());
    }
}
