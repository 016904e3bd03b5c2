//! The cost of recording a request.
//!
//! ```sh
//! cargo bench -p ebb-colocate --bench record
//! ```
//!
//! Measures the CPU time of the recording threads, which other load on the machine does not affect.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use ebb_colocate::{Colocated, ColocatedOptions};
use ebb_threads::thread_cpu;

const RECORDS: u64 = 20_000_000;

/// Returns this thread's CPU time per recorded request, in nanoseconds.
fn record_ns(colocated: &Colocated) -> f64 {
    let before = thread_cpu();
    for number in 0..RECORDS {
        colocated.record(Duration::from_nanos(black_box(50_000 + number % 100_000)));
    }
    (thread_cpu() - before).as_nanos() as f64 / RECORDS as f64
}

fn main() {
    let options = ColocatedOptions::keeping("p99=1s".parse().expect("an objective"));
    let colocated = Colocated::new(options).expect("it starts");
    for threads in [1, 2] {
        let ns: f64 = thread::scope(|scope| {
            let record = |_| scope.spawn(|| record_ns(&colocated));
            let recording: Vec<_> = (0..threads).map(record).collect();
            let ns = recording.into_iter().map(|thread| thread.join());
            ns.map(|ns| ns.expect("it records")).sum()
        });
        println!(
            "{threads} threads: {:.1} ns a request",
            ns / f64::from(threads)
        );
    }
}
