//! Nodes, racks, and the rates at which they serve near and remote tasks.

use super::task::Task;
use crate::model::NodeId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The distance of a node from a task's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// The node holds a replica.
    Local,
    /// The node holds no replica, but another node of its rack does.
    Rack,
    /// No node of the rack holds a replica.
    Remote,
}

/// Nodes of one slot each, in racks of equal size or without racks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Number of nodes; node i is `NodeId(i)`.
    pub nodes: u32,
    /// Number of nodes in a rack; racks are ranges of consecutive nodes. `None`: no racks, so
    /// two levels of locality only.
    pub rack_nodes: Option<u32>,
    /// The probability that a running task whose node holds its data ends in a time slot, in (0, 1]
    /// (alpha in the literature).
    pub local: f64,
    /// The probability that a running task with data in the node's rack, but not on the node, ends
    /// in a time slot (beta); `None` without racks.
    pub rack: Option<f64>,
    /// The probability that a running task without data in the node's rack ends in a time slot
    /// (gamma).
    pub remote: f64,
}

/// A model that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{what}: {why}")]
pub struct ModelError {
    /// The invalid field, as a path such as `streams[0].until`.
    pub what: String,
    /// The reason why the field is invalid, with the values that are valid.
    pub why: String,
}

pub(super) fn bad(what: impl Into<String>, why: impl Into<String>) -> ModelError {
    let (what, why) = (what.into(), why.into());
    ModelError { what, why }
}

/// Largest number of nodes of a cluster.
const NODES_MAX: u32 = 100_000;

/// Smallest probability per slot that a task ends: the simulation has a list for each slot that the
/// longest task may take, so a smaller one would take too much memory.
const RATE_MIN: f64 = 1e-4;

impl Cluster {
    /// Returns a cluster without racks, with two levels of locality. `local` and `remote` are the
    /// probabilities that a running task ends in a time slot, on a node with its data and on any
    /// other node.
    #[must_use]
    pub const fn flat(nodes: u32, local: f64, remote: f64) -> Self {
        Self {
            nodes,
            rack_nodes: None,
            local,
            rack: None,
            remote,
        }
    }

    /// Returns a cluster with racks of `rack_nodes` nodes, and so three levels of locality. `rates`
    /// are the probabilities that a local, a rack-local and a remote task ends in a time slot.
    #[must_use]
    pub const fn racks(nodes: u32, rack_nodes: u32, rates: [f64; 3]) -> Self {
        Self {
            nodes,
            rack_nodes: Some(rack_nodes),
            local: rates[0],
            rack: Some(rates[1]),
            remote: rates[2],
        }
    }

    /// Checks that the cluster can be simulated.
    ///
    /// # Errors
    /// When there are no nodes or more than 100,000; when a rate is below 0.0001, above 1 or rises
    /// with the distance; when there are racks without a rate or a rate without racks; when the
    /// nodes do not fill a whole number of racks.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.nodes == 0 {
            return Err(bad("cluster.nodes", "a cluster needs at least one node"));
        }
        if self.nodes > NODES_MAX {
            let why = format!("is {}; at most {NODES_MAX}", self.nodes);
            return Err(bad("cluster.nodes", why));
        }
        match (self.rack_nodes, self.rack) {
            (None, None) => {}
            (Some(size), Some(_)) if size > 0 && self.nodes.is_multiple_of(size) => {}
            (Some(size), Some(_)) => {
                let why = format!(
                    "{} nodes fill no whole number of racks of {size}",
                    self.nodes
                );
                return Err(bad("cluster.rack_nodes", why));
            }
            _ => {
                let why = "give both cluster.rack_nodes and cluster.rack, or neither";
                return Err(bad("cluster.rack", why));
            }
        }
        let rates = [
            ("cluster.local", Some(self.local)),
            ("cluster.rack", self.rack),
            ("cluster.remote", Some(self.remote)),
        ];
        let mut nearer = 1.0;
        for (field, rate) in rates {
            let Some(rate) = rate else { continue };
            if !(RATE_MIN..=nearer).contains(&rate) {
                let why = format!(
                    "is {rate}: chances must lie between {RATE_MIN} and 1, and not rise with the \
                     distance"
                );
                return Err(bad(field, why));
            }
            nearer = rate;
        }
        Ok(())
    }

    /// Returns the probability that a task at this distance ends in a slot.
    #[must_use]
    pub fn rate(&self, locality: Locality) -> f64 {
        match locality {
            Locality::Local => self.local,
            Locality::Rack => self.rack.unwrap_or(self.remote),
            Locality::Remote => self.remote,
        }
    }

    /// Returns the rack of `node`; `None` without racks.
    #[must_use]
    pub fn rack_of(&self, node: NodeId) -> Option<u32> {
        self.rack_nodes.map(|size| node.0 / size)
    }

    /// Returns the range of node numbers of `node`'s rack, as (from, until), `until` exclusive;
    /// `None` without racks.
    #[must_use]
    pub fn rack_range(&self, node: NodeId) -> Option<(usize, usize)> {
        let size = self.rack_nodes? as usize;
        let from = node.0 as usize / size * size;
        Some((from, from + size))
    }

    /// Returns the distance of `node` from the data of `task`.
    #[must_use]
    pub fn locality(&self, task: &Task, node: NodeId) -> Locality {
        if task.replicas.contains(&node) {
            return Locality::Local;
        }
        match self.rack_of(node) {
            Some(rack) if (task.replicas.iter()).any(|&at| self.rack_of(at) == Some(rack)) => {
                Locality::Rack
            }
            _ => Locality::Remote,
        }
    }
}
