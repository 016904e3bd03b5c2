//! What happens next.

use crate::model::TaskKind;
use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
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

/// Events in the order of time.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(OrderedF64, What)>>,
}

impl Events {
    pub fn push(&mut self, at_s: f64, what: What) {
        self.heap.push(Reverse((OrderedF64(at_s), what)));
    }

    /// Takes the earliest event out: its time in seconds, and what happens.
    pub fn pop(&mut self) -> Option<(f64, What)> {
        let Reverse((at_s, what)) = self.heap.pop()?;
        Some((at_s.0, what))
    }
}
