//! The slots of each job, before they have nodes.
//!
//! A decision is made in two steps. First a policy adds slots to the draft, one at a time and in
//! its own order, as long as the cluster has free capacity. This step ignores the nodes on which
//! tasks run at the moment. Then [`places`](super::places) assigns these slots to nodes.

use super::decision::Measure;
use super::room::Room;
use super::view::{ClusterView, JobView};
use crate::model::{NodeId, Pool, Resources, TaskKind};

/// The nodes that a decision covers, and the unit of their free capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub view: &'a ClusterView,
    pub measure: Measure,
    /// The pool of machines (with or without accelerators) that the decision covers; `None` if it
    /// covers all nodes.
    pub pool: Option<Pool>,
}

impl<'a> Scope<'a> {
    pub const fn all(view: &'a ClusterView, measure: Measure) -> Self {
        Self {
            view,
            measure,
            pool: None,
        }
    }

    pub fn contains(&self, node: NodeId) -> bool {
        self.pool.is_none_or(|pool| self.view.pool(node) == pool)
    }

    fn typed(&self) -> bool {
        self.measure == Measure::Slots && self.view.nodes.iter().any(|node| node.slots.is_some())
    }

    /// Returns the full capacity of each node; `None` for nodes that are down or that the decision
    /// does not cover.
    fn room(&self) -> Vec<Option<Resources>> {
        let typed = self.typed();
        let room = self.view.nodes.iter().map(|node| {
            let down = node.capacity == Resources::default();
            if down || !self.contains(node.id) {
                None
            } else if typed {
                let slots = node.slots.unwrap_or_default();
                Some(typed_room(slots.maps, slots.reduces))
            } else {
                Some(node.capacity)
            }
        });
        room.collect()
    }

    /// Returns the resources that one more task of `kind` of `job` takes from a node. `typed` is
    /// true if nodes have separate slots for maps and for reduces; then the result is one slot, in
    /// the units of [`typed_room`].
    fn starting_demand(&self, job: &JobView, kind: TaskKind, typed: bool) -> Resources {
        if typed {
            typed_slot(kind)
        } else {
            job.profile.demand(job.starting_phase(kind))
        }
    }
}

/// Encodes numbers of typed slots as resources: map slots as CPU, reduce slots as I/O.
fn typed_room(maps: u32, reduces: u32) -> Resources {
    Resources {
        cpu_hundredths: maps,
        io_bytes_per_s: u64::from(reduces),
        memory_bytes: 0,
    }
}

pub(super) fn typed_slot(kind: TaskKind) -> Resources {
    match kind {
        TaskKind::Map => typed_room(1, 0),
        TaskKind::Reduce => typed_room(0, 1),
    }
}

const KINDS: [TaskKind; 2] = [TaskKind::Map, TaskKind::Reduce];

/// The capacity of the nodes that is free for further slots.
#[derive(Debug)]
enum FreeRoom {
    /// The number of free slots, if all tasks demand the same resources.
    EqualSlots(u64),
    /// The free resources of each node, if tasks demand different resources.
    Room(Room),
}

impl FreeRoom {
    fn of(
        capacity: &[Option<Resources>],
        mut demands: impl Iterator<Item = Resources>,
        least: Resources,
    ) -> Self {
        let one = demands.next().unwrap_or_default();
        if one == Resources::default() || demands.any(|demand| demand != one) {
            return Self::Room(Room::new(capacity.to_vec(), least));
        }
        let slots = capacity.iter().flatten().map(|node| node.times(&one));
        Self::EqualSlots(slots.fold(0, u64::saturating_add))
    }

    fn take(&mut self, demand: &Resources) -> bool {
        match self {
            Self::EqualSlots(0) => return false,
            Self::EqualSlots(slots) => *slots -= 1,
            Self::Room(room) => match room.roomiest(demand) {
                Some(node) => room.take(node, demand),
                None => return false,
            },
        }
        true
    }
}

