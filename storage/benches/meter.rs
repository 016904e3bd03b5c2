//! The cost of a meter to requests.
//!
//! ```sh
//! cargo bench -p ebb-storage --bench meter
//! ```
//!
//! Point reads, scans of ten entries and puts of one thread, over a table in memory and
//! on files that the cache holds; with a meter and without in turn. CPU time of the
//! thread for each request, the median of rounds, and the median of the ratios within a
//! round.

use std::hint::black_box;

use ebb_storage::{Db, Options, Table, TableOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};

const RECORDS: u32 = 100_000;
const REQUESTS: u32 = 50_000;
const ROUNDS: usize = 31;

/// A function that makes one request for a key.
type Request = fn(&Table, u32);

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn get(table: &Table, key: u32) {
    black_box(table.get(&key.to_be_bytes()).expect("it reads"));
}

fn scan(table: &Table, key: u32) {
    let entries = table.range(key.to_be_bytes()..).take(10);
    for entry in entries {
        black_box(entry.expect("it reads"));
    }
}

fn put(table: &Table, key: u32) {
    table.put(&key.to_be_bytes(), &[7; 100]).expect("it writes");
}

/// Makes [`REQUESTS`] requests, and returns the mean CPU time of one request, in nanoseconds.
fn round(table: &Table, rng: &mut ChaCha8Rng, request: Request) -> f64 {
    let keys: Vec<u32> = (0..REQUESTS)
        .map(|_| rng.random_range(0..RECORDS))
        .collect();
    let begun_ns = cpu_ns();
    for key in keys {
        request(table, key);
    }
    (cpu_ns() - begun_ns) / f64::from(REQUESTS)
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(folder.path(), Options::default()).expect("it opens");
    let keyspace = db.keyspace("bench").expect("a keyspace");
    let table = keyspace.table("t", TableOptions::default());
    let table = table.expect("a table");
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for key in 0..RECORDS {
        put(&table, key);
    }
    db.flush().expect("it flushes");
    println!(
        "  {:<8} {:>9} {:>9} {:>7}",
        "", "without", "metered", "ratio"
    );
    let requests: [(&str, Request); 3] = [("get", get), ("scan", scan), ("put", put)];
    for (name, request) in requests {
        round(&table, &mut rng, request);
        let (mut without, mut metered) = (Vec::new(), Vec::new());
        for number in 0..2 * ROUNDS {
            // Every other pair begins with the other.
            if matches!(number % 4, 0 | 3) {
                without.push(round(&table, &mut rng, request));
            } else {
                let mut meter = db.meter();
                // The first `take` sets the sampling rate from the requests before it.
                round(&table, &mut rng, request);
                meter.take();
                metered.push(round(&table, &mut rng, request));
                drop(meter);
            }
        }
        let ratios = metered
            .iter()
            .zip(&without)
            .map(|(with, without)| with / without);
        let ratio = median(ratios.collect());
        let [without, metered] = [without, metered].map(median);
        println!("  {name:<8} {without:>6.0} ns {metered:>6.0} ns {ratio:>7.3}");
    }
}
