//! The recent rate of a backup or a verification, in bytes per second.

use std::collections::VecDeque;
use std::time::Instant;

/// The time over which the rate is measured, in seconds. Shorter times would show single files, and the
/// pauses by which the work keeps to its rate limit.
const WINDOW_S: f64 = 10.0;
/// The least time between two counts of bytes that are kept, in seconds. It bounds the number of counts,
/// and so the memory.
const MARK_EVERY_S: f64 = 1.0;

/// The recent rate of a piece of work, in bytes per second. The work begins when this is created.
#[derive(Debug)]
pub(super) struct ByteRate {
    begun: Instant,
    window: Window,
}

impl ByteRate {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            window: Window::new(),
        }
    }

    /// Records the number of bytes that are done so far.
    pub(super) fn note(&mut self, bytes_done: u64) {
        let now_s = self.now_s();
        self.window.note(bytes_done, now_s);
    }

    /// Returns the bytes per second over the last ten seconds, or since the start if that is more recent.
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.window.bytes_per_s(self.now_s())
    }

    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

/// The total numbers of bytes that a piece of work had done at some moments of the last ten seconds.
#[derive(Debug)]
struct Window {
    bytes_done: u64,
    /// Pairs of a time, in seconds since the begin of the work, and the number of bytes that were
    /// done by then; the oldest first, and never empty.
    marks: VecDeque<(f64, u64)>,
}

impl Window {
    fn new() -> Self {
        Self {
            bytes_done: 0,
            marks: VecDeque::from([(0.0, 0)]),
        }
    }

    fn note(&mut self, bytes_done: u64, now_s: f64) {
        self.bytes_done = bytes_done;
        let last_s = self.marks.back().map_or(0.0, |&(at_s, _)| at_s);
        if now_s - last_s < MARK_EVERY_S {
            return;
        }
        self.marks.push_back((now_s, bytes_done));
        // One at the start of the window, or before it, stays.
        while self.marks.len() > 1 && self.marks[1].0 <= now_s - WINDOW_S {
            self.marks.pop_front();
        }
    }

    fn bytes_per_s(&self, now_s: f64) -> f64 {
        let is_at_begin = |(at_s, _): &&(f64, u64)| *at_s <= now_s - WINDOW_S;
        let begin = self.marks.iter().rev().find(is_at_begin);
        let &(from_s, from_bytes) = begin.unwrap_or(&self.marks[0]);
        let bytes = self.bytes_done.saturating_sub(from_bytes);
        if now_s > from_s {
            bytes as f64 / (now_s - from_s)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_ten_seconds() {
        let mut window = Window::new();
        assert_eq!(window.bytes_per_s(0.0), 0.0);
        window.note(500, 0.5);
        assert_eq!(window.bytes_per_s(0.5), 1000.0);
        for second in 1..=20 {
            window.note(1000 * second, second as f64);
        }
        assert_eq!(window.bytes_per_s(20.0), 1000.0);
        for second in 21..=30 {
            window.note(20_000 + 100 * (second - 20), second as f64);
        }
        assert_eq!(window.bytes_per_s(30.0), 100.0);
        assert!(window.marks.len() <= 12, "{window:?}");
    }

    #[test]
    fn the_rate_of_work_that_stands_still_is_zero() {
        let mut window = Window::new();
        window.note(9000, 3.0);
        assert_eq!(window.bytes_per_s(6.0), 1500.0);
        assert_eq!(window.bytes_per_s(13.0), 0.0);
    }
}
