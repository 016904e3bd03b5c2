//! The time from the start of the server to its first response, with data.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, Response};
use serde::Serialize;

use super::args::ServingArgs;
use super::report::PartResult;
use super::server::{Server, loaded};
use super::setting::Setting;
use crate::console::progress_bar;
use crate::experiments::statistics::median;
use crate::ycsb::cql::{Operations, Plan, query};
use crate::ycsb::{Distribution, KEY_BYTES, Workload, key};

/// The name of the database, which all servers of the part open.
const DATABASE: &str = "startup";

/// The number of records in the database: 1 GB of keys and values with the default value length.
const RECORDS: u64 = 1_000_000;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Startup {
    /// Bytes of keys and values.
    pub data_bytes: u64,
    /// Times from the start of the process to the response to a read, in seconds, after a clean
    /// stop.
    pub after_stop_s: Vec<f64>,
    /// Times from the start of the process to the response to a read, in seconds, after SIGKILL
    /// during writes.
    pub after_kill_s: Vec<f64>,
}

impl PartResult for Startup {
    fn lines(&self) -> Vec<String> {
        let ms = |seconds: &[f64]| {
            let most = seconds.iter().copied().fold(0.0, f64::max);
            format!(
                "{:.0} ms (at most {:.0})",
                median(seconds) * 1e3,
                most * 1e3
            )
        };
        vec![format!(
            "first answer with {:.2} GB: after a stop {}, after SIGKILL {}",
            self.data_bytes as f64 / 1e9,
            ms(&self.after_stop_s),
            ms(&self.after_kill_s)
        )]
    }
}

pub fn measure(setting: &Setting<'_>) -> Result<Startup> {
    let args = &ServingArgs {
        records: RECORDS,
        ..setting.args.clone()
    };
    let mut server = setting.start(DATABASE, &[])?;
    drop(loaded(&server, None, args.connections, args)?);
    let mut measured = Startup {
        data_bytes: args.records * (KEY_BYTES as u64 + args.value_bytes),
        ..Startup::default()
    };
    let bar = progress_bar("serving: startup", u64::from(args.rounds));
    let writes: Workload = "a".parse()?;
    for _ in 0..args.rounds {
        setting.check_interrupt()?;
        server.stop()?;
        let (started, took_s) = first_answer(setting)?;
        measured.after_stop_s.push(took_s);
        // Writes fill the log, which the server has to replay after the kill.
        let mut client = loaded(&started, None, args.connections, args)?;
        let plan = Plan {
            duration: Some(args.window),
            value_bytes: args.value_bytes as usize,
            ..Plan::new(Operations::Run(writes, Some(Distribution::Uniform)))
        };
        client.run(&plan, |_| ())?;
        started.kill();
        let (started, took_s) = first_answer(setting)?;
        measured.after_kill_s.push(took_s);
        server = started;
        server.process.settle(Duration::from_secs(20))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(measured)
}

/// Starts a server and reads a record. Returns the server, and the seconds from its start until the
/// response.
fn first_answer(setting: &Setting<'_>) -> Result<(Server, f64)> {
    let begun = Instant::now();
    let server = setting.start(DATABASE, &[])?;
    let mut client = Client::connect(server.address, Compression::None)?;
    let key = String::from_utf8(key(RECORDS / 2).to_vec())?;
    let text = format!("SELECT field0 FROM ycsb.usertable WHERE y_id = '{key}'");
    let answer = query(&mut client, &text)?;
    let took_s = begun.elapsed().as_secs_f64();
    let found = matches!(&answer, Response::Rows(rows) if rows.len() == 1);
    ensure!(found, "the first read found {answer:?}");
    Ok((server, took_s))
}
