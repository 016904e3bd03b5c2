//! The state of an attempt while it runs, and requests to stop it: shared by
//! its thread with the tracker. Its thread may hang in the job's code, so all of
//! this has to be readable without its help.

use super::cores::Place;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is known of one attempt. Numbers are hints, hence relaxed; the tracker
/// decides what they mean.
#[derive(Debug, Default)]
pub(in crate::runtime) struct AttemptState {
    used_ns: AtomicU64,
    /// Changes with every record and checkpoint. Written by one thread.
    steps: AtomicU64,
    waiting: AtomicBool,
    /// How much of the input was handled, and how much there is, in any unit.
    handled: AtomicU64,
    input: AtomicU64,
    memory_bytes: AtomicU64,
    stopped: AtomicBool,
    left_behind: AtomicBool,
    in_process: AtomicBool,
    on_floor: AtomicBool,
    /// The thread that runs it; 0 before it does.
    worker: AtomicU64,
    place: Mutex<Option<Place>>,
}

impl AttemptState {
    /// CPU time used so far, in seconds.
    pub fn used_s(&self) -> f64 {
        self.used_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    pub fn charge_s(&self, used_s: f64) {
        self.used_ns
            .fetch_add((used_s * 1e9) as u64, Ordering::Relaxed);
    }

    /// Something was done.
    pub fn step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps + 1, Ordering::Relaxed);
    }

    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// It waits for CPU, which is not its fault.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    pub fn set_input(&self, units: u64) {
        self.input.store(units, Ordering::Relaxed);
    }

    pub fn set_handled(&self, units: u64) {
        self.handled.store(units, Ordering::Relaxed);
    }

    /// Its whole input and what of it was handled.
    pub fn input(&self) -> (u64, u64) {
        let of = |units: &AtomicU64| units.load(Ordering::Relaxed);
        (of(&self.input), of(&self.handled))
    }

    /// The part of its input that was handled, 0 to 1; 0 when that is not known.
    pub fn progress(&self) -> f64 {
        match self.input.load(Ordering::Relaxed) {
            0 => 0.0,
            input => (self.handled.load(Ordering::Relaxed) as f64 / input as f64).min(1.0),
        }
    }

    /// What its buffers take at present.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Tells it that its result is not wanted any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Gives its thread up: it is not waited for any more.
    pub fn leave_behind(&self) {
        self.stop();
        self.left_behind.store(true, Ordering::Relaxed);
        self.keep_place(None);
    }

    pub fn is_left_behind(&self) -> bool {
        self.left_behind.load(Ordering::Relaxed)
    }

    /// A process of its own runs it, which is killed when the attempt is to stop.
    pub fn set_in_process(&self) {
        self.in_process.store(true, Ordering::Relaxed);
    }

    pub fn is_in_process(&self) -> bool {
        self.in_process.load(Ordering::Relaxed)
    }

    /// Notes whether the attempt's thread, or its process, runs on the floor instead of in the idle class.
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

    /// Keeps the attempt's place on a core, where others can give it back too; `None` gives it
    /// back.
    pub fn keep_place(&self, place: Option<Place>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The core that it is tied to.
    pub fn core(&self) -> Option<u32> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref()?.core()
    }
}
