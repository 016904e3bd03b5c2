//! The tail of reads while 200 consoles watch: event streams, a list of 1,000 jobs and a scrape
//! of the metrics each second.
//!
//! Windows with and without consoles take turns in an order that is drawn for each round, and those
//! without come twice, as in the part `beside`. All begin after the same pause.
//!
//! Real consoles are on other machines, and use no CPU of the server's machine. So one thread in the idle
//! class stands for all consoles, and does as little as it can: it reads each stream once a second, keeps
//! nothing of lists, and looks at no event but for its first bytes. The CPU time of this thread is measured,
//! and so is that of the server's threads for HTTP. The kernel's work for a connection over loopback is in
//! both.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, park_timeout};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use ebb_jobs::history::RecordState;
use ebb_jobs::pi::Variant;
use ebb_jobs::request::{ApplicationRequest, JobRequest, OutputPlace, PiRequest};
use ebb_server::http::JobsClient;
use ebb_server::jobs::{JobView, Jobs, ReadJobs};
use ebb_server::tokens::{Scope, Token, TokenFile, TokenRecord};
use ebb_threads::thread_cpu;
use serde::Serialize;

use super::bar::verdict;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::steady::{MeasuredLoad, SteadyLoad};
use super::window::{ALONE, Window};
use crate::console::progress_bar;
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::colocation::disturbance::Observer;
use crate::experiments::statistics::mean;
use crate::threads::{pause, value_of};
use crate::ycsb::Operation;
use crate::ycsb::cql::{Plan, RawClient, enter_idle_class};

/// The largest acceptable upper end of the confidence interval of the ratio of the p99 of reads
/// with consoles (clients that watch the server over HTTP) to that without.
const P99_MAX: f64 = 1.1;
/// The number of event streams that are open at once.
const STREAMS: usize = 200;
/// The number of jobs in the list: the most that a server remembers.
const JOBS: u32 = 1000;
/// The list of all jobs, in one page.
const LIST: &str = "/v1/jobs?limit=1000";
/// The time between two wake-ups of the thread that acts as all consoles.
const LOOK: Duration = Duration::from_millis(100);
/// The number of wake-ups per second of the thread that acts as all consoles. Once a second it
/// lists jobs, scrapes metrics and reads the event streams, each at another wake-up, because real
/// consoles and monitoring systems are not synchronized.
const LOOKS: u32 = 10;
/// The index, among the [`LOOKS`] wake-ups of each second, of the wake-up at which the thread of
/// the consoles lists the jobs.
const LIST_AT: u32 = 0;
/// The index, among the [`LOOKS`] wake-ups of each second, of the wake-up at which the thread of
/// the consoles scrapes the metrics.
const SCRAPE_AT: u32 = 3;
/// The index, among the [`LOOKS`] wake-ups of each second, of the wake-up at which the thread of
/// the consoles reads the event streams.
const READ_AT: u32 = 6;
/// The beginning of the names of the server's threads for HTTP.
const HTTP_THREADS: &str = "ebb-http";
/// The time for which streams are open before a window begins.
const SETTLE: Duration = Duration::from_millis(300);
/// The pause after each measured window, with consoles or without. The server sends a sample to
/// each event stream once a second. The first one after the client has closed the stream may still
/// be accepted by the connection, so the server may notice the end only at the second one. Until
/// then the stream counts for the limit of open streams, and the server might refuse the next
/// consoles.
const CLOSED: Duration = Duration::from_millis(2500);
/// The longest wait for a response or for the end of a job.
const ANSWER_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize)]
pub struct WatchedLoad {
    /// The load and its reads. The load alone is the load while no console watches the server.
    #[serde(flatten)]
    pub load: MeasuredLoad,
    /// The p50 of reads while no console watches the server, in microseconds.
    pub p50_us: f64,
    /// The ratio of the p99 of reads with consoles to that without.
    pub watched: Estimate,
    pub streams: usize,
    pub jobs: usize,
    /// The number of events of all streams, over all windows.
    pub events: u64,
    /// The number of lists of jobs that the consoles fetched, over all windows.
    pub lists: u64,
    /// The number of scrapes of the metrics, over all windows.
    pub scrapes: u64,
    pub list_bytes: usize,
    pub scrape_bytes: usize,
    /// The CPU time of the server's threads for HTTP while consoles watch, in milliseconds per
    /// second.
    pub http_cpu_ms_per_s: f64,
    /// The CPU time of the thread that acts as all consoles, in milliseconds per second. It is in
    /// the idle class.
    pub consoles_cpu_ms_per_s: f64,
}

