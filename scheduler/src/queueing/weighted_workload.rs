//! Weighted-workload routing and priority scheduling (Xie, Yekkehkhany and Lu, INFOCOM
//! 2016; the survey, section V-B).

use super::cluster::{Cluster, Locality};
use super::discipline::Discipline;
use super::job_queue::{JobQueue, Tasks};
use super::least::Least;
use super::task::Task;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;

/// Weighted-workload routing, by equations 6 and 7 of the survey (see the [module](super)):
/// a task joins the node with the smallest workload divided by the task's rate of service
/// there (7). The workload is the expected time for all tasks that are routed to the node
/// (6), where the task in service counts 1 / rate. An idle node serves its local tasks, then
/// its rack-local ones, then its remote ones.
///
/// Among nodes with equal values, a task prefers a local one, then one in a rack with its
/// data, then a remote one; remaining ties are random. (The survey breaks all ties at
/// random, so an idle system would send its tasks anywhere.)
#[derive(Debug)]
pub(super) struct WeightedWorkload {
    cluster: Cluster,
    tasks: Tasks,
    /// The tasks that wait at each node, in three queues: its local, its rack-local and its
    /// remote tasks.
    queues: Vec<[JobQueue; 3]>,
    serving: Vec<Option<Locality>>,
    /// The workload of each node, as the bits of a float: for numbers that are not negative, bits
    /// and floats have the same order.
    workloads: Least,
}

const LEVELS: [Locality; 3] = [Locality::Local, Locality::Rack, Locality::Remote];

impl WeightedWorkload {
    pub fn new(cluster: Cluster) -> Self {
        let mut workloads = Least::new(cluster.nodes as usize);
        (0..cluster.nodes as usize).for_each(|node| workloads.set(node, 0));
        Self {
            cluster,
            tasks: Tasks::default(),
            queues: (0..cluster.nodes).map(|_| Default::default()).collect(),
            serving: vec![None; cluster.nodes as usize],
            workloads,
        }
    }

    fn update_workload(&mut self, node: usize) {
        let mut counts = [0; 3];
        for level in LEVELS {
            counts[level as usize] = self.queues[node][level as usize].len()
                + u32::from(self.serving[node] == Some(level));
        }
        let time = |level: Locality| f64::from(counts[level as usize]) / self.cluster.rate(level);
        let workload: f64 = LEVELS.map(time).iter().sum();
        self.workloads.set(node, workload.to_bits());
    }

    fn weighted(&self, key: u64, level: Locality) -> f64 {
        f64::from_bits(key) / self.cluster.rate(level)
    }

    fn least(&mut self, task: &Task, ties: &mut ChaCha8Rng) -> usize {
        let keys = task.local_nodes().map(|n| self.workloads.get(n.0 as usize));
        let local = keys.min().unwrap_or(u64::MAX);
        let mut racks: [(usize, usize); 3] = [(0, 0); 3];
        let mut count = 0;
        for range in (task.local_nodes()).filter_map(|node| self.cluster.rack_range(node)) {
            if !racks[..count].contains(&range) {
                racks[count] = range;
                count += 1;
            }
        }
        let racks = &racks[..count];
        let mut within = [(u64::MAX, 0); 3];
        for (within, &(from, until)) in within.iter_mut().zip(racks) {
            *within = self.workloads.min_within(from, until);
        }
        let rack = within[..count].iter().map(|least| least.0).min();
        let any = self.workloads.min();
        let weights = [
            self.weighted(local, Locality::Local),
            rack.map_or(f64::INFINITY, |key| self.weighted(key, Locality::Rack)),
            self.weighted(any, Locality::Remote),
        ];
        if weights[0] <= weights[1] && weights[0] <= weights[2] {
            let mut alike = [0; 3];
            let mut count = 0;
            for node in task.local_nodes() {
                if self.workloads.get(node.0 as usize) == local {
                    alike[count] = node.0 as usize;
                    count += 1;
                }
            }
            return alike[super::traffic::below(ties, count as u32) as usize];
        }
        if let Some(key) = rack
            && weights[1] <= weights[2]
        {
            let alike = || racks.iter().zip(within).filter(|(_, least)| least.0 == key);
            let total: u32 = alike().map(|(_, least)| least.1).sum();
            let mut nth = super::traffic::below(ties, total);
            for (range, (_, count)) in alike() {
                if nth < count {
                    return self.workloads.position_within(range.0, range.1, ties);
                }
                nth -= count;
            }
        }
        self.workloads.position(ties)
    }
}

impl Discipline for WeightedWorkload {
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng) {
        let node = self.least(&task, ties);
        let level = self.cluster.locality(&task, NodeId(node as u32));
        self.queues[node][level as usize].push(&mut self.tasks, task);
        self.update_workload(node);
    }

    fn choose(&mut self, node: NodeId, running: &[u32], _: &mut ChaCha8Rng) -> Option<Task> {
        let at = node.0 as usize;
        let (level, task) = LEVELS.into_iter().find_map(|level| {
            let queue = &mut self.queues[at][level as usize];
            Some((level, queue.pop_fewest(&mut self.tasks, running)?))
        })?;
        // The workload does not change: one task fewer waits, and one more is in service.
        self.serving[at] = Some(level);
        Some(task)
    }

    fn finished(&mut self, node: NodeId, _: &Task, _: &[u32]) {
        self.serving[node.0 as usize] = None;
        self.update_workload(node.0 as usize);
    }
}
