//! A worker: one thread that runs operations, measures them and checks their results.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ebb_storage::{Error, Result, Table, Value};
use ebb_threads::thread_cpu;
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::agenda::{Agenda, Due, Turn};
use super::chooser::Chooser;
use super::inserts::Inserts;
use super::latencies::{DIGITS, histogram};
use super::options::{LatencyFrom, RunOptions};
use super::records::{Stamp, key, read_stamp, write_value};
use super::sections::{self, DoneOperation, PackedOperation, Section};
use super::source::{ReadFrom, Source};
use super::timeline::Slot;
use super::watch::{Board, overlapped};
use super::workload::{Distribution, Operation};

/// The most records of a scan.
const SCAN_RECORDS_MAX: usize = 100;
/// The interval at which a waiting thread checks whether the run should end.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// The interval at which a thread publishes its CPU time; reading it takes a system call.
const CPU_SHARED_EVERY: Duration = Duration::from_millis(10);

/// The state that the workers of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: RunOptions,
    pub(super) distribution: Distribution,
    pub(super) table: Table,
    /// The number of records in the table at the start.
    pub(super) records: u64,
    pub(super) read_from: ReadFrom,
    pub(super) source: Source,
    /// The number of records in the snapshot, if reads go to one.
    pub(super) source_records: Option<u64>,
    pub(super) inserts: Inserts,
    pub(super) start: Instant,
    pub(super) agenda: Option<Mutex<Agenda>>,
    /// The number of calls of [`take_one`](Self::take_one): the operations that were started, and
    /// those that `operations_max` did not allow.
    pub(super) issued: AtomicU64,
    /// The highest version of a value that was written before the run. A snapshot that was taken
    /// before the run must not contain a higher one.
    pub(super) version_before: u64,
    pub(super) version_next: AtomicU64,
    pub(super) board: Arc<Board>,
    pub(super) slots: Vec<Slot>,
    /// Whether the run should end, after an error or a call of [`stop`](super::Driver::stop).
    pub(super) ending: AtomicBool,
    pub(super) failure: Mutex<Option<Error>>,
}

