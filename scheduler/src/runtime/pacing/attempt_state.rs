//! The state of an attempt while it runs, and requests to stop it. The tracker and the attempt's
//! thread share it. That thread may hang in the job's code, so all of the state is readable without
//! its help.

use super::cores::Place;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The state of one attempt. Its numbers are hints for the tracker, so their atomic operations are
/// relaxed.
#[derive(Debug, Default)]
pub(in crate::runtime) struct AttemptState {
    used_ns: AtomicU64,
    /// A number that changes with every record and checkpoint. Written by one thread only.
    steps: AtomicU64,
    waiting: AtomicBool,
    sampling: AtomicBool,
    /// The handled part of the input, in the unit of `input`.
    handled: AtomicU64,
    /// The size of the whole input, in bytes for a map and in records for a reduce; 0 if unknown.
    input: AtomicU64,
    memory_bytes: AtomicU64,
    stopped: AtomicBool,
    left_behind: AtomicBool,
    in_process: AtomicBool,
    on_floor: AtomicBool,
    /// The number of the worker thread that runs the attempt, or 0 before its start.
    worker: AtomicU64,
    place: Mutex<Option<Place>>,
}

impl AttemptState {
    /// Returns the CPU time that was charged to the attempt so far, in seconds.
    pub fn used_s(&self) -> f64 {
        self.used_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    pub fn charge_s(&self, used_s: f64) {
        self.used_ns
            .fetch_add((used_s * 1e9) as u64, Ordering::Relaxed);
    }

    /// Records that the attempt made progress.
    pub fn step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps + 1, Ordering::Relaxed);
    }

    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Sets whether the attempt waits for CPU, or for the key sample of another attempt; such time does not
    /// count as a stall.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Sets whether the attempt takes the sample of keys for which all maps of its job wait.
    pub fn set_sampling(&self, sampling: bool) {
        self.sampling.store(sampling, Ordering::Relaxed);
    }

    pub fn is_sampling(&self) -> bool {
        self.sampling.load(Ordering::Relaxed)
    }

    pub fn set_input(&self, units: u64) {
        self.input.store(units, Ordering::Relaxed);
    }

    pub fn set_handled(&self, units: u64) {
        self.handled.store(units, Ordering::Relaxed);
    }

    /// Returns the size of the attempt's whole input, and the size of the part that it has handled.
    /// The unit is bytes for maps and records for reduces.
    pub fn input(&self) -> (u64, u64) {
        let of = |units: &AtomicU64| units.load(Ordering::Relaxed);
        (of(&self.input), of(&self.handled))
    }

    /// Returns the handled part of the input, 0 to 1; 0 if unknown.
    pub fn progress(&self) -> f64 {
        match self.input.load(Ordering::Relaxed) {
            0 => 0.0,
            input => (self.handled.load(Ordering::Relaxed) as f64 / input as f64).min(1.0),
        }
    }

    /// Sets the memory that the attempt's buffers take at present.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Stops the attempt: its result is no longer needed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Stops the attempt, frees its place on a core, and marks its thread as left behind: no other
    /// thread waits for it any more.
    pub fn leave_behind(&self) {
        self.stop();
        self.left_behind.store(true, Ordering::Relaxed);
        self.keep_place(None);
    }

    pub fn is_left_behind(&self) -> bool {
        self.left_behind.load(Ordering::Relaxed)
    }

    /// Records that a process runs the attempt. The attempt's thread kills the process when the
    /// attempt is stopped.
    pub fn set_in_process(&self) {
        self.in_process.store(true, Ordering::Relaxed);
    }

    pub fn is_in_process(&self) -> bool {
        self.in_process.load(Ordering::Relaxed)
    }

    /// Records whether the attempt's thread, or its process, runs on the floor (in the ordinary
    /// class, with a high nice value) instead of in the idle class.
    pub fn set_on_floor(&self, is_on_floor: bool) {
        self.on_floor.store(is_on_floor, Ordering::Relaxed);
    }

    pub fn is_on_floor(&self) -> bool {
        self.on_floor.load(Ordering::Relaxed)
    }

    pub fn set_worker(&self, worker: u64) {
        self.worker.store(worker, Ordering::Relaxed);
    }

    pub fn worker(&self) -> u64 {
        self.worker.load(Ordering::Relaxed)
    }

    /// Stores the attempt's [`Place`] on a core, so that other threads can free the place if the
    /// attempt hangs. `None` frees it.
    pub fn keep_place(&self, place: Option<Place>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Returns the core that the attempt's thread or process is tied to; `None` if it is not tied.
    pub fn core(&self) -> Option<u32> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref()?.core()
    }
}