impl PartResult for WatchedLoad {
    fn lines(&self) -> Vec<String> {
        let load = &self.load;
        vec![
            format!(
                "reads of an open loop at {:.0} ops/s (peak {:.0}): p50 {:.0} us, p99 {:.0} us",
                load.rate_ops_per_s, load.peak_ops_per_s, self.p50_us, load.p99_us
            ),
            format!(
                "  p99 with {} event streams, a list of {} jobs and a scrape each second, over \
                 without: {:.3}; without again: {:.3}",
                self.streams, self.jobs, self.watched, load.alone_again
            ),
            format!(
                "  upper end {:.3}, at most {P99_MAX}: {}",
                self.watched.high,
                verdict(self.watched.high <= P99_MAX)
            ),
            format!(
                "  CPU of the server's threads for HTTP {:.1} ms per second, of the consoles' thread \
                 {:.1}",
                self.http_cpu_ms_per_s, self.consoles_cpu_ms_per_s
            ),
            format!(
                "  {} events, {} lists of {} bytes, {} scrapes of {} bytes; windows that count \
                 {:?}; {}",
                self.events,
                self.lists,
                self.list_bytes,
                self.scrapes,
                self.scrape_bytes,
                load.windows,
                load.unanswered()
            ),
        ]
    }
}

/// The address and the token with which a console, a client that watches the server, sends requests
/// over HTTP.
struct Console {
    address: SocketAddr,
    token: String,
}

/// The number of events and responses that the consoles received in a window, and the CPU time of
/// the server's HTTP threads and of the consoles.
#[derive(Debug, Clone, Copy, Default)]
struct Received {
    events: u64,
    lists: u64,
    scrapes: u64,
    http_cpu_ms_per_s: f64,
    consoles_cpu_ms_per_s: f64,
}

pub fn measure(setting: &Setting<'_>) -> Result<WatchedLoad> {
    let args = setting.args;
    let data = setting.folder.join("watched");
    let http = ["--http", "127.0.0.1:0"].map(str::to_string);
    let mut server = setting.start("watched", &http)?;
    let console = Console::of(&data, &server.line()?)?;
    let mut client = setting.client(&server, None)?;
    run_jobs(&server.jobs_client()?, setting)?;
    let list = console.get(LIST)?;
    let listed: serde_json::Value = serde_json::from_slice(&list)?;
    let jobs = listed["jobs"].as_array().map_or(0, Vec::len);
    ensure!(jobs == JOBS as usize, "{jobs} jobs are listed, not {JOBS}");
    let scrape_bytes = console.get("/metrics")?.len();
    server.settle()?;
    let load = SteadyLoad::find(args, &mut client)?;
    let windows = setting.in_turns("watched", ALONE.len() + 1, |turn| {
        let watched_by = (!ALONE.contains(&turn)).then_some(&console);
        play(&server, &mut client, &load.plan, watched_by)
    })?;
    server.stop()?;
    let [p50_us] = windows.alone_us([0.5]);
    let sum = |of: fn(&Received) -> u64| windows.all().map(|window| of(&window.more)).sum();
    let with_consoles =
        |of: fn(&Received) -> f64| mean((windows.counting(&[2])).map(|window| of(&window.more)));
    Ok(WatchedLoad {
        load: load.measured(&windows),
        p50_us,
        watched: windows.p99(2, &ALONE),
        streams: STREAMS,
        jobs,
        events: sum(|it| it.events),
        lists: sum(|it| it.lists),
        scrapes: sum(|it| it.scrapes),
        list_bytes: list.len(),
        scrape_bytes,
        http_cpu_ms_per_s: with_consoles(|it| it.http_cpu_ms_per_s),
        consoles_cpu_ms_per_s: with_consoles(|it| it.consoles_cpu_ms_per_s),
    })
}

