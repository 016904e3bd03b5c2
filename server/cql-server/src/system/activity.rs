//! `system_traces`, and the clients in `system_views`.

use std::time::{Duration, UNIX_EPOCH};

use uuid::Uuid;

use super::cells::{bigint, boolean, inet, int, map, text, timestamp, uuid};
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::Result;

const TRACES: &str = "system_traces";

pub(super) const SESSIONS: Definition = Definition {
    keyspace: TRACES,
    name: "sessions",
    comment: "the last requests that were traced",
    columns: &[
        "session_id uuid",
        "client inet",
        "command text",
        "coordinator inet",
        "coordinator_port int",
        "duration int",
        "parameters map<text, text>",
        "request text",
        "started_at timestamp",
    ],
    primary_key: &["session_id"],
    rows: sessions,
};

fn sessions(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let node = facts.node.address;
    facts.activity.traces().iter().try_for_each(|trace| {
        let parameters = trace.parameters.iter();
        let started_at = Duration::from_millis(trace.started_at_unix_ms.max(0) as u64);
        rows.push([
            ("session_id", uuid(Uuid::from_bytes(trace.id))),
            ("client", inet(trace.client.ip())),
            ("command", text(trace.command)),
            ("coordinator", inet(node.ip())),
            ("coordinator_port", int(node.port().into())),
            ("duration", int(int_of(trace.duration_us))),
            (
                "parameters",
                map(parameters.map(|(name, value)| (text(name), text(value)))),
            ),
            ("request", text(trace.request)),
            ("started_at", timestamp(UNIX_EPOCH + started_at)),
        ])
    })
}

pub(super) const EVENTS: Definition = Definition {
    keyspace: TRACES,
    name: "events",
    comment: "their steps",
    columns: &[
        "session_id uuid",
        "event_id timeuuid",
        "activity text",
        "source inet",
        "source_elapsed int",
        "source_port int",
        "thread text",
    ],
    primary_key: &["session_id", "event_id"],
    rows: events,
};

fn events(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let node = facts.node.address;
    for trace in facts.activity.traces() {
        for event in &trace.events {
            rows.push([
                ("session_id", uuid(Uuid::from_bytes(trace.id))),
                ("event_id", uuid(Uuid::from_bytes(event.id))),
                ("activity", text(&event.activity)),
                ("source", inet(node.ip())),
                ("source_elapsed", int(int_of(event.elapsed_us))),
                ("source_port", int(node.port().into())),
                ("thread", text(&event.thread)),
            ])?;
        }
    }
    Ok(())
}

pub(super) const CLIENTS: Definition = Definition {
    keyspace: "system_views",
    name: "clients",
    comment: "open connections",
    columns: &[
        "address inet",
        "port int",
        "driver_name text",
        "driver_version text",
        "keyspace_name text",
        "protocol_version int",
        "request_count bigint",
        "ssl_cipher_suite text",
        "ssl_enabled boolean",
        "ssl_protocol text",
        "username text",
    ],
    primary_key: &["address", "port"],
    rows: clients,
};

fn clients(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    facts.activity.clients().iter().try_for_each(|client| {
        let info = client.info();
        let mut cells = vec![
            ("address", inet(client.address.ip())),
            ("port", int(client.address.port().into())),
            ("protocol_version", int(info.version.number().into())),
            (
                "request_count",
                bigint(i64::try_from(client.requests()).unwrap_or(i64::MAX)),
            ),
            ("ssl_enabled", boolean(info.encryption.is_some())),
        ];
        if let Some(encryption) = &info.encryption {
            cells.push(("ssl_cipher_suite", text(&encryption.cipher_suite)));
            cells.push(("ssl_protocol", text(&encryption.protocol)));
        }
        cells.extend(info.driver_name.map(|name| ("driver_name", text(&name))));
        let version = info.driver_version.as_deref();
        cells.extend(version.map(|version| ("driver_version", text(version))));
        let keyspace = info.keyspace.as_deref();
        cells.extend(keyspace.map(|keyspace| ("keyspace_name", text(keyspace))));
        let user = info.user.as_deref();
        cells.extend(user.map(|user| ("username", text(user))));
        rows.push(cells)
    })
}

fn int_of(micros: u32) -> i32 {
    i32::try_from(micros).unwrap_or(i32::MAX)
}
