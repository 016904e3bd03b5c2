//! Loom's condition variable, with the methods that std's has and loom's lacks.

use std::sync::LockResult;
use std::time::Duration;

use loom::sync::MutexGuard;

/// Loom's condition variable. Time does not pass under loom, so no wait ever
/// times out.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    pub(crate) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.0.wait(guard)?;
        }
        Ok(guard)
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        Ok((self.wait(guard).unwrap(), ()))
    }

    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        Ok((self.wait_while(guard, condition).unwrap(), ()))
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
