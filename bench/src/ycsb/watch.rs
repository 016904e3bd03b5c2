//! Watches: latencies of writes around an event.
//!
//! Percentiles over a whole run cannot show the effect of an event of a few microseconds on the
//! writes beside it. A watch marks a window. Every write that overlaps the window is reported
//! separately, also one that began before and ended after it.
//!
//! ```text
//!   state   0        1          2        3          4
//!           │ window 0 open     │        │ window 1 open
//!      ─────┴──────────┴────────┴────────┴──────────┴──► time
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::latencies::{DIGITS, Latencies, histogram};

/// The time windows whose writes are reported separately. All workers of a run share them.
#[derive(Debug)]
pub(super) struct Board {
    /// The number of opens and closes of windows so far: odd while a window is open.
    state: AtomicU64,
    start: Instant,
    windows: Mutex<Vec<Window>>,
}

/// A window, in seconds since the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    kind: &'static str,
    opened_s: f64,
    closed_s: f64,
}

/// A time window that is open. It ends when this value is dropped, or when the next window opens.
#[derive(Debug)]
pub struct Watch {
    board: Arc<Board>,
}

/// The writes (updates, inserts and read-modify-writes) that overlapped the time windows of one
/// kind, such as the windows around the creations of snapshots.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WatchGroup {
    /// Latencies of the writes of all windows together.
    pub writes: Latencies,
    /// The windows, in the order in which they were opened.
    pub windows: Vec<WatchReport>,
}

/// The latencies of the writes that overlapped one window.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WatchReport {
    /// The start of the window, in seconds since the start of the run.
    pub opened_s: f64,
    /// The end of the window, in seconds since the start of the run.
    pub closed_s: f64,
    /// Latencies of the writes that overlapped the window.
    pub writes: Latencies,
}

impl Board {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            state: AtomicU64::new(0),
            start,
            windows: Mutex::default(),
        }
    }

    /// Opens a window, and ends the one that is open, if any.
    pub(super) fn open(self: &Arc<Self>, kind: &'static str) -> Watch {
        let mut windows = self.windows.lock().unwrap();
        self.close(&mut windows);
        let now_s = self.now_s();
        windows.push(Window {
            kind,
            opened_s: now_s,
            closed_s: now_s,
        });
        self.state.fetch_add(1, Ordering::AcqRel);
        Watch {
            board: self.clone(),
        }
    }

    fn close(&self, windows: &mut [Window]) {
        if self.state.load(Ordering::Acquire) % 2 == 1 {
            windows.last_mut().expect("one is open").closed_s = self.now_s();
            self.state.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn now_s(&self) -> f64 {
        Instant::now().duration_since(self.start).as_secs_f64()
    }

    /// Returns the number of opens and closes of windows so far. A worker reads it before and after
    /// each write: the write overlapped a window if the number is odd or has changed.
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    pub(super) fn windows(&self) -> Vec<Window> {
        self.windows.lock().unwrap().clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut windows = self.board.windows.lock().unwrap();
        self.board.close(&mut windows);
    }
}

/// Returns the position, in the list of windows, of the first window that a write overlapped;
/// `None` if it overlapped none. `before` and `after` are [`Board::state`] before and after the
/// write.
pub(super) fn overlapped(before: u64, after: u64) -> Option<usize> {
    let open_before = before % 2 == 1;
    (open_before || after > before).then_some((before / 2) as usize)
}

/// Summarizes writes by window and by kind. Each of `writes` is the position of a window and the
/// latency of the write in nanoseconds.
pub(super) fn group(
    windows: &[Window],
    writes: impl Iterator<Item = (usize, u64)>,
) -> BTreeMap<&'static str, WatchGroup> {
    let mut by_window = vec![Vec::new(); windows.len()];
    for (window, latency_ns) in writes {
        by_window[window].push(latency_ns);
    }
    let mut groups: BTreeMap<_, (WatchGroup, Histogram<u64>)> = BTreeMap::new();
    for (window, writes) in windows.iter().zip(by_window) {
        let mut nanos = histogram(DIGITS);
        for latency_ns in writes {
            nanos.saturating_record(latency_ns);
        }
        let (group, all) = groups
            .entry(window.kind)
            .or_insert_with(|| (WatchGroup::default(), histogram(DIGITS)));
        all.add(&nanos).expect("both have the same bounds");
        group.windows.push(WatchReport {
            opened_s: window.opened_s,
            closed_s: window.closed_s,
            writes: Latencies::from(&nanos),
        });
    }
    let summed = groups.into_iter().map(|(kind, (mut group, all))| {
        group.writes = Latencies::from(&all);
        (kind, group)
    });
    summed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_belongs_to_the_window_it_overlaps() {
        assert_eq!(overlapped(0, 0), None, "before any");
        assert_eq!(overlapped(0, 1), Some(0), "ends inside");
        assert_eq!(overlapped(1, 1), Some(0), "all inside");
        assert_eq!(overlapped(1, 2), Some(0), "begins inside");
        assert_eq!(overlapped(0, 2), Some(0), "around all of it");
        assert_eq!(overlapped(2, 2), None, "between two");
        assert_eq!(overlapped(2, 3), Some(1), "into the second");
    }

    #[test]
    fn windows_close_when_dropped_and_when_the_next_opens() {
        let board = Arc::new(Board::new(Instant::now())); // clock: the start of the run
        let first = board.open("event");
        assert_eq!(board.state(), 1);
        drop(first);
        assert_eq!(board.state(), 2);
        let second = board.open("event");
        let third = board.open("event");
        assert_eq!(board.state(), 5);
        drop(third);
        drop(second);
        assert_eq!(board.state(), 6);
        let windows = board.windows();
        assert_eq!(windows.len(), 3);
        assert!(windows.iter().all(|w| w.opened_s <= w.closed_s));
    }

    #[test]
    fn writes_are_summarized_by_window_and_by_kind() {
        let board = Arc::new(Board::new(Instant::now())); // clock: the start of the run
        for kind in ["event", "quiet", "event"] {
            drop(board.open(kind));
        }
        let writes = [(0, 1_000), (0, 2_000), (1, 50_000), (2, 9_000)];
        let groups = group(&board.windows(), writes.into_iter());
        let event = &groups["event"];
        assert_eq!((event.writes.count, event.windows.len()), (3, 2));
        assert!((event.writes.max_us - 9.0).abs() < 0.1);
        assert!((event.windows[0].writes.max_us - 2.0).abs() < 0.1);
        assert_eq!(groups["quiet"].writes.count, 1);
    }
}