/// The numbers of slots that a policy gives to the jobs in a control cycle, while it adds them one
/// by one.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub scope: Scope<'a>,
    /// True if nodes are divided into slots for maps and slots for reduces.
    pub typed: bool,
    room: FreeRoom,
    /// The full capacity of each node; `None` where nothing can be placed.
    pub capacity: Vec<Option<Resources>>,
    /// Number of slots in the draft, per job and kind of task.
    slots: Vec<[u32; 2]>,
    /// For each job, the resources that its next map and its next reduce take when they start, as
    /// `[map, reduce]`.
    pub demand: Vec<[Resources; 2]>,
    /// For each resource, the smallest demand of any task that is not done.
    pub least: Resources,
    /// True if running maps lose their slots to jobs whose tasks do not fit beside them.
    pub yielding: bool,
}

impl<'a> Draft<'a> {
    pub fn new(scope: Scope<'a>) -> Self {
        let typed = scope.typed();
        let capacity = scope.room();
        let jobs = &scope.view.jobs;
        let demand: Vec<[Resources; 2]> = (jobs.iter())
            .map(|job| KINDS.map(|kind| scope.starting_demand(job, kind, typed)))
            .collect();
        let used = |(job, demand): (&JobView, &[Resources; 2])| {
            let (maps, reduces) = (job.left(TaskKind::Map), job.left(TaskKind::Reduce));
            let of = |tasks: u32, kind: TaskKind| (tasks > 0).then_some(demand[kind as usize]);
            [of(maps, TaskKind::Map), of(reduces, TaskKind::Reduce)]
        };
        let demands = || jobs.iter().zip(&demand).flat_map(used).flatten();
        let least = demands().reduce(|a, b| a.min(&b)).unwrap_or_default();
        Self {
            scope,
            typed,
            room: FreeRoom::of(&capacity, demands(), least),
            capacity,
            slots: vec![[0; 2]; jobs.len()],
            demand,
            least,
            yielding: false,
        }
    }

    /// Returns this draft with a rule: running maps lose their slots to jobs whose tasks fit on an
    /// empty node, but not beside these maps (the thesis's Algorithm 1, lines 14-19). Without it, a
    /// large task might never start where small ones follow each other.
    pub fn yielding(self) -> Self {
        Self {
            yielding: true,
            ..self
        }
    }

    /// Returns the number of slots for tasks of `kind` in the draft, of the job at position `job`
    /// in the view.
    pub fn slots(&self, job: usize, kind: TaskKind) -> u32 {
        self.slots[job][kind as usize]
    }

    /// Adds one slot for a task of `kind` to the job at position `job` in the view. Returns false
    /// if no node has enough free capacity for it (the thesis's `room_for_new_job_slot`).
    pub fn add(&mut self, job: usize, kind: TaskKind) -> bool {
        let room = self.room.take(&self.demand[job][kind as usize]);
        self.slots[job][kind as usize] += u32::from(room);
        room
    }

    /// Adds slots for reduces, job by job, the most urgent first, as long as the cluster has free
    /// capacity (the thesis's Algorithm 1, lines 1-9). The job at position i gets at most `due(i)`
    /// of them. Their nodes are chosen later.
    pub fn add_reduces(&mut self, due: impl Fn(usize) -> u32) {
        for job in self.scope.view.by_urgency(|job| due(job) > 0) {
            let due = due(job);
            while self.slots(job, TaskKind::Reduce) < due && self.add(job, TaskKind::Reduce) {}
        }
    }

    /// Returns whether the free capacity suffices for one more map of the job at position `job` in
    /// the view.
    pub fn has_room_for_map(&self, job: usize) -> bool {
        match &self.room {
            FreeRoom::EqualSlots(slots) => *slots > 0,
            FreeRoom::Room(room) => {
                let demand = &self.demand[job][TaskKind::Map as usize];
                room.fits_anywhere(demand)
            }
        }
    }

    /// Returns true only if no further slot of any job fits into the free capacity; false does not
    /// prove that one fits.
    pub fn is_full(&self) -> bool {
        match &self.room {
            FreeRoom::EqualSlots(slots) => *slots == 0,
            FreeRoom::Room(room) => room.is_full(),
        }
    }
}
