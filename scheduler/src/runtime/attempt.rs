//! One attempt at a task, as seen from its own thread: what it has used and
//! counted, and where it lets itself be paced.

use super::counters::Counters;
use super::error::TaskError;
use super::pacer::Pacer;
use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ticks, and bytes handled, between two looks at the wall clock. A look costs
/// some 25 ns, a record rarely less.
const TICKS_PER_LOOK: u32 = 8;
const BYTES_PER_LOOK: usize = 4 << 10;

/// Wall time between two settlements. Reading a thread's CPU time is a system
/// call; every half millisecond it costs less than a thousandth, and a paced job
/// still runs in steps far below what a transaction would notice.
const SETTLE_EVERY: Duration = Duration::from_micros(500);

/// An attempt in progress. Lives on one thread; shared there by reader and
/// emitter, hence the cells.
pub(super) struct Attempt<'a> {
    pacer: &'a Pacer,
    /// What this attempt has used, for the view; nanoseconds.
    used_ns: &'a AtomicU64,
    counters: RefCell<Counters>,
    settled_cpu_s: Cell<f64>,
    settled_at: Cell<Instant>,
    ticks: Cell<u32>,
    bytes: Cell<usize>,
}

impl<'a> Attempt<'a> {
    /// Starts the account, and waits until the job may use CPU at all.
    ///
    /// # Errors
    /// When the job is cancelled meanwhile.
    pub fn start(pacer: &'a Pacer, used_ns: &'a AtomicU64) -> Result<Self, TaskError> {
        let attempt = Self {
            pacer,
            used_ns,
            counters: RefCell::default(),
            settled_cpu_s: Cell::new(thread_cpu_s()),
            settled_at: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            bytes: Cell::new(0),
        };
        pacer.wait()?;
        Ok(attempt)
    }

    /// A step of work on `bytes` bytes was done. Now and then settles.
    ///
    /// # Errors
    /// When the job is cancelled.
    pub fn tick(&self, bytes: usize) -> Result<(), TaskError> {
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
        self.ticks.set(0);
        self.bytes.set(0);
        if self.settled_at.get().elapsed() < SETTLE_EVERY {
            return Ok(());
        }
        self.charge();
        let waited = self.pacer.wait();
        self.settled_at.set(Instant::now());
        waited
    }

    /// Changes the counters.
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    fn charge(&self) {
        let cpu_s = thread_cpu_s();
        let used_s = cpu_s - self.settled_cpu_s.replace(cpu_s);
        self.used_ns
            .fetch_add((used_s * 1e9) as u64, Ordering::Relaxed);
        self.pacer.charge(used_s);
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
