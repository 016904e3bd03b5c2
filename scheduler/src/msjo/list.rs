//! List scheduling: from an order of tasks to machines and times.
//!
//! | | a machine that falls free | gaps |
//! | --- | --- | --- |
//! | [`in_order`] | takes the next task, and waits for it | where tasks are late; nothing is put there |
//! | [`non_idling`] | takes the first of those that may start | only when none may |
//!
//! [`in_order_on`] and [`non_idling_on`] do the same for tasks that are assigned to
//! machines in advance.

use super::instance::Instance;
use super::order::by_key;
use super::schedule::Schedule;
use crate::model::{NodeId, TaskKind};
use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Converts a time that is not negative to an integer that sorts in the same way, because a heap needs
/// [`Ord`]. The bits of such floats, read as integers, have the order of the floats.
const fn bits(time_s: f64) -> u64 {
    time_s.to_bits()
}

/// A priority queue of machines: first the one that becomes free earliest, ties by number.
#[derive(Debug, Default)]
struct Machines(BinaryHeap<Reverse<(u64, u32)>>);

impl Machines {
    fn reset(&mut self, free_s: &[f64]) {
        self.0.clear();
        let machines = (0..).zip(free_s);
        (self.0).extend(machines.map(|(machine, &free_s)| Reverse((bits(free_s), machine))));
    }

    /// Removes the machine that is free first; returns the time from which it is free, and its
    /// number.
    fn pop(&mut self) -> (f64, u32) {
        let Reverse((free_s, machine)) = self.0.pop().expect("an instance has machines");
        (f64::from_bits(free_s), machine)
    }

    fn push(&mut self, free_s: f64, machine: u32) {
        self.0.push(Reverse((bits(free_s), machine)));
    }
}

/// Returns the schedule of MarS's Algorithm 2, lines 5 to 14. It assigns task by task to the
/// machine that is free first (of several, the lowest number), and starts the task once the machine
/// is free and the task may start. A later task never starts in a gap left behind.
///
/// `order` holds every task once, and no reduce before the maps of its job.
#[must_use]
pub fn in_order(instance: &Instance, order: &[usize]) -> Schedule {
    let mut machines = Machines::default();
    machines.reset(&instance.free_s);
    let mut outputs_s = vec![0.0_f64; instance.jobs.len()];
    let mut schedule = empty(instance);
    for &at in order {
        let task = &instance.tasks[at];
        let (free_s, machine) = machines.pop();
        let mut earliest_s = task.released_s;
        if task.id.kind == TaskKind::Reduce {
            earliest_s = earliest_s.max(outputs_s[task.job]);
        }
        let start_s = free_s.max(earliest_s);
        let end_s = start_s + task.length_s;
        machines.push(end_s, machine);
        if task.id.kind == TaskKind::Map {
            outputs_s[task.job] = outputs_s[task.job].max(end_s + task.delay_s);
        }
        schedule.start_s[at] = start_s;
        schedule.node[at] = NodeId(machine);
    }
    schedule
}

/// Returns the schedule in which each machine runs its tasks in the order of `order`, and idles while
/// the next one may not start yet. `node` has the machine of each task of the instance. `order` is as
/// for [`in_order`].
///
/// # Panics
/// When a task is on a machine that does not exist.
#[must_use]
pub fn in_order_on(instance: &Instance, order: &[usize], node: &[NodeId]) -> Schedule {
    let mut free_s = instance.free_s.clone();
    let mut outputs_s = vec![0.0_f64; instance.jobs.len()];
    let mut start_s = vec![0.0; instance.tasks.len()];
    for &at in order {
        let task = &instance.tasks[at];
        let reduce = task.id.kind == TaskKind::Reduce;
        let input_s = if reduce { outputs_s[task.job] } else { 0.0 };
        let free_s = &mut free_s[node[at].0 as usize];
        start_s[at] = free_s.max(task.released_s).max(input_s);
        *free_s = start_s[at] + task.length_s;
        if !reduce {
            outputs_s[task.job] = outputs_s[task.job].max(*free_s + task.delay_s);
        }
    }
    Schedule {
        start_s,
        node: node.to_vec(),
    }
}

