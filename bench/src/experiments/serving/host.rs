//! A server with three jobs that never end, started and stopped by lines on its input.
//!
//! It is assembled as `ebb serve` is: a node with its governor, and sockets whose latencies the
//! governor gets. The jobs count the words of a snapshot.
//!
//! | line | response |
//! | --- | --- |
//! | `start` | `ok` once tasks of a job have ended |
//! | `stop` | `ok` once no task runs |
//! | `sample` | JSON with the cores that load and jobs used since the last sample |

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ebb_colocate::LoadMonitor;
use ebb_jobs::wordcount;
use ebb_scheduler::runtime::{Input, JobHandle, VecOutput};
use ebb_server::node::{Node, NodeOptions, Stop};
use ebb_storage::{Options, TableOptions};

use super::args::HostArgs;
use crate::demo::start_cql;
use crate::experiments::colocation::endless::{Endless, wait_for_tasks};
use crate::experiments::colocation::text::write_text;

const JOBS: usize = 3;
const REDUCES: u32 = 1;

/// Hosts a CQL server until the standard input ends. Each line of the input is a command: start the
/// jobs beside the server, stop them, or measure the cores that load, jobs and other processes use.
/// The response is a line on the standard output.
pub fn run_host(args: &HostArgs) -> Result<()> {
    let node = Node::open(&args.data, Options::default(), NodeOptions::default())?;
    let db = node.db().context("the node has a database")?;
    let keyspace = db.keyspace("analysed")?;
    let text = keyspace.table("text", TableOptions::default())?;
    write_text(db, &text)?;
    db.flush()?;
    keyspace.create_snapshot("analysed")?;
    let text = keyspace.snapshot("analysed")?.table("text")?;
    let input: Arc<dyn Input> = Arc::new(Endless::new(&text, false)?);
    let server = start_cql(&node)?;
    let mut out = std::io::stdout();
    let mut respond = |line: String| -> Result<()> {
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    };
    respond(format!("listening for CQL on {}", server.address()))?;
    let mut monitor = LoadMonitor::start()?;
    let mut jobs = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "start" => {
                jobs = start(&node, &input)?;
                respond("ok".to_string())?;
            }
            "stop" => {
                stop(&std::mem::take(&mut jobs));
                respond("ok".to_string())?;
            }
            "sample" => respond(serde_json::to_string(&monitor.sample()?)?)?,
            other => bail!("{other:?} is none of start, stop and sample"),
        }
    }
    server.drain(Duration::from_secs(1));
    node.shutdown(Stop::Cancel);
    Ok(())
}

fn start(node: &Node, input: &Arc<dyn Input>) -> Result<Vec<JobHandle>> {
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        let output = Arc::new(VecOutput::new());
        let spec = wordcount::spec(format!("J{number}"), input.clone(), output, REDUCES);
        jobs.push(node.runtime().submit(spec)?);
    }
    wait_for_tasks(&jobs)?;
    Ok(jobs)
}

fn stop(jobs: &[JobHandle]) {
    for job in jobs {
        job.cancel();
    }
    for job in jobs {
        // The job ends as cancelled, which is no error here.
        drop(job.wait());
    }
}
