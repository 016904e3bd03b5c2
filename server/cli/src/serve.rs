//! `ebb serve`: a database that answers CQL, with jobs beside it.
//!
//! ```text
//!   settings ─> node (database, governor, guard, jobs) ─┬─> catalog, executor ─> CQL
//!                                                       └─> jobs.sock, HTTP
//!   SIGTERM: jobs park, CQL drains ─> HTTP drains ─> memtables flush ─> exit
//!   a failed write: the same without the flush, and then the same program again, or an error
//! ```

mod audit;
mod certificate;
mod configuration;
mod descriptors;
mod events;
mod first_superuser;
mod job_list;
mod line_bound;
mod log;
mod log_levels;
mod memory;
mod metrics;
mod partitions;
mod queries;
mod refused_tokens;
mod reopen;
mod reopenings;
mod restarts;
pub(crate) mod settings;
mod shutdown;
mod slow;
mod started;
mod store_events;
mod supervisor;
mod tls;

use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_cql_server::executor::Executor;
use ebb_cql_server::read::Limits;
use ebb_cql_server::serve::{CqlServer, ServeOptions, Tls};
use ebb_cql_server::system::LocalNode;
use ebb_jobs::check_outside;
use ebb_server::http::{Configuration, HealthServer, HttpOptions, HttpServer, Roots, TlsSource};
use ebb_server::memory::MemoryLimits;
use ebb_server::metrics::{CertificateCollector, Metrics};
use ebb_server::node::{Node, NodeOptions, machine_cores};
use ebb_storage::Options;
use ebb_tables::Catalog;
use tracing::{error, info, warn};

use self::audit::AuditLogs;
use self::descriptors::DescriptorBudget;
use self::job_list::RecordedJobs;
use self::log_levels::{CQL, HTTP, SERVER, STORAGE};
use self::metrics::{CqlCollector, MemoryCollector, ProcessCollector, ReopeningCollector};
use self::queries::CqlQueries;
use self::reopenings::Decision;
use self::settings::{
    Authentication, Durability, ForecastSource, OnFailedWrite, Settings, SettingsArgs,
};
use self::shutdown::shut_down;
use self::slow::SlowLog;
use self::supervisor::{FedWatchdog, Supervised};
use super::database;
use super::exposure::Exposure;
use super::interrupt::StopSignal;
use super::lock_holder::with_holder;
use super::open_files;
use super::print::say;
use super::unpaced;

const EXAMPLES: &str = "\
Examples:
  ebb serve
  ebb serve --data /var/lib/ebb --durability sync
  ebb serve --cql 127.0.0.1:0 --slo p99=2ms
  ebb serve --tls-cert server.pem --tls-key server.key
  ebb serve --http 127.0.0.1:9043
  ebb serve --config ebb.toml
  ebb serve --auth --cql 10.0.0.1:9042

Then, in another terminal:
  cqlsh 127.0.0.1 9042

The load is the requests of CQL clients. Jobs run on the CPU time that the load leaves: `ebb run`
and `ebb jobs` with the same --data hand their work to the server.

Drivers for Cassandra see one node of version 4.1. `ebb config show` prints the settings that
the same flags would give, `ebb config running` those of a running server. Every flag has an
environment variable: EBB_DATA, EBB_CQL, EBB_SLO and so on.

With --auth clients log in as a role, and may do what the role was granted. Each token for HTTP
then has to belong to a role: ebb token create --role. If no superuser can log in, the server makes
one at its start: ebb, with a random password in the file superuser-password of the directory
--data, which only its owner can read.

SIGTERM and Ctrl-C stop the server within --grace. It takes no more requests, ends scans with an
error, answers the other requests that run, stops jobs (the next server starts them again), and
writes what is in memory to files. During its start, the server stops once the database is open.
A second signal of this kind ends the process at once; nothing that was acknowledged is lost.

After a failed write or fsync the server stops in the same way, and its process starts it again:
only a start finds out what is on the disk. With --cql 127.0.0.1:0 it then has another port. After
three times in an hour, or with --on-failed-write exit, it ends with exit code 1. With
--on-failed-write read-only it goes on answering reads, until it is stopped.

With --tls-cert and --tls-key clients speak TLS. The files are read again when they change,
and on SIGHUP. Without TLS, SIGHUP stops a server, but not one that systemd supervises.";

