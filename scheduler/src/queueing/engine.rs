//! The simulation loop: arrivals, choices and ends of tasks, slot by slot.

use super::cluster::{Cluster, Locality, ModelError};
use super::discipline::Discipline;
use super::length::{Geometric, luck};
use super::measured::{Measured, Sums};
use super::task::Task;
use super::traffic::{Arrivals, Model, below};
use crate::model::{JobId, NodeId};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Length and seed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of slots of the warm-up, which is not measured.
    pub warmup_slots: u64,
    /// The number of time slots after the warm-up, which are measured.
    pub slots: u64,
    /// Seed of all random numbers of the run: for the arrivals and sizes of jobs, the nodes that
    /// hold their data, the lengths of tasks, the order in which idle nodes choose tasks, and ties.
    pub seed: u64,
    /// Number of waiting tasks above which the run stops, so that an unstable run
    /// exhausts neither memory nor patience. The result then covers the slots until the
    /// stop and is not stable.
    pub backlog_max: u64,
}

impl Run {
    /// Returns a run of `slots` slots after a warm-up of a fifth of that; it stops above 20
    /// million waiting tasks.
    #[must_use]
    pub const fn new(slots: u64, seed: u64) -> Self {
        Self {
            warmup_slots: slots / 5,
            slots,
            seed,
            backlog_max: 20_000_000,
        }
    }
}

/// The unfinished jobs, in a table. Tasks refer to their job by its position in the table
/// ([`Task::job`]). The position of a finished job is reused.
#[derive(Debug, Default)]
struct Jobs {
    /// For each position: the id of the job, the time slot in which it arrived, and the number of
    /// its unfinished tasks.
    table: Vec<(JobId, u64, u32)>,
    /// For each position of `table`: the number of running tasks of the job.
    running: Vec<u32>,
    free: Vec<u32>,
    submitted: u64,
}

impl Jobs {
    fn submit(&mut self, slot: u64, tasks: u32) -> u32 {
        let entry = (JobId(self.submitted), slot, tasks);
        self.submitted += 1;
        if let Some(at) = self.free.pop() {
            self.table[at as usize] = entry;
            return at;
        }
        self.table.push(entry);
        self.running.push(0);
        self.table.len() as u32 - 1
    }

    fn unfinished(&self) -> u64 {
        (self.table.len() - self.free.len()) as u64
    }
}

/// The task of each node, and the nodes whose tasks end in each slot.
#[derive(Debug)]
struct Service {
    cluster: Cluster,
    seed: u64,
    lengths: [Geometric; 3],
    /// A ring buffer over the coming time slots: at index t modulo (the longest length + 1), the
    /// nodes whose tasks end in slot t.
    ends: Vec<Vec<NodeId>>,
    serving: Vec<Option<(Task, Locality)>>,
    idle: Vec<NodeId>,
    /// Number of waiting tasks.
    waiting: u64,
    running: u64,
}

impl Service {
    fn new(cluster: Cluster, seed: u64) -> Self {
        let all = [Locality::Local, Locality::Rack, Locality::Remote];
        let lengths = all.map(|locality| Geometric::new(cluster.rate(locality)));
        let longest = lengths.iter().map(|length| length.slots_max()).max();
        Self {
            cluster,
            seed,
            lengths,
            ends: vec![Vec::new(); longest.unwrap_or(1) as usize + 1],
            serving: vec![None; cluster.nodes as usize],
            idle: (0..cluster.nodes).map(NodeId).collect(),
            waiting: 0,
            running: 0,
        }
    }

    fn start(&mut self, node: NodeId, task: Task, job: JobId, slot: u64) {
        let locality = self.cluster.locality(&task, node);
        let luck = luck(self.seed, job.0, task.index);
        let slots = self.lengths[locality as usize].slots(luck);
        let last = (slot + u64::from(slots) - 1) as usize % self.ends.len();
        self.ends[last].push(node);
        self.serving[node.0 as usize] = Some((task, locality));
    }
}

/// Simulates the model under a policy.
///
/// # Errors
/// When the model cannot be simulated.
pub fn simulate(
    model: &Model,
    discipline: &mut dyn Discipline,
    run: Run,
) -> Result<Measured, ModelError> {
    simulate_observed(model, discipline, run, |_| {})
}