/// Returns the schedule that results when a plan is executed and the tasks have the lengths in
/// `instance`: each machine runs its tasks in their planned order, each as early as possible.
///
/// # Panics
/// When a task is on a machine that does not exist.
#[must_use]
pub fn carried_out(instance: &Instance, planned: &Schedule) -> Schedule {
    in_order_on(instance, &by_key(instance, &planned.start_s), &planned.node)
}

/// Like [`non_idling`], but the machine of each task is given by `node`: a free machine takes the task
/// of least rank among its own tasks that may start.
///
/// Scans all tasks at each start, so its time is quadratic in their number. MARES calls it once, after a linear
/// program that takes far longer. `NonIdling`, which tries many orders, keeps heaps.
///
/// # Panics
/// When a task is on a machine that does not exist.
#[must_use]
pub fn non_idling_on(instance: &Instance, ranks: &[u32], node: &[NodeId]) -> Schedule {
    /// A machine, and those of its unstarted tasks whose earliest start is known.
    #[derive(Default)]
    struct Machine {
        free_s: f64,
        /// Earliest start, rank, and position in the instance of each task.
        tasks: Vec<(f64, u32, usize)>,
    }
    impl Machine {
        /// Returns the earliest time at which the machine can start one of its tasks; infinite without
        /// tasks.
        fn next_s(&self) -> f64 {
            let starts_s = self.tasks.iter().map(|&(from_s, _, _)| from_s);
            self.free_s.max(starts_s.fold(f64::INFINITY, f64::min))
        }
    }
    let mut machines: Vec<Machine> = (instance.free_s.iter())
        .map(|&free_s| Machine {
            free_s,
            tasks: Vec::new(),
        })
        .collect();
    let add = |machines: &mut Vec<Machine>, at: usize, from_s: f64| {
        let tasks = &mut machines[node[at].0 as usize].tasks;
        tasks.push((from_s, ranks[at], at));
    };
    let mut maps_left: Vec<usize> = instance.jobs.iter().map(|job| job.maps.len()).collect();
    let mut outputs_s = vec![0.0_f64; instance.jobs.len()];
    // The reduces of a job without maps wait for no output.
    for (job, &maps) in instance.jobs.iter().zip(&maps_left) {
        let first = if maps > 0 { &job.maps } else { &job.reduces };
        for at in first.clone() {
            add(&mut machines, at, instance.tasks[at].released_s);
        }
    }
    let mut schedule = empty(instance);
    for _ in 0..instance.tasks.len() {
        // Always the earliest start of all: a task that may start because of this one starts later, since
        // lengths are positive.
        let machine = (machines.iter_mut())
            .min_by_key(|machine| OrderedF64(machine.next_s()))
            .expect("an instance has machines");
        let now_s = machine.next_s();
        let (place, _) = (machine.tasks.iter().enumerate())
            .filter(|(_, (from_s, _, _))| *from_s <= now_s)
            .min_by_key(|(_, (_, rank, at))| (*rank, *at))
            .expect("something may start then");
        // The order of a machine's tasks does not matter: rank and position choose among them.
        let (_, _, at) = machine.tasks.swap_remove(place);
        let task = &instance.tasks[at];
        machine.free_s = now_s + task.length_s;
        let end_s = machine.free_s;
        schedule.start_s[at] = now_s;
        schedule.node[at] = node[at];
        if task.id.kind == TaskKind::Map {
            outputs_s[task.job] = outputs_s[task.job].max(end_s + task.delay_s);
            maps_left[task.job] -= 1;
            // Reduces need the output of all maps: with the last map its arrival is known.
            if maps_left[task.job] == 0 {
                for reduce in instance.jobs[task.job].reduces.clone() {
                    let from_s = outputs_s[task.job].max(instance.tasks[reduce].released_s);
                    add(&mut machines, reduce, from_s);
                }
            }
        }
    }
    schedule
}

