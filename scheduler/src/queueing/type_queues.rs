//! A queue for each type of task; a type is a set of nodes that hold the data.

use super::by_length::ByLength;
use super::cluster::{Cluster, Locality};
use super::task::{REPLICAS_MAX, Task};
#[cfg(feature = "lp")]
use super::traffic::below;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A queue for each type of task (a set of nodes that hold the data) that has waiting tasks. Each
/// of these types has an index. When the queue of a type becomes empty, its index is reused for
/// another type.
#[derive(Debug)]
pub(super) struct TypeQueues {
    cluster: Cluster,
    /// For each type, by its index: the waiting tasks, in order of arrival.
    types: Vec<VecDeque<Task>>,
    places: HashMap<[NodeId; REPLICAS_MAX], usize, BuildHasherDefault<MixHasher>>,
    free: Vec<usize>,
    /// The position of each type in each of the [`ByLength`] lists that contain it: [`ORDERS`]
    /// elements for each type.
    positions: Vec<u32>,
    /// For each node: the types of tasks whose data is on the node, ordered by the length
    /// of their queues.
    on_node: Vec<ByLength>,
    /// For each rack: the types of tasks with data on a node of the rack, ordered by the
    /// length of their queues; empty without racks.
    in_rack: Vec<ByLength>,
    all: ByLength,
}

/// A hasher for a few small numbers from a trusted source. With the standard hasher, hashing would
/// take a fifth of the simulation's time.
#[derive(Debug, Default)]
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0.rotate_left(23) ^ u64::from(n)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u32(n as u32);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// Largest number of [`ByLength`] lists that contain a type: one for each node with the data, one
/// for each of their racks, and the list of all types.
const ORDERS: usize = 2 * REPLICAS_MAX + 1;

impl TypeQueues {
    pub fn new(cluster: Cluster) -> Self {
        let racks = cluster.rack_nodes.map_or(0, |size| cluster.nodes / size);
        Self {
            cluster,
            types: Vec::new(),
            places: HashMap::default(),
            free: Vec::new(),
            positions: Vec::new(),
            on_node: (0..cluster.nodes).map(|_| ByLength::new()).collect(),
            in_rack: (0..racks).map(|_| ByLength::new()).collect(),
            all: ByLength::new(),
        }
    }

    pub fn push(&mut self, task: Task) {
        let at = match self.places.get(&task.replicas) {
            Some(&at) => at,
            None => self.open(&task),
        };
        let length = self.types[at].len();
        self.types[at].push_back(task);
        self.in_orders(at, &task, |order, member, positions| {
            order.lengthen(member, length, positions);
        });
    }

    fn open(&mut self, task: &Task) -> usize {
        let at = self.free.pop().unwrap_or(self.types.len());
        if at == self.types.len() {
            self.types.push(VecDeque::new());
            self.positions.resize(self.types.len() * ORDERS, 0);
        }
        self.places.insert(task.replicas, at);
        at
    }

    /// Calls `change` for each [`ByLength`] list that contains the type of `task`, whose index is
    /// `at`: the lists of its local nodes, of their racks, and of all types. The arguments of
    /// `change` are the list, the number that stands for the type in this list, and `positions`.
    fn in_orders(
        &mut self,
        at: usize,
        task: &Task,
        mut change: impl FnMut(&mut ByLength, u32, &mut [u32]),
    ) {
        let member = |order: usize| (at * ORDERS + order) as u32;
        let mut last = None;
        for (nth, node) in task.local_nodes().enumerate() {
            let on_node = &mut self.on_node[node.0 as usize];
            change(on_node, member(nth), &mut self.positions);
            // Nodes are ascending, so those of a rack are next to each other.
            let rack = self.cluster.rack_of(node);
            if let Some(rack) = rack.filter(|_| rack != last) {
                let in_rack = &mut self.in_rack[rack as usize];
                change(in_rack, member(REPLICAS_MAX + nth), &mut self.positions);
            }
            last = rack;
        }
        change(&mut self.all, member(ORDERS - 1), &mut self.positions);
    }

    /// Removes the first waiting task of the type at index `at`; `None` if there is none.
    pub fn pop(&mut self, at: usize) -> Option<Task> {
        let length = self.types[at].len();
        let task = self.types[at].pop_front()?;
        if length == 1 {
            self.places.remove(&task.replicas);
            self.free.push(at);
        }
        self.in_orders(at, &task, |order, member, positions| {
            order.shorten(member, length, positions);
        });
        Some(task)
    }

    /// Returns the list of the types of tasks with data within the distance `level` of `node`: on
    /// the node, in its rack, or anywhere. `None` for the rack if there are no racks. The list for
    /// a distance includes the types with nearer data. This does no harm: the caller multiplies
    /// lengths by a rate that falls with the distance, and also looks at these types at their own
    /// distance, where their weight is at least as large.
    fn within(&self, node: NodeId, level: Locality) -> Option<&ByLength> {
        match level {
            Locality::Local => self.on_node.get(node.0 as usize),
            Locality::Rack => self.in_rack.get(self.cluster.rack_of(node)? as usize),
            Locality::Remote => Some(&self.all),
        }
    }

    /// Returns the length of the longest queue among the types of tasks with data within the
    /// distance `level` of `node`; 0 if no such task waits.
    pub fn max(&self, node: NodeId, level: Locality) -> usize {
        self.within(node, level).map_or(0, ByLength::max)
    }

    /// Draws the index of one of the types with the longest queue, among those with data within the
    /// distance `level` of `node`; `None` if there is none.
    pub fn longest(&self, node: NodeId, level: Locality, ties: &mut ChaCha8Rng) -> Option<usize> {
        let member = self.within(node, level)?.longest(ties)?;
        Some(member as usize / ORDERS)
    }

    /// Returns the index of the type with the largest product of queue length and rate; ties are
    /// random. `rate` gets the first waiting task of a type, and returns `None` for a type that
    /// must not be served. Returns `None` if no type may be served.
    #[cfg(feature = "lp")]
    pub fn heaviest(
        &self,
        rate: impl Fn(&Task) -> Option<f64>,
        ties: &mut ChaCha8Rng,
    ) -> Option<usize> {
        let mut best = (0.0, None);
        let mut alike = 0;
        for (at, queue) in self.types.iter().enumerate() {
            let Some(rate) = queue.front().and_then(&rate) else {
                continue;
            };
            let weight = queue.len() as f64 * rate;
            if weight > best.0 {
                best = (weight, Some(at));
                alike = 1;
            } else if weight == best.0 {
                alike += 1;
                if below(ties, alike) == 0 {
                    best.1 = Some(at);
                }
            }
        }
        best.1
    }
}
