//! One job in the simulator: the lengths of its tasks, the pending tasks, and
//! the observed means.

use super::job::SimJob;
use crate::model::{NodeId, Phase, Pool, TaskKind};
use crate::policy::{JobView, RunningTask};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A job's tasks of one kind: its maps or its reduces.
#[derive(Debug, Default)]
struct Tasks {
    lengths_s: Vec<f64>,
    /// Number of the first task that was never started; unused for maps whose input has known
    /// locations.
    next: u32,
    /// Numbers of the tasks that were lost and must be started again. Lost maps are among the
    /// pending splits instead if the locations of their input are known.
    returned: Vec<u32>,
    done: u32,
    /// Sum of the lengths of finished tasks, in seconds.
    observed_s: f64,
}

/// Returns the drawn lengths of a job's tasks in a run with this seed, in seconds: maps and
/// reduces. A task has this length if it has a slot of its own on a regular node with its input.
#[must_use]
pub fn drawn_lengths_s(job: &SimJob, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut run = JobRun::new(job.clone());
    run.draw(seed);
    (run.maps.lengths_s, run.reduces.lengths_s)
}

/// A task that was just started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TaskStart {
    pub index: u32,
    /// Length of the task in a slot of its own on this node, in seconds.
    pub length_s: f64,
    /// False for a map whose input lies on another node.
    pub local: bool,
}

/// Times and counts of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub was_submitted: bool,
    pub started_s: Option<f64>,
    pub maps_done_s: Option<f64>,
    pub finished_s: Option<f64>,
    pub local_maps: u32,
    pub remote_maps: u32,
    pub accelerated_maps: u32,
    pub lost_attempts: u32,
    /// Total time for which attempts held slots, in seconds.
    pub slot_s: f64,
    /// CPU that all attempts held, in hundredths of a core-second.
    pub work: f64,
}

#[derive(Debug)]
pub(super) struct JobRun {
    pub spec: SimJob,
    maps: Tasks,
    reduces: Tasks,
    /// For each [`Pool`] of nodes, in the order of [`Pool::ALL`]: the sum of the lengths of
    /// finished maps in seconds, and their number.
    map_s_on: [(f64, u32); 2],
    pub tally: Tally,
}

impl JobRun {
    pub fn new(spec: SimJob) -> Self {
        Self {
            maps: Tasks::default(),
            reduces: Tasks::default(),
            spec,
            map_s_on: [(0.0, 0); 2],
            tally: Tally::default(),
        }
    }

    fn draw(&mut self, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(self.spec.job.id.0);
        let stragglers = self.spec.stragglers;
        let mut draw = |n: u32, length: super::TaskLength| Tasks {
            lengths_s: (0..n)
                .map(|_| {
                    let length_s = length.draw(&mut rng);
                    match stragglers {
                        Some(s) if rng.random::<f64>() < s.fraction => length_s * s.factor,
                        _ => length_s,
                    }
                })
                .collect(),
            ..Tasks::default()
        };
        self.maps = draw(self.spec.maps, self.spec.map_length);
        self.reduces = draw(self.spec.reduces, self.spec.reduce_length);
    }

    /// Draws the lengths of the tasks, and returns the policy's view of the
    /// job.
    pub fn submit(&mut self, seed: u64) -> JobView {
        self.draw(seed);
        self.tally.was_submitted = true;
        let spec = &self.spec;
        let mut view = JobView::new(spec.job, spec.maps, spec.reduces, spec.profile);
        view.accelerated = spec.speedup.is_some();
        view.local =
            (spec.splits.as_ref()).map(|splits| crate::model::PendingSplits::all(splits.clone()));
        view
    }

    /// Returns whether a pending map would find its input on `node`. True if the input is near to
    /// all nodes.
    pub fn has_local(view: &JobView, node: NodeId) -> bool {
        (view.local.as_ref()).is_none_or(|local| local.first_on(node).is_some())
    }

