//! A queue for each type of task: for each set of nodes that hold its data.

use super::cluster::{Cluster, Locality};
use super::least::Least;
use super::task::{REPLICAS_MAX, Task};
use super::traffic::below;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, VecDeque};

/// Types with waiting tasks; the place of one without is used again.
#[derive(Debug)]
pub(super) struct TypeQueues {
    cluster: Cluster,
    types: Vec<TypeQueue>,
    places: HashMap<[NodeId; REPLICAS_MAX], usize>,
    free: Vec<usize>,
    /// Types by node that holds their data.
    on_node: Vec<Vec<usize>>,
    /// Types by rack with a node that does; empty without racks.
    in_rack: Vec<Vec<usize>>,
    /// The type with the most waiting tasks comes first.
    longest: Least,
}

/// Tasks of one type, first come first.
#[derive(Debug, Default)]
struct TypeQueue {
    tasks: VecDeque<Task>,
}

impl TypeQueues {
    pub fn new(cluster: Cluster) -> Self {
        let racks = cluster.rack_nodes.map_or(0, |size| cluster.nodes / size);
        Self {
            cluster,
            types: Vec::new(),
            places: HashMap::new(),
            free: Vec::new(),
            on_node: vec![Vec::new(); cluster.nodes as usize],
            in_rack: vec![Vec::new(); racks as usize],
            longest: Least::new(64),
        }
    }

    pub fn push(&mut self, task: Task) {
        let at = match self.places.get(&task.replicas) {
            Some(&at) => at,
            None => self.open(&task),
        };
        self.types[at].tasks.push_back(task);
        self.changed(at);
    }

    fn open(&mut self, task: &Task) -> usize {
        let at = self.free.pop().unwrap_or(self.types.len());
        if at == self.types.len() {
            self.types.push(TypeQueue::default());
            while self.longest.positions() < self.types.len() {
                self.longest.grow();
            }
        }
        self.places.insert(task.replicas, at);
        for node in task.local_nodes() {
            self.on_node[node.0 as usize].push(at);
        }
        for rack in self.racks(task) {
            self.in_rack[rack].push(at);
        }
        at
    }

    fn racks(&self, task: &Task) -> Vec<usize> {
        let racks = (task.local_nodes()).filter_map(|node| self.cluster.rack_of(node));
        let mut racks: Vec<usize> = racks.map(|rack| rack as usize).collect();
        racks.dedup();
        racks
    }

    fn changed(&mut self, at: usize) {
        let waiting = self.types[at].tasks.len() as u64;
        self.longest.set(at, u64::MAX - waiting);
    }

    /// Takes the first task of the type in this place.
    pub fn pop(&mut self, at: usize) -> Option<Task> {
        let task = self.types[at].tasks.pop_front()?;
        if self.types[at].tasks.is_empty() {
            self.places.remove(&task.replicas);
            self.free.push(at);
            let leave = |places: &mut Vec<usize>| {
                if let Some(position) = places.iter().position(|&place| place == at) {
                    places.swap_remove(position);
                }
            };
            (task.local_nodes()).for_each(|node| leave(&mut self.on_node[node.0 as usize]));
            let racks = self.racks(&task);
            racks
                .into_iter()
                .for_each(|rack| leave(&mut self.in_rack[rack]));
        }
        self.changed(at);
        Some(task)
    }

    /// Per distance from `node`: the longest type that is at most as far, with its
    /// length; ties are random. A type that is nearer never has a smaller weight there.
    pub fn longest(
        &mut self,
        node: NodeId,
        ties: &mut ChaCha8Rng,
    ) -> [Option<(Locality, usize, usize)>; 3] {
        let local = self.longest_of(&self.on_node[node.0 as usize], ties);
        let rack = self.cluster.rack_of(node);
        let rack = rack.and_then(|rack| self.longest_of(&self.in_rack[rack as usize], ties));
        let any = (self.longest.min() != u64::MAX).then(|| self.longest.position(ties));
        let with_length = |level, at: Option<usize>| {
            let at = at?;
            Some((level, at, self.types[at].tasks.len())).filter(|&(_, _, length)| length > 0)
        };
        [
            with_length(Locality::Local, local),
            with_length(Locality::Rack, rack),
            with_length(Locality::Remote, any),
        ]
    }

    /// The type with the largest length times rate, where `rate` knows a type by its first
    /// task and has none for a type that must not be served; ties are random.
    #[cfg(feature = "lp")]
    pub fn heaviest(
        &self,
        rate: impl Fn(&Task) -> Option<f64>,
        ties: &mut ChaCha8Rng,
    ) -> Option<usize> {
        let mut best = (0.0, None);
        let mut alike = 0;
        for (at, queue) in self.types.iter().enumerate() {
            let Some(rate) = queue.tasks.front().and_then(&rate) else {
                continue;
            };
            let weight = queue.tasks.len() as f64 * rate;
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

    fn longest_of(&self, types: &[usize], ties: &mut ChaCha8Rng) -> Option<usize> {
        let mut best = (0, None);
        let mut alike = 0;
        for &at in types {
            let length = self.types[at].tasks.len();
            if length > best.0 {
                best = (length, Some(at));
                alike = 1;
            } else if length == best.0 {
                alike += 1;
                if below(ties, alike) == 0 {
                    best.1 = Some(at);
                }
            }
        }
        best.1
    }
}
