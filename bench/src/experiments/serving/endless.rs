//! Point reads and the scans of one user, beside statements of two other users that never end: the
//! tail of the reads compared with that of the same load alone, the scans that complete, and the
//! server's memory.
//!
//! Half of the statements look for billions of rows that are not there, by their keys. The others
//! divide numbers of thousands of digits, over a whole table. The server gives a request one second,
//! so that each statement reaches its time-out several times in a window. The threads of all but the
//! point reads are in the idle class, because the server can do nothing about the CPU of clients.
//!
//! In other windows the load runs beside [threads of the idle class](super::idlers) in another process,
//! instead of the statements. A server whose scans use all the CPU that the load leaves cannot be better
//! than beside threads that count; threads that write to much memory take caches from the load, too. The
//! [stages](super::stages) of operations show where the time of each tail goes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::BytesMut;
use ebb_cql::client::{Client, ClientError, set_stream};
use ebb_cql::protocol::{Answer, Compression, ErrorKind, QueryParameters, Request, Response};
use serde::Serialize;

use super::bar::verdict;
use super::idlers::{IdleWork, Idlers, MEMORY_BYTES};
use super::report::PartResult;
use super::server::{Account, Server};
use super::setting::Setting;
use super::stages::{BegunWindow, StageTail, Stages};
use super::steady::SteadyLoad;
use super::window::{ALONE, Beside, ServerUse, Window};
use crate::experiments::colocation::bootstrap::Estimate;
use crate::experiments::colocation::disturbance::Observer;
use crate::threads::value_of;
use crate::ycsb::Operation;
use crate::ycsb::cql::{Plan, RawClient, enter_idle_class, query};

/// The users whose statements never end.
const ENDLESS_USERS: [&str; 2] = ["endless1", "endless2"];
/// The number of statements that each of [`ENDLESS_USERS`] keeps under way at once.
const STATEMENTS_EACH: usize = 10;
/// The user whose scans must complete.
const READER: &str = "reader";
/// The scan that [`READER`] repeats. It names no partition, so it may read the whole table.
const SCAN: &str = "SELECT y_id FROM ycsb.usertable LIMIT 100";
const SCAN_ROWS: usize = 100;
/// The time after which a request of the server ends with a time-out.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of rows in the table of numbers.
const NUMBERS: u32 = 1000;
/// The largest acceptable p99 of the load's point reads while the endless statements run, as a
/// multiple of their p99 while nothing else runs. Threads of another process that only count raise
/// the p99 by about as much (see the book, Results: serving CQL), so a smaller limit would test the
/// machine. With a larger limit, a server could pass that delays reads more than such threads do.
const P99_MAX: f64 = 1.2;
/// The most memory that the statements may add to the server's. Each statement that runs keeps some
/// megabytes; the rest is for memtables, the block cache and what the allocator keeps.
const GROWTH_BYTES_MAX: u64 = 1 << 30;

/// The index, among the compared conditions, of the load beside statements that never end. Before it
/// comes the load alone, twice.
const STATEMENTS: usize = ALONE.len();
/// The index of a condition to compare: the load beside threads that only increment a counter, in
/// the kernel's idle class.
const COUNTING: usize = STATEMENTS + 1;
/// The index of a condition to compare: the load beside threads that write to much memory, in the
/// kernel's idle class.
const WRITING: usize = STATEMENTS + 2;
const CONDITIONS: usize = STATEMENTS + 3;

const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE endless WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE endless.absent (a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d))",
    "CREATE TABLE endless.numbers (k int PRIMARY KEY, d decimal)",
];

