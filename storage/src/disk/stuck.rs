//! Decides which calls to the disk are stuck, from looks at the calls under way.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::calls::Note;

/// The time after which a call is stuck. A healthy disk returns within a second, even with a long
/// queue. Clients of the server wait for ten seconds: five seconds leave a load balancer the time
/// to react.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A kind of call to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskCall {
    /// A read of bytes of a file.
    Read = 1,
    /// An append to a file, or a request to begin writing the appended bytes to the disk.
    Write = 2,
    /// An fsync of a file or a directory, or a truncation (it ends with an fsync).
    Sync = 3,
}

impl fmt::Display for DiskCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "fsync",
        })
    }
}

/// A call to the disk that has been under way for at least five seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckCall {
    /// The file or directory on which the call is made.
    pub path: PathBuf,
    /// The kind of the call.
    pub call: DiskCall,
    /// The time since the call was first seen under way. The call began up to a second before that.
    pub lasts: Duration,
}

/// A change between two looks at the calls to the disk: a call has become stuck, or a stuck call
/// has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StuckChange {
    /// A call has become stuck.
    Stuck(StuckCall),
    /// A call that was stuck has returned.
    Returned(StuckCall),
}

/// The calls that were under way at the last look, each by the index of its slot in the table of
/// calls ([`DiskCalls`](super::calls::DiskCalls)).
#[derive(Debug, Default)]
pub(super) struct Looks {
    seen: BTreeMap<usize, ObservedCall>,
    /// The time of the last look at the calls, measured from any fixed moment.
    now: Duration,
}

/// A call that was under way when the calls were last looked at.
#[derive(Debug)]
struct ObservedCall {
    note: Note,
    since: Duration,
    /// The path of the file if the call is stuck; `None` before.
    stuck: Option<PathBuf>,
}

impl ObservedCall {
    fn stuck_call(&self, now: Duration) -> Option<StuckCall> {
        let path = self.stuck.clone()?;
        Some(StuckCall {
            path,
            call: self.note.call(),
            lasts: now.saturating_sub(self.since),
        })
    }
}

impl Looks {
    /// Returns the calls that have become stuck since the last look, and the stuck calls that have
    /// returned since. `under_way` are the calls now, each with the index of its slot. `now` is the time
    /// since a fixed moment, the same for all looks. `path_of` returns the path of the file of a call;
    /// `None` if the file is closed, so that the call has ended.
    pub(super) fn look(
        &mut self,
        now: Duration,
        under_way: impl IntoIterator<Item = (usize, Note)>,
        path_of: impl Fn(Note) -> Option<PathBuf>,
    ) -> Vec<StuckChange> {
        let mut before = std::mem::take(&mut self.seen);
        let mut stuck = Vec::new();
        for (slot, note) in under_way {
            let mut seen = match before.remove(&slot) {
                Some(seen) if seen.note == note => seen,
                other => {
                    // Back, so that its end is reported below.
                    before.extend(other.map(|ended| (slot, ended)));
                    let (since, stuck) = (now, None);
                    ObservedCall { note, since, stuck }
                }
            };
            if seen.stuck.is_none() && now.saturating_sub(seen.since) >= STUCK_AFTER {
                seen.stuck = path_of(note);
                stuck.extend(seen.stuck_call(now).map(StuckChange::Stuck));
            }
            self.seen.insert(slot, seen);
        }
        self.now = now;
        let ended = before.values().filter_map(|seen| seen.stuck_call(now));
        ended.map(StuckChange::Returned).chain(stuck).collect()
    }

    /// Returns whether any call was under way at the last look.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn has_calls(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Returns the calls that were stuck when they were last looked at, the longest first.
    pub(super) fn stuck(&self) -> Vec<StuckCall> {
        let calls = self.seen.values();
        let mut stuck: Vec<_> = calls.filter_map(|seen| seen.stuck_call(self.now)).collect();
        stuck.sort_by_key(|call| std::cmp::Reverse(call.lasts));
        stuck
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Looks at the calls `under_way`, each with the index of its slot, `ms` milliseconds after the
    /// start of the test.
    fn look(looks: &mut Looks, ms: u64, under_way: &[(usize, Note)]) -> Vec<StuckChange> {
        let now = Duration::from_millis(ms);
        looks.look(now, under_way.iter().copied(), |_| Some("f".into()))
    }

    fn call(call: DiskCall, ms: u64) -> StuckCall {
        StuckCall {
            path: "f".into(),
            call,
            lasts: Duration::from_millis(ms),
        }
    }

    #[test]
    fn a_call_of_five_seconds_is_stuck_until_it_returns() {
        let mut looks = Looks::default();
        let calls = [
            (0, Note::new(DiskCall::Sync, 1, 1)),
            (9, Note::new(DiskCall::Read, 1, 2)),
        ];
        assert_eq!(look(&mut looks, 1_000, &calls[..1]), []);
        assert_eq!(look(&mut looks, 5_000, &calls), []);
        assert_eq!(look(&mut looks, 5_999, &calls), []);
        assert_eq!(looks.stuck(), []);

        let sync = |ms| call(DiskCall::Sync, ms);
        let changes = look(&mut looks, 6_000, &calls);
        assert_eq!(changes, [StuckChange::Stuck(sync(5_000))]);
        // It is reported once.
        assert_eq!(look(&mut looks, 7_000, &calls), []);
        assert_eq!(looks.stuck(), [sync(6_000)]);

        let read = call(DiskCall::Read, 5_000);
        let changes = look(&mut looks, 10_000, &calls);
        assert_eq!(changes, [StuckChange::Stuck(read.clone())]);
        assert_eq!(looks.stuck(), [sync(9_000), read]);
        let changes = look(&mut looks, 12_000, &calls[1..]);
        assert_eq!(changes, [StuckChange::Returned(sync(11_000))]);
        assert_eq!(looks.stuck(), [call(DiskCall::Read, 7_000)]);
        let changes = look(&mut looks, 13_000, &[]);
        let read = call(DiskCall::Read, 8_000);
        assert_eq!(changes, [StuckChange::Returned(read)]);
        assert_eq!(looks.stuck(), []);
    }

    #[test]
    fn calls_that_follow_each_other_in_a_slot_are_not_one_long_call() {
        let mut looks = Looks::default();
        for count in 0..20 {
            let call = (3, Note::new(DiskCall::Sync, count, 1));
            assert_eq!(look(&mut looks, 1_000 * count, &[call]), []);
        }
        let stuck = (3, Note::new(DiskCall::Sync, 20, 1));
        assert_eq!(look(&mut looks, 20_000, &[stuck]), []);
        assert_eq!(look(&mut looks, 30_000, &[stuck]).len(), 1);
        let next = (3, Note::new(DiskCall::Sync, 21, 1));
        let changes = look(&mut looks, 31_000, &[next]);
        let returned = StuckChange::Returned(call(DiskCall::Sync, 11_000));
        assert_eq!((changes, looks.stuck()), (vec![returned], vec![]));
    }

    #[test]
    fn a_call_whose_file_is_closed_has_ended() {
        let mut looks = Looks::default();
        let calls = [(0, Note::new(DiskCall::Read, 1, 1))];
        let mut look = |s| looks.look(Duration::from_secs(s), calls, |_| None);
        assert_eq!((look(0), look(9)), (vec![], vec![]));
        assert_eq!(looks.stuck(), []);
    }
}