    /// Starts a pending map or reduce, as the phase requires, on a node of the given pool (regular
    /// or accelerated). There must be a pending task of this kind. Maps whose input is on the node
    /// go before other maps.
    pub fn start(
        &mut self,
        view: &mut JobView,
        phase: Phase,
        (node, pool): (NodeId, Pool),
        now_s: f64,
    ) -> TaskStart {
        let kind = phase.kind();
        // The input of a map without known places is near to all nodes.
        let mut local = true;
        let index = match (kind, &mut view.local) {
            (TaskKind::Map, Some(pending)) => {
                let here = pending.first_on(node);
                local = here.is_some();
                let split = here.or_else(|| pending.first()).expect("a map is pending");
                pending.remove(split);
                split
            }
            // Without known places of the input, any pending task will do, and lost tasks run again
            // before new ones. With known places, a lost map is among the pending splits.
            _ => {
                let tasks = self.tasks(kind);
                tasks.returned.pop().unwrap_or_else(|| {
                    tasks.next += 1;
                    tasks.next - 1
                })
            }
        };
        match kind {
            TaskKind::Map => view.pending_maps -= 1,
            TaskKind::Reduce => view.pending_reduces -= 1,
        }
        view.running.push(RunningTask {
            index,
            node,
            phase,
            since_s: now_s,
        });
        self.tally.started_s.get_or_insert(now_s);
        // By index: a task that was lost has the same length when it runs again.
        let mut length_s = self.tasks(kind).lengths_s[index as usize];
        if kind == TaskKind::Map {
            if local {
                self.tally.local_maps += 1;
            } else {
                self.tally.remote_maps += 1;
                length_s *= self.spec.remote_factor;
            }
            // Only the maps of a job may have an accelerated version.
            if let (Pool::Accelerated, Some(speedup)) = (pool, self.spec.speedup) {
                self.tally.accelerated_maps += 1;
                length_s /= speedup;
            }
        }
        TaskStart {
            index,
            length_s,
            local,
        }
    }

    /// Ends a successful task, `length_s` after its phase began.
    pub fn finish(
        &mut self,
        view: &mut JobView,
        (kind, index): (TaskKind, u32),
        pool: Pool,
        length_s: f64,
        now_s: f64,
    ) {
        leave(view, kind, index);
        let tasks = self.tasks(kind);
        tasks.done += 1;
        tasks.observed_s += length_s;
        let mean_s = tasks.observed_s / f64::from(tasks.done);
        match kind {
            TaskKind::Map => {
                view.profile.map.task_s = mean_s;
                view.done_maps += 1;
                let on = &mut self.map_s_on[pool.index()];
                *on = (on.0 + length_s, on.1 + 1);
                view.map_s_on[pool.index()] = Some(on.0 / f64::from(on.1));
            }
            TaskKind::Reduce => view.profile.reduce.task_s = mean_s,
        }
        if kind == TaskKind::Map && self.maps_done() {
            self.tally.maps_done_s = Some(now_s);
        }
        if self.maps_done() && self.reduces.done == self.spec.reduces {
            self.tally.finished_s = Some(now_s);
        }
    }

    /// Ends a lost attempt, whose task must run again.
    pub fn lose(&mut self, view: &mut JobView, kind: TaskKind, index: u32) {
        leave(view, kind, index);
        self.tally.lost_attempts += 1;
        match (kind, &mut view.local) {
            (TaskKind::Map, Some(pending)) => pending.insert(index),
            _ => self.tasks(kind).returned.push(index),
        }
        match kind {
            TaskKind::Map => view.pending_maps += 1,
            TaskKind::Reduce => view.pending_reduces += 1,
        }
    }

    /// Returns the length of a reduce once it has all its input, in seconds.
    pub fn reduce_s(&self, index: u32) -> f64 {
        self.reduces.lengths_s[index as usize]
    }

    pub fn maps_done(&self) -> bool {
        self.maps.done == self.spec.maps
    }

    fn tasks(&mut self, kind: TaskKind) -> &mut Tasks {
        match kind {
            TaskKind::Map => &mut self.maps,
            TaskKind::Reduce => &mut self.reduces,
        }
    }
}

fn leave(view: &mut JobView, kind: TaskKind, index: u32) {
    let at = (view.running.iter())
        .position(|task| task.index == index && task.phase.kind() == kind)
        .expect("a task ends once");
    view.running.swap_remove(at);
}