fn empty(instance: &Instance) -> Schedule {
    Schedule {
        start_s: vec![0.0; instance.tasks.len()],
        node: vec![NodeId(0); instance.tasks.len()],
    }
}

/// Returns the schedule in which a free machine always takes the task of least rank among
/// those that may start, and idles only if there is none. It does not look at later
/// releases, so an online scheduler would build the same schedule.
#[must_use]
pub fn non_idling(instance: &Instance, ranks: &[u32]) -> Schedule {
    NonIdling::default().schedule(instance, ranks)
}

/// Builds the schedule of [`non_idling`], and keeps its buffers between calls, for callers that try
/// many orders of the tasks.
#[derive(Debug, Default)]
pub(super) struct NonIdling {
    machines: Machines,
    /// Tasks that may start, by rank; then by position.
    ready: BinaryHeap<Reverse<(u32, u32)>>,
    /// Tasks that may start later, by the time from which they may start.
    later: BinaryHeap<Reverse<(u64, u32)>>,
    maps_left: Vec<u32>,
    outputs_s: Vec<f64>,
}

impl NonIdling {
    pub fn schedule(&mut self, instance: &Instance, ranks: &[u32]) -> Schedule {
        let mut schedule = empty(instance);
        self.run(instance, ranks, |at, start_s, machine| {
            schedule.start_s[at] = start_s;
            schedule.node[at] = NodeId(machine);
        });
        schedule
    }

