//! Some range tombstones of a memtable, sorted for readers at any sequence number.
//!
//! The ends of the ranges cut the keys into *intervals*. The index does not list the tombstones of
//! each interval, because n ranges that all begin at the first key would have n²/2 places in these
//! lists. Instead, the tombstones are in a segment tree over the intervals, each at the few nodes
//! (at most two on each level) that together cover its range:
//!
//! ```text
//!   node             1
//!              2           3         [a, c) 4  at node 2
//!            4   5       6   7       [b, d) 9  at nodes 5 and 6
//!           a─┴─b─┴─c───d─┴─e─..
//! ```
//!
//! The tombstones over a key are those at the nodes between its leaf and the root. The index also
//! has the newest number over each interval, which is the answer for nearly every reader.
//!
//! An index never changes. See Berg et al., Computational Geometry, 10.3.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use bytes::Bytes;

use crate::key::{KeyRange, PIECES_MAX, RangeTombstone, SeqNo, is_before};

/// An index of range tombstones, by the keys that they cover. It never changes.
#[derive(Debug)]
pub(super) struct TombstoneIndex {
    /// The keys at which ranges begin and end, ascending, without duplicates. Interval i begins at
    /// point i and ends at the next; the last one goes to the end of all keys.
    points: Vec<Bytes>,
    /// The length of the prefix that all keys in `points` have in common.
    prefix_bytes: usize,
    /// The eight bytes behind the common prefix of each key in `points`, as a number that sorts
    /// like the bytes: after a binary search of these numbers only few keys are left to compare.
    heads: Vec<u64>,
    /// The tombstones, newest first.
    tombstones: Vec<Placed>,
    /// The newest sequence number over each interval; 0 if no tombstone lies over it.
    newest: Vec<SeqNo>,
    /// The tree over the intervals, a segment tree: node i has the tombstones with the sequence
    /// numbers `seqs[nodes[i]..nodes[i + 1]]`. Node 1 is the root, 2i and 2i + 1 are the children
    /// of i, and with n intervals the leaf of interval i is n + i.
    nodes: Vec<u32>,
    /// The sequence numbers of the tombstones at all nodes, node by node; those of each node newest
    /// first.
    seqs: Vec<SeqNo>,
}

/// A tombstone over the intervals with the indexes `from..to`.
#[derive(Debug, Clone, Copy)]
struct Placed {
    from: u32,
    to: u32,
    seq: SeqNo,
}

impl TombstoneIndex {
    /// Builds an index of the tombstones in the indexes `parts` and of those in `more`; no range
    /// may be empty. There must be at least one tombstone, and fewer than 2^24: their places in the
    /// tree, two at most on each of its levels, are counted in 32 bits.
    pub(super) fn build(parts: &[Arc<Self>], more: &[Arc<RangeTombstone>]) -> Self {
        let points_of = |tombstone: &Arc<RangeTombstone>| {
            let KeyRange { start, end } = tombstone.range.clone();
            std::iter::once(start).chain(end)
        };
        let mut points: Vec<Bytes> = parts
            .iter()
            .flat_map(|p| p.points.iter().cloned())
            .collect();
        points.extend(more.iter().flat_map(points_of));
        // The stable sort is the one that makes use of runs that are sorted already: each part is one.
        points.sort();
        points.dedup();
        // Many ranges may share points, and the index keeps the list.
        points.shrink_to_fit();

        let mut tombstones =
            Vec::with_capacity(parts.iter().map(|p| p.len()).sum::<usize>() + more.len());
        for part in parts {
            // The new place of each point of the part, and of the end of all keys. The points of both
            // ascend, so each search goes on from the place before.
            let mut at = 0;
            let mut moved: Vec<u32> = Vec::with_capacity(part.points.len() + 1);
            for point in &part.points {
                at += points[at..]
                    .iter()
                    .position(|p| p == point)
                    .expect("it is there");
                moved.push(at as u32);
            }
            moved.push(points.len() as u32);
            let place = |placed: &Placed| Placed {
                from: moved[placed.from as usize],
                to: moved[placed.to as usize],
                seq: placed.seq,
            };
            tombstones.extend(part.tombstones.iter().map(place));
        }
        let place = |point: &Bytes| points.binary_search(point).expect("it is there") as u32;
        tombstones.extend(more.iter().map(|tombstone| {
            Placed {
                from: place(&tombstone.range.start),
                to: tombstone
                    .range
                    .end
                    .as_ref()
                    .map_or(points.len() as u32, place),
                seq: tombstone.seq,
            }
        }));
        tombstones.sort_by_key(|placed| Reverse(placed.seq));
        Self::of_placed(points, tombstones)
    }

