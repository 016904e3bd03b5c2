//! The configuration that a server shows over HTTP: the settings in force, and the origin of each.

use std::net::SocketAddr;

use bytesize::ByteSize;
use ebb_server::http::{Configuration, SettingSource, SettingView};
use ebb_server::memory::MemoryLimits;
use serde_json::json;

use super::descriptors::DescriptorBudget;
use super::settings::{SettingSources, Settings};

/// Returns the configuration of a server that listens for CQL at `cql`. A limit that depends on the machine
/// has the value in force.
pub(super) fn of(
    settings: &Settings,
    sources: &SettingSources,
    (descriptors, memory): (&DescriptorBudget, &MemoryLimits),
    cql: SocketAddr,
) -> Configuration {
    let in_force = Settings {
        cql,
        connections_max: Some(descriptors.cql),
        memory: Some(ByteSize(memory.all_bytes)),
        ..settings.clone()
    };
    let settings = in_force.named().into_iter().map(|(name, value)| {
        let source = sources.get(&name).copied();
        SettingView {
            source: source.unwrap_or(SettingSource::Default),
            value: json!(value),
            name,
        }
    });
    Configuration {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: settings.collect(),
    }
}
