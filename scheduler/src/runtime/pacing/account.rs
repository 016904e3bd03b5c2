//! The CPU time and bytes that one thread uses for an attempt, and the times at which they are
//! measured.

use super::attempt_state::AttemptState;
use crate::runtime::error::TaskError;
use ebb_threads::{Yielding, thread_cpu};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::time::{Duration, Instant};

/// The number of ticks (steps of work) after which an account reads the wall clock, unless it has
/// handled [`BYTES_PER_LOOK`] bytes sooner. Reading the clock costs some 25 ns; handling a record
/// rarely costs less.
const TICKS_PER_LOOK: u32 = 8;
const BYTES_PER_LOOK: usize = 4 << 10;

/// The receiver of reports of the CPU time and input that an attempt has used (payments). It
/// charges the job, and lets the attempt wait while the job has used more than its share.
pub(in crate::runtime) trait Payee {
    /// Returns the wall time after which a thread pays again for its use: the time between two
    /// settlements.
    fn settle_every(&self) -> Duration;

    /// Returns the wall time after which a thread of a low class, or on the floor with short time
    /// slices, offers its core to others; `None` for never.
    fn yield_every(&self) -> Option<Duration>;

    /// Charges CPU time and bytes of input that were already used.
    fn pay(&self, cpu_s: f64, read_bytes: u64);

    /// Waits until the attempt with this state may use CPU, and read. Then moves the calling thread
    /// to the class in which tasks run now. A wait in this process calls `goes_on` every second or
    /// so.
    ///
    /// # Errors
    /// If the attempt or its job is cancelled, or `goes_on` returns false.
    fn wait(
        &self,
        attempt_state: &AttemptState,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TaskError>;
}

/// The account of an attempt, which charges the job for the CPU time and input that the attempt
/// uses. It stays on the one thread that works for the attempt, hence the cells. Its drop, also by
/// a panic, charges the job for the use since the last settlement (payment); the job's next attempt
/// waits until that debt is paid. The functions that may wait return an error once the attempt or
/// its job is cancelled.
pub(in crate::runtime) struct Account<T, S>
where
    T: Deref<Target: Payee>,
    S: Deref<Target = AttemptState>,
{
    payee: T,
    settle_every: Duration,
    yielding: RefCell<Yielding>,
    /// True if the thread was on the floor (the ordinary class, with a high nice value) when
    /// `yielding` was created. `yielding` depends on the class, and is replaced when the class
    /// changes.
    was_on_floor: Cell<bool>,
    state: S,
    settled_cpu: Cell<Duration>,
    settled_at: Cell<Instant>,
    ticks: Cell<u32>,
    bytes: Cell<usize>,
    handled: Cell<u64>,
    /// Bytes of input since the last payment.
    read_bytes: Cell<u64>,
}

impl<T, S> Account<T, S>
where
    T: Deref<Target: Payee>,
    S: Deref<Target = AttemptState>,
{
    /// Opens the account of an attempt, which pays `payee` for the CPU time and input of the
    /// calling thread, and waits until the job may use CPU at all. A long wait ends with an error
    /// once `goes_on` returns false.
    pub fn open(payee: T, state: S, goes_on: &dyn Fn() -> bool) -> Result<Self, TaskError> {
        let account = Self {
            settle_every: payee.settle_every(),
            yielding: RefCell::new(yielding(&*payee)),
            was_on_floor: Cell::new(state.is_on_floor()),
            payee,
            state,
            settled_cpu: Cell::new(thread_cpu()),
            settled_at: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            bytes: Cell::new(0),
            handled: Cell::new(0),
            read_bytes: Cell::new(0),
        };
        account.wait(goes_on)?;
        Ok(account)
    }

    /// Returns the state of the attempt.
    pub fn state(&self) -> &AttemptState {
        &self.state
    }

    /// Counts a record of the job's input, of `bytes` bytes, before it is handled.
    pub fn read(&self, bytes: usize) -> Result<(), TaskError> {
        self.read_bytes.set(self.read_bytes.get() + bytes as u64);
        self.tick(bytes)
    }

    /// Counts a step of work (a record, say) on `bytes` bytes. Now and then charges the job for the
    /// CPU time used so far, and waits until the job may use more.
    pub fn tick(&self, bytes: usize) -> Result<(), TaskError> {
        self.state.step();
        self.ticks.set(self.ticks.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        if self.ticks.get() < TICKS_PER_LOOK && self.bytes.get() < BYTES_PER_LOOK {
            return Ok(());
        }
        self.look()
    }

    /// Yields the core to other threads if this is due. If the time between two payments has
    /// passed, also charges the job for the CPU time and input used so far, and waits until the job
    /// may use more.
    pub fn look(&self) -> Result<(), TaskError> {
        self.look_while(&|| true)
    }

    /// Does the same as [`look`](Self::look), but a long wait ends with an error once `goes_on` returns
    /// false.
    pub fn look_while(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TaskError> {
        self.state.step();
        self.ticks.set(0);
        self.bytes.set(0);
        let now = Instant::now();
        self.yielding.borrow().offer_core(now);
        if now.saturating_duration_since(self.settled_at.get()) < self.settle_every {
            return Ok(());
        }
        self.settle_while(goes_on)
    }

    /// Pays for the use so far, and waits until the job may use more.
    pub fn settle(&self) -> Result<(), TaskError> {
        self.settle_while(&|| true)
    }

    fn settle_while(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TaskError> {
        self.charge();
        self.state.set_handled(self.handled.get());
        let waited = self.wait(goes_on);
        self.settled_at.set(Instant::now());
        waited
    }

    /// Adds `units` to the part of the attempt's input that is handled. Maps count bytes, reduces
    /// count records.
    pub fn add_handled(&self, units: u64) {
        self.handled.set(self.handled.get() + units);
    }

    /// Charges the attempt and its job for CPU time and input bytes that were already used, by this
    /// thread or by a process that works for the attempt.
    pub fn pay(&self, cpu_s: f64, read_bytes: u64) {
        self.state.charge_s(cpu_s);
        self.payee.pay(cpu_s, read_bytes);
    }

    /// Waits until the job may use CPU.
    fn wait(&self, goes_on: &dyn Fn() -> bool) -> Result<(), TaskError> {
        self.state.set_waiting(true);
        let waited = self.payee.wait(&self.state, goes_on);
        self.state.set_waiting(false);
        let is_on_floor = self.state.is_on_floor();
        if self.was_on_floor.replace(is_on_floor) != is_on_floor {
            *self.yielding.borrow_mut() = yielding(&*self.payee);
        }
        waited
    }

    fn charge(&self) {
        let cpu = thread_cpu();
        let used = cpu.saturating_sub(self.settled_cpu.replace(cpu));
        self.pay(used.as_secs_f64(), self.read_bytes.take());
    }
}

/// Creates the timer of the calling thread's yields, for its present scheduling class.
fn yielding(payee: &(impl Payee + ?Sized)) -> Yielding {
    (payee.yield_every()).map_or_else(Yielding::never, Yielding::of_current_thread)
}

impl<T, S> Drop for Account<T, S>
where
    T: Deref<Target: Payee>,
    S: Deref<Target = AttemptState>,
{
    fn drop(&mut self) {
        self.charge();
    }
}
