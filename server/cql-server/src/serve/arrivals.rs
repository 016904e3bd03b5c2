//! When the bytes of a connection arrived that have not been served yet.
//!
//! The kernel does not say when bytes came. But each read tells how many were there by then,
//! so a byte came between two reads: the one before which it was not there, and the one by
//! which it was.
//!
//! ```text
//!   bytes      ......|=========|=============|
//!   by time    base  ^ read    ^ read        a byte within: by its place in between
//! ```
//!
//! Of a connection that was idle the time of the last read says little. There the time that
//! a ready connection waits for its turn is known better, which `overload` measures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Reads that are remembered; a connection that is further behind is known less exactly.
const MARKS_MAX: usize = 32;

/// The bytes of one connection, counted from its first.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// By when so many bytes had come, the oldest first. One at least: before it, all was
    /// served.
    marks: VecDeque<Mark>,
    read_bytes: u64,
    /// When a byte was last asked for.
    served_at: Instant,
    /// Since when each read has left something.
    behind_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    bytes: u64,
}

impl Arrivals {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            marks: VecDeque::from([Mark { at: now, bytes: 0 }]),
            read_bytes: 0,
            served_at: now,
            behind_since: None,
        }
    }

    /// At `now` these bytes were read, and `left_bytes` stayed; of those read before,
    /// `unserved_bytes` are there. `turn` is what a connection waits for its turn that has
    /// something to be read.
    pub(super) fn read(
        &mut self,
        now: Instant,
        (unserved_bytes, bytes): (usize, usize),
        left_bytes: usize,
        turn: Duration,
    ) {
        self.forget(self.read_bytes - unserved_bytes as u64);
        if let Some(last) = self.marks.back().copied()
            && last.bytes <= self.read_bytes
            && let Some(ready_at) = now.checked_sub(turn)
            && ready_at > last.at.max(self.served_at)
        {
            // Nothing was left, and there was nothing to do: what is there came when the
            // connection became ready, or later.
            let none = Mark {
                at: ready_at,
                ..last
            };
            self.marks.push_back(none);
            self.forget(self.read_bytes - unserved_bytes as u64);
        }
        match left_bytes {
            0 => self.behind_since = None,
            _ => drop(self.behind_since.get_or_insert(now)),
        }
        self.read_bytes += bytes as u64;
        self.marks.push_back(Mark {
            at: now,
            bytes: self.read_bytes + left_bytes as u64,
        });
        while self.marks.len() > MARKS_MAX {
            self.marks.remove(1);
        }
    }

    /// How long a byte has waited at `now` that was read; it and what is behind it are so many.
    /// Those before it have been served.
    pub(super) fn waited(&mut self, now: Instant, unserved_bytes: usize) -> Duration {
        let next = self.read_bytes - unserved_bytes as u64;
        self.forget(next);
        self.served_at = now;
        let (Some(before), Some(by)) = (self.marks.front(), self.marks.get(1)) else {
            return Duration::ZERO;
        };
        // What a read leaves is only about known where it is encrypted.
        let of_mark = by.bytes.saturating_sub(before.bytes).max(1);
        let part = (next.saturating_sub(before.bytes) as f64 / of_mark as f64).min(1.0);
        let came_at = before.at + by.at.duration_since(before.at).mul_f64(part);
        now.saturating_duration_since(came_at)
    }

    /// The same, at most. A socket that is full keeps its client from sending, and what the client
    /// could not send is older than it looks.
    pub(super) fn waited_at_most(&mut self, now: Instant, unserved_bytes: usize) -> Duration {
        let behind = self
            .behind_since
            .map(|since| now.saturating_duration_since(since));
        self.waited(now, unserved_bytes)
            .max(behind.unwrap_or_default())
    }

    /// Forgets what is over once all before the byte at this place are served.
    fn forget(&mut self, next: u64) {
        while self.marks.get(1).is_some_and(|mark| mark.bytes <= next) {
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The instant that the times of a test count from.
    fn epoch() -> Instant {
        Instant::now() // clock: arrivals are instants
    }

    #[test]
    fn bytes_that_one_read_finds_came_one_after_the_other() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        arrivals.read(epoch + 10 * MS, (0, 100), 0, 10 * MS);
        let now = epoch + 12 * MS;
        assert_eq!(arrivals.waited(now, 100), 12 * MS);
        assert_eq!(arrivals.waited(now, 50), 7 * MS);
        assert_eq!(arrivals.waited(now, 0), Duration::ZERO);
    }

    #[test]
    fn who_was_idle_has_waited_for_its_turn_only() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        let now = epoch + 5000 * MS;
        arrivals.read(now, (0, 100), 0, 2 * MS);
        assert_eq!(arrivals.waited(now, 100), 2 * MS);
        assert_eq!(arrivals.waited(now, 0), Duration::ZERO);
        // A turn that takes longer than since the last read says no more than that.
        arrivals.read(now + MS, (0, 100), 0, 9 * MS);
        assert_eq!(arrivals.waited(now + MS, 100), MS);
    }

    #[test]
    fn a_request_that_comes_in_pieces_has_waited_since_its_last() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        arrivals.read(epoch + 10 * MS, (0, 60), 0, MS);
        let now = epoch + 1000 * MS;
        arrivals.read(now, (60, 40), 0, MS);
        let last = arrivals.waited(now, 1);
        assert!(last < MS / 10, "{last:?}");
        arrivals.read(now + 500 * MS, (0, 100), 0, MS);
        assert_eq!(arrivals.waited(now + 500 * MS, 100), MS);
    }

    #[test]
    fn what_a_read_leaves_is_as_old_as_when_it_was_seen() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        // 1000 bytes within 10 ms, of which 100 are taken each time; none comes after.
        let mut now = epoch + 10 * MS;
        arrivals.read(now, (0, 100), 900, 10 * MS);
        assert_eq!(arrivals.waited(now, 100), 10 * MS);
        for taken in 1..10 {
            now += 10 * MS;
            arrivals.read(now, (0, 100), 900 - 100 * taken, MS);
        }
        assert_eq!(arrivals.waited(now, 100), 91 * MS);
        // However many reads it takes, the oldest are not forgotten.
        let mut arrivals = Arrivals::new(epoch);
        for read in 1..=100 {
            arrivals.read(epoch + read * MS, (read as usize - 1, 1), 1000, MS);
        }
        assert!(arrivals.marks.len() <= MARKS_MAX);
        assert!(arrivals.waited(epoch + 100 * MS, 100) >= 99 * MS);
    }
}
