//! Who gets how much.
//!
//! A decision is made in two steps. First a policy adds slots to the draft, one
//! at a time and in its own order, as long as the cluster has room; where tasks
//! run at the moment plays no part in it. Then the draft is carried out on the
//! nodes ([`places`](super::places)): who gets what where.

use super::decision::Measure;
use super::room::Room;
use super::view::{ClusterView, JobView};
use crate::model::{NodeId, Pool, Resources, TaskKind};

/// The nodes a decision is about, and what it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub view: &'a ClusterView,
    pub measure: Measure,
    /// One pool only, or all nodes.
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

    pub fn holds(&self, node: NodeId) -> bool {
        self.pool.is_none_or(|pool| self.view.pool(node) == pool)
    }

    fn typed(&self) -> bool {
        self.measure == Measure::Slots && self.view.nodes.iter().any(|node| node.slots.is_some())
    }

    /// Per node, all there is of it.
    fn room(&self) -> Vec<Option<Resources>> {
        let typed = self.typed();
        let room = self.view.nodes.iter().map(|node| {
            let down = node.capacity == Resources::default();
            if down || !self.holds(node.id) {
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

    /// What one more task of `kind` of `job` takes from a node.
    fn starting_demand(&self, job: &JobView, kind: TaskKind, typed: bool) -> Resources {
        if typed {
            typed_slot(kind)
        } else {
            job.profile.demand(job.starting_phase(kind))
        }
    }
}

/// Typed slots in the shape of resources: maps as CPU, reduces as I/O.
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

/// What is left of the nodes for further slots.
#[derive(Debug)]
enum Left {
    /// Slots of one size, which all tasks need: as many as are left.
    Alike(u64),
    /// Slots of different sizes.
    Room(Room),
}

impl Left {
    fn of(
        whole: &[Option<Resources>],
        mut demands: impl Iterator<Item = Resources>,
        least: Resources,
    ) -> Self {
        let one = demands.next().unwrap_or_default();
        if one == Resources::default() || demands.any(|demand| demand != one) {
            return Self::Room(Room::new(whole.to_vec(), least));
        }
        let slots = whole.iter().flatten().map(|node| node.times(&one));
        Self::Alike(slots.fold(0, u64::saturating_add))
    }

    fn take(&mut self, demand: &Resources) -> bool {
        match self {
            Self::Alike(0) => return false,
            Self::Alike(slots) => *slots -= 1,
            Self::Room(room) => match room.roomiest(demand) {
                Some(node) => room.take(node, demand),
                None => return false,
            },
        }
        true
    }
}

/// How many slots each job gets, under construction.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub scope: Scope<'a>,
    /// Whether nodes are divided by typed slots.
    pub typed: bool,
    room: Left,
    /// Per node, all there is of it; `None` where nothing can be placed.
    pub whole: Vec<Option<Resources>>,
    /// Per job and kind.
    slots: Vec<[u32; 2]>,
    /// What one more task takes, likewise.
    pub demand: Vec<[Resources; 2]>,
    /// The least that any task needs, per resource.
    pub least: Resources,
    /// Whether running tasks lose their slots to jobs that find no room beside them.
    pub yielding: bool,
}

impl<'a> Draft<'a> {
    pub fn new(scope: Scope<'a>) -> Self {
        let typed = scope.typed();
        let whole = scope.room();
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
            room: Left::of(&whole, demands(), least),
            whole,
            slots: vec![[0; 2]; jobs.len()],
            demand,
            least,
            yielding: false,
        }
    }

    /// Lets running tasks lose their slots where those of other jobs find no room
    /// beside them, as Algorithm 1 does (lines 14-19): the draft counts what fits on
    /// empty nodes, and a large task may never fit beside small ones that follow each
    /// other.
    pub fn yielding(self) -> Self {
        Self {
            yielding: true,
            ..self
        }
    }

    /// Slots of the job at position `job` for tasks of `kind` so far.
    pub fn slots(&self, job: usize, kind: TaskKind) -> u32 {
        self.slots[job][kind as usize]
    }

    /// Adds one slot. False when no node has room for it (the thesis's
    /// `room_for_new_job_slot`).
    pub fn add(&mut self, job: usize, kind: TaskKind) -> bool {
        let room = self.room.take(&self.demand[job][kind as usize]);
        self.slots[job][kind as usize] += u32::from(room);
        room
    }

    /// Algorithm 1, lines 1-9: all reduces there is room for, `due` of each job,
    /// jobs in order of urgency. They are spread over the nodes when the draft is
    /// carried out.
    pub fn add_reduces(&mut self, due: impl Fn(usize) -> u32) {
        for job in self.scope.view.by_urgency(|job| due(job) > 0) {
            let due = due(job);
            while self.slots(job, TaskKind::Reduce) < due && self.add(job, TaskKind::Reduce) {}
        }
    }

    /// Whether one more map of the job at position `job` could be added.
    pub fn has_room_for_map(&self, job: usize) -> bool {
        match &self.room {
            Left::Alike(slots) => *slots > 0,
            Left::Room(room) => {
                let demand = &self.demand[job][TaskKind::Map as usize];
                room.fits_anywhere(demand)
            }
        }
    }

    /// Whether nothing more can be added for anybody; false is not certain.
    pub fn is_full(&self) -> bool {
        match &self.room {
            Left::Alike(slots) => *slots == 0,
            Left::Room(room) => room.is_full(),
        }
    }
}