#[derive(Debug, Clone, Serialize)]
pub struct EndlessStatements {
    /// The peak rate: operations per second of a closed loop.
    pub peak_ops_per_s: f64,
    /// Operations per second of the load: half of the peak, unless a rate was given.
    pub rate_ops_per_s: f64,
    /// The p99 of the load's reads while nothing runs beside the load, in microseconds.
    pub p99_us: f64,
    /// A second measurement of the load alone, compared with the first: the differences are noise.
    pub alone_again: Beside,
    /// The measurement of the load while the endless statements, and the scans of another user, run.
    pub beside: Beside,
    /// The number of threads in the kernel's idle class that run during `beside_counting` and
    /// `beside_writing`.
    pub idle_threads: usize,
    /// The measurement of the load while threads of another process, in the idle CPU class, do nothing
    /// but increment a counter.
    pub beside_counting: Beside,
    /// The measurement of the load while threads of another process, in the idle CPU class, write to 64
    /// MiB of memory each.
    pub beside_writing: Beside,
    /// The p99 of reads beside the endless statements, divided by that beside threads that write to
    /// memory: the effect of the statements without that of busy cores and caches.
    pub over_writing: Estimate,
    /// The tail latencies of the stages of the load's operations, under each condition, such as the
    /// load alone.
    pub stages: Vec<StagesOf>,
    /// The number of statements that ended with their time-out.
    pub timed_out: u64,
    /// The longest time until one of the statements that `timed_out` counts was answered, in
    /// seconds.
    pub timed_out_s_max: f64,
    /// The number of scans of another user, who runs no endless statements, that completed beside
    /// them.
    pub scans: u64,
    /// The longest time of a completed scan beside the endless statements, in seconds.
    pub scan_s_max: f64,
    /// The number of scans of another user, who runs no endless statements, that timed out beside
    /// them.
    pub scans_timed_out: u64,
    /// Total duration of the windows in which the endless statements ran, in seconds.
    pub beside_s: f64,
    /// The server's resident memory before the first endless statement, in bytes.
    pub before_bytes: u64,
    /// The peak of the server's resident memory in all windows, in bytes.
    pub most_bytes: u64,
}

/// The tail latencies of the stages of the load's operations, under one condition.
#[derive(Debug, Clone, Serialize)]
pub struct StagesOf {
    pub condition: &'static str,
    pub tails: Vec<StageTail>,
}

impl StagesOf {
    fn new(condition: &'static str, stages: &Stages) -> Self {
        let tails = stages.tails();
        Self { condition, tails }
    }

    fn line(&self) -> String {
        let tails: Vec<String> = self.tails.iter().map(ToString::to_string).collect();
        let (condition, tails) = (self.condition, tails.join(", "));
        format!("  stages {condition}, p50 / p99 in us: {tails}")
    }
}

impl PartResult for EndlessStatements {
    fn lines(&self) -> Vec<String> {
        let mib = |bytes: u64| bytes >> 20;
        let mut lines = vec![
            format!(
                "beside {} statements that never end, of {} users, reads of an open loop at {:.0} \
                 ops/s (peak {:.0}): p99 alone {:.0} us",
                STATEMENTS_EACH * ENDLESS_USERS.len(),
                ENDLESS_USERS.len(),
                self.rate_ops_per_s,
                self.peak_ops_per_s,
                self.p99_us
            ),
            format!("  alone again: {}", self.alone_again),
            format!("  beside them: {}", self.beside),
            format!(
                "  p99 {} of alone, upper end at most {P99_MAX}: {}",
                self.beside.p99,
                verdict(self.beside.p99.high <= P99_MAX)
            ),
            format!(
                "  in {:.0} s {} of them ended, each with its time-out of {:.0} s, the last one after \
                 {:.2} s",
                self.beside_s,
                self.timed_out,
                REQUEST_TIMEOUT.as_secs_f64(),
                self.timed_out_s_max
            ),
            format!(
                "  {} scans of another user completed, the slowest after {:.0} ms; {} timed out, at most \
                 0: {}",
                self.scans,
                self.scan_s_max * 1e3,
                self.scans_timed_out,
                verdict(self.scans_timed_out == 0)
            ),
            format!(
                "  memory: {} MiB before, {} MiB at the peak of all windows, at most {} MiB more: {}",
                mib(self.before_bytes),
                mib(self.most_bytes),
                mib(GROWTH_BYTES_MAX),
                verdict(self.grown_bytes() <= GROWTH_BYTES_MAX)
            ),
            // No bars from here on: these lines show what the tail beside the statements comes from.
            format!(
                "  beside {} threads of the idle class in another process that count: {}",
                self.idle_threads, self.beside_counting
            ),
            format!(
                "  beside {} such threads that write to {} MiB each: {}",
                self.idle_threads,
                MEMORY_BYTES >> 20,
                self.beside_writing
            ),
            format!(
                "  p99 beside the statements over that beside the threads that write: {}",
                self.over_writing
            ),
        ];
        lines.extend(self.stages.iter().map(StagesOf::line));
        lines
    }
}