/// Counts at the end of a time slot of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfSlot {
    /// Number of the slot, from 0, including the warm-up.
    pub slot: u64,
    /// Number of tasks that wait or run.
    pub tasks: u64,
    /// Number of unfinished jobs.
    pub jobs: u64,
}

/// Simulates like [`simulate`] and calls `observe` at the end of each slot.
///
/// # Errors
/// When the model cannot be simulated.
pub fn simulate_observed(
    model: &Model,
    discipline: &mut dyn Discipline,
    run: Run,
    mut observe: impl FnMut(EndOfSlot),
) -> Result<Measured, ModelError> {
    model.check()?;
    let mut arrivals = Arrivals::new(model, ChaCha8Rng::seed_from_u64(run.seed));
    let mut ties = ChaCha8Rng::seed_from_u64(run.seed ^ 0x7469_6573);
    let mut jobs = Jobs::default();
    let mut service = Service::new(model.cluster, run.seed);
    let mut sums = Sums::default();
    for slot in 0..run.warmup_slots + run.slots {
        let counted = slot >= run.warmup_slots;
        while let Some((tasks, stream)) = arrivals.next_job(slot) {
            let job = jobs.submit(slot, tasks);
            for index in 0..tasks {
                let task = arrivals.task(job, index, stream);
                discipline.route(task, &mut ties);
            }
            service.waiting += u64::from(tasks);
            sums.out.arrived += u64::from(tasks) * u64::from(counted);
        }
        choose(discipline, &mut service, &mut jobs, &mut ties, slot);
        let counting = counted.then_some(&mut sums);
        end(discipline, &mut service, &mut jobs, slot, counting);
        let ended = EndOfSlot {
            slot,
            tasks: service.waiting + service.running,
            jobs: jobs.unfinished(),
        };
        // In the warm-up, too: a run may stop there, and its backlog is the reason.
        sums.out.backlog_at_end = ended.tasks;
        if counted {
            sums.end_slot(ended.tasks, ended.jobs);
        }
        observe(ended);
        if service.waiting > run.backlog_max {
            sums.out.overflowed = true;
            break;
        }
    }
    Ok(sums.measured())
}

/// Lets the idle nodes choose tasks in the slot `slot`, in random order.
fn choose(
    discipline: &mut dyn Discipline,
    service: &mut Service,
    jobs: &mut Jobs,
    ties: &mut ChaCha8Rng,
    slot: u64,
) {
    // The first `open` idle nodes have not chosen yet; those behind found no task.
    let mut open = service.idle.len();
    while open > 0 && service.waiting > 0 {
        let at = below(ties, open as u32) as usize;
        open -= 1;
        service.idle.swap(at, open);
        let node = service.idle[open];
        let Some(task) = discipline.choose(node, &jobs.running, ties) else {
            continue;
        };
        service.idle.swap_remove(open);
        jobs.running[task.job as usize] += 1;
        service.start(node, task, jobs.table[task.job as usize].0, slot);
        service.waiting -= 1;
        service.running += 1;
    }
}

/// Ends the tasks that run for the last time in the time slot `slot`, and adds them to `sums`, which
/// is `None` during the warm-up.
fn end(
    discipline: &mut dyn Discipline,
    service: &mut Service,
    jobs: &mut Jobs,
    slot: u64,
    mut sums: Option<&mut Sums>,
) {
    let at = slot as usize % service.ends.len();
    let mut ending = std::mem::take(&mut service.ends[at]);
    for node in ending.drain(..) {
        let serving = service.serving[node.0 as usize].take();
        let (task, locality) = serving.expect("a node ends what it started");
        service.running -= 1;
        service.idle.push(node);
        let job = task.job as usize;
        jobs.running[job] -= 1;
        discipline.finished(node, &task, &jobs.running);
        let (_, arrived, left) = &mut jobs.table[job];
        *left -= 1;
        let (delay, done) = (slot - *arrived + 1, *left == 0);
        if done {
            jobs.free.push(task.job);
        }
        if let Some(sums) = sums.as_deref_mut() {
            sums.out.finished += 1;
            sums.out.local += u64::from(locality == Locality::Local);
            sums.out.rack_local += u64::from(locality == Locality::Rack);
            sums.task_delay += delay;
            sums.out.finished_jobs += u64::from(done);
            sums.job_delay += delay * u64::from(done);
        }
    }
    service.ends[at] = ending;
}
