//! The second step of a decision: the slots of a draft on nodes.
//!
//! Running tasks keep their places up to the number of slots of their job. Slots still due go to
//! capacity that is free now, and the rest to capacity that becomes free when a task without a slot
//! drains.

use super::draft::{Draft, typed_slot};
use super::kept_maps::{KeptMaps, PlacementState};
use super::matrix::Placement;
use super::room::Room;
use super::view::{DELAYS_MAX, Preemption, Wait};
use crate::model::{JobId, NodeId, Resources, TaskKind};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The assignment of slots to nodes, while it is made. The draft has the number of slots of each
/// job; the assignment adds the node of each slot.
#[derive(Debug)]
pub(super) struct Places<'a> {
    draft: Draft<'a>,
    /// Positions of the jobs that have slots in the draft or running tasks, the most urgent first.
    order: Vec<usize>,
    /// Free resources of the nodes after the slots given so far.
    planned: Room,
    /// Free resources of the nodes after the slots given so far and the tasks that drain: these
    /// have lost their slots, but run until they end.
    idle: Room,
    /// Number of slots that have a node already, per job and kind of task.
    placed: Vec<[u32; 2]>,
    /// For each job, the number of maps that [`offer`](Self::offer) has started in this decision.
    new_maps: Vec<u32>,
    /// Number of reduces with slots, per node.
    reduces_on: Vec<u32>,
    /// Running maps that keep their slots, unless a job's maps fit on no node beside them.
    kept_maps: KeptMaps,
    /// Per job: true if a slot of one of its running maps went to another job.
    yielded: Vec<bool>,
    /// All slots except those in `kept_maps`.
    chosen: Vec<(NodeId, JobId, TaskKind)>,
}

impl Draft<'_> {
    /// Assigns the drafted slots to nodes. Slots that fit on no node are left out.
    pub fn carry_out(self) -> Placement {
        Placement::of_slots(self.place_all())
    }

    /// Like [`carry_out`](Self::carry_out), but prefers nodes with the maps' input. First, maps
    /// with their input on an idle node go to that node, those of the most urgent job first. Then
    /// the other slots are assigned. If a job's input locations are known, the job waits for nodes
    /// with its input: it leaves its other slots unused, for up to [`DELAYS_MAX`] cycles in a row.
    ///
    /// `urgent[i]` is the number of slots for which the job at position i of the view may not wait.
    /// Also returns the jobs whose waits changed, with their new waits.
    pub fn carry_out_near(self, urgent: &[u32]) -> (Placement, Vec<(JobId, Wait)>) {
        let mut places = Places::keeping(self);
        places.spread_reduces();
        places.place_local_maps();
        let waits = places.place_patiently(urgent);
        (Placement::of_slots(places.slots()), waits)
    }

    /// Like [`carry_out`](Self::carry_out), but each map goes to the job for which `rank` returns
    /// the least value. `rank` gets the position of a job and the number of maps that the job runs
    /// or would start.
    pub fn carry_out_to_least<R: Ord>(self, rank: impl Fn(usize, u32) -> R) -> Placement {
        let mut places = Places::keeping(self);
        places.spread_reduces();
        places.place_maps_to_least(rank);
        Placement::of_slots(places.slots())
    }

    /// Like [`carry_out`](Self::carry_out), but returns an entry for each slot instead of the
    /// matrix.
    pub fn place_all(self) -> Vec<(NodeId, JobId, TaskKind)> {
        let mut places = Places::keeping(self);
        places.spread_reduces();
        places.place_maps();
        places.slots()
    }
}

impl<'a> Places<'a> {
    /// Creates the assignment in which running tasks keep their slots, as far as the draft has
    /// slots for them, and no other slot has a node yet.
    pub fn keeping(draft: Draft<'a>) -> Self {
        let jobs = &draft.scope.view.jobs;
        let has_slots =
            |job| draft.slots(job, TaskKind::Map) > 0 || draft.slots(job, TaskKind::Reduce) > 0;
        let is_involved = |job: usize| has_slots(job) || !jobs[job].running.is_empty();
        let order = draft.scope.view.by_urgency(is_involved);
        let (mut planned, mut idle) = (draft.capacity.clone(), draft.capacity.clone());
        let mut places = Self {
            planned: Room::new(Vec::new(), draft.least),
            idle: Room::new(Vec::new(), draft.least),
            placed: vec![[0; 2]; jobs.len()],
            new_maps: vec![0; jobs.len()],
            reduces_on: vec![0; draft.capacity.len()],
            kept_maps: KeptMaps::new(draft.capacity.len()),
            yielded: vec![false; jobs.len()],
            chosen: Vec::new(),
            order,
            draft,
        };
        for at in 0..places.order.len() {
            places.keep_running(places.order[at], &mut planned, &mut idle);
        }
        places.planned = Room::new(planned, places.draft.least);
        places.idle = Room::new(idle, places.draft.least);
        places
    }