impl EndlessStatements {
    /// Returns the most memory that the endless statements added to the server's, in bytes.
    fn grown_bytes(&self) -> u64 {
        self.most_bytes.saturating_sub(self.before_bytes)
    }
}

/// The numbers of requests that completed and that timed out, and the longest time of one request.
/// For endless statements, this is the time until the time-out; for scans, only completed scans
/// count.
#[derive(Debug, Clone, Copy, Default)]
struct EndedRequests {
    completed: u64,
    timed_out: u64,
    slowest: Duration,
}

impl EndedRequests {
    fn add(&mut self, other: Self) {
        self.completed += other.completed;
        self.timed_out += other.timed_out;
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// Measures point reads beside statements that never end, with a new server.
///
/// # Errors
/// When the server fails, completes no scan or returns a wrong value, when a statement ends otherwise
/// than with its time-out, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<EndlessStatements> {
    let more = [
        "--auth".to_owned(),
        "--request-timeout".to_owned(),
        format!("{}s", REQUEST_TIMEOUT.as_secs()),
        // Overload control is off, so that a statement that never ends has only one way to fail: its
        // time-out.
        "--overload-wait".to_owned(),
        "0s".to_owned(),
        "--stage-latencies=true".to_owned(),
    ];
    let server = setting.start("endless", &more)?;
    let account = server.superuser()?;
    let mut client = setting.client(&server, Some(&account))?;
    prepare(server.address, &account)?;
    server.settle()?;
    let load = SteadyLoad::find(setting.args, &mut client)?;
    let plan = Plan {
        // The statements must not make operations of the load time out.
        takes_timeouts: false,
        ..load.plan
    };
    // Measured after the closed loops, so that the caches and memtables that the load itself fills
    // are not taken for memory of the statements.
    let before_bytes = server.process.memory_bytes()?;
    let (mut endless, mut scans) = (EndedRequests::default(), EndedRequests::default());
    let mut beside = Duration::ZERO;
    let mut stages: [Stages; CONDITIONS] = Default::default();
    let windows = setting.in_turns("endless", CONDITIONS, |turn| {
        let mut run = || play(&server, &mut client, &plan, &mut stages[turn]);
        match turn {
            STATEMENTS => {
                let began = Instant::now();
                let (window, ended) = beside_others(server.address, run)?;
                beside += began.elapsed();
                endless.add(ended[0]);
                scans.add(ended[1]);
                Ok(window)
            }
            COUNTING => {
                let _idlers = Idlers::start(IdleWork::Count)?;
                run()
            }
            WRITING => {
                let _idlers = Idlers::start(IdleWork::Memory)?;
                run()
            }
            // The load alone, twice.
            _ => run(),
        }
    })?;
    drop(client);
    server.stop()?;
    // Without this, a server that answers no scan at all would meet the bar of no time-outs.
    ensure!(scans.completed > 0, "no scan of another user completed");
    let [p99_us] = windows.alone_us([0.99]);
    let most_bytes = windows.all().map(|window| window.more.memory_bytes).max();
    // Both conditions alone are the same load, so their stages are added up.
    let mut alone = Stages::default();
    for condition in ALONE {
        alone.add(&stages[condition])?;
    }
    Ok(EndlessStatements {
        peak_ops_per_s: load.peak_ops_per_s,
        rate_ops_per_s: load.rate_ops_per_s,
        p99_us,
        alone_again: windows.beside(1, &[0]),
        beside: windows.beside(STATEMENTS, &ALONE),
        idle_threads: Idlers::threads(),
        beside_counting: windows.beside(COUNTING, &ALONE),
        beside_writing: windows.beside(WRITING, &ALONE),
        over_writing: windows.p99(STATEMENTS, &[WRITING]),
        stages: vec![
            StagesOf::new("alone", &alone),
            StagesOf::new("beside the statements", &stages[STATEMENTS]),
            StagesOf::new("beside threads that count", &stages[COUNTING]),
            StagesOf::new("beside threads that write", &stages[WRITING]),
        ],
        timed_out: endless.timed_out,
        timed_out_s_max: endless.slowest.as_secs_f64(),
        scans: scans.completed,
        scan_s_max: scans.slowest.as_secs_f64(),
        scans_timed_out: scans.timed_out,
        beside_s: beside.as_secs_f64(),
        before_bytes,
        most_bytes: most_bytes.context("there are windows")?,
    })
}

/// Creates the tables and the users.
fn prepare(address: SocketAddr, superuser: &Account) -> Result<()> {
    let mut client = connect(address, &superuser.name, &superuser.password)?;
    let mut run = |text: &str| query(&mut client, text).map(drop);
    SCHEMA.iter().try_for_each(|text| run(text))?;
    for k in 0..NUMBERS {
        run(&format!(
            "INSERT INTO endless.numbers (k, d) VALUES ({k}, 1e9000)"
        ))?;
    }
    for user in ENDLESS_USERS.iter().chain([&READER]) {
        run(&format!(
            "CREATE ROLE {user} WITH PASSWORD = '{user}' AND LOGIN = true"
        ))?;
        run(&format!("GRANT SELECT ON ALL KEYSPACES TO {user}"))?;
    }
    Ok(())
}

fn connect(address: SocketAddr, name: &str, password: &str) -> Result<Client> {
    let client = Client::connect_as(address, Compression::None, Some((name, password)));
    client.with_context(|| format!("{name} cannot connect"))
}

/// Returns statements that never end: one that names partitions, and one that names none.
fn statements() -> [String; 2] {
    let all: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    let all = all.join(", ");
    let sums = vec!["sum(d / 7)"; 40].join(", ");
    [
        format!(
            "SELECT count(*) FROM endless.absent WHERE a IN ({all}) AND b IN ({all}) \
             AND c IN ({all}) AND d IN ({all})"
        ),
        format!("SELECT {sums} FROM endless.numbers"),
    ]
}

/// Runs one window of the load, and adds its operations to `stages`, which has the times that
/// operations spent in each stage under the window's condition.
fn play(
    server: &Server,
    client: &mut RawClient,
    plan: &Plan,
    stages: &mut Stages,
) -> Result<Window<ServerUse>> {
    server.process.reset_memory_peak()?;
    let begun = BegunWindow::of(server)?;
    let observer = Observer::start()?;
    let cpu_s = server.process.usage()?.cpu_s();
    let tally = client.run(plan, |_| ())?;
    let cpu_s = server.process.usage()?.cpu_s() - cpu_s;
    let memory_bytes = server.process.memory_peak_bytes()?;
    let disturbance = observer.end()?;
    stages.add_window(&begun, &tally)?;
    let server_use = ServerUse {
        cpu_s,
        memory_bytes,
    };
    let reads = &tally.nanos[Operation::Read.index()];
    Window::new(plan, &tally, reads, disturbance, server_use)
}

/// Calls `run` while the endless statements and another user's scans run. Also returns the ended
/// requests: first the statements of all users, then the scans.
fn beside_others<T>(
    address: SocketAddr,
    run: impl FnOnce() -> Result<T>,
) -> Result<(T, [EndedRequests; 2])> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let endless =
            ENDLESS_USERS.map(|user| scope.spawn(move || run_statements(address, user, is_over)));
        let scans = scope.spawn(move || run_scans(address, is_over));
        let ran = run();
        is_over.store(true, Ordering::Relaxed);
        let mut ended = [EndedRequests::default(); 2];
        for user in endless {
            ended[0].add(value_of(user.join())?);
        }
        ended[1].add(value_of(scans.join())?);
        Ok((ran?, ended))
    })
}

