//! A TCP service that runs jobs beside its requests, measured by a client.
//!
//! ```sh
//! cargo run --release -p ebb-colocate --example tcp_service -- 10
//! cargo run --release -p ebb-colocate --example tcp_service -- 2 20000 15
//! ```
//!
//! The client is a process of its own. It sends requests at a steady rate (the second number, in
//! requests per second), however slow the responses are, and measures a latency from the time at
//! which its request was due. The service runs in turn alone, beside unmanaged jobs (like plain
//! threads), and beside the same co-located jobs, for a number of seconds each (the first number),
//! in a number of rounds (the third). A row of the output is the median of its rounds, with the
//! least and the greatest p99.

#![expect(
    clippy::disallowed_methods,
    reason = "tests and examples look at clocks and files themselves"
)]

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ebb_colocate::runtime::{
    Emit, Input, JobSpec, Management, RecordSink, Split, TaskError, VecOutput,
};
use ebb_colocate::{Colocated, ColocatedOptions};

const CONNECTIONS: u32 = 4;
const RECORDS: u64 = 20_000;
const RECORD_BYTES: usize = 1024;
/// The number of records that a request sums up: about ten microseconds of work.
const RECORDS_PER_REQUEST: u64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["client", address, seconds, rate] => run_client(address, seconds.parse()?, rate.parse()?),
        [] => compare(10.0, 2000.0, 1),
        [seconds] => compare(seconds.parse()?, 2000.0, 1),
        [seconds, rate] => compare(seconds.parse()?, rate.parse()?, 1),
        [seconds, rate, rounds] => compare(seconds.parse()?, rate.parse()?, rounds.parse()?),
        _ => Err("tcp_service [SECONDS [REQUESTS_PER_SECOND [ROUNDS]]]".into()),
    }
}

// ---- the service

/// A client's measurements: requests per second, p50, p99 and p99.9 in milliseconds; and the cores
/// that jobs used.
type Measurement = [f64; 5];

/// The jobs that run while the service is measured: none, jobs that nothing manages, or co-located jobs.
#[derive(Clone, Copy)]
enum Condition {
    Alone,
    Unmanaged,
    Colocated,
}

