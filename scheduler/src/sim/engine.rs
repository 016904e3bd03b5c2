//! The event loop, and the Task Scheduler that starts tasks by a placement.

use super::config::{SimConfig, SimError, check};
use super::events::{Event, Events};
use super::job::SimJob;
use super::job_run::JobRun;
use super::node_run::{Attempt, NodeRun};
use super::report::{JobRecord, ShareSample, SimReport, TaskRecord};
use super::share_out::share_out;
use crate::model::{JobId, Node, NodeId, Phase, TaskId, TaskKind};
use crate::ordered_f64::OrderedF64;
use crate::policy::{
    ClusterView, Decision, Measure, Policy, Refill, satisfaction, satisfaction_with,
};

/// Simulates `jobs` under `policy` until all are done or the horizon is reached.
///
/// # Errors
/// When the configuration or a job cannot be simulated.
pub fn simulate(
    config: &SimConfig,
    jobs: Vec<SimJob>,
    policy: &dyn Policy,
) -> Result<SimReport, SimError> {
    check(config, &jobs)?;
    let mut engine = Engine::new(config, jobs, policy);
    while let Some((at_s, event)) = engine.events.pop() {
        if at_s > config.horizon_s {
            engine.now_s = config.horizon_s;
            break;
        }
        engine.now_s = at_s;
        engine.handle(event);
        if engine.unfinished == 0 {
            break;
        }
    }
    Ok(engine.report())
}

struct Engine<'a> {
    config: &'a SimConfig,
    policy: &'a dyn Policy,
    /// True if the policy counts typed slots (for maps, for reduces) instead of resources.
    typed: bool,
    now_s: f64,
    events: Events,
    cycle_is_due: bool,
    unfinished: usize,
    /// All jobs, ordered by id. Positions of jobs elsewhere in the engine refer to this
    /// vector.
    jobs: Vec<JobRun>,
    /// For each job, in the order in which the caller passed them: its position in `jobs`.
    input_order: Vec<usize>,
    /// Positions of the jobs that are submitted after the end of another one.
    followers: Vec<usize>,
    /// For each position in `jobs`: the index of that job in `view.jobs`, or `usize::MAX` while the
    /// view does not contain the job.
    at: Vec<usize>,
    /// The policy's view of the cluster. Its jobs are those that were submitted and are
    /// not done, most urgent first, so that policies need not sort much.
    view: ClusterView,
    nodes: Vec<NodeRun>,
    decision: Decision,
    /// Reduces that have all their input and wait for enough free capacity for their reduce phase:
    /// node, position of the job, index.
    shuffled: Vec<(NodeId, usize, u32)>,
    tasks: Vec<TaskRecord>,
    shares: Vec<ShareSample>,
    next_share_s: f64,
    work_in_window: f64,
}