/// Serve a database to Cassandra's drivers and cqlsh, with jobs on the cores that the load leaves.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Serves until a signal, or a failed write that ends the server. Settings and certificates are checked before
/// the database opens, because replaying its log may take long. After a failed write that does not end the
/// server, replaces this process by a new start of the server.
pub(super) fn run(args: Args) -> Result<()> {
    let unlasting_config = args.settings.unlasting_config();
    let (mut settings, sources) = args.settings.with_sources()?;
    let log = log::begin(&settings.log, settings.log_format);
    warn_of_misspelt_variables();
    let reopenings = reopen::earlier();
    let watchdog = if reopenings.count() > 0 {
        reopen::collect_children()?;
        FedWatchdog::of_new_start()?
    } else {
        None
    };
    if let Some(config) = unlasting_config {
        settings.on_failed_write = reopen::without_config(settings.on_failed_write, &config);
    }
    let slow = SlowLog::new(Duration::from_millis(settings.slow_request_ms.into()));
    let tls = settings.tls_options()?;
    // From here on, a first signal ends the start before clients are served. The opening of a database
    // cannot end halfway, so the signal takes effect after it. A second signal ends the process at once
    // also meanwhile, which is as safe as a crash.
    let stop = StopSignal::listen(hangup_stops(tls.is_some()), || {
        info!(
            target: SERVER,
            "stopping once the database is open; a second signal ends it at once"
        );
    })?;
    let tls = tls.map(tls::start).transpose()?;
    // Clients choose the paths below these roots, and must not reach the database's own files.
    let roots = [&settings.output_root, &settings.backup_root];
    for root in roots.into_iter().flatten() {
        check_outside(&settings.data, root)?;
    }
    let (limit, threads) = (open_files::limit(), machine_cores());
    let descriptors = DescriptorBudget::of(limit, threads, settings.connections_max);
    let memory = memory::limits(&settings);
    // Health checks are answered while the database opens, which may take long.
    let health = settings.health.map(listen_for_health).transpose()?;
    let opening = Instant::now();
    let open = || open(&settings, &descriptors, &memory);
    let node = if reopenings.count() > 0 {
        let goes_on = || {
            reopen::pause_before_opening();
            !stop.has_come()
        };
        reopen::open_when_unlocked(open, goes_on)?
    } else {
        Some(open()?)
    };
    let Some(node) = node.map(Arc::new) else {
        info!(target: SERVER, "stopped before it opened its database");
        return Ok(());
    };
    descriptors.log(settings.connections_max);
    let opened_in = opening.elapsed();
    if let Some(exposure) = Exposure::of(&settings.data, settings.group_readable) {
        warn!(target: STORAGE, "{exposure}");
    }
    let stops = settings.on_failed_write != OnFailedWrite::ReadOnly;
    let stop_handle = stops.then(|| stop.handle());
    let failed_write = node.db().map(|db| store_events::log(db, stop_handle));
    let failed_write = failed_write.unwrap_or_default();
    let catalog = node.catalog()?;
    catalog.set_listed_snapshots(settings.schema_snapshots);
    log_unreadable(&catalog);
    let large_partitions = partitions::watch(&settings.guardrails, &catalog);
    // After the database, which makes and locks the directory in which the audit logs lie.
    let audit = AuditLogs::start(&settings).context("cannot start a thread")?;
    let limits = (&descriptors, &memory);
    wait_for_clock(&catalog);
    // Here, because no client was served and no job runs yet, so there is nothing to drain. The log of the
    // database contains all that is in memory. A signal that comes later stops the server after its start.
    // So does a failed write, because the shutdown then reports its cause and the exit code is 1.
    if stop.has_come() && failed_write.get().is_none() {
        audit.flush();
        info!(target: SERVER, "stopped before it served clients");
        return Ok(());
    }
    let server = listen(&settings, &node, limits, tls.clone(), &slow, &audit)?;
    // After CQL listens, because the inputs of the jobs are opened on this thread; before HTTP, so that
    // no client restarts or discards one of these jobs meanwhile.
    restarts::restart_jobs(&node, reopenings.count() > 0);
    let cql = CqlCollector {
        counters: server.counters(),
        large_partitions,
        dropped_lines: log.dropped.clone(),
        audit: audit.clone(),
    };
    let reopening = ReopeningCollector {
        last_s: reopenings.last_s(),
    };
    let cql = (cql, CqlQueries(server.queries()), reopening);
    let configuration = configuration::of(&settings, &sources, limits, server.address());
    let http = listen_for_http(
        &settings,
        &node,
        limits,
        cql,
        tls.clone(),
        &slow,
        configuration,
    )?;
    if let Some(health) = &health {
        health.ready(&node);
    }
    let addresses = (server.address(), http.address());
    // The log has the addresses, too. With a full disk behind stdout, clients must be able to free space.
    if let Err(error) = greet(&settings, addresses.0, addresses.1) {
        warn!(target: SERVER, "the addresses are not printed: {error:#}");
    }
    if let Some(db) = node.db() {
        started::log(db, &settings, limits, addresses, opened_in, &reopenings);
    }
    check_files(&node, *settings.verify_every)?;
    if settings.forecast == ForecastSource::Learn {
        let started = node.learn_load(&settings.data, settings.group_readable);
        started.context("cannot start a thread")?;
    }
    log_unreadable_snapshots(catalog)?;
    // Last, when everything listens: systemd then starts the services that are ordered after this one.
    let supervised = Supervised::ready(server.address())?;
    drop(watchdog);
    let signals = stop.signals();
    wait_for_stop(stop, tls.as_deref());
    let reaction = settings.on_failed_write;
    let decision = reopen::decide(reaction, &failed_write, &signals, &reopenings);
    if matches!(decision, Some(Decision::Reopen(_))) {
        supervised.reopening();
    } else {
        supervised.stopping();
    }
    let grace = settings.grace;
    // A failed write ends the wait without a signal, so the first signal already ends the process then.
    if let Some(cause) = failed_write.get() {
        info!(
            target: SERVER,
            "stopping within {grace} because writes are rejected; a signal ends it at once"
        );
        if let Some(Decision::Reopen(reopenings)) = &decision {
            reopen::log(reopenings, cause);
        }
    } else {
        info!(
            target: SERVER,
            "stopping within {grace}; a second signal ends it at once"
        );
    }
    let stopped = shut_down(node, server, http, *grace, &failed_write);
    // Also if the shutdown failed: the last requests have entries.
    audit.flush();
    match decision {
        Some(Decision::Reopen(reopenings)) => {
            info!(target: SERVER, "stopped, and starting again");
            // Writes the lines that wait.
            drop(log);
            reopen::start_again(&reopenings, &signals, stopped)
        }
        Some(Decision::GiveUp) => stopped.map_err(|stopped| reopen::given_up(&stopped)),
        None => {
            stopped?;
            info!(target: SERVER, "stopped");
            Ok(())
        }
    }
}

