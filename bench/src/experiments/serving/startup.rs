//! From the start of the server to its first answer, with data.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, QueryParameters, Request, Response};
use serde::Serialize;

use super::args::ServingArgs;
use super::server::{Server, loaded};
use crate::console::progress_bar;
use crate::ycsb::cql::{Operations, Plan};
use crate::ycsb::{Distribution, KEY_BYTES, Workload, key};

/// What the part came to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Startup {
    /// Bytes of keys and values.
    pub data_bytes: u64,
    /// From the start of the process to the answer to a read, in seconds, after a stop.
    pub after_stop_s: Vec<f64>,
    /// The same after SIGKILL under writes.
    pub after_kill_s: Vec<f64>,
}

/// Measures it.
///
/// # Errors
/// What the server says; a record that is missing; an interrupt.
pub fn measure(
    args: &ServingArgs,
    binary: &Path,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<Startup> {
    let data = folder.join("startup");
    let value_bytes = args.value_bytes as usize;
    let records = args.startup_records;
    let mut server = Server::start(binary, &data)?;
    drop(loaded(
        &server,
        None,
        args.connections as usize,
        records,
        value_bytes,
    )?);
    let mut measured = Startup {
        data_bytes: records * (KEY_BYTES as u64 + args.value_bytes),
        ..Startup::default()
    };
    let bar = progress_bar("serving: startup", u64::from(args.rounds));
    let writes: Workload = "a".parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    for _ in 0..args.rounds {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        server.stop()?;
        let (started, took_s) = first_answer(binary, &data, records)?;
        measured.after_stop_s.push(took_s);
        // So that there is a log to be read again.
        let mut client = loaded(
            &started,
            None,
            args.connections as usize,
            records,
            value_bytes,
        )?;
        let plan = Plan {
            duration: Some(args.window),
            value_bytes,
            ..Plan::new(Operations::Run(writes, Some(Distribution::Uniform)))
        };
        client.run(&plan, |_| ())?;
        started.kill();
        let (started, took_s) = first_answer(binary, &data, records)?;
        measured.after_kill_s.push(took_s);
        server = started;
        server.process.settle(Duration::from_secs(20))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(measured)
}

/// Starts a server and asks for a record.
fn first_answer(binary: &Path, data: &Path, records: u64) -> Result<(Server, f64)> {
    let begun = Instant::now();
    let server = Server::start(binary, data)?;
    let mut client = Client::connect(server.address, Compression::None)?;
    let key = String::from_utf8(key(records / 2).to_vec())?;
    let text = format!("SELECT field0 FROM ycsb.usertable WHERE y_id = '{key}'");
    let parameters = QueryParameters::default();
    let request = Request::Query {
        text: &text,
        parameters,
    };
    let answer = client.request(&request)?;
    let took_s = begun.elapsed().as_secs_f64();
    let found = matches!(&answer, Response::Rows(rows) if rows.len() == 1);
    ensure!(found, "the first read found {answer:?}");
    Ok((server, took_s))
}
