//! What connections that do nothing take of the server's memory.

use anyhow::{Context, Result};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, Request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::setting::Setting;
use crate::console::progress_bar;

/// What the part came to.
#[derive(Debug, Clone, Serialize)]
pub struct Connections {
    /// How many there were; each had said STARTUP, and had asked once.
    pub connections: u64,
    /// The server's resident memory before, in bytes.
    pub before_bytes: u64,
    /// The same with them.
    pub with_bytes: u64,
}

/// Measures it, of a server with an empty database.
pub fn measure(setting: &Setting<'_>) -> Result<Connections> {
    let args = setting.args;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")?;
    let server = setting.start("connections", &[])?;
    let connect = || -> Result<Client> {
        let mut client = Client::connect(server.address, Compression::None)?;
        client.request(&Request::Options)?;
        Ok(client)
    };
    drop(connect()?);
    let before_bytes = server.process.memory_bytes()?;
    let bar = progress_bar("serving: connections", args.idle_connections);
    let mut clients = Vec::new();
    for _ in 0..args.idle_connections {
        setting.check_interrupt()?;
        clients.push(connect()?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let with_bytes = server.process.memory_bytes()?;
    drop(clients);
    server.stop()?;
    Ok(Connections {
        connections: args.idle_connections,
        before_bytes,
        with_bytes,
    })
}