/// Waits for the signal or the failed write that stops the server. Until then, reads the files of
/// TLS again at each SIGHUP that does not stop the server.
fn wait_for_stop(stop: StopSignal, tls: Option<&Tls>) {
    stop.wait(|| match tls {
        Some(tls) => tls::reload(tls),
        None => {
            info!(target: SERVER, "SIGHUP has no effect: without TLS there are no files to read again");
        }
    });
}

/// Returns whether SIGHUP stops the server. With TLS it does not: the server reads the files of TLS
/// again. Without TLS, SIGHUP shows that the terminal is gone, and stops the server. The exception
/// is a server that systemd supervises: a unit sends SIGHUP to reload, and systemd would not
/// restart a server that ends with exit code 0.
fn hangup_stops(has_tls: bool) -> bool {
    !has_tls && !supervisor::is_present()
}

/// Warns of environment variables that are almost those of settings, because they have no effect.
fn warn_of_misspelt_variables() {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (variable, meant) in settings::misspelt(names) {
        warn!(target: SERVER, "{variable} has no effect: did you mean {meant}?");
    }
}

/// Opens the database, or creates it if it is absent, and starts a node on it, which can run jobs.
fn open(
    settings: &Settings,
    descriptors: &DescriptorBudget,
    memory: &MemoryLimits,
) -> Result<Node> {
    let durability = match settings.durability {
        // Those that wait for an fsync wait for it together, in the server.
        Durability::Sync => ebb_storage::Durability::default(),
        Durability::Interval(time) => ebb_storage::Durability::Interval(time),
        Durability::Os => ebb_storage::Durability::Os,
    };
    let db = Options {
        create_if_missing: true,
        durability,
        memory_bytes: Some(memory.store_bytes),
        memtables_bytes: settings
            .memtables_bytes
            .map(|bytes| bytes.as_u64() as usize),
        wal_bytes_max: settings.wal_bytes_max.as_u64(),
        max_open_files: Some(descriptors.tables as usize),
        disk: database::disk(settings.group_readable),
        ..Options::default()
    };
    let mut options = unpaced::for_tests(NodeOptions::default());
    options.colocated.objective = settings.slo.0;
    options.colocated.floor_cores = settings.analytics_floor;
    memory::limit_jobs(&mut options.colocated.runtime, memory);
    let opened = Node::open(&settings.data, db, options);
    opened.map_err(|error| with_holder(error.into(), &settings.data))
}

