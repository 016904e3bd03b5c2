//! One attempt at a task on its own thread: its use, its counters, and the checkpoints at which it
//! is paced.

use super::account::{Account, Payee};
use super::attempt_state::AttemptState;
use crate::runtime::error::TaskError;
use crate::runtime::job::counters::Counters;
use ebb_threads::thread_cpu;
use std::cell::RefCell;
use std::ops::Deref;

/// An attempt in progress: its counters, and the account that charges the job for the CPU time and
/// input of its thread. Reader and emitter of that one thread share it, so the counters are in a
/// `RefCell`.
pub(in crate::runtime) struct Attempt<'a> {
    account: Account<&'a dyn Payee, &'a AttemptState>,
    /// Returns whether this attempt, of all attempts at its task, may finish the output.
    may_finish: &'a dyn Fn() -> bool,
    counters: RefCell<Counters>,
}

impl<'a> Attempt<'a> {
    /// Starts an attempt on the calling thread, and waits until the job may use CPU at all. From
    /// now on the thread's CPU time and input are charged through `payee`. `may_finish` returns
    /// whether this attempt, of all attempts at its task, may make its output final.
    ///
    /// # Errors
    /// If the attempt is stopped or the job cancelled during the wait.
    pub fn start(
        payee: &'a dyn Payee,
        state: &'a AttemptState,
        may_finish: &'a dyn Fn() -> bool,
    ) -> Result<Self, TaskError> {
        Ok(Self {
            account: Account::open(payee, state, &|| true)?,
            may_finish,
            counters: RefCell::default(),
        })
    }

    /// Sets the size of the whole input, in bytes for a map and in records for a reduce; 0 if
    /// unknown.
    pub fn set_input(&self, units: u64) {
        self.state().set_input(units);
    }

    /// Requests permission to make the output final, which only one attempt at a task may do.
    ///
    /// # Errors
    /// If another attempt has the permission, or the job stops; return the error to the caller.
    pub fn may_finish(&self) -> Result<(), TaskError> {
        if (self.may_finish)() {
            Ok(())
        } else {
            Err(TaskError::Cancelled)
        }
    }

    /// Runs `work`, a part of the shuffle, and adds its CPU time to the counter of the shuffle.
    pub fn shuffle<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let result = work();
        let used_ns = thread_cpu().saturating_sub(before).as_nanos() as u64;
        self.count(|counters| counters.shuffle_cpu_ns += used_ns);
        result
    }

    /// Records that the attempt's buffers take `bytes` at present.
    pub fn set_memory_bytes(&self, bytes: usize) {
        self.state().set_memory_bytes(bytes as u64);
        self.count(|counters| {
            counters.memory_bytes_max = counters.memory_bytes_max.max(bytes as u64);
        });
    }

    /// Applies `change` to the attempt's counters.
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }

    /// Returns the counters so far.
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
