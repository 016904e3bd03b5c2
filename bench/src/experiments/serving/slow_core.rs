//! A core that is slowed down, so that one client can send more than a server can process.
//!
//! A thread of the real-time class occupies the core for most of each quarter of a millisecond, and
//! leaves the rest to other threads. The server's threads then run as on a slower core, because the
//! slices are shorter than the usual wait of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::ycsb::enter_real_time_class;

/// The period of the busy thread. In each period it first uses the core, and then sleeps once, for
/// the fraction of the period that is left to other threads.
const EVERY: Duration = Duration::from_micros(250);

/// A slowed core. It has its full speed again when this value is dropped.
#[derive(Debug)]
pub(super) struct SlowCore {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SlowCore {
    /// Slows a core with a busy real-time thread, and leaves to other threads the fraction `left`
    /// of the core, above 0 and below 1.
    ///
    /// # Errors
    /// When the core does not exist, or the system does not grant the real-time class, which
    /// requires CAP_SYS_NICE.
    pub(super) fn take(core: usize, left: f64) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (granted, is_granted) = channel();
        let over = Arc::clone(&is_over);
        let burn = move || {
            let mut own = CpuSet::new();
            own.set(core);
            let has_class = sched_setaffinity(None, &own).is_ok() && enter_real_time_class();
            let is_received = granted.send(has_class).is_ok();
            if has_class && is_received {
                keep_busy(EVERY.mul_f64(1.0 - left), &over);
            }
        };
        let thread = thread::Builder::new()
            .name("slow-core".into())
            .spawn(burn)?;
        let slow = Self {
            is_over,
            thread: Some(thread),
        };
        let has_class = is_granted.recv().context("the thread of the core ended")?;
        ensure!(
            has_class,
            "part overload requires the right to the real-time class (CAP_SYS_NICE)"
        );
        Ok(slow)
    }
}

impl Drop for SlowCore {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread ends within one slice.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

fn keep_busy(busy: Duration, is_over: &AtomicBool) {
    let mut begun = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        while begun.elapsed() < busy {
            std::hint::spin_loop();
        }
        let next = begun + EVERY;
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
        // Slices that the machine missed are not made up for.
        begun = next.max(Instant::now());
    }
}