/// Waits until the clock has reached the upper bound of the timestamps that the last process may
/// have assigned. The bound is at most a tenth of a second above the last of them, so only a server
/// that restarts quickly has to wait. If the bound is further ahead of the clock than that, the
/// clock was probably set back, and the server does not wait.
#[expect(
    clippy::disallowed_methods,
    reason = "no event shows that the time has come"
)]
fn wait_for_clock(catalog: &Catalog) {
    thread::sleep(catalog.timestamps().until_bound());
}

/// Starts checks in the background, which read each SSTable once in the time `every`. Zero turns them off.
fn check_files(node: &Node, every: Duration) -> Result<()> {
    if every.is_zero() {
        return Ok(());
    }
    let failed = |error: &dyn fmt::Display| {
        warn!(target: STORAGE, "the check of a file could not be made or recorded: {error}");
    };
    let started = node.check_files(every, failed);
    started.context("cannot start a thread")
}

/// Logs the objects whose records cannot be read, such as tables and roles: one line for each. Such objects
/// are out of service, or were created anew.
fn log_unreadable(catalog: &Catalog) {
    for unreadable in catalog.unreadable() {
        error!(target: STORAGE, "{unreadable}");
    }
}

/// Starts a thread that logs the unreadable tables in the newest snapshots of each keyspace. The thread may
/// have to read the schemas of all these tables from files, and clients are served meanwhile.
fn log_unreadable_snapshots(catalog: Arc<Catalog>) -> Result<()> {
    let log = move || match catalog.unreadable_in_snapshots() {
        Ok(all) => all
            .iter()
            .for_each(|unreadable| error!(target: STORAGE, "{unreadable}")),
        Err(error) => error!(target: STORAGE, "the schemas of snapshots cannot be read: {error}"),
    };
    let thread = thread::Builder::new().name("snapshot-schema".to_owned());
    thread.spawn(log).context("cannot start a thread")?;
    Ok(())
}

/// Starts the CQL server. With authentication, first creates a superuser if none can log in.
fn listen(
    settings: &Settings,
    node: &Node,
    (descriptors, memory): (&DescriptorBudget, &MemoryLimits),
    tls: Option<Arc<Tls>>,
    slow: &Arc<SlowLog>,
    audit: &AuditLogs,
) -> Result<CqlServer> {
    let audit_writes = audit.writes.as_ref().map(|log| {
        let tables = settings.audit_writes.clone();
        audit::of_writes(tables, Arc::clone(log))
    });
    let options = ServeOptions {
        address: settings.cql,
        connections_max: descriptors.cql as usize,
        connections_per_address_max: settings.connections_per_address_max.map(|n| n as usize),
        lane_requests_max: settings.connection_requests_max as usize,
        overload_wait: *settings.overload_wait,
        startup_timeout: *settings.startup_timeout,
        request_timeout: *settings.request_timeout,
        tls,
        login_timeout: *settings.login_timeout,
        login_failures_max: settings.login_failures_max,
        slow: Some(slow.of_cql()),
        stage_latencies: settings.stage_latencies,
        events: events::log(Arc::clone(&audit.changes)),
        audit: audit::of_statements(Arc::clone(&audit.changes)),
        audit_writes: audit_writes.unwrap_or_default(),
        idle_class: !unpaced::is_set(),
        floor: (node.governor()).and_then(|governor| governor.floor_share()),
        ..memory::limited(settings, memory)
    };
    // `system.local` has this address, so it differs from one like 0.0.0.0 to which the server binds.
    let address = settings.advertise.unwrap_or(settings.cql);
    let catalog = node.catalog()?;
    let jobs = RecordedJobs(catalog.db().clone());
    let asks = settings.authentication == Authentication::Password;
    if asks {
        first_superuser::ensure(&catalog, &settings.data, &audit.changes)?;
    }
    // Only with --insecure; the settings are refused otherwise.
    if settings.is_open_to_others() {
        warn!(
            target: CQL,
            "authentication is off: every client that reaches {} can read and write everything",
            settings.cql
        );
    }
    let local = LocalNode {
        address,
        cluster_name: settings.cluster_name.clone(),
    };
    let limits = Limits {
        result_bytes: memory.result_bytes_max() as usize,
        ..Limits::default()
    };
    // Only tests set the environment variable that `unpaced` reads. Their index builds, like their
    // scans (see `idle_class` above), must not wait for an idle core.
    let executor = if unpaced::is_set() {
        Executor::at_normal_priority(catalog, local, limits)
    } else {
        Executor::new(catalog, local, limits)
    };
    let mut executor = executor
        .showing(options.activity.clone())
        .listing_jobs(Arc::new(jobs))
        .telling(|failure| error!(target: CQL, "{failure}"))
        .guarded_by(settings.guardrails.clone())
        // The store itself does not wait for an fsync: see `open`.
        .waiting_for_sync(settings.durability == Durability::Sync);
    if asks {
        executor = executor.asking_for_login();
    }
    CqlServer::start(Arc::new(executor), node.latencies(), options)
        .with_context(|| format!("cannot listen on {}", settings.cql))
}

