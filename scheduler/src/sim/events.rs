//! What happens next.

use crate::model::TaskKind;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Ordered as they happen at the same instant: a cycle sees what came in and
/// what was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Submit {
        job: usize,
    },
    Finish {
        node: usize,
        job: usize,
        kind: TaskKind,
        index: u32,
        version: u32,
    },
    Up {
        node: usize,
    },
    Down {
        node: usize,
    },
    Cycle,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub at_s: f64,
    pub what: What,
}

/// Events in the order of time.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Event>,
}

impl Events {
    pub fn push(&mut self, at_s: f64, what: What) {
        self.heap.push(Event { at_s, what });
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop()
    }
}

/// A max-heap pops the earliest.
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_s.total_cmp(&self.at_s)).then(other.what.cmp(&self.what))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}