/// Keeps endless statements under way until `is_over`. Each of them must end with its time-out.
fn run_statements(address: SocketAddr, user: &str, is_over: &AtomicBool) -> Result<EndedRequests> {
    enter_idle_class()?;
    let mut client = connect(address, user, user)?;
    let mut frames = Vec::new();
    for text in &statements() {
        let parameters = QueryParameters::default();
        let mut frame = BytesMut::new();
        Request::Query { text, parameters }.encode(&mut frame, 0, Compression::None);
        frames.push(frame);
    }
    // The even streams look for absent rows, and the odd ones divide numbers.
    let mut send = |client: &mut Client, stream: usize| {
        let frame = &mut frames[stream % 2];
        set_stream(frame, i16::try_from(stream)?);
        client.send(frame)?;
        anyhow::Ok(Instant::now())
    };
    let mut began = Vec::new();
    for stream in 0..STATEMENTS_EACH {
        began.push(send(&mut client, stream)?);
    }
    let mut ended = EndedRequests::default();
    while !is_over.load(Ordering::Relaxed) {
        let frame = client.receive()?;
        match Answer::decode(&frame)?.response {
            Response::Error(error) if matches!(error.kind, ErrorKind::ReadTimeout { .. }) => {}
            other => bail!("a statement that never ends is answered with {other:?}"),
        }
        let stream = usize::try_from(frame.stream)?;
        let began = began.get_mut(stream).context("no statement has it")?;
        ended.add(EndedRequests {
            timed_out: 1,
            slowest: began.elapsed(),
            ..EndedRequests::default()
        });
        *began = send(&mut client, stream)?;
    }
    // The end of the connection cancels what still runs.
    Ok(ended)
}