/// The counts and latencies of one worker.
pub(super) struct Tally {
    pub(super) nanos: [Histogram<u64>; Operation::ALL.len()],
    /// The latencies of each section, a part of an open loop's run, by the moments at which the
    /// operations were due.
    pub(super) sections: Vec<Section>,
    /// The operations of the run, kept until its end if the sections leave out operations that were
    /// due while the machine paused: the pauses are known only at the end. Otherwise empty.
    pub(super) packed: Vec<PackedOperation>,
    /// The writes that overlapped a watched window, such as the time around the creation of a
    /// snapshot: the position of the window, and the latency in nanoseconds.
    pub(super) watched: Vec<(usize, u64)>,
    pub(super) mismatches: u64,
    pub(super) not_found: u64,
    pub(super) records_scanned: u64,
    pub(super) version_read_max: u64,
    /// CPU time that was used for waiting until operations were due.
    pub(super) pacing_cpu: Duration,
    pub(super) ended: Instant,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.ending.load(Ordering::Relaxed) || self.options.stop.load(Ordering::Relaxed)
    }

    /// Returns whether the run was stopped, or has lasted as long as it may.
    fn is_over(&self, now: Instant) -> bool {
        let deadline = self.options.duration.map(|time| self.start + time);
        self.is_stopping() || deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Reserves one more operation of the run. Returns false if none is left.
    fn take_one(&self) -> bool {
        let before = self.issued.fetch_add(1, Ordering::Relaxed);
        self.options.operations_max.is_none_or(|max| before < max)
    }

    /// Waits until `moment`. Returns false if the run is stopped before that.
    fn wait_until(&self, moment: Instant) -> bool {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if self.is_stopping() {
                return false;
            }
            if left > self.options.spin {
                thread::park_timeout((left - self.options.spin).min(STOP_CHECK));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Runs worker number `index` until the end of the run.
pub(super) fn run(shared: &Shared, index: usize) -> Tally {
    // The kernel may delay a timer by 50 us to save wake-ups, which would count as latency here. An
    // error is ignored: it costs only precision.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut worker = Worker::new(shared, index);
    if shared.wait_until(shared.start)
        && let Err(error) = worker.work()
    {
        shared.failure.lock().unwrap().get_or_insert(error);
        shared.ending.store(true, Ordering::Relaxed);
    }
    worker.slot.set_cpu(thread_cpu());
    worker.tally.ended = Instant::now();
    worker.tally
}

/// The next operation of a worker.
struct NextOperation {
    due: Instant,
    taken: Instant,
    /// The entry of the open loop's agenda that the worker has taken; `None` in a closed loop.
    of_agenda: Option<Due>,
}

struct Worker<'a> {
    shared: &'a Shared,
    slot: &'a Slot,
    rng: ChaCha8Rng,
    read: Chooser,
    update: Chooser,
    value: Vec<u8>,
    cpu_shared: Instant,
    tally: Tally,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, index: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(shared.options.seed);
        rng.set_stream(index as u64);
        let records = shared.inserts.records();
        let chooser = |records| Chooser::new(shared.distribution, records);
        Self {
            shared,
            slot: &shared.slots[index],
            rng,
            read: chooser(shared.source_records.unwrap_or(records)),
            update: chooser(records),
            value: Vec::new(),
            cpu_shared: shared.start,
            tally: Tally {
                nanos: std::array::from_fn(|_| histogram(DIGITS)),
                sections: match &shared.agenda {
                    Some(_) => vec![Section::default(); shared.options.section_ends.len()],
                    None => Vec::new(),
                },
                packed: Vec::new(),
                watched: Vec::new(),
                mismatches: 0,
                not_found: 0,
                records_scanned: 0,
                version_read_max: 0,
                pacing_cpu: Duration::ZERO,
                ended: shared.start,
            },
        }
    }

    fn work(&mut self) -> Result<()> {
        while let Some(next) = self.next() {
            let percent = self.rng.random_range(0..100);
            let operation = self.shared.options.workload.operation(percent);
            let before = self.shared.board.state();
            let from = match self.shared.options.latency_from {
                LatencyFrom::Due => next.due,
                LatencyFrom::Start => Instant::now(),
            };
            self.perform(operation)?;
            let now = Instant::now();
            self.note_in_section(&next, now);
            let latency_ns = now.duration_since(from).as_nanos() as u64;
            self.tally.nanos[operation.index()].saturating_record(latency_ns);
            self.slot.record(latency_ns);
            if let Some(latencies) = &self.shared.options.latencies {
                latencies.record(now.duration_since(from));
            }
            if operation.writes()
                && let Some(window) = overlapped(before, self.shared.board.state())
            {
                self.tally.watched.push((window, latency_ns));
            }
            self.share_cpu(now);
        }
        Ok(())
    }

    /// Waits until the next operation is due, and takes it; `None` if the run is over.
    fn next(&mut self) -> Option<NextOperation> {
        let shared = self.shared;
        let Some(agenda) = &shared.agenda else {
            let now = Instant::now();
            let next = NextOperation {
                due: now,
                taken: now,
                of_agenda: None,
            };
            return (!shared.is_over(now) && shared.take_one()).then_some(next);
        };
        let mut has_waited = false;
        loop {
            let now = Instant::now();
            self.share_cpu(now);
            if shared.is_over(now) {
                return None;
            }
            let now_s = now.duration_since(shared.start).as_secs_f64();
            let mut horizon_s = now_s + STOP_CHECK.as_secs_f64();
            if let Some(duration) = shared.options.duration {
                horizon_s = horizon_s.min(duration.as_secs_f64());
            }
            let turn = {
                let mut agenda = agenda.lock().unwrap();
                if has_waited {
                    agenda.has_waited();
                }
                agenda.next(now_s, horizon_s)
            };
            match turn {
                Turn::Take(due) => {
                    let next = NextOperation {
                        due: shared.start + Duration::from_secs_f64(due.due_s),
                        taken: now,
                        of_agenda: Some(due),
                    };
                    return shared.take_one().then_some(next);
                }
                Turn::WaitUntil(t_s) => {
                    self.pace_to(shared.start + Duration::from_secs_f64(t_s));
                    has_waited = true;
                }
            }
        }
    }

    /// Records a completed operation of an open loop, for the section of the run in which the
    /// operation was due.
    fn note_in_section(&mut self, next: &NextOperation, now: Instant) {
        let Some(of_agenda) = &next.of_agenda else {
            return;
        };
        let operation = DoneOperation {
            due: next.due.duration_since(self.shared.start),
            latency: now.saturating_duration_since(next.due),
            dispatch: next.taken.saturating_duration_since(next.due),
            completes_batch: of_agenda.completes_batch(),
        };
        let options = &self.shared.options;
        if options.leave_out_pauses {
            self.tally.packed.push(operation.into())
        } else {
            sections::record(&mut self.tally.sections, &options.section_ends, &operation)
        }
    }

    /// Waits until `moment`, and counts the CPU time of the wait as pacing, not as work of the
    /// store.
    fn pace_to(&mut self, moment: Instant) {
        if moment <= Instant::now() {
            return;
        }
        let before = thread_cpu();
        // The result is ignored: the caller checks next whether the run should end.
        self.shared.wait_until(moment);
        self.tally.pacing_cpu += thread_cpu() - before;
    }

    fn share_cpu(&mut self, now: Instant) {
        if now.saturating_duration_since(self.cpu_shared) >= CPU_SHARED_EVERY {
            self.cpu_shared = now;
            self.slot.set_cpu(thread_cpu());
        }
    }

    fn perform(&mut self, operation: Operation) -> Result<()> {
        match operation {
            Operation::Read => {
                let number = self.choose_read();
                self.read(number)
            }
            Operation::Update => {
                let records = self.shared.inserts.records();
                let number = self.update.choose(records, &mut self.rng);
                self.write(number)
            }
            Operation::Insert => {
                let number = self.shared.inserts.reserve();
                self.write(number)?;
                self.shared.inserts.acknowledge(number);
                Ok(())
            }
            Operation::Scan => self.scan(),
            Operation::ReadModifyWrite => {
                let number = self.choose_read();
                self.read(number)?;
                self.write(number)
            }
        }
    }

    fn choose_read(&mut self) -> u64 {
        let records = self.shared.source_records;
        let records = records.unwrap_or_else(|| self.shared.inserts.records());
        self.read.choose(records, &mut self.rng)
    }

    fn read(&mut self, number: u64) -> Result<()> {
        match self.shared.source.get(&key(number))? {
            Some(value) => self.check(&value, |stamp| stamp.number == number),
            None => self.tally.not_found += 1,
        }
        Ok(())
    }

    fn scan(&mut self) -> Result<()> {
        let first = key(self.choose_read());
        let records = self.rng.random_range(1..=SCAN_RECORDS_MAX);
        let mut found_first = false;
        for entry in self.shared.source.range_from(&first).take(records) {
            let (found, value) = entry?;
            found_first |= found == first[..];
            self.check(&value, |stamp| found == key(stamp.number)[..]);
            self.tally.records_scanned += 1;
        }
        if !found_first {
            self.tally.not_found += 1;
        }
        Ok(())
    }

    /// Checks a value that was read, and counts it as a mismatch if it is wrong.
    fn check(&mut self, value: &Value, is_right: impl FnOnce(Stamp) -> bool) {
        let from_snapshot = self.shared.source_records.is_some();
        match read_stamp(value) {
            Some(stamp)
                if is_right(stamp)
                    && !(from_snapshot && stamp.version > self.shared.version_before) =>
            {
                self.tally.version_read_max = self.tally.version_read_max.max(stamp.version);
            }
            _ => self.tally.mismatches += 1,
        }
    }

    fn write(&mut self, number: u64) -> Result<()> {
        let version = self.shared.version_next.fetch_add(1, Ordering::Relaxed);
        let stamp = Stamp { number, version };
        write_value(&mut self.value, stamp, self.shared.options.value_bytes);
        self.shared.table.put(&key(number), &self.value)
    }
}
