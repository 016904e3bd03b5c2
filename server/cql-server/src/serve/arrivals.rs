//! The arrival times of a connection's bytes that are not served yet.
//!
//! The kernel does not report when bytes arrive. But after each read the number of bytes that have
//! arrived so far is known, so a byte arrived between two reads: the last one that did not see it,
//! and the first one that did.
//!
//! ```text
//!   bytes      ......|=========|=============|
//!   by time    base  ^ read    ^ read        a byte in between: interpolated
//! ```
//!
//! For an idle connection the time of the last read is of little use. There the time that a ready
//! connection waits for its turn, which `overload` measures, is more precise.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The most socket reads whose times are stored. If the bytes that are not served come from more
/// reads, their arrival times are less precise.
const MARKS_MAX: usize = 32;

/// The arrival times of the bytes of one connection. Positions of bytes are counted from the first
/// byte of the connection.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Total numbers of bytes, each with the time by which that many bytes had arrived, in
    /// ascending order. There is always at least one mark; all bytes before the first mark are
    /// served.
    marks: VecDeque<Mark>,
    read_bytes: u64,
    /// The time at which the last request was started, or at which the connection began.
    served_at: Instant,
    /// The time since which every read has left bytes in the socket; `None` if the last read left
    /// none.
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

    /// Notes a read at `now` of `bytes` bytes that left `left_bytes` in the socket, while
    /// `unserved_bytes` of earlier reads were not yet served. `turn` is the time that a connection
    /// with unread bytes waits until its thread reads them.
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
            // The last read left nothing, and all requests are served: the bytes arrived when the
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

    /// Returns how long, at `now`, the first unserved byte has waited. `unserved_bytes` is the
    /// number of bytes read from this byte on; all bytes before are served. Notes that a request is
    /// started at `now`.
    pub(super) fn waited(&mut self, now: Instant, unserved_bytes: usize) -> Duration {
        let next = self.read_bytes - unserved_bytes as u64;
        self.forget(next);
        self.served_at = now;
        let (Some(before), Some(by)) = (self.marks.front(), self.marks.get(1)) else {
            return Duration::ZERO;
        };
        // For an encrypted connection the bytes that a read leaves are known only approximately.
        let of_mark = by.bytes.saturating_sub(before.bytes).max(1);
        let part = (next.saturating_sub(before.bytes) as f64 / of_mark as f64).min(1.0);
        let came_at = before.at + by.at.duration_since(before.at).mul_f64(part);
        now.saturating_duration_since(came_at)
    }

    /// Returns an upper bound of the time that the first unserved byte has waited, including its
    /// wait in the client while the socket was full, which [`waited`](Self::waited) does not
    /// include.
    pub(super) fn waited_at_most(&mut self, now: Instant, unserved_bytes: usize) -> Duration {
        let behind = self
            .behind_since
            .map(|since| now.saturating_duration_since(since));
        self.waited(now, unserved_bytes)
            .max(behind.unwrap_or_default())
    }

    /// Removes the arrival times that no longer matter once all bytes before the position `next`
    /// are served.
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

    /// Returns the time from which a test computes all other times.
    fn epoch() -> Instant {
        Instant::now() // clock: arrivals are instants
    }

    #[test]
    fn the_bytes_of_one_read_arrived_evenly() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        arrivals.read(epoch + 10 * MS, (0, 100), 0, 10 * MS);
        let now = epoch + 12 * MS;
        assert_eq!(arrivals.waited(now, 100), 12 * MS);
        assert_eq!(arrivals.waited(now, 50), 7 * MS);
        assert_eq!(arrivals.waited(now, 0), Duration::ZERO);
    }

    #[test]
    fn an_idle_connection_has_waited_for_its_turn_only() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        let now = epoch + 5000 * MS;
        arrivals.read(now, (0, 100), 0, 2 * MS);
        assert_eq!(arrivals.waited(now, 100), 2 * MS);
        assert_eq!(arrivals.waited(now, 0), Duration::ZERO);
        // A turn that is longer than the time since the last read counts only from that read.
        arrivals.read(now + MS, (0, 100), 0, 9 * MS);
        assert_eq!(arrivals.waited(now + MS, 100), MS);
    }

    #[test]
    fn a_request_in_pieces_has_waited_since_its_last_piece() {
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
    fn bytes_that_a_read_leaves_have_arrived_by_then() {
        let epoch = epoch();
        let mut arrivals = Arrivals::new(epoch);
        // 1000 bytes arrive within 10 ms, and no more after that. Each read takes 100.
        let mut now = epoch + 10 * MS;
        arrivals.read(now, (0, 100), 900, 10 * MS);
        assert_eq!(arrivals.waited(now, 100), 10 * MS);
        for taken in 1..10 {
            now += 10 * MS;
            arrivals.read(now, (0, 100), 900 - 100 * taken, MS);
        }
        assert_eq!(arrivals.waited(now, 100), 91 * MS);
        // The oldest time is kept, however many reads there are.
        let mut arrivals = Arrivals::new(epoch);
        for read in 1..=100 {
            arrivals.read(epoch + read * MS, (read as usize - 1, 1), 1000, MS);
        }
        assert!(arrivals.marks.len() <= MARKS_MAX);
        assert!(arrivals.waited(epoch + 100 * MS, 100) >= 99 * MS);
    }
}