/// Runs [`JOBS`] small jobs: then the server remembers as many ended jobs as it can.
fn run_jobs(client: &JobsClient, setting: &Setting<'_>) -> Result<()> {
    const AT_ONCE: u32 = 20;
    let bar = progress_bar("serving: jobs to list", u64::from(JOBS));
    let mut last = None;
    for number in 1..=JOBS {
        setting.check_interrupt()?;
        let application = ApplicationRequest::Pi(PiRequest {
            points: 1,
            seed: u64::from(number),
            variant: Variant::Plain,
        });
        let output = OutputPlace::File(setting.folder.join(format!("pi-{number}.tsv")));
        let request = JobRequest::new(application, Vec::new(), output.into(), setting.folder);
        last = Some(client.submit(&request)?.record.id);
        if let Some(last) = last.as_ref().filter(|_| number % AT_ONCE == 0) {
            client.show(last, ANSWER_MAX)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let last = last.context("there are jobs")?;
    client.show(&last, ANSWER_MAX)?;
    let ended = |job: &JobView| job.record.state != RecordState::Started;
    let began = Instant::now();
    while !client.list()?.iter().all(ended) {
        ensure!(began.elapsed() < ANSWER_MAX, "jobs do not end");
        park_timeout(LOOK);
    }
    Ok(())
}

fn play(
    server: &Server,
    client: &mut RawClient,
    plan: &Plan,
    watched_by: Option<&Console>,
) -> Result<Window<Received>> {
    let is_over = AtomicBool::new(false);
    let (tally, disturbance, received) = thread::scope(|scope| {
        let streams = watched_by.map(Console::streams).transpose()?;
        let watcher = watched_by.zip(streams).map(|(console, streams)| {
            let is_over = &is_over;
            scope.spawn(move || console.watch(streams, is_over))
        });
        pause(SETTLE);
        // Errors are returned below: the scope waits for the consoles' thread, which ends by `is_over`.
        let observer = Observer::start();
        let before = server.process.threads_cpu(HTTP_THREADS);
        let began = Instant::now();
        let tally = client.run(plan, |_| ());
        let took = began.elapsed();
        let after = server.process.threads_cpu(HTTP_THREADS);
        let disturbance = observer.and_then(Observer::end);
        is_over.store(true, Ordering::Relaxed);
        let received = watcher.map(|watcher| value_of(watcher.join()));
        let received = Received {
            http_cpu_ms_per_s: ms_per_s(used(&before?, &after?), took),
            ..received.transpose()?.unwrap_or_default()
        };
        anyhow::Ok((tally?, disturbance?, received))
    })?;
    pause(CLOSED);
    let reads = &tally.nanos[Operation::Read.index()];
    Window::new(plan, &tally, reads, disturbance, received)
}

/// Returns the CPU time that threads used between two moments. The time of threads that ended in
/// between is not included: the server ends a thread that was idle for ten seconds.
fn used(before: &BTreeMap<i32, Duration>, after: &BTreeMap<i32, Duration>) -> Duration {
    let of = |(id, after): (&i32, &Duration)| {
        let before = before.get(id).copied().unwrap_or_default();
        after.saturating_sub(before)
    };
    after.iter().map(of).sum()
}

fn ms_per_s(cpu: Duration, took: Duration) -> f64 {
    cpu.as_secs_f64() * 1e3 / took.as_secs_f64()
}

impl Console {
    /// Adds a token for reads to the database `data`, and returns a console that uses it. `line` is
    /// the line of the server's output that has its HTTP address.
    fn of(data: &Path, line: &str) -> Result<Self> {
        let address = line.strip_prefix("listening for HTTP on http://");
        let address = address.with_context(|| format!("no address for HTTP in {line:?}"))?;
        let token = Token::random();
        let name = "experiments serving";
        let record = TokenRecord::new(&token, name, Scope::Read, SystemTime::now(), None);
        TokenFile::of(data).change(|tokens| tokens.add(record))?;
        Ok(Self {
            address: address.parse()?,
            token: token.reveal(),
        })
    }

    fn request(&self, path: &str, more: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let (address, token) = (self.address, &self.token);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        )?;
        Ok(stream)
    }

    /// Sends a GET request, and returns the body of the response.
    fn get(&self, path: &str) -> Result<Vec<u8>> {
        let mut response = Vec::new();
        self.request(path, "Connection: close\r\n")?
            .read_to_end(&mut response)?;
        let end = response.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.context("a response has a head")?;
        ensure!(
            response.starts_with(b"HTTP/1.1 200 "),
            "{path}: {}",
            String::from_utf8_lossy(&response)
        );
        Ok(response.split_off(end + 4))
    }

    /// Sends a GET request, and reads the response to its end without keeping it.
    fn fetch(&self, path: &str, buffer: &mut [u8]) -> Result<()> {
        let mut stream = self.request(path, "Connection: close\r\n")?;
        let mut read = read_some(&mut stream, buffer)?;
        let head = &buffer[..read];
        ensure!(
            head.starts_with(b"HTTP/1.1 200 "),
            "{path}: {}",
            String::from_utf8_lossy(head)
        );
        while read > 0 {
            read = read_some(&mut stream, buffer)?;
        }
        Ok(())
    }

    /// Opens the event streams, and reads the heads of the responses.
    fn streams(&self) -> Result<Vec<TcpStream>> {
        let open = |_| {
            let mut stream = self.request("/v1/events", "")?;
            let mut head = [0; 1024];
            let read = stream.read(&mut head)?;
            let head = String::from_utf8_lossy(&head[..read]);
            ensure!(
                head.starts_with("HTTP/1.1 200 "),
                "an event stream is refused: {head}"
            );
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        (0..STREAMS).map(open).collect()
    }

    /// Lists jobs, scrapes the metrics and reads the streams until `is_over`.
    fn watch(&self, mut streams: Vec<TcpStream>, is_over: &AtomicBool) -> Result<Received> {
        enter_idle_class()?;
        let mut received = Received::default();
        let mut buffer = vec![0; 64 << 10];
        let (began, cpu_before) = (Instant::now(), thread_cpu());
        let (mut look, mut next) = (0, began);
        while !is_over.load(Ordering::Relaxed) {
            match look {
                LIST_AT => {
                    self.fetch(LIST, &mut buffer)?;
                    received.lists += 1;
                }
                SCRAPE_AT => {
                    self.fetch("/metrics", &mut buffer)?;
                    received.scrapes += 1;
                }
                READ_AT => received.events += events_of_all(&mut streams, &mut buffer)?,
                _ => {}
            }
            look = (look + 1) % LOOKS;
            // What a look takes does not delay the later ones.
            next += LOOK;
            park_timeout(next.saturating_duration_since(Instant::now()));
        }
        received.consoles_cpu_ms_per_s = ms_per_s(thread_cpu() - cpu_before, began.elapsed());
        received.events += events_of_all(&mut streams, &mut buffer)?;
        ensure!(
            received.events >= STREAMS as u64,
            "{STREAMS} streams received {} events",
            received.events
        );
        Ok(received)
    }
}

/// Reads once from a connection. Repeats a read that a signal interrupted.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Reads once from each stream, and returns the number of events.
fn events_of_all(streams: &mut [TcpStream], buffer: &mut [u8]) -> Result<u64> {
    (streams.iter_mut())
        .map(|stream| events(stream, buffer))
        .sum()
}

/// Reads once from a stream, and returns the number of events. An event whose first bytes are split
/// between two reads is not counted.
fn events(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<u64> {
    const BEGIN: &[u8] = b"event: ";
    match read_some(stream, buffer) {
        Ok(0) => bail!("the server ended an event stream"),
        Ok(read) => {
            let begins = buffer[..read].windows(BEGIN.len());
            Ok(begins.filter(|it| *it == BEGIN).count() as u64)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use ebb_test_support::wait::{HANG, uninterrupted, until};

    use super::super::steady::tests::measured_load;
    use super::*;

    #[test]
    fn the_bar_is_met_by_the_upper_end_of_the_interval() {
        let missed = |high| {
            let load = WatchedLoad {
                load: measured_load(),
                p50_us: 1.0,
                watched: Estimate {
                    value: 1.0,
                    low: 0.9,
                    high,
                },
                streams: STREAMS,
                jobs: JOBS as usize,
                events: 200,
                lists: 1,
                scrapes: 1,
                list_bytes: 1,
                scrape_bytes: 1,
                http_cpu_ms_per_s: 9.0,
                consoles_cpu_ms_per_s: 3.0,
            };
            let lines = load.lines();
            lines.iter().any(|line| line.ends_with(": misses"))
        };
        assert!(!missed(1.1), "the value and noise do not count");
        assert!(missed(1.101));
    }

    #[test]
    fn only_the_cpu_time_between_two_moments_counts() {
        let ms = Duration::from_millis;
        let before = BTreeMap::from([(7, ms(100)), (8, ms(500))]);
        let after = BTreeMap::from([(7, ms(104)), (9, ms(2))]);
        let used = used(&before, &after);
        assert_eq!(used, ms(6), "8 has ended, and 9 has begun");
        assert!((ms_per_s(used, Duration::from_secs(2)) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn events_are_counted_and_the_end_of_a_stream_is_an_error() -> Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let mut stream = TcpStream::connect(listener.local_addr()?)?;
        let (mut other, _) = listener.accept()?;
        other.write_all(b"event: sample\ndata: {}\n\n: ping\n\nevent: job\ndata: {}\n\n")?;
        stream.set_read_timeout(Some(HANG))?;
        uninterrupted(|| stream.peek(&mut [0]))?;
        stream.set_nonblocking(true)?;
        let mut buffer = [0; 1024];
        assert_eq!(events(&mut stream, &mut buffer)?, 2);
        drop(other);
        until("the end of the stream to be an error", || {
            events(&mut stream, &mut buffer).is_err()
        });
        Ok(())
    }
}
