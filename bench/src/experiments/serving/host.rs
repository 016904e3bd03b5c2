//! A server with three jobs that never end, started and stopped by lines on its input.
//!
//! It is put together as `ebb serve` is: a node with its governor, and sockets whose
//! latencies the governor sees. The jobs count the words of a snapshot.
//!
//! | line | answer |
//! | --- | --- |
//! | `start` | `ok` once tasks of a job have ended |
//! | `stop` | `ok` once no task runs |
//! | `sample` | JSON of what load and jobs used since the last one |

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_colocate::LoadMonitor;
use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions};
use ebb_cql_server::system::LocalNode;
use ebb_jobs::wordcount;
use ebb_scheduler::runtime::{Input, JobHandle, VecOutput};
use ebb_server::node::{Node, NodeOptions, Stop};
use ebb_storage::{Options, TableOptions};

use super::args::HostArgs;
use crate::experiments::colocation::endless::Endless;
use crate::experiments::colocation::text::write_text;

const JOBS: usize = 3;
const REDUCES: u32 = 1;
/// Tasks that have not started by then never will.
const START_MAX: Duration = Duration::from_secs(20);

/// Serves until its input ends.
///
/// # Errors
/// What the store, a socket or a job says.
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
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let serve = ServeOptions {
        address,
        ..ServeOptions::default()
    };
    let local = LocalNode {
        address,
        cluster_name: "ebb".to_string(),
    };
    let executor =
        Executor::new(node.catalog()?, local, Limits::default()).showing(serve.activity.clone());
    let server = CqlServer::start(Arc::new(executor), node.latencies(), serve)?;
    let mut out = std::io::stdout();
    let mut say = |line: String| -> Result<()> {
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    };
    say(format!("listening for CQL on {}", server.address()))?;
    let mut monitor = LoadMonitor::start()?;
    let mut jobs = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "start" => {
                jobs = start(&node, &input)?;
                say("ok".to_string())?;
            }
            "stop" => {
                stop(&std::mem::take(&mut jobs));
                say("ok".to_string())?;
            }
            "sample" => say(serde_json::to_string(&monitor.sample()?)?)?,
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
    let started = Instant::now();
    while jobs.iter().all(|job| job.status().maps_done == 0) {
        let waited = jobs[0].wait_timeout(Duration::from_millis(5));
        ensure!(waited.is_none(), "a job ended that should not: {waited:?}");
        ensure!(
            started.elapsed() < START_MAX,
            "no task of a job ended in {START_MAX:?}: other processes leave no CPU"
        );
    }
    Ok(jobs)
}

fn stop(jobs: &[JobHandle]) {
    for job in jobs {
        job.cancel();
    }
    for job in jobs {
        // That it was cancelled is known.
        drop(job.wait());
    }
}
