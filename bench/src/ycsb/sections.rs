//! Sections: parts of an open loop's run, divided by the moments at which operations were due.
//!
//! The parts of a run that warms up, or whose load changes, are reported separately, with all of
//! their latencies: histograms of several runs can be merged, and percentiles cannot.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::latencies::{DIGITS, histogram};
use super::pauses::Pauses;

/// Histograms, in nanoseconds, of the operations of an open loop that were due in a part of the
/// run. An operation that no thread took counts with the time that it had waited at the end of the
/// run; else a load that is too high would look fast.
#[derive(Debug, Clone)]
pub struct Section {
    /// Times from the moment at which an operation was due to its end.
    pub latencies: Histogram<u64>,
    /// Times from the moment at which an operation was due until a thread took it.
    pub dispatch: Histogram<u64>,
    /// Times from the moment at which a batch was due until all of its operations had ended.
    pub batches: Histogram<u64>,
    /// The time of the section that was left out because the machine paused; `None` if pauses were
    /// not observed.
    pub paused: Option<Duration>,
}

/// The times of an operation that has ended; `due` is relative to the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoneOperation {
    pub due: Duration,
    pub latency: Duration,
    pub dispatch: Duration,
    pub completes_batch: bool,
}

/// The times of a [`DoneOperation`] in 16 bytes, because a run keeps one of these for each
/// operation if pauses are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedOperation {
    /// Twice the nanoseconds from the start of the run until the operation was due, plus 1 if the
    /// operation completes its batch.
    due: u64,
    latency_s: f32,
    dispatch_s: f32,
}

impl From<DoneOperation> for PackedOperation {
    fn from(operation: DoneOperation) -> Self {
        Self {
            due: (operation.due.as_nanos() as u64) << 1 | u64::from(operation.completes_batch),
            latency_s: operation.latency.as_secs_f32(),
            dispatch_s: operation.dispatch.as_secs_f32(),
        }
    }
}

impl From<PackedOperation> for DoneOperation {
    fn from(packed: PackedOperation) -> Self {
        Self {
            due: Duration::from_nanos(packed.due >> 1),
            latency: Duration::from_secs_f32(packed.latency_s),
            dispatch: Duration::from_secs_f32(packed.dispatch_s),
            completes_batch: packed.due & 1 == 1,
        }
    }
}

impl Default for Section {
    fn default() -> Self {
        Self {
            latencies: histogram(DIGITS),
            dispatch: histogram(DIGITS),
            batches: histogram(DIGITS),
            paused: None,
        }
    }
}

impl Section {
    fn record(&mut self, operation: &DoneOperation) {
        let nanos = |of: Duration| of.as_nanos() as u64;
        (self.latencies).saturating_record(nanos(operation.latency));
        (self.dispatch).saturating_record(nanos(operation.dispatch));
        if operation.completes_batch {
            (self.batches).saturating_record(nanos(operation.latency));
        }
    }

    /// Adds operations of one batch that no thread took, and that had waited for `waited`.
    pub(super) fn add_unserved(&mut self, waited: Duration, operations: u64) {
        let nanos = waited.as_nanos() as u64;
        self.latencies.saturating_record_n(nanos, operations);
        self.dispatch.saturating_record_n(nanos, operations);
        self.batches.saturating_record(nanos);
    }

    /// Adds the operations of another section, or those that another worker measured in the same
    /// section.
    pub fn add(&mut self, more: &Self) {
        let all = [
            (&mut self.latencies, &more.latencies),
            (&mut self.dispatch, &more.dispatch),
            (&mut self.batches, &more.batches),
        ];
        for (sum, part) in all {
            sum.add(part).expect("all have the same bounds");
        }
        if let Some(paused) = more.paused {
            *self.paused.get_or_insert_default() += paused;
        }
    }
}

/// Records an operation in the section (part of the run) in which it was due, if any. The sections
/// end at `ends`, as times since the start of the run.
pub(super) fn record(sections: &mut [Section], ends: &[Duration], operation: &DoneOperation) {
    if let Some(position) = position(ends, operation.due) {
        sections[position].record(operation);
    }
}

/// Records operations in the sections of the run in which they were due, except for operations
/// that were due while the machine paused, and records the paused time of each section. If [most
/// of a section](Pauses::hide_most) was paused, all of its operations are recorded. The run began
/// at `start`. Returns for each section the pauses whose operations were left out.
pub(super) fn record_packed<'p>(
    sections: &mut [Section],
    ends: &[Duration],
    start: Instant,
    pauses: Option<&'p Pauses>,
    operations: impl Iterator<Item = PackedOperation>,
) -> Vec<Option<&'p Pauses>> {
    let mut from = start;
    let mut leaves_out = Vec::with_capacity(sections.len());
    for (section, end) in sections.iter_mut().zip(ends) {
        let until = start + *end;
        section.paused = pauses.map(|pauses| pauses.hidden(from, until));
        leaves_out.push(pauses.filter(|pauses| !pauses.hide_most(from, until)));
        from = until;
    }
    for operation in operations.map(DoneOperation::from) {
        let Some(position) = position(ends, operation.due) else {
            continue;
        };
        let due = start + operation.due;
        if !leaves_out[position].is_some_and(|pauses| pauses.hide(due)) {
            sections[position].record(&operation);
        }
    }
    leaves_out
}

