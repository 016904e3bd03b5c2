//! The nodes that hold each split of a job's input, and the splits whose maps
//! have not started.
//!
//! A map on a node with a replica of its split reads it locally; on any other
//! node it is remote. The replicas never change and are shared between copies.
//! The set of pending splits is small and cloned, so that a policy can try a
//! choice on a copy.

use super::NodeId;
use std::sync::Arc;

/// The replicas of every split of one job.
#[derive(Debug, PartialEq, Eq)]
pub struct Splits {
    replicas: Vec<Vec<NodeId>>,
    /// The pairs of a node and a split that it holds, ascending.
    by_node: Vec<(NodeId, u32)>,
}

impl Splits {
    /// Creates the replicas: `replicas[i]` are the nodes that hold split i, the
    /// input of map i.
    #[must_use]
    pub fn new(replicas: Vec<Vec<NodeId>>) -> Self {
        let mut by_node: Vec<(NodeId, u32)> = (0..)
            .zip(&replicas)
            .flat_map(|(split, nodes)| nodes.iter().map(move |&node| (node, split)))
            .collect();
        by_node.sort_unstable();
        by_node.dedup();
        Self { replicas, by_node }
    }

    /// Returns the number of splits, one for each map.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.replicas.len() as u32
    }

    /// Returns the nodes that hold `split`.
    #[must_use]
    pub fn nodes_of(&self, split: u32) -> &[NodeId] {
        &self.replicas[split as usize]
    }

    /// Returns the splits that `node` holds, ascending.
    pub fn on(&self, node: NodeId) -> impl Iterator<Item = u32> {
        let from = self.by_node.partition_point(|&(at, _)| at < node);
        self.by_node[from..]
            .iter()
            .take_while(move |&&(at, _)| at == node)
            .map(|&(_, split)| split)
    }
}

/// The splits whose maps have not been started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSplits {
    splits: Arc<Splits>,
    /// A bit for each split, set until its map starts.
    pending: Vec<u64>,
}

impl PendingSplits {
    /// Returns a set of all splits: no map has started.
    #[must_use]
    pub fn all(splits: Arc<Splits>) -> Self {
        let count = splits.count() as usize;
        let mut pending = vec![u64::MAX; count.div_ceil(64)];
        if let Some(last) = pending.last_mut()
            && !count.is_multiple_of(64)
        {
            *last = (1 << (count % 64)) - 1;
        }
        Self { splits, pending }
    }

    /// Returns the replicas of all splits, pending or not.
    #[must_use]
    pub fn splits(&self) -> &Splits {
        &self.splits
    }

    /// Returns whether the map of `split` has not started.
    #[must_use]
    pub fn contains(&self, split: u32) -> bool {
        self.pending[split as usize / 64] & (1 << (split % 64)) != 0
    }

    /// Returns the lowest-numbered pending split of which `node` holds a replica.
    #[must_use]
    pub fn first_on(&self, node: NodeId) -> Option<u32> {
        self.splits.on(node).find(|&split| self.contains(split))
    }

    /// Returns the lowest-numbered pending split.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        let word = self.pending.iter().position(|&word| word != 0)?;
        Some(word as u32 * 64 + self.pending[word].trailing_zeros())
    }

    /// Returns the pending splits, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.splits.count()).filter(|&split| self.contains(split))
    }

    /// Removes `split`, because its map started.
    pub fn remove(&mut self, split: u32) {
        self.pending[split as usize / 64] &= !(1 << (split % 64));
    }

    /// Adds `split` again, because its map must run again.
    pub fn insert(&mut self, split: u32) {
        self.pending[split as usize / 64] |= 1 << (split % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_found_on_the_nodes_that_hold_it_until_its_map_starts() {
        let nodes = |ids: [u32; 2]| ids.map(NodeId).to_vec();
        let splits = Splits::new(vec![nodes([0, 1]), nodes([1, 2]), nodes([2, 0])]);
        assert_eq!(splits.on(NodeId(1)).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(splits.nodes_of(2), nodes([2, 0]));

        let mut pending = PendingSplits::all(Arc::new(splits));
        assert_eq!(pending.first_on(NodeId(1)), Some(0));
        pending.remove(0);
        assert_eq!(pending.first_on(NodeId(1)), Some(1));
        assert_eq!(pending.first(), Some(1));
        pending.remove(1);
        assert_eq!(pending.first_on(NodeId(1)), None);
        assert_eq!(pending.iter().collect::<Vec<_>>(), [2]);
        pending.insert(0);
        assert_eq!(pending.first_on(NodeId(1)), Some(0));
        assert_eq!(pending.first_on(NodeId(7)), None);
    }

    #[test]
    fn a_job_of_any_number_of_splits_starts_with_all_of_them_pending() {
        for count in [0, 1, 63, 64, 65, 130] {
            let splits = Splits::new(vec![vec![NodeId(0)]; count as usize]);
            let mut pending = PendingSplits::all(Arc::new(splits));
            assert_eq!(pending.iter().count() as u32, count);
            (0..count).for_each(|split| pending.remove(split));
            assert_eq!(pending.first(), None);
        }
    }
}
