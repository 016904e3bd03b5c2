//! The simulator's queue of events.

use crate::model::TaskKind;
use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event. The order of the variants is the order at the same instant: a
/// cycle comes last, so that it sees the new jobs and the freed slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
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

/// A priority queue of events by time.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(OrderedF64, Event)>>,
}

impl Events {
    pub fn push(&mut self, at_s: f64, event: Event) {
        self.heap.push(Reverse((OrderedF64(at_s), event)));
    }

    /// Removes the earliest event; returns its time in seconds and the event, or `None` if there is
    /// no event.
    pub fn pop(&mut self) -> Option<(f64, Event)> {
        let Reverse((at_s, event)) = self.heap.pop()?;
        Some((at_s.0, event))
    }
}
