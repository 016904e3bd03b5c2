//! One attempt at a task, as seen from its own thread: what it has used and
//! counted, and where it lets itself be paced.

use super::attempt_state::AttemptState;
use crate::runtime::error::TaskError;
use crate::runtime::job::counters::Counters;
use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// Ticks, and bytes handled, between two looks at the wall clock. A look costs
/// some 25 ns, a record rarely less.
const TICKS_PER_LOOK: u32 = 8;
const BYTES_PER_LOOK: usize = 4 << 10;

/// Whom an attempt pays for what it uses, and who lets it go on.
pub(in crate::runtime) trait Throttle {
    /// Wall time between two settlements.
    fn settle_every(&self) -> Duration;

    /// Takes note of CPU time and bytes of input that were used already.
    fn pay(&self, cpu_s: f64, read_bytes: u64);

    /// Waits until the attempt with this state may use CPU, and read.
    ///
    /// # Errors
    /// When it, or its job, is cancelled.
    fn wait(&self, state: &AttemptState) -> Result<(), TaskError>;
}

/// An attempt in progress. Lives on one thread; shared there by reader and
/// emitter, hence the cells.
pub(in crate::runtime) struct Attempt<'a> {
    throttle: &'a dyn Throttle,
    settle_every: Duration,
    state: &'a AttemptState,
    /// Asks whether this attempt, of all at its task, may finish the output.
    may_finish: &'a dyn Fn() -> bool,
    counters: RefCell<Counters>,
    settled_cpu_s: Cell<f64>,
    settled_at: Cell<Instant>,
    ticks: Cell<u32>,
    bytes: Cell<usize>,
    handled: Cell<u64>,
    /// Bytes of input since the last settlement.
    read_bytes: Cell<u64>,
}

impl<'a> Attempt<'a> {
    /// Starts the account, and waits until the job may use CPU at all.
    ///
    /// # Errors
    /// When the job is cancelled meanwhile.
    pub fn start(
        throttle: &'a dyn Throttle,
        state: &'a AttemptState,
        may_finish: &'a dyn Fn() -> bool,
    ) -> Result<Self, TaskError> {
        let attempt = Self {
            throttle,
            settle_every: throttle.settle_every(),
            state,
            may_finish,
            counters: RefCell::default(),
            settled_cpu_s: Cell::new(thread_cpu_s()),
            settled_at: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            bytes: Cell::new(0),
            handled: Cell::new(0),
            read_bytes: Cell::new(0),
        };
        attempt.wait()?;
        Ok(attempt)
    }

    /// A record of the job's input, of `bytes` bytes, is about to be worked on.
    ///
    /// # Errors
    /// When the job is cancelled.
    pub fn read(&self, bytes: usize) -> Result<(), TaskError> {
        self.read_bytes.set(self.read_bytes.get() + bytes as u64);
        self.tick(bytes)
    }

    /// A step of work on `bytes` bytes was done. Now and then settles.
    ///
    /// # Errors
    /// When the job is cancelled.
    pub fn tick(&self, bytes: usize) -> Result<(), TaskError> {
        self.state.step();
        self.ticks.set(self.ticks.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        if self.ticks.get() < TICKS_PER_LOOK && self.bytes.get() < BYTES_PER_LOOK {
            return Ok(());
        }
        self.look()
    }

    /// Settles if the last time is long enough ago.
    ///
    /// # Errors
    /// When the job is cancelled.
    pub fn look(&self) -> Result<(), TaskError> {
        self.state.step();
        self.ticks.set(0);
        self.bytes.set(0);
        if self.settled_at.get().elapsed() < self.settle_every {
            return Ok(());
        }
        self.settle()
    }

    /// Pays for what was used so far, and waits until the job may use more.
    ///
    /// # Errors
    /// When the job is cancelled.
    pub fn settle(&self) -> Result<(), TaskError> {
        self.charge();
        self.state.set_handled(self.handled.get());
        let waited = self.wait();
        self.settled_at.set(Instant::now());
        waited
    }

    /// Waits until the job may use CPU.
    fn wait(&self) -> Result<(), TaskError> {
        self.state.set_waiting(true);
        let waited = self.throttle.wait(self.state);
        self.state.set_waiting(false);
        waited
    }

    /// The whole of its input is `units` of any kind; 0 when that is not known.
    pub fn set_input(&self, units: u64) {
        self.state.set_input(units);
    }

    /// `units` more of the input were handled.
    pub fn handled(&self, units: u64) {
        self.handled.set(self.handled.get() + units);
    }

    /// To be asked before the output is made final: only one attempt at a task
    /// may do that.
    ///
    /// # Errors
    /// When another one does, or the job stops; pass it on.
    pub fn may_finish(&self) -> Result<(), TaskError> {
        match (self.may_finish)() {
            true => Ok(()),
            false => Err(TaskError::Cancelled),
        }
    }

    /// Does a part of the shuffle: its CPU time is counted apart, too.
    pub fn shuffle<T>(&self, work: impl FnOnce() -> T) -> T {
        let before_s = thread_cpu_s();
        let result = work();
        let used_ns = ((thread_cpu_s() - before_s) * 1e9) as u64;
        self.count(|counters| counters.shuffle_cpu_ns += used_ns);
        result
    }

    /// Its buffers take `bytes` at present.
    pub fn holds(&self, bytes: usize) {
        self.state.set_memory_bytes(bytes as u64);
        self.count(|counters| {
            counters.memory_bytes_max = counters.memory_bytes_max.max(bytes as u64);
        });
    }

    /// Changes the counters.
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    /// Pays for what a process used that works for this attempt.
    pub fn pay_for_process(&self, cpu_s: f64, read_bytes: u64) {
        self.state.charge_s(cpu_s);
        self.throttle.pay(cpu_s, read_bytes);
    }

    fn charge(&self) {
        let cpu_s = thread_cpu_s();
        let used_s = cpu_s - self.settled_cpu_s.replace(cpu_s);
        self.state.charge_s(used_s);
        self.throttle.pay(used_s, self.read_bytes.take());
    }
}

/// However it ends, by a panic too, an attempt pays for what it used; its job's
/// next task waits for it if need be.
impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.charge();
    }
}

/// CPU time of the calling thread in seconds.
fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
