//! Paths with names in them, for requests and for `Location` headers.

use ebb_tables::names::TableName;

/// Returns the path of a job.
pub(super) fn job(id: &str) -> String {
    format!("/v1/jobs/{}", escaped(id))
}

/// Returns the path of a snapshot.
pub(super) fn snapshot(keyspace: &str, name: &str) -> String {
    format!("/v1/snapshots/{}/{}", escaped(keyspace), escaped(name))
}

/// Returns the path of a table.
pub(super) fn table(name: &TableName) -> String {
    let (keyspace, table) = (escaped(&name.keyspace), escaped(&name.table));
    format!("/v1/tables/{keyspace}/{table}")
}

/// Percent-encodes a text for a path segment or a query value.
pub(super) fn escaped(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => path.push(byte.into()),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}
