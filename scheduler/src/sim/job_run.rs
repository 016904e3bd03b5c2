//! One job inside the simulator: what is pending, running and done.

use super::config::SimJob;
use crate::model::{NodeId, Phase, TaskId, TaskKind, expected_remaining_s};
use crate::policy::{JobView, RunningTask};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// A task that holds a slot.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub node: NodeId,
    pub phase: Phase,
    /// When it took its slot.
    pub started_s: f64,
    /// When its present phase began.
    pub phase_from_s: f64,
}

/// Tasks of one kind: lengths, and how far they are.
#[derive(Debug, Default)]
struct Tasks {
    lengths_s: Vec<f64>,
    started: u32,
    done: u32,
    observed_s: f64,
}

impl Tasks {
    fn pending(&self) -> u32 {
        self.lengths_s.len() as u32 - self.started
    }

    fn mean_s(&self, estimate_s: f64) -> f64 {
        if self.done == 0 {
            estimate_s
        } else {
            self.observed_s / f64::from(self.done)
        }
    }
}

#[derive(Debug)]
pub struct JobRun {
    pub spec: SimJob,
    maps: Tasks,
    reduces: Tasks,
    /// Ordered, so that every walk over it is deterministic.
    pub running: BTreeMap<TaskId, Attempt>,
    pub started_s: Option<f64>,
    pub finished_s: Option<f64>,
}

impl JobRun {
    pub fn new(spec: SimJob, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(spec.job.id.0);
        let mut draw = |n: u32, length: super::TaskLength| Tasks {
            lengths_s: (0..n).map(|_| length.draw(&mut rng)).collect(),
            ..Tasks::default()
        };
        Self {
            maps: draw(spec.maps, spec.map_length),
            reduces: draw(spec.reduces, spec.reduce_length),
            spec,
            running: BTreeMap::new(),
            started_s: None,
            finished_s: None,
        }
    }

    pub fn maps_done(&self) -> bool {
        self.maps.done == self.spec.maps
    }

    /// What the policy sees of this job at `now_s`.
    pub fn view(&self, now_s: f64) -> JobView {
        let mut profile = self.spec.profile;
        profile.map.task_s = self.maps.mean_s(profile.map.task_s);
        profile.reduce.task_s = self.reduces.mean_s(profile.reduce.task_s);
        let running = (self.running.values())
            .map(|attempt| RunningTask {
                node: attempt.node,
                phase: attempt.phase,
                remaining_s: match attempt.phase {
                    Phase::Map => {
                        expected_remaining_s(profile.map.task_s, now_s - attempt.phase_from_s)
                    }
                    Phase::Shuffle => profile.reduce.task_s,
                    Phase::Reduce => {
                        expected_remaining_s(profile.reduce.task_s, now_s - attempt.phase_from_s)
                    }
                },
            })
            .collect();
        JobView {
            job: self.spec.job,
            pending_maps: self.maps.pending(),
            pending_reduces: self.reduces.pending(),
            running,
            profile,
        }
    }

    pub fn running_on(&self, node: NodeId, kind: TaskKind) -> u32 {
        self.running
            .iter()
            .filter(|(task, attempt)| task.kind == kind && attempt.node == node)
            .count() as u32
    }

    /// The phase the next pending task of `kind` starts in, if there is one.
    pub fn next_phase(&self, kind: TaskKind) -> Option<Phase> {
        match kind {
            TaskKind::Map => (self.maps.pending() > 0).then_some(Phase::Map),
            TaskKind::Reduce if self.reduces.pending() == 0 => None,
            TaskKind::Reduce if self.maps_done() => Some(Phase::Reduce),
            TaskKind::Reduce => Some(Phase::Shuffle),
        }
    }

    /// Starts the next pending task; returns it and, unless it only shuffles,
    /// when it will finish. [`next_phase`](Self::next_phase) must be `Some`.
    pub fn start(&mut self, phase: Phase, node: NodeId, now_s: f64) -> (TaskId, Option<f64>) {
        let kind = phase.kind();
        let tasks = self.tasks_mut(kind);
        let index = tasks.started;
        tasks.started += 1;
        let length_s = tasks.lengths_s[index as usize];
        let task = TaskId {
            job: self.spec.job.id,
            kind,
            index,
        };
        self.started_s.get_or_insert(now_s);
        self.running.insert(
            task,
            Attempt {
                node,
                phase,
                started_s: now_s,
                phase_from_s: now_s,
            },
        );
        (task, (phase != Phase::Shuffle).then_some(now_s + length_s))
    }

    /// Lets a shuffling reduce go on to its reduce phase; returns its end.
    pub fn end_shuffle(&mut self, task: TaskId, now_s: f64) -> f64 {
        let attempt = self
            .running
            .get_mut(&task)
            .expect("the shuffling task runs");
        attempt.phase = Phase::Reduce;
        attempt.phase_from_s = now_s;
        now_s + self.reduces.lengths_s[task.index as usize]
    }

    /// Takes a finished task out.
    pub fn finish(&mut self, task: TaskId, now_s: f64) -> Attempt {
        let attempt = self.running.remove(&task).expect("a task finishes once");
        let tasks = self.tasks_mut(task.kind);
        tasks.done += 1;
        tasks.observed_s += now_s - attempt.phase_from_s;
        if self.maps_done() && self.reduces.done == self.spec.reduces {
            self.finished_s = Some(now_s);
        }
        attempt
    }

    fn tasks_mut(&mut self, kind: TaskKind) -> &mut Tasks {
        match kind {
            TaskKind::Map => &mut self.maps,
            TaskKind::Reduce => &mut self.reduces,
        }
    }
}