    /// Builds an index from the ascending bounds of its intervals and the tombstones over them,
    /// newest first.
    fn of_placed(points: Vec<Bytes>, tombstones: Vec<Placed>) -> Self {
        let intervals = points.len();
        let mut nodes = vec![0; 2 * intervals + 1];
        for placed in &tombstones {
            for_nodes(intervals, placed, |node| nodes[node + 1] += 1);
        }
        for node in 1..nodes.len() {
            nodes[node] += nodes[node - 1];
        }
        // From the newest on, so that each node has its own in order.
        let mut next = nodes.clone();
        let mut seqs = vec![SeqNo::ZERO; nodes[2 * intervals] as usize];
        for placed in &tombstones {
            for_nodes(intervals, placed, |node| {
                seqs[next[node] as usize] = placed.seq;
                next[node] += 1;
            });
        }
        // The newest from each node up to the root, from the root down.
        let mut newest = vec![SeqNo::ZERO; 2 * intervals];
        for node in 1..2 * intervals {
            let own = seqs[nodes[node] as usize..nodes[node + 1] as usize].first();
            newest[node] = newest[node / 2].max(own.copied().unwrap_or_default());
        }
        let prefix_bytes = common_prefix_len(&points[0], &points[intervals - 1]);
        let heads = points.iter().map(|point| head(&point[prefix_bytes..]));
        Self {
            newest: newest.split_off(intervals),
            prefix_bytes,
            heads: heads.collect(),
            points,
            tombstones,
            nodes,
            seqs,
        }
    }

    /// Returns the number of tombstones.
    pub(super) fn len(&self) -> usize {
        self.tombstones.len()
    }

    /// Returns the greatest sequence number of a tombstone.
    pub(super) fn newest(&self) -> SeqNo {
        self.tombstones[0].seq
    }

    /// Returns the newest sequence number `<= seq` of a tombstone over `key`; `None` without one.
    pub(super) fn covering(&self, key: &[u8], seq: SeqNo) -> Option<SeqNo> {
        let interval = self.points_up_to(key).checked_sub(1)?;
        let newest = self.newest[interval];
        if newest <= seq {
            return (newest > SeqNo::ZERO).then_some(newest);
        }
        let up = std::iter::successors(Some(interval + self.points.len()), |node| Some(node / 2));
        let seen = up.take_while(|&node| node > 0).filter_map(|node| {
            let seqs = &self.seqs[self.nodes[node] as usize..self.nodes[node + 1] as usize];
            seqs.get(seqs.partition_point(|&other| other > seq))
                .copied()
        });
        seen.max()
    }

    /// Returns whether, over each key of `range`, the newest tombstone of this index has a number
    /// above `largest_seq` and at most `seq`. Returns false, too, if more than [`PIECES_MAX`]
    /// intervals overlap the range.
    pub(super) fn hide(&self, range: &KeyRange, largest_seq: SeqNo, seq: SeqNo) -> bool {
        let Some(first) = self.points_up_to(&range.start).checked_sub(1) else {
            return false;
        };
        let reaches = |begin: &Bytes| is_before(begin, range.end.as_ref());
        if self.points.get(first + PIECES_MAX).is_some_and(reaches) {
            return false;
        }
        let intervals = self.points[first..].iter().zip(&self.newest[first..]);
        let mut reaching = intervals.take_while(|(begin, _)| reaches(begin));
        // An interval without a tombstone has the number 0, which is above no other.
        reaching.all(|(_, &newest)| largest_seq < newest && newest <= seq)
    }

    /// Returns the number of `points` (keys at which ranges begin or end) that are less than or
    /// equal to `key`.
    fn points_up_to(&self, key: &[u8]) -> usize {
        let (start, rest) = key.split_at(self.prefix_bytes.min(key.len()));
        match start.cmp(&self.points[0][..self.prefix_bytes]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.points.len(),
            Ordering::Equal => {}
        }
        let head = head(rest);
        let from = self.heads.partition_point(|&other| other < head);
        let same = self.heads[from..].partition_point(|&other| other == head);
        let of_head = &self.points[from..from + same];
        from + of_head.partition_point(|point| **point <= *key)
    }

    /// Returns all tombstones, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.tombstones.iter().map(|placed| RangeTombstone {
            range: KeyRange {
                start: self.points[placed.from as usize].clone(),
                end: self.points.get(placed.to as usize).cloned(),
            },
            seq: placed.seq,
        })
    }

    /// Returns the bytes of memory that the index takes, without those of the keys.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.points)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.tombstones)
            + size_of_val(&*self.newest)
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.seqs)
    }
}

/// Returns the first eight bytes of `rest` as a number, padded with zeros.
fn head(rest: &[u8]) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    let len = rest.len().min(bytes.len());
    bytes[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(bytes)
}

fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Calls `at` with the number of each tree node that the tombstone is stored at, if the tree has
/// `intervals` leaves. Together these nodes have exactly the leaves of the tombstone's intervals.
fn for_nodes(intervals: usize, placed: &Placed, mut at: impl FnMut(usize)) {
    let mut from = placed.from as usize + intervals;
    let mut to = placed.to as usize + intervals;
    while from < to {
        if from % 2 == 1 {
            at(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            at(to);
        }
        from /= 2;
        to /= 2;
    }
}
