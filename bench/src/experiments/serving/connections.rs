//! The memory that idle connections need in the server.

use anyhow::{Context, Result};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, Request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::report::PartResult;
use super::setting::Setting;
use crate::console::progress_bar;

/// The number of idle connections.
const CONNECTIONS: u64 = 10_000;

#[derive(Debug, Clone, Serialize)]
pub struct Connections {
    /// The number of connections; each had sent OPTIONS once after its handshake.
    pub connections: u64,
    /// The server's resident memory before the connections, in bytes.
    pub before_bytes: u64,
    /// The server's resident memory with the connections, in bytes.
    pub with_bytes: u64,
}

impl PartResult for Connections {
    fn lines(&self) -> Vec<String> {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        vec![format!(
            "idle connections: {} take the server from {:.1} to {:.1} MB",
            self.connections,
            mb(self.before_bytes),
            mb(self.with_bytes)
        )]
    }
}

pub fn measure(setting: &Setting<'_>) -> Result<Connections> {
    raise_limit()?;
    let server = setting.start("connections", &[])?;
    let connect = || -> Result<Client> {
        let mut client = Client::connect(server.address, Compression::None)?;
        client.request(&Request::Options)?;
        Ok(client)
    };
    drop(connect()?);
    let before_bytes = server.process.memory_bytes()?;
    let bar = progress_bar("serving: connections", CONNECTIONS);
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        setting.check_interrupt()?;
        clients.push(connect()?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let with_bytes = server.process.memory_bytes()?;
    drop(clients);
    server.stop()?;
    Ok(Connections {
        connections: CONNECTIONS,
        before_bytes,
        with_bytes,
    })
}

/// Raises this process's limit of open files as far as the system allows. Servers that it starts
/// inherit the limit.
pub(super) fn raise_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}
