//! The boundaries between which a table's versions fall into stripes.
//!
//! ```text
//!   seq        1  2  3 | 4  5 | 6  7  8
//!   boundary         3      5
//!   stripe        0       1       2
//! ```
//!
//! Every reader stands at a boundary, or above all of them (at a number at or above every
//! commit that is known when the boundaries are read). Each reader decides what has expired
//! by one fixed time of its own.

use crate::key::{ReadTime, SeqNo};
use crate::mutation::{self, Mutation};

/// The position of a reader in the sequence of commits and in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadPoint {
    /// The largest sequence number that the reader sees.
    pub(crate) seq: SeqNo,
    /// The time at which the reader decides what has expired, in milliseconds since the Unix
    /// epoch.
    pub(crate) read_time_ms: u64,
}

impl ReadPoint {
    pub(crate) fn read_time(self) -> ReadTime<'static> {
        ReadTime::At(self.read_time_ms)
    }
}

/// The sequence numbers and the times at which all readers of a table read: its bookmarks
/// (snapshots and holds) and the live views (open readers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Boundaries {
    /// The sequence numbers at which readers read (the boundaries), ascending, each once. A reader
    /// sees all commits between two neighbouring boundaries or none of them. So of the versions of
    /// a key there, readers need at most one: the newest, with older ones folded into it if it is
    /// an operand.
    seqs: Vec<SeqNo>,
    /// For each stripe, the earliest read time of all present and future readers that can see its
    /// versions, in milliseconds since the Unix epoch: an entry that has expired by then has
    /// expired for all of them. The boundaries divide the commits into stripes: one up to the first
    /// boundary, one between each two neighbours, and one above the last boundary. The times
    /// ascend.
    judged_ms: Vec<u64>,
}

impl Boundaries {
    /// Returns the boundaries for readers at `points` (in any order). `now_ms` is the time of the
    /// flush or merge; readers that begin later have no earlier read time.
    pub(crate) fn new(mut points: Vec<ReadPoint>, now_ms: u64) -> Self {
        points.sort_unstable();
        let mut seqs: Vec<SeqNo> = Vec::with_capacity(points.len());
        let mut judged_ms = vec![now_ms];
        for point in points.iter().rev() {
            let earliest = point.read_time_ms.min(judged_ms[judged_ms.len() - 1]);
            if seqs.last() == Some(&point.seq) {
                *judged_ms.last_mut().expect("starts with one") = earliest;
            } else {
                seqs.push(point.seq);
                judged_ms.push(earliest);
            }
        }
        seqs.reverse();
        judged_ms.reverse();
        Self { seqs, judged_ms }
    }

    /// Removes the boundary at position `at`, and returns only its neighbours (at most two). The
    /// stripes below and above the removed boundary become one stripe, with the read time of the
    /// upper one. (A stripe has the commits between two neighbouring boundaries.)
    pub(crate) fn joined_at(&self, at: usize) -> Self {
        let (first, end) = (at.saturating_sub(1), (at + 2).min(self.seqs.len()));
        let mut joined = Self {
            seqs: self.seqs[first..end].to_vec(),
            judged_ms: self.judged_ms[first..=end].to_vec(),
        };
        joined.seqs.remove(at - first);
        joined.judged_ms.remove(at - first);
        joined
    }

    /// Returns the last boundary below a sequence number; `None` if there is none. The stripe of
    /// `seq` (the commits between two neighbouring boundaries) begins after this boundary.
    pub(crate) fn below(&self, seq: SeqNo) -> Option<SeqNo> {
        let below = self.seqs.partition_point(|&boundary| boundary < seq);
        below.checked_sub(1).map(|at| self.seqs[at])
    }

    /// Returns the stripe (the commits between two neighbouring boundaries) that contains a sequence
    /// number, as the number of boundaries below it. A boundary is the last number of its stripe.
    pub(crate) fn stripe(&self, seq: SeqNo) -> usize {
        stripe(&self.seqs, seq)
    }

    /// Returns whether a reader reads at one of the sequence numbers `from..=to`.
    pub(crate) fn has_any(&self, from: SeqNo, to: SeqNo) -> bool {
        let next = self.seqs.get(self.stripe(from));
        next.is_some_and(|&next| next <= to)
    }

