//! Loom models of [`Signal`]: see `loom_models`.

use std::sync::Arc;

use super::*;
use crate::loom_models::{explore, spawn};

/// A count of flushes that another thread waits for.
#[derive(Default)]
struct Done {
    flushes: Mutex<usize>,
    changed: Condvar,
}

impl Done {
    fn add(&self) {
        *self.flushes.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let flushes = self.flushes.lock().unwrap();
        drop(self.changed.wait_while(flushes, |n| *n == 0).unwrap());
    }
}

fn flush_then_stop(wait: impl Fn(&Signal) -> bool + Copy + Send + Sync + 'static) {
    explore(move || {
        let shared = Arc::new((Signal::default(), Done::default()));
        let worker = spawn(&shared, move |(signal, done)| {
            while wait(signal) {
                done.add();
            }
        });
        let (signal, done) = &*shared;
        signal.compact();
        signal.flush();
        done.wait();
        signal.stop();
        worker.join().unwrap();
        assert_eq!(*done.flushes.lock().unwrap(), 1, "a flush is done once");
    });
}

/// A requested flush is done, and a request to stop ends the thread, whether it works or waits.
#[test]
fn loom_a_thread_flushes_on_request_and_stops() {
    flush_then_stop(|signal| signal.wait(|requests| std::mem::take(&mut requests.flush), None));
}

/// Deliberate fault: the thread looks for a request, releases the lock, and then waits. A
/// notification that comes in between is lost.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_wake_up_between_look_and_wait_is_caught() {
    flush_then_stop(|signal| {
        loop {
            let mut requests = signal.requests.lock().unwrap();
            if requests.stop {
                return false;
            }
            if std::mem::take(&mut requests.flush) {
                return true;
            }
            drop(requests);
            let requests = signal.requests.lock().unwrap();
            drop(signal.changed.wait(requests).unwrap());
        }
    });
}
