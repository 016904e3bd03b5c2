//! What a policy is asked in the queueing model, and all of them by name.

use super::c_mu::CMu;
use super::cluster::Cluster;
use super::jsq_maxweight::{Common, PerNode};
use super::naive_fair::NaiveFair;
use super::pandas::Pandas;
use super::task::Task;
use super::weighted_workload::WeightedWorkload;
use crate::model::NodeId;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// A policy with its queues: where an arriving task waits, and which task an idle node
/// serves next.
///
/// `running[j]` is the number of running tasks of the job in place j. Ties are broken by
/// the generator that is passed in, so that a run can be repeated.
pub trait Discipline: Send {
    /// `task` has arrived. It waits until [`choose`](Self::choose) returns it.
    fn route(&mut self, task: Task, ties: &mut ChaCha8Rng);

    /// What idle `node` serves next; `None`: it stays idle in this slot.
    fn choose(&mut self, node: NodeId, running: &[u32], ties: &mut ChaCha8Rng) -> Option<Task>;

    /// `node` is done with `task`, which no longer counts in `running`.
    fn finished(&mut self, node: NodeId, task: &Task, running: &[u32]);
}

/// A policy of the queueing model.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct QueueingPolicy {
    /// The name that [`queueing_policy`] takes.
    pub name: &'static str,
    /// Paper and section.
    pub paper: &'static str,
    /// One sentence on what it does.
    pub summary: &'static str,
    #[serde(skip)]
    build: fn(Cluster) -> Box<dyn Discipline>,
}

impl QueueingPolicy {
    /// With empty queues.
    #[must_use]
    pub fn build(&self, cluster: Cluster) -> Box<dyn Discipline> {
        (self.build)(cluster)
    }
}

/// All that need not be told the arrival rates.
pub const QUEUEING_POLICIES: [QueueingPolicy; 7] = [
    QueueingPolicy {
        name: "naive-fair",
        paper: "Zaharia et al. 2010, section 3.1; Wang et al. 2013, section V (baseline)",
        summary: "The job with the fewest running tasks; a local task of it if there is one.",
        build: |_| Box::new(NaiveFair::new()),
    },
    QueueingPolicy {
        name: "jsq-maxweight-common",
        paper: "Wang et al. 2013, section II",
        summary: "A queue per node and a common one for remote tasks; the shortest, then MaxWeight.",
        build: |cluster| Box::new(Common::new(cluster)),
    },
    QueueingPolicy {
        name: "jsq-maxweight",
        paper: "Kavousi 2017, sections IV-A and V-A, equations 4 and 5",
        summary: "A queue per node; the shortest local one, then MaxWeight over all queues.",
        build: |cluster| Box::new(PerNode::new(cluster)),
    },
    QueueingPolicy {
        name: "pandas",
        paper: "Xie and Lu 2015; Kavousi 2017, section IV-B",
        summary: "The own queue first; an empty one helps the longest if that is long enough.",
        build: |cluster| Box::new(Pandas::new(cluster, false)),
    },
    QueueingPolicy {
        name: "pandas-rack",
        paper: "Pandas for three levels; no publication",
        summary: "As pandas, but helps the longest queue of its rack before that of the cluster.",
        build: |cluster| Box::new(Pandas::new(cluster, true)),
    },
    QueueingPolicy {
        name: "weighted-workload",
        paper: "Xie, Yekkehkhany and Lu 2016; Kavousi 2017, section V-B, equations 6 and 7",
        summary: "The least workload for the rate there; then local, rack-local, remote tasks.",
        build: |cluster| Box::new(WeightedWorkload::new(cluster)),
    },
    QueueingPolicy {
        name: "c-mu",
        paper: "Mandelbaum and Stolyar 2004; Kavousi 2017, section III-B, equation 2",
        summary: "A queue per set of replicas; the largest marginal cost times rate, cost Q squared.",
        build: |cluster| Box::new(CMu::new(cluster)),
    },
];

/// The policy of this name, if there is one.
#[must_use]
pub fn queueing_policy(name: &str) -> Option<&'static QueueingPolicy> {
    QUEUEING_POLICIES.iter().find(|policy| policy.name == name)
}