/// Repeats the scan until `is_over`.
fn run_scans(address: SocketAddr, is_over: &AtomicBool) -> Result<EndedRequests> {
    enter_idle_class()?;
    let mut client = connect(address, READER, READER)?;
    let mut ended = EndedRequests::default();
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let parameters = QueryParameters::default();
        let text = SCAN;
        match client.request(&Request::Query { text, parameters }) {
            Ok(Response::Rows(rows)) if rows.len() == SCAN_ROWS => ended.add(EndedRequests {
                completed: 1,
                slowest: began.elapsed(),
                ..EndedRequests::default()
            }),
            Err(ClientError::Refused(error))
                if matches!(error.kind, ErrorKind::ReadTimeout { .. }) =>
            {
                ended.timed_out += 1;
            }
            other => bail!("a scan is answered with {other:?}"),
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::cql::ServerProcess;

    #[test]
    fn the_parser_accepts_the_statements() {
        for text in SCHEMA.map(str::to_owned).iter().chain(&statements()) {
            ebb_cql::syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn each_bar_is_met_or_missed_in_a_line_of_its_own() {
        let estimate = |value| Estimate {
            value,
            low: value,
            high: value,
        };
        let beside = |p99| Beside {
            p99: estimate(p99),
            cpu: 1.0,
            refused: 0,
            windows: 2,
            most_bytes: 0,
        };
        let result = |p99, scans_timed_out, grown_bytes| EndlessStatements {
            peak_ops_per_s: 2.0,
            rate_ops_per_s: 1.0,
            p99_us: 1.0,
            alone_again: beside(1.0),
            beside: beside(p99),
            idle_threads: 4,
            beside_counting: beside(1.1),
            beside_writing: beside(1.5),
            over_writing: estimate(0.8),
            stages: vec![StagesOf::new("alone", &Stages::default())],
            timed_out: 1,
            timed_out_s_max: 1.0,
            scans: 1,
            scan_s_max: 1.0,
            scans_timed_out,
            beside_s: 1.0,
            before_bytes: 1 << 20,
            most_bytes: (1_u64 << 20) + grown_bytes,
        };
        let verdicts = |result: EndlessStatements| {
            let lines = result.lines();
            let met = lines.iter().filter(|line| line.ends_with(": meets"));
            let missed = lines.iter().filter(|line| line.ends_with(": misses"));
            (met.count(), missed.count())
        };
        assert_eq!(verdicts(result(1.2, 0, 1 << 30)), (3, 0));
        assert_eq!(verdicts(result(1.21, 0, 0)), (2, 1));
        assert_eq!(verdicts(result(1.0, 1, 0)), (2, 1));
        assert_eq!(verdicts(result(1.0, 0, (1 << 30) + 1)), (2, 1));
        // There was nothing to compare.
        assert_eq!(verdicts(result(f64::NAN, 0, 0)), (2, 1));
    }

    #[test]
    fn the_peak_of_memory_of_a_process_can_be_reset() {
        let process = ServerProcess::new(std::process::id()).unwrap();
        process.reset_memory_peak().unwrap();
        assert!(process.memory_peak_bytes().unwrap() > 0);
    }

    #[test]
    fn ended_requests_add_up_and_the_slowest_counts() {
        let ended = |seconds| EndedRequests {
            completed: 1,
            timed_out: 2,
            slowest: Duration::from_secs(seconds),
        };
        let mut all = EndedRequests::default();
        [3, 5, 4]
            .map(ended)
            .into_iter()
            .for_each(|one| all.add(one));
        assert_eq!((all.completed, all.timed_out), (3, 6));
        assert_eq!(all.slowest, Duration::from_secs(5));
    }
}
