//! The cost of TLS and roles: the server's CPU time for an operation with both, compared with that
//! of a server with neither.
//!
//! There is one server of each kind. Windows alternate between them, and the other server is idle
//! meanwhile. The client logs in as a role with granted permissions: a superuser would skip the
//! permission checks.

use anyhow::Result;
use ebb_cql::client::Client;
use ebb_cql::protocol::Compression;
use serde::Serialize;

use super::certificate::Certificate;
use super::report::PartResult;
use super::server::{Account, Server, loaded};
use super::setting::Setting;
use super::throughput;
use crate::console::progress_bar;
use crate::experiments::statistics::{means_of_rounds, median, median_ratio};
use crate::number::fixed;
use crate::ycsb::Workload;
use crate::ycsb::cql::{Operations, Plan, query};

/// The load: 95% reads.
const WORKLOAD: &str = "b";
/// The name of the client's role, and also the password of the role.
const ROLE: &str = "load";

/// The result of the part `secured`. Each list has a value for each round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Secured {
    /// Operations per second of the plain server, which has neither TLS nor roles.
    pub plain_ops_per_s: Vec<f64>,
    /// CPU time of the plain server for an operation, in microseconds.
    pub plain_cpu_us: Vec<f64>,
    /// CPU time of the plain server for an operation in a second window, after that of the secured
    /// server, in microseconds.
    pub again_cpu_us: Vec<f64>,
    /// Operations per second of the server with TLS and roles.
    pub secured_ops_per_s: Vec<f64>,
    /// CPU time for an operation, in microseconds, of the server with TLS and roles.
    pub secured_cpu_us: Vec<f64>,
}

impl Secured {
    /// Returns the operations for each second of server CPU time with TLS and roles, divided by
    /// those without: the median over the rounds, `None` without rounds. In each round the plain
    /// windows before and after are averaged, because a machine's speed drifts.
    fn over_plain(&self) -> Option<f64> {
        let around = means_of_rounds(&self.plain_cpu_us, &self.again_cpu_us);
        median_ratio(&around, &self.secured_cpu_us)
    }
}

impl PartResult for Secured {
    fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "TLS and roles: {:.0} ops/s; cpu per op of the server {:.2} us; without {:.0} \
                 ops/s, {:.2} us",
                median(&self.secured_ops_per_s),
                median(&self.secured_cpu_us),
                median(&self.plain_ops_per_s),
                median(&self.plain_cpu_us)
            ),
            format!(
                "  ops per cpu second, with / without {}; without against itself {}",
                fixed(self.over_plain(), 2),
                fixed(median_ratio(&self.plain_cpu_us, &self.again_cpu_us), 2)
            ),
        ]
    }
}

pub fn measure(setting: &Setting<'_>) -> Result<Secured> {
    let args = setting.args;
    let plain = setting.start("plain", &[])?;
    let mut plain_client = setting.client(&plain, None)?;
    let certificate = Certificate::make(setting.folder)?;
    let secured = setting.start("secured", &certificate.arguments())?;
    let superuser = secured.superuser()?;
    drop(loaded(&secured, Some(&superuser), 1, args)?);
    let account = Account {
        tls: Some(certificate.trust.clone()),
        ..role(&secured, &superuser)?
    };
    let mut secured_client = setting.client(&secured, Some(&account))?;
    plain.settle()?;
    secured.settle()?;
    let workload: Workload = WORKLOAD.parse()?;
    let plan = Plan {
        duration: Some(args.window),
        value_bytes: args.value_bytes as usize,
        ..Plan::new(Operations::Run(workload, Some(args.distribution)))
    };
    let mut measured = Secured::default();
    let bar = progress_bar("serving: secured", u64::from(args.rounds));
    for _ in 0..args.rounds {
        setting.check_interrupt()?;
        let (ops_per_s, cpu_us, _) = throughput::run(&plain, &mut plain_client, &plan)?;
        measured.plain_ops_per_s.push(ops_per_s);
        measured.plain_cpu_us.push(cpu_us);
        let (ops_per_s, cpu_us, _) = throughput::run(&secured, &mut secured_client, &plan)?;
        measured.secured_ops_per_s.push(ops_per_s);
        measured.secured_cpu_us.push(cpu_us);
        let (_, cpu_us, _) = throughput::run(&plain, &mut plain_client, &plan)?;
        measured.again_cpu_us.push(cpu_us);
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop((plain_client, secured_client));
    plain.stop()?;
    secured.stop()?;
    Ok(measured)
}

/// Creates a role with the permissions that the load needs.
fn role(server: &Server, superuser: &Account) -> Result<Account> {
    let credentials = Some((&*superuser.name, &*superuser.password));
    let mut client = Client::connect_as(server.address, Compression::None, credentials)?;
    for text in [
        format!("CREATE ROLE {ROLE} WITH PASSWORD = '{ROLE}' AND LOGIN = true"),
        // ALL, because the client also creates the keyspace and the table if they are missing.
        format!("GRANT ALL ON ALL KEYSPACES TO {ROLE}"),
    ] {
        query(&mut client, &text)?;
    }
    Ok(Account {
        name: ROLE.into(),
        password: ROLE.into(),
        tls: None,
    })
}