    /// Lets the running tasks of `job` keep slots on their nodes, as many as the draft has for the
    /// job. Subtracts the tasks' demands from the free capacity: from `idle`, which is free now,
    /// and from `planned`, which is free once the tasks without a slot have ended.
    fn keep_running(
        &mut self,
        job: usize,
        planned: &mut [Option<Resources>],
        idle: &mut [Option<Resources>],
    ) {
        let take = |free: &mut Option<Resources>, demand: &Resources| {
            *free = free.map(|free| free.less(demand));
        };
        let scope = self.draft.scope;
        let view = &scope.view.jobs[job];
        let few =
            |kind: TaskKind| (self.draft.slots(job, kind) as usize) < view.running_of(kind).count();
        // Where there are fewer slots than tasks, the tasks whose phases began first lose their slots. Tasks of
        // one phase have one estimated length, so these end soonest, and their nodes become free for other jobs
        // first. (A shuffle may lose its slot before a reduce that ends sooner.)
        let mut latest_first;
        let running = if few(TaskKind::Map) || few(TaskKind::Reduce) {
            latest_first = view.running.clone();
            latest_first.sort_by(|a, b| {
                (b.since_s.total_cmp(&a.since_s)).then((a.phase, a.index).cmp(&(b.phase, b.index)))
            });
            &latest_first
        } else {
            &view.running
        };
        for task in running {
            let node = task.node.0 as usize;
            // This draft does not decide on nodes outside of its scope.
            if node >= self.draft.capacity.len() || !scope.contains(task.node) {
                continue;
            }
            let kind = task.phase.kind();
            let demand = if self.draft.typed {
                typed_slot(kind)
            } else {
                view.profile.demand(task.phase)
            };
            let starting = self.draft.demand[job][kind as usize];
            let kept =
                self.is_due(job, kind) && planned[node].is_some_and(|free| free.fits(&starting));
            // A slot is as large as the next task in it: the slot of a shuffle has to hold the
            // reduce that follows.
            if kept {
                take(&mut idle[node], &demand.max(&starting));
                take(&mut planned[node], &starting);
                self.placed[job][kind as usize] += 1;
                // Only maps may still lose their slots, to jobs whose tasks fit on no node.
                match kind {
                    TaskKind::Map => self.kept_maps.add(node, job),
                    TaskKind::Reduce => self.note(job, node, kind),
                }
            } else if scope.view.preemption == Preemption::Never {
                // A task without a slot drains: its capacity is planned for others, but idle only
                // when it has ended. With preemption it is paused at once.
                take(&mut idle[node], &demand);
            }
        }
    }

    /// Returns whether `job` has fewer slots of `kind` on nodes so far than the draft gives it.
    fn is_due(&self, job: usize, kind: TaskKind) -> bool {
        self.placed[job][kind as usize] < self.draft.slots(job, kind)
    }

    fn note(&mut self, job: usize, node: usize, kind: TaskKind) {
        let view = self.draft.scope.view;
        self.reduces_on[node] += u32::from(kind == TaskKind::Reduce);
        self.chosen
            .push((view.nodes[node].id, view.jobs[job].job.id, kind));
    }

    fn put(&mut self, job: usize, node: usize, kind: TaskKind) {
        let demand = self.draft.demand[job][kind as usize];
        self.planned.take(node, &demand);
        self.idle.take(node, &demand);
        self.placed[job][kind as usize] += 1;
        self.note(job, node, kind);
    }

