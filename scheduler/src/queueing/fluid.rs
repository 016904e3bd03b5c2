//! Fluid model planning (Harrison and Lopez 1999; the survey, section III-A).

use super::capacity::Capacity;
use super::cluster::{Cluster, Locality, ModelError};
use super::discipline::Discipline;
use super::task::Task;
use super::traffic::Model;
use super::type_queues::TypeQueues;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;
use std::collections::HashSet;

/// The policy that follows a fluid plan: each type of task (a set of nodes that hold
/// the data) has a queue. A linear programme of the arrival rates decides which nodes
/// serve which types (*basic activities*). Of the types among its basic activities, an
/// idle node serves the one with the largest weight, the queue's length times the
/// node's rate. It serves no other type, however long it idles.
///
/// No other policy gets the arrival rates, so this one is left out of comparisons. The
/// solver returns a point within the optimal face, so if there are several optimal
/// plans, the activities of all count as basic. The survey (see the [module](super))
/// leaves open which basic activity comes first; the largest weight keeps every load
/// stable that the plan can serve.
#[derive(Debug)]
pub(super) struct Fluid {
    cluster: Cluster,
    capacity: Capacity,
    basic: HashSet<(usize, usize, Locality)>,
    queues: TypeQueues,
}

impl Fluid {
    pub fn new(model: &Model) -> Result<Self, ModelError> {
        let capacity = Capacity::of(model)?;
        let key =
            |activity: &super::Activity| (activity.pattern, activity.class, activity.locality);
        Ok(Self {
            cluster: model.cluster,
            basic: capacity.activities.iter().map(key).collect(),
            capacity,
            queues: TypeQueues::new(model.cluster),
        })
    }
}

impl Discipline for Fluid {
    fn route(&mut self, task: Task, _: &mut ChaCha8Rng) {
        self.queues.push(task);
    }

    fn choose(&mut self, node: NodeId, _: &[u32], ties: &mut ChaCha8Rng) -> Option<Task> {
        let class = self.capacity.class_of(node);
        let allowed = |first: &Task| {
            let locality = self.cluster.locality(first, node);
            let pattern = self.capacity.pattern_of(first)?;
            let basic = self.basic.contains(&(pattern, class, locality));
            basic.then(|| self.cluster.rate(locality))
        };
        let at = self.queues.heaviest(allowed, ties)?;
        self.queues.pop(at)
    }

    fn finished(&mut self, _: NodeId, _: &Task, _: &[u32]) {}
}