fn compare(seconds: f64, rate: f64, rounds: u32) -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let mut conditions = [
        ("alone", Condition::Alone, Vec::new()),
        ("jobs, unmanaged", Condition::Unmanaged, Vec::new()),
        ("jobs, co-located", Condition::Colocated, Vec::new()),
        ("alone again", Condition::Alone, Vec::new()),
    ];
    for round in 0..rounds.max(1) {
        // Each round begins with another condition, because the order could affect the result.
        for turn in 0..conditions.len() {
            let at = (round as usize + turn) % conditions.len();
            let (_, condition, seen) = &mut conditions[at];
            seen.push(run(*condition, &store, seconds, rate)?);
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    println!(
        "service          requests/s    p50 ms    p99 ms  (least - greatest)  p99.9 ms  CPU of jobs"
    );
    for (name, _, seen) in &conditions {
        let column = |at: usize| {
            let mut column: Vec<f64> = seen.iter().map(|seen| seen[at]).collect();
            column.sort_by(f64::total_cmp);
            column
        };
        let median = |at| column(at)[seen.len() / 2];
        let p99 = column(2);
        println!(
            "{name:16} {:10.0} {:9.3} {:9.3}  ({:.3} - {:.3}) {:9.3} {:6.2} cores",
            median(0),
            median(1),
            median(2),
            p99[0],
            p99[p99.len() - 1],
            median(3),
            median(4)
        );
    }
    Ok(())
}

/// Runs the service for `seconds` with a client that sends `rate` requests per second, and beside
/// it the jobs of the condition. Returns the measurements.
fn run(
    condition: Condition,
    store: &Store,
    seconds: f64,
    rate: f64,
) -> Result<Measurement, Box<dyn Error>> {
    let options = match condition {
        Condition::Alone => None,
        Condition::Unmanaged => {
            let mut options = ColocatedOptions::default();
            options.runtime.management = Management::Unmanaged;
            Some(options)
        }
        Condition::Colocated => Some(ColocatedOptions::default()),
    };
    let colocated = options.map(Colocated::new).transpose()?;
    let job = colocated.as_ref().map(|c| c.submit(count_words()));
    let job = job.transpose()?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = Command::new(env::current_exe()?)
        .args(["client", &listener.local_addr()?.to_string()])
        .args([seconds.to_string(), rate.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    thread::scope(|scope| -> io::Result<()> {
        for _ in 0..CONNECTIONS {
            let (connection, _) = listener.accept()?;
            let colocated = colocated.as_ref();
            scope.spawn(move || serve(connection, store, colocated));
        }
        Ok(())
    })?;
    let seen = client.wait_with_output()?;
    let cpu_s = job.map_or(0.0, |job| job.status().cpu_s);
    let mut text = String::from_utf8(seen.stdout)?;
    text += &format!(" {}", cpu_s / seconds);
    let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let seen = numbers?.try_into();
    seen.map_err(|_| format!("the client said {text:?}").into())
}

/// Answers one request after the other until the client disconnects.
fn serve(mut connection: TcpStream, store: &Store, colocated: Option<&Colocated>) {
    let mut request = [0; 8];
    while connection.read_exact(&mut request).is_ok() {
        let begun = Instant::now();
        let answer = store.sum(u64::from_le_bytes(request));
        if connection.write_all(&answer.to_le_bytes()).is_err() {
            return;
        }
        if let Some(colocated) = colocated {
            colocated.record(begun.elapsed());
        }
    }
}

struct Store(HashMap<u64, Vec<u8>>);

impl Store {
    fn new() -> Self {
        Self(
            (0..RECORDS)
                .map(|key| (key, vec![key as u8; RECORD_BYTES]))
                .collect(),
        )
    }

    fn sum(&self, key: u64) -> u64 {
        let keys = (0..RECORDS_PER_REQUEST).map(|n| key.wrapping_add(n * 7919) % RECORDS);
        let records = keys.filter_map(|key| self.0.get(&key));
        records.flatten().map(|byte| u64::from(*byte)).sum()
    }
}

// ---- the jobs

/// Returns a job that counts the words of so much text that it still runs when the measurement ends.
fn count_words() -> JobSpec {
    let map = |_key: &[u8], line: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        for word in line.split(u8::is_ascii_whitespace) {
            emit.emit(word, b"1")?;
        }
        Ok(())
    };
    let output = Arc::new(VecOutput::new());
    JobSpec::new("count words", Arc::new(Text), Arc::new(map), output)
}

/// An input of practically unlimited lines.
struct Text;

impl Input for Text {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let split = |index| Split {
            index,
            ..Split::default()
        };
        Ok((0..1_000).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        (0..100_000_u32).try_for_each(|line| {
            let text = format!("line {line} of part {} has these eight words", split.index);
            record(&line.to_be_bytes(), text.as_bytes())
        })
    }
}

// ---- the client

/// Sends requests on all connections, and prints their rate and their latencies.
fn run_client(address: &str, seconds: f64, rate: f64) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let results: Vec<_> = thread::scope(|scope| {
        let send =
            |number| scope.spawn(move || send_requests(address, number, begun, (seconds, rate)));
        let threads: Vec<_> = (0..CONNECTIONS).map(send).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut latencies = Vec::new();
    for result in results {
        latencies.extend(result.map_err(|_| "a thread of the client panicked")??);
    }
    latencies.sort();
    let ms = |quantile: f64| {
        let at = (latencies.len() as f64 * quantile) as usize;
        let latency = latencies.get(at).copied().unwrap_or_default();
        latency.as_secs_f64() * 1e3
    };
    let per_s = latencies.len() as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{per_s:10.0} {:9.3} {:9.3} {:9.3}",
        ms(0.5),
        ms(0.99),
        ms(0.999)
    );
    Ok(())
}

/// Sends requests at equal intervals, and returns their latencies from the times at which they were due.
/// A late response does not shift the due times of later requests.
fn send_requests(
    address: &str,
    number: u32,
    begun: Instant,
    (seconds, rate): (f64, f64),
) -> io::Result<Vec<Duration>> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    let mut latencies = Vec::new();
    let mut answer = [0; 8];
    for request in 0_u32.. {
        let turn = f64::from(request) * f64::from(CONNECTIONS) + f64::from(number);
        if turn / rate >= seconds {
            break;
        }
        let due = begun + Duration::from_secs_f64(turn / rate);
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
        connection.write_all(&u64::from(request).to_le_bytes())?;
        connection.read_exact(&mut answer)?;
        latencies.push(due.elapsed());
    }
    Ok(latencies)
}