    /// Places each reduce, among the nodes with room for it, on the one with the fewest reduces of
    /// all jobs; among equal nodes, on the one with the fewest of the same job (the thesis's
    /// Algorithm 1, lines 1-9).
    fn spread_reduces(&mut self) {
        let kind = TaskKind::Reduce;
        if !self.order.iter().any(|&job| self.is_due(job, kind)) {
            return;
        }
        let mut nodes: BTreeSet<(u32, usize)> =
            (self.reduces_on.iter().copied()).zip(0..).collect();
        for at in 0..self.order.len() {
            let job = self.order[at];
            if !self.is_due(job, kind) {
                continue;
            }
            let mut own = vec![0_u32; self.reduces_on.len()];
            for task in self.draft.scope.view.jobs[job].running_of(kind) {
                if let Some(own) = own.get_mut(task.node.0 as usize) {
                    *own += 1;
                }
            }
            while self.is_due(job, kind) {
                let demand = self.draft.demand[job][kind as usize];
                let fits = |&&(_, node): &&(u32, usize)| self.planned.fits(node, &demand);
                let Some(&(fewest, _)) = nodes.iter().find(fits) else {
                    break;
                };
                let node = nodes
                    .range((fewest, 0)..=(fewest, usize::MAX))
                    .filter(fits)
                    .map(|&(_, node)| node)
                    .min_by_key(|&node| own[node])
                    .expect("one fits");
                nodes.remove(&(fewest, node));
                nodes.insert((fewest + 1, node));
                own[node] += 1;
                self.put(job, node, kind);
            }
        }
    }

    /// Places maps on idle nodes that hold their input.
    fn place_local_maps(&mut self) {
        let kind = TaskKind::Map;
        for at in 0..self.order.len() {
            let job = self.order[at];
            let Some(local) = &self.draft.scope.view.jobs[job].local else {
                continue;
            };
            let demand = self.draft.demand[job][kind as usize];
            let mut waiting = local.iter();
            while self.is_due(job, kind)
                && let Some(split) = waiting.next()
            {
                let idle = |node: &&NodeId| {
                    let node = **node;
                    (node.0 as usize) < self.draft.capacity.len()
                        && self.idle.fits(node.0 as usize, &demand)
                };
                if let Some(node) = local.splits().nodes_of(split).iter().find(idle) {
                    self.put(job, node.0 as usize, kind);
                }
            }
        }
    }

    /// Places maps on the node with the most idle CPU. If no node has enough, places them where a
    /// task without a slot still runs, whose capacity becomes free when it ends.
    fn place_maps(&mut self) {
        for at in 0..self.order.len() {
            let job = self.order[at];
            self.place_maps_of(job, self.draft.slots(job, TaskKind::Map));
        }
    }

    /// Like [`place_maps`](Self::place_maps), but one map at a time, to the job with the least
    /// `rank`. `rank` gets the position of a job and the number of maps that the job runs or would
    /// start.
    fn place_maps_to_least<R: Ord>(&mut self, rank: impl Fn(usize, u32) -> R) {
        let kind = TaskKind::Map;
        let entry = |job: usize, maps: u32| Reverse((rank(job, maps), job, maps));
        let mut queue: BinaryHeap<_> = (self.order.iter())
            .filter(|&&job| self.is_due(job, kind))
            .map(|&job| entry(job, self.active_maps(job)))
            .collect();
        while let Some(Reverse((_, job, maps))) = queue.pop() {
            let before = self.placed[job][kind as usize];
            self.place_maps_of(job, before + 1);
            if self.placed[job][kind as usize] > before && self.is_due(job, kind) {
                queue.push(entry(job, maps + 1));
            }
        }
    }

    /// Places maps of `job` until it has `slots` slots for maps on nodes, or no node has enough
    /// free capacity for another.
    fn place_maps_of(&mut self, job: usize, slots: u32) {
        let kind = TaskKind::Map;
        let demand = self.draft.demand[job][kind as usize];
        while self.placed[job][kind as usize] < slots {
            let idle = self.idle.roomiest(&demand);
            match idle.or_else(|| self.planned.roomiest(&demand)) {
                Some(node) => self.put(job, node, kind),
                None if self.make_room(job) => {}
                None => break,
            }
        }
    }

