//! A thread that uses CPU time, for tests of its measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ebb_test_support::wait;

/// A thread that keeps one core busy until this value is dropped.
pub(crate) struct BusyThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BusyThread {
    /// Starts the thread under this name. On return, the kernel already reports the name.
    pub(crate) fn start(name: &str) -> Self {
        let (runs, stop) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let body = {
            let (runs, stop) = (Arc::clone(&runs), Arc::clone(&stop));
            move || {
                runs.store(true, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let builder = thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(body).unwrap();
        wait::until("the busy thread to run", || runs.load(Ordering::Relaxed));
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for BusyThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
