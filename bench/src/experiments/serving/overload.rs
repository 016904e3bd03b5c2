//! The tail latency of served requests when clients send three times the peak rate, compared with
//! that at half of the peak.
//!
//! The server has a fifth of one core, and the client has another core. If they shared a core, or
//! if the client had to send three times the rate of a full core, requests would wait in the
//! client. Windows of both loads take turns. Beside each load, one more connection with a small
//! load shows the effect of a flood on other clients.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;

use super::report::PartResult;
use super::server::{Server, loaded};
use super::setting::Setting;
use super::slow_core::SlowCore;
use crate::console::progress_bar;
use crate::experiments::statistics::median;
use crate::threads::value_of;
use crate::ycsb::cql::{Operations, Plan, RawClient, Tally};
use crate::ycsb::{Pace, Workload};

/// The load: 95% reads.
const WORKLOAD: &str = "b";
/// The time at the start of a window in which latencies and rejections do not count. The server
/// needs several intervals of 100 ms to detect an overload.
const LEAD: Duration = Duration::from_millis(500);
/// The interval at which the client of the load sends requests and reads responses, as in
/// steady.rs: if it woke up for each request, the cost of a request would double.
const TICK: Duration = Duration::from_micros(100);
/// The number of requests under way on a connection: more than the server queues before it detects
/// an overload.
const IN_FLIGHT: usize = 1024;
/// The number of requests under way on each connection of the closed loop that measures the peak.
/// With more, requests queue so long that the server rejects some.
const PEAK_IN_FLIGHT: usize = 1;
/// The numbers of two cores: the server runs on the first one, the client on the second.
const CORES: [usize; 2] = [0, 1];
/// The fraction of a core that the server gets.
const PART_OF_CORE: f64 = 0.2;
/// The loads, as multiples of the peak rate.
const LOADS: [f64; 2] = [0.5, 3.0];

/// The number of connections that together send one of [`LOADS`] beside the polite connection.
const FLOODS: u64 = 3;
/// The rate of the connection that does not flood the server (the polite one), as a fraction of the
/// peak rate, the highest that the server can serve.
const POLITE_LOAD: f64 = 0.1;

/// The clients of the part `overload`, each with connections of its own.
struct Clients {
    /// The client that measures the peak rate, and that sends each load while no other client sends
    /// requests.
    all: RawClient,
    /// The client that sends one of [`LOADS`] while the polite one sends its small load.
    flood: RawClient,
    polite: RawClient,
}

#[derive(Debug, Clone, Serialize)]
pub struct OverloadedLoad {
    /// The peak rate: operations per second of a closed loop.
    pub peak_ops_per_s: f64,
    /// The measured windows with a load of half of the peak rate.
    pub half: Vec<Window>,
    /// The measured windows with a load of three times the peak rate.
    pub three_times: Vec<Window>,
    /// The measurements of one connection at a tenth of the peak rate, in windows in which the
    /// other connections together send half of the peak rate.
    pub polite_beside_half: Vec<Window>,
    /// The measurements of one connection at a tenth of the peak rate, in windows in which the
    /// other connections together send three times the peak rate.
    pub polite_beside_three_times: Vec<Window>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Window {
    /// The median latency of served requests, in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub served_per_s: f64,
    pub refused_per_s: f64,
    /// The number of operations that were due and never began.
    pub unserved: u64,
}

impl Window {
    /// Summarizes a window, whose measured time lasted for `length`. Latencies and rejections of
    /// the lead before it are left out; the rate of served operations includes the lead.
    ///
    /// # Errors
    /// If the server returned wrong values.
    fn new(tally: &Tally, length: Duration) -> Result<Self> {
        tally.check_values()?;
        let all: Histogram<u64> = tally.all();
        let us = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Self {
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            // Served operations are counted from the start of the run, and rejected ones only after
            // the lead. So the two are divided by different times.
            served_per_s: tally.operations as f64 / tally.elapsed.as_secs_f64(),
            refused_per_s: tally.refused as f64 / length.as_secs_f64(),
            unserved: tally.unserved,
        })
    }
}