    /// Like [`place_maps`](Self::place_maps), but a job leaves slots unused for which it may wait
    /// for a node with its input. `urgent[i]` is the number of slots for which the job at position
    /// i may not wait. Returns the jobs whose waits changed, with their new waits.
    fn place_patiently(&mut self, urgent: &[u32]) -> Vec<(JobId, Wait)> {
        let kind = TaskKind::Map;
        let view = self.draft.scope.view;
        let jobs = &view.jobs;
        let mut waits: Vec<Wait> = jobs.iter().map(|job| job.wait).collect();
        for at in 0..self.order.len() {
            let job = self.order[at];
            let slots = self.draft.slots(job, kind);
            let may_wait = jobs[job].local.is_some() && waits[job].skips < DELAYS_MAX;
            let now = if may_wait {
                slots.min(urgent[job])
            } else {
                slots
            };
            self.place_maps_of(job, now);
            let demand = self.draft.demand[job][kind as usize];
            let skipped =
                self.placed[job][kind as usize] < slots && self.idle.fits_anywhere(&demand);
            let skips = &mut waits[job].skips;
            *skips = if skipped { *skips + 1 } else { 0 };
        }
        view.changed_waits(waits)
    }

    /// Evicts running maps of other jobs, on the node where the fewest have to go, until one map of
    /// `job` fits there. Returns false if there is no such node, if the draft does not let maps
    /// lose their slots, or if `job` has itself lost a slot this way: otherwise slots would go back
    /// and forth.
    fn make_room(&mut self, job: usize) -> bool {
        if !self.draft.yielding || self.yielded[job] {
            return false;
        }
        let map = TaskKind::Map as usize;
        let demand = self.draft.demand[job][map];
        let size = |job: usize| self.draft.demand[job][map];
        let taken = self.kept_maps.take_fewest(
            job,
            &demand,
            &PlacementState {
                planned: &self.planned,
                size: &size,
                spare: &|job| (self.placed[job][map] as usize).saturating_sub(1),
            },
        );
        let Some((node, losers)) = taken else {
            return false;
        };
        for of in losers {
            self.placed[of][map] -= 1;
            self.yielded[of] = true;
            self.planned.give(node, &self.draft.demand[of][map]);
        }
        self.kept_maps.correct_bounds(
            node,
            &PlacementState {
                planned: &self.planned,
                size: &size,
                spare: &|job| (self.placed[job][map] as usize).saturating_sub(1),
            },
        );
        true
    }

    /// Returns all slots that have a node.
    fn slots(self) -> Vec<(NodeId, JobId, TaskKind)> {
        let view = self.draft.scope.view;
        let kept = (self.kept_maps.slots())
            .map(|(node, job)| (view.nodes[node].id, view.jobs[job].job.id, TaskKind::Map));
        self.chosen.into_iter().chain(kept).collect()
    }

    /// Assigns reduces as [`Draft::carry_out`] does. Maps are assigned one by one, each on a node
    /// with idle capacity, to the job that `choose` returns.
    ///
    /// `choose` gets the node. It may return any job for which [`can_start`](Self::can_start) holds
    /// there; `None` leaves the free capacity of the node idle in this cycle.
    pub fn offer(mut self, mut choose: impl FnMut(&Self, NodeId) -> Option<usize>) -> Placement {
        self.spread_reduces();
        let demands = self.draft.demand.iter();
        let least_map = demands
            .map(|demand| demand[TaskKind::Map as usize])
            .reduce(|a, b| a.min(&b))
            .unwrap_or_default();
        for node in 0..self.draft.capacity.len() {
            while self.idle.fits(node, &least_map) {
                let Some(job) = choose(&self, NodeId(node as u32)) else {
                    break;
                };
                self.new_maps[job] += 1;
                self.put(job, node, TaskKind::Map);
            }
        }
        Placement::of_slots(self.slots())
    }

    /// Returns whether a map of `job` is pending and fits into the idle capacity of `node`.
    pub fn can_start(&self, job: usize, node: NodeId) -> bool {
        let demand = self.draft.demand[job][TaskKind::Map as usize];
        self.has_pending(job) && self.idle.fits(node.0 as usize, &demand)
    }

    /// Returns whether `job` has a pending map that this decision has not started.
    pub fn has_pending(&self, job: usize) -> bool {
        self.draft.scope.view.jobs[job].pending_maps > self.new_maps[job]
    }

    /// Returns the number of maps of `job` that run, plus those that [`offer`](Self::offer) has
    /// started in this decision.
    pub fn active_maps(&self, job: usize) -> u32 {
        let running = self.draft.scope.view.jobs[job].running_of(TaskKind::Map);
        running.count() as u32 + self.new_maps[job]
    }
}
