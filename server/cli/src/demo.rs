//! `ebb demo`: runs the load of a day in a minute, with jobs beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ebb_bench::demo::{
    self, Comparison, DemoDay, DemoOptions, ForecastFrom, Goals, Outcome, Policy,
};
use ebb_colocate::Objective;
use ebb_jobs::request::Isolation;
use ebb_scheduler::policy;

use super::listening::check_clear_http;
use super::print::{JsonArgs, write_stderr};

const EXAMPLES: &str = "\
Examples:
  ebb demo                              a day in a minute, in ./ebb-demo
  ebb demo --embedded                   without a server: the load in the same process
  ebb demo --seconds 20 --text ~/books  shorter, over your own text
  ebb demo --policy none                jobs on ordinary threads, without a policy
  ebb demo --compare                    the same day under several policies
  ebb demo --compare --goals tight      goals in another order than submissions
  ebb demo --forecast learned           a forecast learned from earlier days
  ebb demo --slo p99=5ms                analytics shrink to keep the load's latency
  ebb demo --isolate process            tasks in processes of their own
  ebb demo --json-file result.json      the result for a script

The demo starts a server, and first prints the address of its console, with a token that logs
in: open it in a browser and watch the day. The load comes through CQL, from a process of its
own. The report is the page of the console as it was at the end, in one file.

With --embedded, --compare, --isolate process or --forecast oracle there is no server: the
load calls the store in the same process.

The demo uses text that is on the machine, and prints which text, and how much. It does
not use the network beyond this machine.";

/// A port for a demo that users of other machines reach through a tunnel: that of HTTP in examples.
const EXAMPLE_PORT: u16 = 9043;

/// The subcommand that sends the requests of the load. `ebb demo` starts it in a process of its
/// own.
const CLIENT_COMMAND: &str = "demo-client";

const CLIENT_EXAMPLES: &str = "\
Examples:
  ebb demo-client 127.0.0.1:9042        as `ebb demo` starts it, with requests on stdin";

/// Run a compressed day, by default in a minute: a load that peaks at hour 18, and jobs with
/// completion time goals, which read snapshots of the same store.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Folder for store, outputs and report; replaced by each demo.
    #[arg(long, value_name = "DIR", default_value = "ebb-demo")]
    data: PathBuf,
    /// File or folder of text to load. Default: sources that are on the machine.
    #[arg(long, value_name = "PATH")]
    text: Option<PathBuf>,
    /// Length of the compressed day, in seconds, 5 to 3600.
    #[arg(long, value_name = "N", default_value = "60", value_parser = seconds)]
    seconds: f64,
    /// The scheduling policy: one of `ebb policies`, or `none` to run jobs on ordinary threads, without
    /// a policy.
    #[arg(long, value_name = "NAME", default_value = policy::DEFAULT)]
    policy: Policy,
    /// Run the day under reverse-adaptive, forecast-edf, adaptive, fifo and none
    /// in turn, on the same input, and show them side by side.
    #[arg(long, conflicts_with = "policy")]
    compare: bool,
    /// Source of the policies' forecast: `known` (the shape of the day, and its cost on this
    /// machine), `learned` (from five days of the load alone), `oracle` (the free cores of a
    /// first run of the same day), or a file with lines HOUR,HUNDREDTHS (hundredths of a core
    /// that are left for analytics).
    #[arg(long, value_name = "FROM", default_value = "known")]
    forecast: ForecastFrom,
    /// Completion time goals of the jobs.
    #[arg(long, value_name = "GOALS", default_value = "example")]
    goals: Goals,
    /// Latency objective of the load, as in p99=5ms (p50, p99 or p99.9): analytics
    /// shrink before it is missed.
    #[arg(long, value_name = "OBJECTIVE")]
    slo: Option<Objective>,
    /// Run no server: the load calls the store in the same process.
    #[arg(long)]
    embedded: bool,
    /// Address and port of the server for HTTP, on the loopback interface: the demo has no TLS.
    /// With port 0 the system chooses a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    http: SocketAddr,
    /// Isolation of tasks: threads of one process, or processes of their own.
    #[arg(long, value_name = "HOW", default_value = "thread")]
    isolate: Isolation,
    #[command(flatten)]
    json: JsonArgs,
}

/// Run the load of `ebb demo`, as lines on stdin request it.
#[derive(Debug, clap::Args)]
#[command(after_help = CLIENT_EXAMPLES)]
pub(super) struct ClientArgs {
    /// Address and port of the server for CQL.
    #[arg(value_name = "ADDR")]
    address: SocketAddr,
}

pub(super) fn run_client(args: &ClientArgs) -> Result<()> {
    demo::run_client(args.address)
}

/// Parses the length of the compressed day in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (5.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a day is run in 5 to 3600 seconds".to_string()),
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    let in_processes = args.isolate == Isolation::Process;
    let is_oracle = args.forecast == ForecastFrom::Oracle;
    let is_embedded = args.embedded || args.compare || in_processes || is_oracle;
    if !is_embedded {
        check_clear_http(args.http, &remedy_for(args.http))?;
    }
    let policies = if args.compare {
        Policy::compared()
    } else {
        vec![args.policy]
    };
    let options = DemoOptions {
        data: args.data,
        text: args.text,
        seconds: args.seconds,
        days: (policies.into_iter())
            .map(|policy| DemoDay {
                policy,
                forecast: args.forecast.clone(),
            })
            .collect(),
        goals: args.goals,
        objective: args.slo,
        in_processes,
    };
    let notify = |line: &str| write_stderr(format_args!("  {line}\n"));
    if !is_embedded {
        let served = demo::serve(&options, args.http, &[CLIENT_COMMAND], &notify)?;
        let report = demo::write_page(&served.page, &served.outcome, &options.data)?;
        return tell(&args.json, &served.outcome, &report);
    }
    let mut outcomes = demo::run(&options, &notify)?;
    if args.compare {
        let compared = Comparison { runs: outcomes };
        let report = compared.write_report(&options.data)?;
        args.json.write_file(&compared)?;
        return args.json.print(&compared, |printer| {
            let report = report.display();
            printer.line(format_args!("\n{}\n  report: {report}", compared.table()))
        });
    }
    let outcome = outcomes.remove(0);
    let report = demo::write_report(&outcome, &options.data)?;
    tell(&args.json, &outcome, &report)
}

/// Returns what the user can do in place of a demo that listens at the address `http`.
fn remedy_for(http: SocketAddr) -> String {
    let port = match http.port() {
        0 => EXAMPLE_PORT,
        port => port,
    };
    format!(
        "use --http 127.0.0.1:{port} and an ssh tunnel (ssh -L {port}:127.0.0.1:{port} HOST), or `ebb serve` \
         with --tls-cert and --tls-key"
    )
}

fn tell(json: &JsonArgs, outcome: &Outcome, report: &Path) -> Result<()> {
    json.write_file(outcome)?;
    json.print(outcome, |printer| {
        printer.line(format_args!(
            "\n{}\n  {}; report: {}",
            outcome.table(),
            outcome.headline(),
            report.display()
        ))
    })
}
