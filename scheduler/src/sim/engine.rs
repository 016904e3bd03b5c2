//! The event loop, and the Task Scheduler that carries placements out.

use super::config::{SimConfig, SimError, SimJob, check};
use super::job_run::JobRun;
use super::report::{JobRecord, ShareSample, SimReport, TaskRecord};
use crate::model::{JobId, Node, NodeId, Phase, Resources, TaskId};
use crate::policy::{ClusterView, Placement, Policy, Preemption};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Runs `jobs` under `policy` until all are done or the horizon is reached.
///
/// # Errors
/// When the configuration or a job cannot be simulated.
pub fn simulate(
    config: &SimConfig,
    jobs: Vec<SimJob>,
    policy: &dyn Policy,
) -> Result<SimReport, SimError> {
    check(config, &jobs)?;
    let mut engine = Engine::new(config, jobs);
    while let Some(event) = engine.events.pop() {
        if event.at_s > config.horizon_s {
            break;
        }
        engine.now_s = event.at_s;
        match event.what {
            What::Submit(job) => engine.submit(job),
            What::Finish(task) => engine.finish(task),
            What::Cycle => engine.cycle(policy),
        }
    }
    Ok(engine.report())
}

/// Ordered as they happen at the same instant: a cycle sees what came in and
/// what was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Submit(JobId),
    Finish(TaskId),
    Cycle,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_s: f64,
    what: What,
}

/// A max-heap pops the earliest.
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .at_s
            .total_cmp(&self.at_s)
            .then(other.what.cmp(&self.what))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

struct Engine<'a> {
    config: &'a SimConfig,
    now_s: f64,
    events: BinaryHeap<Event>,
    cycle_is_due: bool,
    order: Vec<JobId>,
    jobs: BTreeMap<JobId, JobRun>,
    /// Jobs that have been submitted and are not done.
    active: BTreeSet<JobId>,
    /// What analytics may use of each node in this cycle.
    capacity: Vec<Resources>,
    /// What running tasks use of each node; above capacity while they drain.
    used: Vec<Resources>,
    placement: Placement,
    tasks: Vec<TaskRecord>,
    shares: Vec<ShareSample>,
}

impl<'a> Engine<'a> {
    fn new(config: &'a SimConfig, jobs: Vec<SimJob>) -> Self {
        Self {
            config,
            now_s: 0.0,
            events: (jobs.iter())
                .map(|job| Event {
                    at_s: job.job.submitted_s,
                    what: What::Submit(job.job.id),
                })
                .collect(),
            cycle_is_due: false,
            order: jobs.iter().map(|job| job.job.id).collect(),
            jobs: jobs
                .into_iter()
                .map(|job| (job.job.id, JobRun::new(job, config.seed)))
                .collect(),
            active: BTreeSet::new(),
            capacity: vec![Resources::default(); config.nodes as usize],
            used: vec![Resources::default(); config.nodes as usize],
            placement: Placement::new(),
            tasks: Vec::new(),
            shares: Vec::new(),
        }
    }

    fn submit(&mut self, job: JobId) {
        self.active.insert(job);
        if !self.cycle_is_due {
            self.cycle_is_due = true;
            let cycles = (self.now_s / self.config.cycle_s).ceil();
            self.push((cycles * self.config.cycle_s).max(self.now_s), What::Cycle);
        }
    }

    fn finish(&mut self, task: TaskId) {
        let now_s = self.now_s;
        let job = self.job(task.job);
        let attempt = job.finish(task, now_s);
        let demand = job.spec.profile.demand(attempt.phase);
        if job.finished_s.is_some() {
            self.active.remove(&task.job);
        }
        let used = &mut self.used[attempt.node.0 as usize];
        *used = used.less(&demand);
        self.tasks.push(TaskRecord {
            task,
            node: attempt.node,
            started_s: attempt.started_s,
            finished_s: now_s,
        });
        self.end_shuffles();
        self.start_tasks(Some(attempt.node));
    }

    fn cycle(&mut self, policy: &dyn Policy) {
        if self.active.is_empty() {
            self.cycle_is_due = false;
            return;
        }
        let view = self.view();
        self.placement = policy.decide(&view);
        self.capacity = view.nodes.iter().map(|node| node.capacity).collect();
        self.end_shuffles();
        self.start_tasks(None);
        self.shares.push(ShareSample {
            t_s: self.now_s,
            available_hundredths: self.available_hundredths(),
            held_hundredths: self.held_hundredths(),
        });
        self.push(self.now_s + self.config.cycle_s, What::Cycle);
    }

    fn view(&self) -> ClusterView {
        ClusterView {
            now_s: self.now_s,
            cycle_s: self.config.cycle_s,
            nodes: self.nodes(),
            availability: self.config.availability.clone(),
            jobs: self.active().map(|job| job.view(self.now_s)).collect(),
            preemption: Preemption::Never,
            reduce_start: self.config.reduce_start,
        }
    }

