//! The demo as a user would run it: a server with its console, and the load through CQL from a
//! process of its own.
//!
//! ```text
//!   ebb demo ─> Server: node, CQL, HTTP ──> console: the day, live
//!                  ^          │
//!                  │ CQL      └─ at the end: the same page, frozen into a file
//!               the load's client
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions};
use ebb_cql_server::system::LocalNode;
use ebb_server::http::{HttpOptions, HttpServer, JobsClient, freeze};
use ebb_server::metrics::Metrics;
use ebb_server::node::{Node, Stop};
use ebb_server::tokens::{Scope, Token, TokenFile, TokenRecord};
use ebb_storage::Options;

use super::day::Day;
use super::day_run::node_options;
use super::forecast::ForecastFrom;
use super::load::{Load, LoadProcess};
use super::measure;
use super::options::{DemoDay, DemoOptions};
use super::outcome::Outcome;
use super::run::{reserve_cores, run_days};
use super::setup;

/// A part of the lifetime of the token in the console's address: the token is valid for ten times
/// the length of the day, and for this time more.
const TOKEN_LONGER: Duration = Duration::from_secs(3600);
/// The time that running requests have to end when the servers stop.
const DRAIN: Duration = Duration::from_secs(5);
/// The seconds that the saved console page shows in addition to the day and to the time after the
/// day in which late jobs ran.
const AROUND_S: f64 = 3.0;

/// The results of a demo with a server.
#[derive(Debug)]
pub struct Served {
    /// The day's results.
    pub outcome: Outcome,
    /// The console at the end of the day, as one HTML file that loads nothing else.
    pub page: String,
}

/// Runs the demo with a server whose console is at the address `http`, without TLS. Calls `notify`
/// with lines for people as the demo goes on; the first has the console's address. If this program
/// is started with `client_args` and an address, it has to call [`run_client`](super::run_client).
///
/// # Errors
/// The errors of [`run`](super::run), of opening a port and of starting a process. Also if
/// `options` has not exactly one day, runs tasks in processes, or uses the oracle's forecast, which
/// needs a rehearsal.
pub fn serve(
    options: &DemoOptions,
    http: SocketAddr,
    client_args: &[&str],
    notify: &dyn Fn(&str),
) -> Result<Served> {
    let [DemoDay { policy, forecast }] = &options.days[..] else {
        bail!("a demo with a server runs one day, because a server has one policy");
    };
    ensure!(
        *forecast != ForecastFrom::Oracle && !options.in_processes,
        "a demo with a server has no rehearsal, and its tasks run in the server's process"
    );
    let text = setup::begin(&options.data, options.text.as_deref())?;
    let store = setup::store_in(&options.data);
    let day = Day {
        seconds: options.seconds,
    };
    let cores = measure::cores();
    let node = node_options(day, cores, reserve_cores(cores), policy, options.objective)?;
    let db = Options {
        create_if_missing: true,
        ..setup::store_options()
    };
    let node = Arc::new(Node::open(&store, db, node)?);
    let servers = Servers::start(&store, &node, http, options)?;
    notify(&format!("watch it live: {}", servers.console));
    let client = LoadProcess::spawn(client_args, servers.cql.address())?;
    let db = node.db().context("the node has a database")?.clone();
    let setup = setup::fill(&options.data, db, text, Load::Process(client), notify)?;
    let mut outcomes = run_days(setup, Some(Arc::clone(&node)), options, notify)?;
    let outcome = outcomes.pop().context("a day was run")?;
    let seconds = (outcome.lasted_s() + AROUND_S).ceil() as u32;
    let client = JobsClient::of(&store)?.context("the server answers")?;
    let page = freeze(&client, seconds, outcome.notes())?;
    servers.stop(&node)?;
    Ok(Served { outcome, page })
}

/// Starts the CQL server of a node, at a free port of the loopback.
pub(crate) fn start_cql(node: &Node) -> Result<CqlServer> {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let serve = ServeOptions {
        address,
        ..ServeOptions::default()
    };
    let local = LocalNode {
        address,
        cluster_name: "ebb".to_string(),
    };
    let executor = Executor::new(node.catalog()?, local, Limits::default());
    let executor = executor.showing(serve.activity.clone());
    let executor = Arc::new(executor);
    Ok(CqlServer::start(executor, node.latencies(), serve)?)
}

/// The CQL server and the HTTP server of the demo's node.
struct Servers {
    cql: CqlServer,
    http: HttpServer,
    /// The console's address, with a token that logs in.
    console: String,
}

impl Servers {
    fn start(
        store: &Path,
        node: &Arc<Node>,
        http: SocketAddr,
        options: &DemoOptions,
    ) -> Result<Self> {
        let cql = start_cql(node)?;
        let token = Token::random();
        let lifetime = Duration::from_secs_f64(options.seconds * 10.0) + TOKEN_LONGER;
        let (now, lifetime) = (SystemTime::now(), Some(lifetime));
        let record = TokenRecord::new(&token, "demo", Scope::Jobs, now, lifetime);
        TokenFile::of(store).change(|tokens| tokens.add(record))?;
        let metrics = Metrics::of(Arc::clone(node));
        let options = HttpOptions {
            address: Some(http),
            ..HttpOptions::default()
        };
        let http = HttpServer::start(store, Arc::clone(node), metrics, options)
            .context("cannot listen for HTTP")?;
        let address = http.address().context("it listens at a port")?;
        Ok(Self {
            console: format!("http://{address}/#token={}", token.reveal()),
            cql,
            http,
        })
    }

    fn stop(self, node: &Node) -> Result<()> {
        self.cql.drain(DRAIN);
        node.shutdown(Stop::Cancel);
        self.http.drain(DRAIN);
        if let Some(db) = node.db() {
            db.flush()?;
        }
        Ok(())
    }
}