    /// Returns the first and the last of the boundaries that are at least `version` and below
    /// `newer`, the sequence numbers of two versions of a key. Readers at these boundaries may need
    /// the older version, because they do not see the newer one. `None` if there are no such
    /// boundaries.
    pub(crate) fn needed_by(&self, version: SeqNo, newer: SeqNo) -> Option<(SeqNo, SeqNo)> {
        let needed = self.seqs.get(self.stripe(version)..self.stripe(newer))?;
        Some((*needed.first()?, *needed.last()?))
    }

    /// Returns the earliest read time of all readers of a stripe (the commits between two
    /// neighbouring boundaries), in milliseconds since the Unix epoch. An entry that expires later
    /// must not be dropped as expired.
    pub(crate) fn judged_ms(&self, stripe: usize) -> u64 {
        let now = self.judged_ms.len() - 1;
        self.judged_ms[mutation::replace(stripe, Mutation::PurgeForAll, now)]
    }

    /// Returns [`Self::judged_ms`] of a stripe (the commits between two neighbouring boundaries) as a
    /// [`ReadTime::EarliestOf`].
    pub(crate) fn read_time(&self, stripe: usize) -> ReadTime<'static> {
        let now = self.judged_ms.len() - 1;
        let judged = mutation::replace(stripe, Mutation::ExpireForAll, now);
        ReadTime::EarliestOf(self.judged_ms[judged])
    }
}

/// Returns the stripe (the commits between two neighbouring boundaries) that contains a sequence
/// number, as the number of the ascending `boundaries` that lie below it.
pub(crate) fn stripe(boundaries: &[SeqNo], seq: SeqNo) -> usize {
    let off_by_one = mutation::is(Mutation::StripeOffByOne);
    boundaries.partition_point(|&boundary| boundary < seq || off_by_one && boundary == seq)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_version_is_needed_by_the_boundaries_up_to_the_newer_one() {
        let point = |seq| ReadPoint {
            seq: SeqNo(seq),
            read_time_ms: 0,
        };
        let boundaries = Boundaries::new([3, 5, 8].map(point).to_vec(), 0);
        for (version, newer, expected) in [
            (1, 9, Some((3, 8))),
            (3, 9, Some((3, 8))),
            (4, 8, Some((5, 5))),
            (4, 9, Some((5, 8))),
            (6, 8, None),
            (9, 10, None),
        ] {
            let found = boundaries.needed_by(SeqNo(version), SeqNo(newer));
            let expected = expected.map(|(first, last)| (SeqNo(first), SeqNo(last)));
            assert_eq!(found, expected, "{version} below {newer}");
        }
        for (seq, expected) in [(3, None), (4, Some(3)), (8, Some(5)), (9, Some(8))] {
            assert_eq!(boundaries.below(SeqNo(seq)), expected.map(SeqNo), "{seq}");
        }
        for (from, to, expected) in [(1, 2, false), (1, 3, true), (4, 4, false), (8, 9, true)] {
            assert_eq!(boundaries.has_any(SeqNo(from), SeqNo(to)), expected);
        }
    }

    #[test]
    fn a_stripe_is_judged_at_the_earliest_time_of_all_who_see_it() {
        for (points, seqs, judged_ms) in [
            (&[][..], &[][..], &[100][..]),
            (&[(5, 70)], &[5], &[70, 100]),
            // The clock of a later view returned an earlier time.
            (&[(5, 70), (9, 60)], &[5, 9], &[60, 60, 100]),
            (
                &[(9, 60), (5, 70), (5, 40), (5, 90)],
                &[5, 9],
                &[40, 60, 100],
            ),
            (&[(5, 120)], &[5], &[100, 100]),
        ] {
            let points = points.iter().map(|&(seq, read_time_ms)| ReadPoint {
                seq: SeqNo(seq),
                read_time_ms,
            });
            let boundaries = Boundaries::new(points.collect(), 100);
            let found: Vec<_> = boundaries.seqs.iter().map(|seq| seq.0).collect();
            assert_eq!(found, seqs);
            assert_eq!(boundaries.judged_ms, judged_ms);
        }
    }
}