    /// Calls `place` for every task with its start and its machine, by ascending start.
    pub fn run(
        &mut self,
        instance: &Instance,
        ranks: &[u32],
        mut place: impl FnMut(usize, f64, u32),
    ) {
        self.machines.reset(&instance.free_s);
        self.ready.clear();
        self.later.clear();
        self.maps_left.clear();
        (self.maps_left).extend(instance.jobs.iter().map(|job| job.maps.len() as u32));
        self.outputs_s.clear();
        self.outputs_s.resize(instance.jobs.len(), 0.0);
        // The reduces of a job without maps wait for no output.
        for job in &instance.jobs {
            let first = if job.maps.is_empty() {
                &job.reduces
            } else {
                &job.maps
            };
            let released = first.clone().map(|at| {
                let released_s = instance.tasks[at].released_s;
                Reverse((bits(released_s), at as u32))
            });
            self.later.extend(released);
        }
        let mut now_s = 0.0_f64;
        for _ in 0..instance.tasks.len() {
            // A machine that was free before now found nothing to start.
            let (free_s, machine) = self.machines.pop();
            now_s = now_s.max(free_s);
            if self.ready.is_empty()
                && let Some(&Reverse((next_s, _))) = self.later.peek()
            {
                now_s = now_s.max(f64::from_bits(next_s));
            }
            while let Some(&Reverse((next_s, at))) = self.later.peek()
                && next_s <= bits(now_s)
            {
                self.later.pop();
                self.ready.push(Reverse((ranks[at as usize], at)));
            }
            let Reverse((_, at)) = self.ready.pop().expect("as many tasks as turns");
            let task = &instance.tasks[at as usize];
            let end_s = now_s + task.length_s;
            self.machines.push(end_s, machine);
            place(at as usize, now_s, machine);
            if task.id.kind == TaskKind::Map {
                let outputs_s = &mut self.outputs_s[task.job];
                *outputs_s = outputs_s.max(end_s + task.delay_s);
                self.maps_left[task.job] -= 1;
                // Reduces need the output of all maps: with the last map its arrival is known.
                if self.maps_left[task.job] == 0 {
                    for reduce in instance.jobs[task.job].reduces.clone() {
                        let from_s = outputs_s.max(instance.tasks[reduce].released_s);
                        self.later.push(Reverse((bits(from_s), reduce as u32)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, one_job};
    use super::super::order::ranks;
    use super::*;

    /// Returns an instance of two machines. The first job has maps of 2 s and 5 s (the output of
    /// the longer one takes 1 s to arrive) and a reduce of 3 s. The second job is released at 1 s
    /// and has one map of 4 s.
    fn instance() -> Instance {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(2.0, 0.0), (5.0, 1.0)], &[3.0]),
            job(1, 1.0, 1.0, &[(4.0, 0.0)], &[]),
        ];
        Instance::new(2, jobs).unwrap()
    }

    /// The given order is: the first job's two maps, its reduce, the second job's map. The reduce
    /// takes the machine that becomes free at 2 s, which idles until the reduce may start at 6 s.
    /// The second job's map does not fill this gap; it takes the other machine, from 5 s on.
    #[test]
    fn in_order_leaves_gaps_that_nothing_fills() {
        let schedule = in_order(&instance(), &[0, 1, 2, 3]);
        assert_eq!(schedule.start_s, [0.0, 0.0, 6.0, 5.0]);
        assert_eq!(schedule.node, [0, 1, 0, 1].map(NodeId));
    }

    /// The ranks are in the order of the tasks. At 2 s a machine becomes free: the first job's
    /// reduce may not start yet, so the second job's map does. At 5 s nothing may start. At 6 s the
    /// reduce starts, on the machine that has been free for longest.
    #[test]
    fn non_idling_starts_what_may_start() {
        let schedule = non_idling(&instance(), &[0, 1, 2, 3]);
        assert_eq!(schedule.start_s, [0.0, 0.0, 6.0, 2.0]);
        assert_eq!(schedule.node, [0, 1, 1, 0].map(NodeId));
    }

    /// Both machines are free from 0 on, but both maps are released at 3 s. The first machine waits
    /// for its map until then; the second machine must wait too.
    #[test]
    fn no_machine_starts_before_a_release_what_another_waited_for() {
        let instance = one_job(2, 3.0, &[(2.0, 0.0), (2.0, 0.0)], &[]);
        assert_eq!(non_idling(&instance, &[0, 1]).start_s, [3.0, 3.0]);
    }

    #[test]
    fn a_job_without_maps_and_busy_machines_are_waited_for() {
        let mut instance = one_job(1, 3.0, &[], &[2.0, 1.0]);
        instance.free_s[0] = 4.0;
        let shortest = ranks(&instance, |at| instance.tasks[at].length_s);
        assert_eq!(non_idling(&instance, &shortest).start_s, [5.0, 4.0]);
    }

    /// The plan assumes maps of 4 s and 6 s; in truth they take 9 s and 2 s.
    #[test]
    fn a_plan_is_carried_out_in_its_order_with_the_true_lengths() {
        let planned = Schedule {
            start_s: vec![1.0, 1.0, 8.0],
            node: [0, 1, 1].map(NodeId).to_vec(),
        };
        let truth = one_job(2, 1.0, &[(9.0, 2.0), (2.0, 1.0)], &[3.0]);
        let schedule = carried_out(&truth, &planned);
        assert_eq!(schedule.start_s, [1.0, 1.0, 12.0]);
        assert_eq!(schedule.check(&truth), Ok(()));
    }

    /// The second job's map is assigned to the machine that idles until the first job's reduce may
    /// start, at 6 s. In order the map runs after the reduce; without idling it runs in the gap.
    #[test]
    fn assigned_tasks_fill_the_gaps_of_their_own_machine() {
        let node = [0, 1, 0, 0].map(NodeId);
        let waits = in_order_on(&instance(), &[0, 1, 2, 3], &node);
        assert_eq!(waits.start_s, [0.0, 0.0, 6.0, 9.0]);
        let fills = non_idling_on(&instance(), &[0, 1, 2, 3], &node);
        assert_eq!(fills.start_s, [0.0, 0.0, 6.0, 2.0]);
        assert_eq!(fills.node, node);
    }
}
