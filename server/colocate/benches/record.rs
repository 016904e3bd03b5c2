//! What recording a request costs: `cargo bench -p ebb-colocate --bench record`.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use ebb_colocate::{Colocated, ColocatedOptions};

const RECORDS: u64 = 20_000_000;

fn main() {
    let options = ColocatedOptions::keeping("p99=1s".parse().expect("an objective"));
    let colocated = Colocated::new(options).expect("it starts");
    for threads in [1, 2] {
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for number in 0..RECORDS {
                        let latency = Duration::from_nanos(black_box(50_000 + number % 100_000));
                        colocated.record(latency);
                    }
                });
            }
        });
        let ns = begun.elapsed().as_secs_f64() * 1e9 / RECORDS as f64;
        println!("{threads} threads: {ns:.1} ns for each of its requests");
    }
}
