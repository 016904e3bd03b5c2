//! One attempt at a task, as seen from its own thread: what it has used and
//! counted, and where it lets itself be paced.

use super::account::{Account, Payee};
use super::attempt_state::AttemptState;
use crate::runtime::error::TaskError;
use crate::runtime::job::counters::Counters;
use ebb_threads::thread_cpu;
use std::cell::RefCell;
use std::ops::Deref;

/// An attempt in progress: the account of its thread, and what it counts. Lives on one
/// thread; shared there by reader and emitter, hence the cell.
pub(in crate::runtime) struct Attempt<'a> {
    account: Account<&'a dyn Payee, &'a AttemptState>,
    /// Asks whether this attempt, of all at its task, may finish the output.
    may_finish: &'a dyn Fn() -> bool,
    counters: RefCell<Counters>,
}

impl<'a> Attempt<'a> {
    /// Starts the account, and waits until the job may use CPU at all.
    ///
    /// # Errors
    /// When the job is cancelled meanwhile.
    pub fn start(
        payee: &'a dyn Payee,
        state: &'a AttemptState,
        may_finish: &'a dyn Fn() -> bool,
    ) -> Result<Self, TaskError> {
        Ok(Self {
            account: Account::open(payee, state)?,
            may_finish,
            counters: RefCell::default(),
        })
    }

    /// The whole of its input is `units` of any kind; 0 when that is not known.
    pub fn set_input(&self, units: u64) {
        self.state().set_input(units);
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
        let before = thread_cpu();
        let result = work();
        let used_ns = thread_cpu().saturating_sub(before).as_nanos() as u64;
        self.count(|counters| counters.shuffle_cpu_ns += used_ns);
        result
    }

    /// Its buffers take `bytes` at present.
    pub fn holds(&self, bytes: usize) {
        self.state().set_memory_bytes(bytes as u64);
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
}

impl<'a> Deref for Attempt<'a> {
    type Target = Account<&'a dyn Payee, &'a AttemptState>;

    fn deref(&self) -> &Self::Target {
        &self.account
    }
}