impl PartResult for OverloadedLoad {
    /// Returns lines with the medians over windows, and the ratios of the p99 at three times the
    /// peak rate to that at half of it.
    fn lines(&self) -> Vec<String> {
        let of = |windows: &[Window], what: fn(&Window) -> f64| median(windows.iter().map(what));
        let line = |name: &str, windows: &[Window]| {
            format!(
                "{name}: p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us; served {:.0}/s, refused {:.0}/s",
                of(windows, |it| it.p50_us),
                of(windows, |it| it.p99_us),
                of(windows, |it| it.p999_us),
                of(windows, |it| it.served_per_s),
                of(windows, |it| it.refused_per_s),
            )
        };
        let ratio = |loaded: &[Window], before: &[Window]| {
            of(loaded, |it| it.p99_us) / of(before, |it| it.p99_us)
        };
        vec![
            format!("overload: peak {:.0} ops/s", self.peak_ops_per_s),
            line("  at half of it", &self.half),
            line("  at three times", &self.three_times),
            format!(
                "  p99 at three times / at half: {:.2}",
                ratio(&self.three_times, &self.half)
            ),
            line("  one beside three at half", &self.polite_beside_half),
            line(
                "  one beside three that flood",
                &self.polite_beside_three_times,
            ),
            format!(
                "  p99 beside three that flood / at half: {:.2}",
                ratio(&self.polite_beside_three_times, &self.polite_beside_half)
            ),
        ]
    }
}

pub fn measure(setting: &Setting<'_>) -> Result<OverloadedLoad> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores > CORES[1], "part overload needs two cores");
    let data = setting.folder.join("overload");
    let server = Server::start_on_core(CORES[0], &setting.binary, &data)?;
    // The client has a thread of its own, so that only this thread is bound to a core.
    let found = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut own = CpuSet::new();
            own.set(CORES[1]);
            sched_setaffinity(None, &own).context("cannot bind the client to a core")?;
            // One connection loads: many of them with large values would be an overload, too.
            drop(loaded(&server, None, 1, setting.args)?);
            let connect = |connections| loaded(&server, None, connections, setting.args);
            let mut clients = Clients {
                all: connect(setting.args.connections)?,
                flood: connect(FLOODS)?,
                polite: connect(1)?,
            };
            server.settle()?;
            let _slow = SlowCore::take(CORES[0], PART_OF_CORE)?;
            play(setting, &mut clients)
        });
        value_of(run.join())
    })?;
    server.stop()?;
    Ok(found)
}

fn play(setting: &Setting<'_>, clients: &mut Clients) -> Result<OverloadedLoad> {
    let args = setting.args;
    let workload: Workload = WORKLOAD.parse()?;
    let closed = Plan {
        // Longer than a window, because all rates of this part follow from the peak.
        duration: Some(args.window * 2),
        value_bytes: args.value_bytes as usize,
        in_flight: PEAK_IN_FLIGHT,
        // The part measures how the server rejects requests, so rejections are no errors.
        takes_refusals: true,
        ..Plan::new(Operations::Run(workload, Some(args.distribution)))
    };
    // The median of three, because the first loop has cold caches.
    let peaks = (0..3).map(|_| Ok(clients.all.run(&closed, |_| ())?.throughput_ops_per_s()));
    let peak_ops_per_s = median(peaks.collect::<Result<Vec<_>>>()?);
    let paced = |load: f64| Plan {
        pace: Pace::steady(peak_ops_per_s * load),
        tick: TICK,
        in_flight: IN_FLIGHT,
        duration: Some(args.window + LEAD),
        lead: LEAD,
        leave_out_pauses: true,
        ..closed.clone()
    };
    let mut windows: [Vec<Window>; 2] = Default::default();
    let mut polite: [Vec<Window>; 2] = Default::default();
    let bar = progress_bar("serving: overload", u64::from(args.rounds));
    for _ in 0..args.rounds {
        for (at, load) in LOADS.into_iter().enumerate() {
            setting.check_interrupt()?;
            let tally = clients.all.run(&paced(load), |_| ())?;
            windows[at].push(Window::new(&tally, args.window)?);
            // The flood replaces the load of all connections, with the same rate for its three connections
            // together. Only the latencies of the polite connection count, but an error of the flood
            // fails the window.
            let (flood, own) = (paced(load), paced(POLITE_LOAD));
            let tally = thread::scope(|scope| {
                let flood = scope.spawn(|| clients.flood.run(&flood, |_| ()));
                let tally = clients.polite.run(&own, |_| ());
                value_of(flood.join())?;
                tally
            })?;
            polite[at].push(Window::new(&tally, args.window)?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let [half, three_times] = windows;
    let [polite_beside_half, polite_beside_three_times] = polite;
    Ok(OverloadedLoad {
        peak_ops_per_s,
        half,
        three_times,
        polite_beside_half,
        polite_beside_three_times,
    })
}
