//! The cost of the log: the server's CPU time for a request, and its instructions where the machine
//! counts them, compared with those of a server that logs nothing.
//!
//! Two servers log nothing. In each round all serve equally many requests, one after the other, and the
//! server with the log is the second. The two without a log also show the noise, with the differences
//! between equal servers: merges left each of them other files.

use anyhow::Result;
use serde::Serialize;

use super::args::ServingArgs;
use super::bar::verdict;
use super::instructions::Instructions;
use super::report::PartResult;
use super::server::Server;
use super::setting::Setting;
use super::throughput;
use crate::console::progress_bar;
use crate::experiments::statistics::{means_of_rounds, median_if_any, median_ratio};
use crate::number::fixed;
use crate::ycsb::Workload;
use crate::ycsb::cql::{Operations, Plan, RawClient};

/// The load: 95% reads.
const WORKLOAD: &str = "b";
/// The largest acceptable ratio of the cost of a request with the log to that without.
const RATIO_MAX: f64 = 1.01;

/// A function that returns one kind of cost.
type Kind = fn(&Cost) -> &[f64];

/// The server's cost of a request. Each list has a value for each round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cost {
    /// The server's CPU time for a request, in microseconds.
    pub cpu_us: Vec<f64>,
    /// The server's instructions in user mode for a request. Empty where the machine does not count
    /// them.
    pub instructions: Vec<f64>,
}

/// The costs of a request at servers with and without a log.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Logs {
    /// The number of requests in each run.
    pub requests: u64,
    /// The cost of a request at the server that writes no text log (`--log off`).
    pub silent: Cost,
    /// The cost of a request at the server with the default level of the text log.
    pub logged: Cost,
    /// The cost of a request at another server with `--log off`, which serves after the one with
    /// the log.
    pub silent_again: Cost,
}

impl Logs {
    /// Returns two ratios of one kind of cost, each the median over the rounds. The first is the
    /// cost at the server with the log, divided by the mean cost at the two servers without a log.
    /// The second is the ratio of the costs at the two servers without a log: its difference from 1
    /// is noise. A ratio is `None` without measurements, such as instructions on a machine that
    /// does not count them.
    fn ratios(&self, kind: Kind) -> [Option<f64>; 2] {
        let (silent, again) = (kind(&self.silent), kind(&self.silent_again));
        let around = means_of_rounds(silent, again);
        [
            median_ratio(kind(&self.logged), &around),
            median_ratio(silent, again),
        ]
    }
}

impl PartResult for Logs {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("the log: {} requests in each run", self.requests)];
        let kinds: [(&str, Kind); 2] = [
            ("CPU time in us", |cost| &cost.cpu_us),
            ("instructions", |cost| &cost.instructions),
        ];
        for (name, kind) in kinds {
            let [ratio, noise] = self.ratios(kind);
            let cost = |of: &Cost| fixed(median_if_any(kind(of).iter().copied()), 2);
            lines.push(format!(
                "  {name}: {} a request, {} without the log; ratio {}, of the two without {}",
                cost(&self.logged),
                cost(&self.silent),
                fixed(ratio, 4),
                fixed(noise, 4)
            ));
            if let Some(ratio) = ratio {
                let verdict = verdict(ratio <= RATIO_MAX);
                lines.push(format!("  {name}: ratio at most {RATIO_MAX}: {verdict}"));
            }
        }
        lines
    }
}

/// Measures the cost of the log, with three new servers.
///
/// # Errors
/// When a server fails or returns a wrong value, or the user interrupts the run.
pub fn measure(setting: &Setting<'_>) -> Result<Logs> {
    let args = setting.args;
    let off = ["--log", "off"].map(str::to_owned);
    let mut silent = ServerAndClient::start(setting, "silent", &off)?;
    let mut logged = ServerAndClient::start(setting, "logged", &[])?;
    let mut silent_again = ServerAndClient::start(setting, "silent-again", &off)?;
    for served in [&silent, &logged, &silent_again] {
        served.server.settle()?;
    }
    let plan = plan(args)?;
    let mut found = Logs {
        requests: args.records,
        ..Logs::default()
    };
    let bar = progress_bar("serving: logs", u64::from(args.rounds));
    for round in 0..=args.rounds {
        setting.check_interrupt()?;
        // The first round warms up.
        let mut warm_up = Logs::default();
        let costs = if round == 0 { &mut warm_up } else { &mut found };
        silent.run(&plan, &mut costs.silent)?;
        logged.run(&plan, &mut costs.logged)?;
        silent_again.run(&plan, &mut costs.silent_again)?;
        bar.inc(u64::from(round > 0));
    }
    bar.finish_and_clear();
    for ServerAndClient { server, client } in [silent, logged, silent_again] {
        drop(client);
        server.stop()?;
    }
    Ok(found)
}

/// Returns a closed loop of as many requests as there are records.
fn plan(args: &ServingArgs) -> Result<Plan> {
    let workload: Workload = WORKLOAD.parse()?;
    Ok(Plan {
        operations_max: Some(args.records),
        value_bytes: args.value_bytes as usize,
        ..Plan::new(Operations::Run(workload, Some(args.distribution)))
    })
}

/// A server, and its client.
#[derive(Debug)]
struct ServerAndClient {
    server: Server,
    client: RawClient,
}

impl ServerAndClient {
    /// Starts a server, and loads the records.
    fn start(setting: &Setting<'_>, name: &str, more: &[String]) -> Result<Self> {
        let server = setting.start(name, more)?;
        let client = setting.client(&server, None)?;
        Ok(Self { server, client })
    }

    /// Sends the requests of `plan`, and appends the server's mean cost of a request to `cost`.
    fn run(&mut self, plan: &Plan, cost: &mut Cost) -> Result<()> {
        let counting = Instructions::start(self.server.process.pid())?;
        let (_, cpu_us, _) = throughput::run(&self.server, &mut self.client, plan)?;
        let counted = counting.map(Instructions::end).transpose()?.flatten();
        cost.cpu_us.push(cpu_us);
        let requests = plan.operations_max.map(|requests| requests as f64);
        cost.instructions.extend(
            counted
                .zip(requests)
                .map(|(all, requests)| all as f64 / requests),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_compared_with_the_runs_before_and_after() {
        let cost = |cpu_us: [f64; 2]| Cost {
            cpu_us: cpu_us.to_vec(),
            instructions: Vec::new(),
        };
        let logs = Logs {
            requests: 1000,
            silent: cost([8.0, 16.0]),
            logged: cost([10.0, 20.0]),
            silent_again: cost([12.0, 24.0]),
        };
        let [ratio, noise] = logs.ratios(|cost| &cost.cpu_us);
        assert_eq!(ratio, Some(1.0));
        assert!((noise.unwrap() - 2.0 / 3.0).abs() < 1e-9);
        let lines = logs.lines().join("\n");
        assert!(
            lines.contains("CPU time in us: ratio at most 1.01: meets"),
            "{lines}"
        );
        assert!(!lines.contains("instructions: ratio"), "{lines}");
    }
}