impl<'a> Engine<'a> {
    /// Creates an engine at time 0, with the submissions and the losses of nodes as its events. The
    /// first control cycle is scheduled with the first submission.
    fn new(config: &'a SimConfig, jobs: Vec<SimJob>, policy: &'a dyn Policy) -> Self {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.job.id).collect();
        let mut jobs: Vec<JobRun> = jobs.into_iter().map(JobRun::new).collect();
        jobs.sort_by_key(|job| job.spec.job.id);
        // The view has no jobs yet: each is added when it is submitted.
        let nodes = (0..).zip(&config.nodes).map(|(id, spec)| Node {
            id: NodeId(id),
            capacity: spec.capacity,
            slots: spec.slots,
            pool: spec.pool,
        });
        let mut engine = Self {
            view: ClusterView {
                now_s: 0.0,
                cycle_s: config.cycle_s,
                nodes: nodes.collect(),
                // Policies plan with the forecast. The true availability decides in each cycle how
                // much capacity the nodes have.
                availability: config.forecast.clone(),
                jobs: Vec::new(),
                preemption: config.preemption,
                reduce_start: config.reduce_start,
            },
            nodes: config.nodes.iter().copied().map(NodeRun::new).collect(),
            config,
            policy,
            typed: policy.measure() == Measure::Slots,
            now_s: 0.0,
            events: Events::default(),
            cycle_is_due: false,
            unfinished: jobs.len(),
            input_order: Vec::new(),
            followers: Vec::new(),
            at: vec![usize::MAX; jobs.len()],
            jobs,
            decision: Decision::default(),
            shuffled: Vec::new(),
            tasks: Vec::new(),
            shares: Vec::new(),
            next_share_s: 0.0,
            work_in_window: 0.0,
        };
        // After the jobs are sorted: `position` searches them.
        engine.input_order = ids.into_iter().map(|id| engine.position(id)).collect();
        for (job, run) in engine.jobs.iter().enumerate() {
            // The submission of a job that follows another one counts from the end of that job, which
            // is not known yet: `schedule_followers` adds the event.
            match run.spec.after {
                Some(_) => engine.followers.push(job),
                None => (engine.events).push(run.spec.job.submitted_s, Event::Submit { job }),
            }
        }
        for loss in &config.losses {
            let node = loss.node.0 as usize;
            engine.events.push(loss.at_s, Event::Down { node });
            if let Some(back_s) = loss.back_s {
                engine.events.push(back_s, Event::Up { node });
            }
        }
        engine
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Submit { job } => self.submit(job),
            Event::Finish {
                node,
                job,
                kind,
                index,
                version,
            } => self.finish(node, job, kind, index, version),
            Event::Down { node } => self.lose(node),
            Event::Up { node } => self.nodes[node].losses -= 1,
            Event::Cycle => self.cycle(),
        }
    }

    fn submit(&mut self, job: usize) {
        let view = self.jobs[job].submit(self.config.seed);
        let jobs = &self.view.jobs;
        let at = jobs.partition_point(|other| other.urgency() < view.urgency());
        self.view.jobs.insert(at, view);
        self.renumber(at);
        if !self.cycle_is_due {
            self.cycle_is_due = true;
            let cycles = (self.now_s / self.config.cycle_s).ceil();
            let at_s = (cycles * self.config.cycle_s).max(self.now_s);
            self.events.push(at_s, Event::Cycle);
        }
    }

    fn renumber(&mut self, from: usize) {
        for at in from..self.view.jobs.len() {
            let job = self.position(self.view.jobs[at].job.id);
            self.at[job] = at;
        }
    }

    fn finish(&mut self, node: usize, job: usize, kind: TaskKind, index: u32, version: u32) {
        let run = &mut self.nodes[node];
        let Some(at) =
            (run.position(job, kind, index)).filter(|&at| run.attempts[at].version == version)
        else {
            return;
        };
        let attempt = run.remove(at);
        let pool = run.spec.pool;
        let view = &mut self.view.jobs[self.at[job]];
        let length_s = self.now_s - attempt.phase_from_s;
        let maps_were_done = self.jobs[job].maps_done();
        self.jobs[job].finish(view, (kind, index), pool, length_s, self.now_s);
        self.account(&attempt);
        if self.config.recording.tasks {
            self.tasks.push(TaskRecord {
                task: TaskId {
                    job: self.jobs[job].spec.job.id,
                    kind,
                    index,
                },
                node: NodeId(node as u32),
                started_s: attempt.started_s,
                finished_s: self.now_s,
                local: attempt.local,
            });
        }
        if !maps_were_done && self.jobs[job].maps_done() {
            let reduces = self.view.jobs[self.at[job]].running_of(TaskKind::Reduce);
            self.shuffled
                .extend(reduces.map(|reduce| (reduce.node, job, reduce.index)));
        }
        if self.jobs[job].tally.finished_s.is_some() {
            let at = self.at[job];
            self.view.jobs.remove(at);
            self.at[job] = usize::MAX;
            self.renumber(at);
            self.unfinished -= 1;
            self.schedule_followers(job);
        }
        self.settle(node);
        self.end_shuffles();
        self.fill(NodeId(node as u32));
    }

    /// Schedules the submission of the jobs that follow the job at position `done`, which has
    /// ended.
    fn schedule_followers(&mut self, done: usize) {
        let done = self.jobs[done].spec.job.id;
        for &job in &self.followers {
            let spec = &mut self.jobs[job].spec;
            if spec.after == Some(done) {
                spec.job.submitted_s += self.now_s;
                spec.job.goal_s = spec.job.goal_s.map(|goal_s| goal_s + self.now_s);
                (self.events).push(spec.job.submitted_s, Event::Submit { job });
            }
        }
    }

    /// Adds the slot time and CPU of an ended attempt to its job.
    fn account(&mut self, attempt: &Attempt) {
        self.jobs[attempt.job].tally.slot_s += self.now_s - attempt.started_s;
        self.account_phase(attempt);
    }

    /// Charges the attempt's job for the CPU that the attempt has held in its present phase. Adds
    /// the part of this CPU that lies within the measured window to the work of the window.
    fn account_phase(&mut self, attempt: &Attempt) {
        let cpu = f64::from(attempt.demand.cpu_hundredths);
        self.jobs[attempt.job].tally.work += (self.now_s - attempt.phase_from_s) * cpu;
        let (from_s, until_s) = self.config.window_s;
        let within_s = self.now_s.min(until_s) - attempt.phase_from_s.max(from_s);
        self.work_in_window += within_s.max(0.0) * cpu;
    }

    fn lose(&mut self, node: usize) {
        self.nodes[node].losses += 1;
        self.view.nodes[node].capacity = crate::model::Resources::default();
        self.view.nodes[node].slots = None;
        while let Some(at) = self.nodes[node].attempts.len().checked_sub(1) {
            let attempt = self.nodes[node].remove(at);
            let (job, kind) = (attempt.job, attempt.phase.kind());
            let view = &mut self.view.jobs[self.at[job]];
            self.jobs[job].lose(view, kind, attempt.index);
            self.account(&attempt);
        }
        self.shuffled.retain(|&(on, ..)| on.0 as usize != node);
    }

    fn cycle(&mut self) {
        if self.view.jobs.is_empty() {
            self.cycle_is_due = false;
            return;
        }
        self.view.now_s = self.now_s;
        let available = self.available_hundredths();
        share_out(
            available,
            self.config.spread,
            &self.nodes,
            &mut self.view.nodes,
        );
        self.decision = self.policy.decide(&self.view);
        for (id, wait) in std::mem::take(&mut self.decision.waits) {
            let job = self.position(id);
            self.view.jobs[self.at[job]].wait = wait;
        }
        self.end_shuffles();
        let mut cell = 0;
        while let Some(&first) = self.decision.placement.cells().get(cell) {
            cell += self.fill_cells(first.node, cell, Refill::AnyTask);
        }
        self.sample(available);
        self.events
            .push(self.now_s + self.config.cycle_s, Event::Cycle);
    }

    fn available_hundredths(&self) -> u32 {
        self.config.availability.at(self.now_s).floor() as u32
    }

    /// Moves reduces whose maps are done into the reduce phase, if the free capacity suffices for
    /// the demand of that phase (section 4.2.4, the last step of Algorithm 1).
    fn end_shuffles(&mut self) {
        let mut at = 0;
        while let Some(&(node, job, index)) = self.shuffled.get(at) {
            if self.end_shuffle(node.0 as usize, job, index) {
                self.shuffled.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    fn end_shuffle(&mut self, node: usize, job: usize, index: u32) -> bool {
        let run = &mut self.nodes[node];
        let at = run
            .position(job, TaskKind::Reduce, index)
            .expect("a shuffling reduce runs");
        let demand = self.jobs[job].spec.profile.reduce.demand;
        let others = run.used.less(&run.attempts[at].demand);
        let typed = self.typed && run.spec.slots.is_some();
        if !typed && !self.view.nodes[node].capacity.less(&others).fits(&demand) {
            return false;
        }
        run.used = others.plus(&demand);
        let shuffle = run.attempts[at];
        self.account_phase(&shuffle);
        let attempt = &mut self.nodes[node].attempts[at];
        attempt.phase = Phase::Reduce;
        attempt.phase_from_s = self.now_s;
        attempt.demand = demand;
        attempt.left_s = self.jobs[job].reduce_s(index);
        attempt.as_of_s = self.now_s;
        schedule_end(&mut self.events, node, attempt);
        let view = &mut self.view.jobs[self.at[job]];
        let task = (view.running.iter_mut())
            .find(|task| task.index == index && task.phase == Phase::Shuffle)
            .expect("a shuffling reduce is seen");
        task.phase = Phase::Reduce;
        task.since_s = self.now_s;
        self.settle(node);
        true
    }

    /// Starts tasks on one node until each job has the slots there that the policy's placement
    /// gives it, or the node has no more free capacity: the Task Scheduler of the thesis, section
    /// 4.2.5.
    fn fill(&mut self, node: NodeId) {
        let cells = self.decision.placement.cells();
        let from = cells.partition_point(|cell| cell.node < node);
        self.fill_cells(node, from, self.decision.refill);
    }

    /// Starts tasks as [`fill`](Self::fill) does, and returns the number of the node's cells. A
    /// cell of the placement is the number of slots of one job on one node, for maps or for
    /// reduces. `from` is the index of the node's first cell. If several jobs wait for capacity,
    /// the job with the smallest [satisfaction](Self::satisfaction_of) goes first. `refill` limits
    /// which tasks may start.
    fn fill_cells(&mut self, node: NodeId, from: usize, refill: Refill) -> usize {
        let cells = &self.decision.placement.cells()[from..];
        let count = cells.partition_point(|cell| cell.node == node);
        let here = node.0 as usize;
        let mut due: Vec<(usize, TaskKind, u32)> = Vec::new();
        for cell in &cells[..count] {
            let job = self.position(cell.job);
            let held = self.nodes[here].running_of(job, cell.kind);
            if held < cell.slots {
                due.push((job, cell.kind, cell.slots - held));
            }
        }
        due.sort_by_cached_key(|&(job, ..)| OrderedF64(self.satisfaction_of(job)));
        for (job, kind, slots) in due {
            for _ in 0..slots {
                if !self.start(job, here, kind, refill) {
                    break;
                }
            }
        }
        count
    }

    /// Returns the satisfaction of a job, which rises with the number of running tasks compared with
    /// those that it needs for its goal, by the thesis's equation (5); 1 once the job is done.
    fn satisfaction_of(&self, job: usize) -> f64 {
        let Some(view) = self.view.jobs.get(self.at[job]) else {
            return 1.0;
        };
        let runs = |kind: TaskKind| view.running_of(kind).count() as u32;
        let slots = [runs(TaskKind::Map), runs(TaskKind::Reduce)];
        satisfaction_with(&self.view, view, slots)
    }

    fn start(&mut self, job: usize, node: usize, kind: TaskKind, refill: Refill) -> bool {
        let Some(view) = self.view.jobs.get_mut(self.at[job]) else {
            return false;
        };
        if view.pending(kind) == 0 {
            return false;
        }
        let phase = match kind {
            TaskKind::Map => Phase::Map,
            TaskKind::Reduce if self.jobs[job].maps_done() => Phase::Reduce,
            TaskKind::Reduce => Phase::Shuffle,
        };
        let here = NodeId(node as u32);
        let local_only = refill == Refill::LocalTask && kind == TaskKind::Map;
        if local_only && !JobRun::has_local(view, here) {
            return false;
        }
        let demand = self.jobs[job].spec.profile.demand(phase);
        let run = &mut self.nodes[node];
        if !run.has_room(&self.view.nodes[node], self.typed, kind, &demand) {
            return false;
        }
        let started = self.jobs[job].start(view, phase, (here, run.spec.pool), self.now_s);
        run.used = run.used.plus(&demand);
        let mut attempt = Attempt {
            job,
            index: started.index,
            phase,
            demand,
            started_s: self.now_s,
            phase_from_s: self.now_s,
            local: started.local,
            left_s: started.length_s,
            as_of_s: self.now_s,
            speed: 1.0,
            version: 0,
        };
        if phase == Phase::Shuffle {
            attempt.left_s = f64::INFINITY;
        } else {
            schedule_end(&mut self.events, node, &mut attempt);
        }
        run.attempts.push(attempt);
        self.settle(node);
        true
    }

    /// Reschedules the ends of those tasks on the node at position `node` whose speed has changed.
    /// Called after a task there has started, ended or begun another phase: tasks in typed slots may
    /// together demand more than the node has, and then slow each other down.
    fn settle(&mut self, node: usize) {
        if !self.typed || self.nodes[node].spec.slots.is_none() {
            return;
        }
        let Self {
            nodes,
            events,
            now_s,
            ..
        } = self;
        for attempt in nodes[node].settle(*now_s) {
            if attempt.left_s.is_finite() {
                schedule_end(events, node, attempt);
            }
        }
    }

    fn sample(&mut self, available_hundredths: u32) {
        let Some(every_s) = self.config.recording.shares_every_s else {
            return;
        };
        if self.now_s < self.next_share_s {
            return;
        }
        self.next_share_s = self.now_s + every_s;
        let mut held: Vec<(JobId, u32)> = (self.view.jobs.iter())
            .filter(|job| !job.running.is_empty())
            .map(|job| {
                let demand = |phase| job.profile.demand(phase).cpu_hundredths;
                let cpu = job.running.iter().map(|task| demand(task.phase));
                // With typed slots, the tasks of a node may demand more CPU than it has,
                // so the sum saturates.
                (job.job.id, cpu.fold(0, u32::saturating_add))
            })
            .collect();
        held.sort_unstable();
        let attempts = self.nodes.iter().flat_map(|node| node.attempts.iter());
        let used = attempts.map(|task| f64::from(task.demand.cpu_hundredths) * task.speed);
        self.shares.push(ShareSample {
            t_s: self.now_s,
            available_hundredths,
            held_hundredths: held,
            used_hundredths: used.sum(),
            utilities: satisfaction(&self.view, &self.decision.placement),
        });
    }

    /// Returns the position in `jobs` of the job with this id, which must exist.
    fn position(&self, id: JobId) -> usize {
        let of = |at: usize| self.jobs[at].spec.job.id;
        // Ids usually count up without a gap.
        let guess = id.0.saturating_sub(of(0).0) as usize;
        if guess < self.jobs.len() && of(guess) == id {
            return guess;
        }
        (self.jobs.binary_search_by_key(&id, |job| job.spec.job.id))
            .expect("views and placements name known jobs")
    }

    fn report(mut self) -> SimReport {
        let running: Vec<Attempt> = (self.nodes.iter())
            .flat_map(|node| node.attempts.iter().copied())
            .collect();
        for attempt in &running {
            self.account(attempt);
        }
        let (from_s, until_s) = self.config.window_s;
        let until_s = until_s.min(self.now_s).max(from_s);
        let record = |job: &usize| JobRecord::of(&self.jobs[*job].spec, &self.jobs[*job].tally);
        SimReport {
            jobs: self.input_order.iter().map(record).collect(),
            tasks: self.tasks,
            shares: self.shares,
            end_s: self.now_s,
            window_s: (from_s, until_s),
            work_in_window: self.work_in_window,
            available_in_window: self.config.availability.integral(from_s, until_s),
        }
    }
}

/// Schedules the end of a task by its present speed. The attempt's new version invalidates the ends
/// that were scheduled earlier.
fn schedule_end(events: &mut Events, node: usize, attempt: &mut Attempt) {
    attempt.version += 1;
    events.push(
        attempt.end_s(),
        Event::Finish {
            node,
            job: attempt.job,
            kind: attempt.phase.kind(),
            index: attempt.index,
            version: attempt.version,
        },
    );
}