/// Starts to serve requests at the socket for jobs, and at the port for HTTP if the settings name one.
fn listen_for_http(
    settings: &Settings,
    node: &Arc<Node>,
    (descriptors, memory): (&DescriptorBudget, &MemoryLimits),
    (cql, queries, reopening): (CqlCollector, CqlQueries, ReopeningCollector),
    tls: Option<Arc<Tls>>,
    slow: &Arc<SlowLog>,
    configuration: Configuration,
) -> Result<HttpServer> {
    let is_open = settings.is_http_open_to_others();
    if let Some(http) = settings.http.filter(|_| is_open && tls.is_none()) {
        warn!(
            target: HTTP,
            "HTTP at {http} has no TLS: others on the network can read the tokens"
        );
    }
    let certificate = tls.clone().map(|tls| {
        let listeners = if is_open {
            vec!["cql", "http"]
        } else {
            vec!["cql"]
        };
        CertificateCollector::new(listeners, move || tls.expires_unix_s())
    });
    let requires_roles = settings.authentication == Authentication::Password;
    if requires_roles && settings.http.is_some() {
        refused_tokens::log(&settings.data);
    }
    let tls = tls.filter(|_| is_open);
    let options = HttpOptions {
        address: settings.http,
        hosts: settings.http_hosts.clone(),
        requires_roles,
        tls: tls.map(|tls| TlsSource::new(move || tls.config())),
        roots: Roots {
            outputs: settings.output_root.clone(),
            backups: settings.backup_root.clone(),
        },
        slow: Some(slow.of_http()),
        queries: Some(Arc::new(queries)),
        configuration,
        connections_max: Some(descriptors.http),
        audit: Some(Arc::clone(&cql.audit.changes)),
        memory: Some(*memory),
    };
    let mut metrics = Metrics::of(Arc::clone(node))
        .collecting(Box::new(cql))
        .collecting(Box::new(MemoryCollector(*memory)))
        .collecting(Box::new(reopening))
        .collecting_plain(Box::new(ProcessCollector));
    if let Some(certificate) = certificate {
        metrics = metrics.collecting(Box::new(certificate));
    }
    HttpServer::start(&settings.data, Arc::clone(node), metrics, options)
        .context("cannot listen for HTTP")
}

/// Answers health checks from now on. Until [`HealthServer::ready`] is called, the responses are that the
/// process is alive, but not ready.
fn listen_for_health(address: SocketAddr) -> Result<HealthServer> {
    let health = HealthServer::start(address).context("cannot listen for health checks")?;
    let address = health.address();
    info!(target: HTTP, "health checks are answered at http://{address}");
    Ok(health)
}

/// Prints the addresses and the directory on stdout.
fn greet(settings: &Settings, cql: SocketAddr, http: Option<SocketAddr>) -> Result<()> {
    let (ip, port) = (cql.ip(), cql.port());
    let has_tls = settings.is_http_open_to_others() && settings.tls_cert.is_some();
    let scheme = if has_tls { "https" } else { "http" };
    let http = http.map(|http| format!("\nlistening for HTTP on {scheme}://{http}"));
    say(format!(
        "listening for CQL on {cql}{}\ndatabase: {}\nconnect with: cqlsh {ip} {port}",
        http.unwrap_or_default(),
        settings.data.display()
    ))
}