/// Returns the position of the section in which an operation was due, if any. A section extends
/// from the end of the section before (the first one from 0) to its own end, which is excluded.
pub(super) fn position(ends: &[Duration], due: Duration) -> Option<usize> {
    let position = ends.partition_point(|end| *end <= due);
    (position < ends.len()).then_some(position)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ycsb::agenda::{Agenda, Turn};
    use crate::ycsb::pace::Arrivals;

    /// Batches of ten operations are due every 2 ms. One thread, on a simulated clock, needs 100 us
    /// for each operation, so a batch takes 1 ms.
    #[test]
    fn a_batch_takes_as_long_as_its_last_operation() {
        const END_S: f64 = 0.4;
        let ends = [100, 300].map(Duration::from_millis);
        let mut sections = vec![Section::default(); ends.len()];
        let mut agenda = Agenda::new(Arrivals::new(Arc::new(|_| 5000.0), 10));
        let mut now_s = 0.0;
        while now_s < END_S {
            match agenda.next(now_s, END_S) {
                Turn::WaitUntil(due_s) => {
                    agenda.has_waited();
                    now_s = due_s;
                }
                Turn::Take(due) => {
                    let since_due = |now_s: f64| Duration::from_secs_f64(now_s - due.due_s);
                    let dispatch = since_due(now_s);
                    now_s += 1e-4;
                    let operation = DoneOperation {
                        due: Duration::from_secs_f64(due.due_s),
                        latency: since_due(now_s),
                        dispatch,
                        completes_batch: due.completes_batch(),
                    };
                    record(&mut sections, &ends, &operation);
                }
            }
        }
        let counts = |section: &Section| (section.latencies.len(), section.batches.len());
        assert_eq!(
            [&sections[0], &sections[1]].map(counts),
            [(500, 50), (1000, 100)]
        );
        let near = |nanos: f64, expected: f64| (nanos / expected - 1.0).abs() < 2e-3;
        for section in &sections {
            assert_eq!(section.dispatch.len(), section.latencies.len());
            assert_eq!(section.batches.max(), section.latencies.max());
            assert!(near(section.batches.mean(), 1e6), "{section:?}");
            assert!(near(section.latencies.mean(), 5.5e5), "{section:?}");
            assert!(near(section.dispatch.mean(), 4.5e5), "{section:?}");
        }
    }

    #[test]
    fn a_section_excludes_its_end() {
        let ends = [500, 700].map(Duration::from_millis);
        let at = |millis| position(&ends, Duration::from_millis(millis));
        assert_eq!((at(0), at(499)), (Some(0), Some(0)));
        assert_eq!((at(500), at(699)), (Some(1), Some(1)));
        assert_eq!(at(700), None);
        assert_eq!(position(&[], Duration::ZERO), None);
    }

    #[test]
    fn sections_add_up() {
        let (mut sum, mut part) = (Section::default(), Section::default());
        part.latencies.record(1000).unwrap();
        part.batches.record(7000).unwrap();
        sum.add(&part);
        sum.add(&part);
        assert_eq!((sum.latencies.len(), sum.batches.max() / 1000), (2, 7));
        assert!(sum.dispatch.is_empty());
    }

    #[test]
    fn operations_due_in_a_pause_are_in_no_section() {
        let start = Instant::now() + Duration::from_secs(1); // clock: the origin of made-up times
        let ms = Duration::from_millis;
        let pauses = Pauses::of(vec![(start + ms(90), start + ms(110))]);
        let operation = |due| DoneOperation {
            due: ms(due),
            latency: Duration::from_micros(due),
            dispatch: Duration::from_nanos(100),
            completes_batch: due % 20 == 0,
        };
        let ends = [ms(100), ms(200)];
        let count = |pauses: Option<&Pauses>| {
            let mut sections = vec![Section::default(); 2];
            let packed = (0..20).map(|tenth| operation(tenth * 10).into());
            record_packed(&mut sections, &ends, start, pauses, packed);
            sections
        };
        let all = count(None);
        assert_eq!([all[0].latencies.len(), all[0].batches.len()], [10, 5]);
        assert_eq!(all[1].latencies.max() / 1000, 190, "packing keeps them");
        assert_eq!((all[1].dispatch.max(), all[1].paused), (100, None));
        let rest = count(Some(&pauses));
        assert_eq!([rest[0].latencies.len(), rest[1].latencies.len()], [9, 5]);
        assert_eq!(rest[0].paused, Some(ms(11)), "a millisecond before it, too");
        assert_eq!(
            rest[1].paused,
            Some(ms(50)),
            "and twice its length after it"
        );
    }
}