    /// Shares f(t) out to whole nodes, first to those where most tasks run:
    /// no task is stranded on a node that lost its capacity while another
    /// node's idles. The CPU of all nodes together is f(t), rounded down.
    fn nodes(&self) -> Vec<Node> {
        let mut running = vec![0_u32; self.config.nodes as usize];
        for attempt in self.active().flat_map(|job| job.running.values()) {
            running[attempt.node.0 as usize] += 1;
        }
        let mut order: Vec<usize> = (0..running.len()).collect();
        order.sort_by_key(|&node| (u32::MAX - running[node], node));
        let mut nodes: Vec<Node> = (0..self.config.nodes)
            .map(|id| Node {
                id: NodeId(id),
                capacity: self.config.node,
            })
            .collect();
        let mut left = self.available_hundredths();
        for node in order {
            let cpu = self.config.node.cpu_hundredths.min(left);
            nodes[node].capacity.cpu_hundredths = cpu;
            left -= cpu;
        }
        nodes
    }

    fn available_hundredths(&self) -> u32 {
        self.config.availability.at(self.now_s).floor() as u32
    }

    fn held_hundredths(&self) -> Vec<(JobId, u32)> {
        self.active()
            .filter(|job| !job.running.is_empty())
            .map(|job| {
                let held = job.running.values();
                let held =
                    held.map(|attempt| job.spec.profile.demand(attempt.phase).cpu_hundredths);
                (job.spec.job.id, held.sum())
            })
            .collect()
    }

    /// Lets reduces go on whose maps are done, where there is room for what they
    /// need then (section 4.2.4, the last step of Algorithm 1).
    fn end_shuffles(&mut self) {
        let shuffled: Vec<(TaskId, NodeId)> = (self.active())
            .filter(|job| job.spec.reduces > 0 && job.maps_done())
            .flat_map(|job| &job.running)
            .filter(|(_, attempt)| attempt.phase == Phase::Shuffle)
            .map(|(task, attempt)| (*task, attempt.node))
            .collect();
        for (task, node) in shuffled {
            let profile = self.job(task.job).spec.profile;
            let others = self.used[node.0 as usize].less(&profile.shuffle.demand);
            if self.capacity[node.0 as usize]
                .less(&others)
                .fits(&profile.reduce.demand)
            {
                self.used[node.0 as usize] = others.plus(&profile.reduce.demand);
                let now_s = self.now_s;
                let finish_s = self.job(task.job).end_shuffle(task, now_s);
                self.push(finish_s, What::Finish(task));
            }
        }
    }

    /// The Task Scheduler of section 4.2.5: starts tasks until every job holds
    /// what the placement gives it, as far as the nodes have room; on one node,
    /// where a task just ended, or on all.
    fn start_tasks(&mut self, only_on: Option<NodeId>) {
        let placement = std::mem::take(&mut self.placement);
        for (job, node, kind, slots) in placement.iter() {
            if only_on.is_some_and(|only_on| only_on != node) {
                continue;
            }
            while self.job(job).running_on(node, kind) < slots {
                let Some(phase) = self.job(job).next_phase(kind) else {
                    break;
                };
                if !self.start(job, node, phase) {
                    break;
                }
            }
        }
        self.placement = placement;
    }

    fn start(&mut self, job: JobId, node: NodeId, phase: Phase) -> bool {
        let demand = self.job(job).spec.profile.demand(phase);
        let used = &mut self.used[node.0 as usize];
        if !self.capacity[node.0 as usize].less(used).fits(&demand) {
            return false;
        }
        *used = used.plus(&demand);
        let now_s = self.now_s;
        let (task, finish_s) = self.job(job).start(phase, node, now_s);
        if let Some(finish_s) = finish_s {
            self.push(finish_s, What::Finish(task));
        }
        true
    }

    fn active(&self) -> impl Iterator<Item = &JobRun> {
        self.active.iter().map(|id| &self.jobs[id])
    }

    fn job(&mut self, id: JobId) -> &mut JobRun {
        self.jobs
            .get_mut(&id)
            .expect("events and placements name known jobs")
    }

    fn push(&mut self, at_s: f64, what: What) {
        self.events.push(Event { at_s, what });
    }

    fn report(self) -> SimReport {
        let jobs = (self.order.iter())
            .map(|id| {
                let run = &self.jobs[id];
                JobRecord {
                    job: run.spec.job,
                    started_s: run.started_s,
                    finished_s: run.finished_s,
                    met: run.spec.job.met(run.finished_s),
                }
            })
            .collect();
        SimReport {
            jobs,
            tasks: self.tasks,
            shares: self.shares,
            end_s: self.now_s,
        }
    }
}
