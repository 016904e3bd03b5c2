//! A thread of the built-in client: its connections behind one epoll.
//!
//! A connection is read when the poll reports data, and written to right afterwards: two system
//! calls for a request and its response, and one poll for many.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

use super::check::{Outcome, check_frame};
use super::connection::{Connection, Pending, READ_BYTES};
use super::feed::Feed;
use super::intervals::Intervals;
use super::plan::Operations;
use super::records::Step;
use super::run::Shared;
use super::statements::Statements;
use super::tally::{Tally, TimedOperation};
use crate::ycsb::Operation;
use crate::ycsb::pace::{Arrival, Arrivals};

/// The interval at which a waiting thread checks whether the run should end.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// The timeout for responses that are outstanding at the end.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The number of operations that the thread completes between two reports of progress.
const PROGRESS_EVERY: u64 = 1024;

/// A place for one request: a stream of a connection.
#[derive(Debug, Clone, Copy)]
struct Slot {
    connection: usize,
    stream: u16,
}

pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    statements: &'a Statements,
    connections: &'a mut [Connection],
    feed: Feed<'a>,
    poll: OwnedFd,
    /// Slots without a request; the one that was freed last is at the end.
    free: VecDeque<Slot>,
    slots: usize,
    /// The moments at which this thread's operations are due in an open loop; `None` in
    /// a closed loop.
    arrivals: Option<Arrivals>,
    /// The due times of operations that have not begun.
    due: VecDeque<Instant>,
    /// Whether the run is over for this thread: it begins no further operation.
    is_over: bool,
    intervals: Option<Intervals>,
    tally: Tally,
    scratch: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        statements: &'a Statements,
        connections: &'a mut [Connection],
        index: usize,
    ) -> Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot create a poll")?;
        for (position, connection) in connections.iter().enumerate() {
            let data = EventData::new_u64(position as u64);
            epoll::add(&poll, connection.stream.tcp(), data, EventFlags::IN)?;
        }
        let in_flight = shared.plan.in_flight.max(1);
        let streams = 0..u16::try_from(in_flight).context("too many requests in flight")?;
        let slots: VecDeque<Slot> = streams
            .flat_map(|stream| {
                (0..connections.len()).map(move |connection| Slot { connection, stream })
            })
            .collect();
        let share = shared.plan.pace.share_of(shared.threads);
        let arrivals = share.map(|share| Arrivals::new(share, 1));
        let intervals = (shared.plan.intervals.as_ref())
            .map(|(length, sender)| Intervals::new(*length, sender.clone(), &shared.plan.pace));
        Ok(Self {
            feed: Feed::new(shared, index),
            shared,
            statements,
            connections,
            poll,
            slots: slots.len(),
            free: slots,
            arrivals,
            due: VecDeque::new(),
            is_over: false,
            intervals,
            tally: Tally::default(),
            scratch: Vec::new(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Sends operations, and reads the responses, until the run ends. From time to time calls
    /// `progress` with the number of operations that all threads have begun.
    pub(super) fn run(mut self, progress: &impl Fn(u64)) -> Result<Tally> {
        // The kernel may delay a timer by 50 us to save wake-ups, which would count as latency
        // here. An error is ignored: it costs only precision.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        while let Some(left) = self.shared.start.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
        let mut ended = None;
        let mut reported = 0;
        loop {
            let now = Instant::now();
            self.is_over |= self.shared.is_over_at(now);
            if let Some(intervals) = &mut self.intervals {
                intervals.look(now.saturating_duration_since(self.shared.start));
            }
            self.begin_due(now)?;
            if self.is_over {
                if self.free.len() == self.slots {
                    break;
                }
                let waited = now.saturating_duration_since(*ended.get_or_insert(now));
                ensure!(waited < ANSWER_MAX, "no answer came for {ANSWER_MAX:?}");
            }
            self.wait(now)?;
            if self.tally.operations >= reported + PROGRESS_EVERY {
                reported = self.tally.operations;
                progress(self.shared.issued());
            }
        }
        self.count_unserved();
        Ok(self.tally)
    }

    /// Begins the operations that are due, while fewer are under way than the plan allows.
    fn begin_due(&mut self, now: Instant) -> Result<()> {
        if let Some(arrivals) = &mut self.arrivals {
            let shared = self.shared;
            let lasted_s = now.saturating_duration_since(shared.start).as_secs_f64();
            let until_s = match shared.plan.duration {
                Some(duration) => lasted_s.min(duration.as_secs_f64()),
                None => lasted_s,
            };
            while let Arrival::At(due_s) = arrivals.next(until_s) {
                let due = shared.start + Duration::from_secs_f64(due_s);
                self.due.push_back(due);
            }
        }
        while !self.is_over {
            let due = match &self.arrivals {
                Some(_) => self.due.front().copied().filter(|due| *due <= now),
                None => Some(now),
            };
            let (Some(from), Some(&slot)) = (due, self.free.front()) else {
                break;
            };
            if !self.begin(slot, from) {
                break;
            }
            self.free.pop_front();
            if self.arrivals.is_some() {
                self.due.pop_front();
            }
            self.send(slot.connection)?;
        }
        Ok(())
    }

    /// Begins the next operation, and appends its first request to the bytes that the connection of
    /// `slot` will send. Returns false if there is no next operation.
    fn begin(&mut self, slot: Slot, from: Instant) -> bool {
        let next = if self.shared.begins() {
            self.feed.next()
        } else {
            None
        };
        let Some((operation, step)) = next else {
            self.is_over = true;
            self.due.clear();
            return false;
        };
        let counts = from >= self.shared.start + self.shared.plan.lead;
        if counts && self.arrivals.is_some() {
            let late = Instant::now().saturating_duration_since(from);
            (self.tally.late_nanos).saturating_record(late.as_nanos() as u64);
        }
        let pending = Pending {
            operation,
            step,
            from,
            counts,
        };
        self.request(slot, pending);
        true
    }

    fn request(&mut self, slot: Slot, pending: Pending) {
        let connection = &mut self.connections[slot.connection];
        let (stream, scratch) = (slot.stream as i16, &mut self.scratch);
        let out = &mut connection.out;
        (self.statements).encode(&pending.step, stream, scratch, out);
        connection.expect(slot.stream, pending);
    }

    fn send(&mut self, position: usize) -> Result<()> {
        let connection = &mut self.connections[position];
        if !connection.flush()? {
            self.watch(position, EventFlags::IN | EventFlags::OUT)?;
        }
        Ok(())
    }

    fn watch(&self, position: usize, flags: EventFlags) -> Result<()> {
        let data = EventData::new_u64(position as u64);
        let stream = self.connections[position].stream.tcp();
        Ok(epoll::modify(&self.poll, stream, data, flags)?)
    }

    /// Waits until a response arrives or an operation is due, at most for [`STOP_CHECK`]; an open
    /// loop with a tick waits until its next tick instead. Then handles the responses.
    fn wait(&mut self, now: Instant) -> Result<()> {
        let mut wait = STOP_CHECK;
        if let Some(duration) = self.shared.plan.duration {
            let left = (self.shared.start + duration).saturating_duration_since(now);
            // After the end at least a millisecond, or the wait for the last responses would spin.
            wait = wait.min(left.max(Duration::from_millis(u64::from(self.is_over))));
        }
        let mut events: [epoll::Event; 64] = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 64];
        let tick = self.shared.plan.tick;
        if self.arrivals.is_some() && !self.is_over && !tick.is_zero() {
            std::thread::park_timeout(until_tick(self.shared.start, tick, Instant::now()));
            wait = Duration::ZERO;
        } else if self.arrivals.is_some() && !self.is_over && !self.free.is_empty() {
            // An epoll waits for whole milliseconds; a poll on it has the precision of nanoseconds.
            let moment = self.next_due(now + wait).unwrap_or(now + wait);
            let timeout = timespec(moment.saturating_duration_since(Instant::now()));
            let fds = &mut [PollFd::new(&self.poll, PollFlags::IN)];
            unless_interrupted(poll(fds, Some(&timeout)))?;
            wait = Duration::ZERO;
        }
        let timeout = timespec(wait);
        let waited = epoll::wait(&self.poll, &mut events[..], Some(&timeout));
        let count = unless_interrupted(waited)?;
        for event in &events[..count] {
            let (flags, data) = (event.flags, event.data);
            self.take(data.u64() as usize, flags)?;
        }
        Ok(())
    }

    /// Returns when the next operation of an open loop is due, if that is before `horizon`.
    fn next_due(&mut self, horizon: Instant) -> Option<Instant> {
        if self.due.is_empty()
            && let Some(arrivals) = &mut self.arrivals
        {
            let start = self.shared.start;
            let horizon_s = horizon.saturating_duration_since(start).as_secs_f64();
            if let Arrival::At(due_s) = arrivals.next(horizon_s) {
                self.due.push_back(start + Duration::from_secs_f64(due_s));
            }
        }
        self.due.front().copied()
    }

    /// Handles the responses of a connection, and sends its next requests.
    fn take(&mut self, position: usize, flags: EventFlags) -> Result<()> {
        if flags.contains(EventFlags::OUT) && self.connections[position].flush()? {
            self.watch(position, EventFlags::IN)?;
        }
        // Nothing to read. With any other flag, also that of an error, the read shows what there is.
        if flags == EventFlags::OUT {
            return Ok(());
        }
        self.connections[position].read(&mut self.buffer)?;
        let now = Instant::now();
        while let Some((frame, pending)) = self.connections[position].next_answer()? {
            // The stream is not negative, or `next_answer` would have found no request.
            let slot = Slot {
                connection: position,
                stream: frame.stream as u16,
            };
            let (operation, step) = (pending.operation, pending.step);
            let Shared { plan, records, .. } = *self.shared;
            let outcome = check_frame(&step, &frame, records, plan, &mut self.tally)?;
            if outcome != Outcome::Done {
                if outcome == Outcome::TimedOut {
                    self.tally.timed_out += 1;
                    self.record(&pending, now);
                } else {
                    // As for latencies, the lead does not count.
                    self.tally.refused += u64::from(pending.counts);
                }
                // A load ends when all its records are written, so a rejected write is sent again.
                let is_load = matches!(plan.operations, Operations::Load(_));
                if is_load && !self.shared.is_over_at(now) {
                    self.request(slot, pending);
                } else {
                    self.free.push_back(slot);
                }
                continue;
            }
            // The write follows in the same slot. The latency is that of both, so `from` stays.
            if let (Operation::ReadModifyWrite, Step::Read { number }) = (operation, step) {
                let step = records.write(number);
                self.request(slot, Pending { step, ..pending });
                continue;
            }
            records.acknowledge(operation, &step);
            // From the start of the run, the lead included, because `elapsed` begins there, too: the
            // throughput is that of the whole run.
            self.tally.operations += 1;
            self.tally.elapsed = now.saturating_duration_since(self.shared.start);
            self.record(&pending, now);
            // A closed loop begins its next operation in the same slot. In an open loop operations
            // begin when they are due, in any free slot.
            let goes_on = self.arrivals.is_none() && !self.is_over;
            if !goes_on || !self.begin(slot, now) {
                self.free.push_back(slot);
            }
        }
        // Once for all requests that the responses led to, to save system calls.
        self.send(position)
    }

    /// Records the latency of an operation that ended at `now`, unless it was due in the plan's lead.
    fn record(&mut self, pending: &Pending, now: Instant) {
        if !pending.counts {
            return;
        }
        let nanos = now.saturating_duration_since(pending.from).as_nanos() as u64;
        if let Some(intervals) = &mut self.intervals {
            intervals.record(nanos);
        }
        let timed = TimedOperation {
            operation: pending.operation,
            due: pending.from,
            nanos,
        };
        self.tally.enter(self.shared.plan, timed);
    }

    /// Counts the operations that were due before the planned end of the run and never began, also
    /// if the run was stopped earlier. Counts none if the plan's number of operations was reached.
    fn count_unserved(&mut self) {
        let plan = self.shared.plan;
        let all = self.shared.issued();
        if plan.operations_max.is_some_and(|max| all >= max) {
            return;
        }
        let end = plan.duration.map(|duration| self.shared.start + duration);
        let is_due = |due: &&Instant| end.is_none_or(|end| **due < end);
        self.tally.unserved = self.due.iter().filter(is_due).count() as u64;
        if let (Some(arrivals), Some(duration)) = (&mut self.arrivals, plan.duration) {
            while let Arrival::At(_) = arrivals.next(duration.as_secs_f64()) {
                self.tally.unserved += 1;
            }
        }
    }
}

/// Returns the time from `now` to the next tick. Ticks are `tick` apart, and the first one is at
/// `start`.
fn until_tick(start: Instant, tick: Duration, now: Instant) -> Duration {
    let lasted = now.saturating_duration_since(start).as_nanos();
    let into = lasted % tick.as_nanos();
    tick - Duration::from_nanos(into as u64)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Treats an interrupted call as one without events.
fn unless_interrupted(result: rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    match result {
        Err(rustix::io::Errno::INTR) => Ok(0),
        other => other,
    }
}
