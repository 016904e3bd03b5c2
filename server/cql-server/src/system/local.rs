//! `system`: this node, and the empty tables of its peers.

use super::cells::{inet, int, list, text, uuid};
use super::virtual_table::{Definition, RowSet, no_rows};
use super::{Facts, Lookup, PARTITIONER};
use crate::error::Result;

const KEYSPACE: &str = "system";

pub(super) const LOCAL: Definition = Definition {
    keyspace: KEYSPACE,
    name: "local",
    comment: "information about the local node",
    columns: &[
        "key text",
        "bootstrapped text",
        "broadcast_address inet",
        "broadcast_port int",
        "cluster_name text",
        "cql_version text",
        "data_center text",
        "gossip_generation int",
        "host_id uuid",
        "listen_address inet",
        "listen_port int",
        "native_protocol_version text",
        "partitioner text",
        "rack text",
        "release_version text",
        "rpc_address inet",
        "rpc_port int",
        "schema_version uuid",
        "tokens set<text>",
        "truncated_at map<uuid, blob>",
    ],
    primary_key: &["key"],
    rows: local,
};

fn local(facts: &Facts, _: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let node = &facts.node;
    let (address, port) = (inet(node.address.ip()), int(node.address.port().into()));
    let identity = facts.catalog.identity();
    rows.push([
        ("key", text("local")),
        ("bootstrapped", text("COMPLETED")),
        ("broadcast_address", address.clone()),
        ("broadcast_port", port.clone()),
        ("cluster_name", text(&node.cluster_name)),
        ("cql_version", text(super::CQL_VERSION)),
        ("data_center", text(super::DATA_CENTER)),
        ("gossip_generation", int(0)),
        ("host_id", uuid(identity.host_id)),
        ("listen_address", address.clone()),
        ("listen_port", port.clone()),
        ("native_protocol_version", text("5")),
        ("partitioner", text(PARTITIONER)),
        ("rack", text(super::RACK)),
        ("release_version", text(super::RELEASE_VERSION)),
        ("rpc_address", address),
        ("rpc_port", port),
        ("schema_version", uuid(facts.catalog.version(&facts.state))),
        ("tokens", list([text(&identity.token.to_string())])),
    ])
}

pub(super) const PEERS: Definition = Definition {
    keyspace: KEYSPACE,
    name: "peers",
    comment: "information about known peers in the cluster",
    columns: &[
        "peer inet",
        "data_center text",
        "host_id uuid",
        "preferred_ip inet",
        "rack text",
        "release_version text",
        "rpc_address inet",
        "schema_version uuid",
        "tokens set<text>",
    ],
    primary_key: &["peer"],
    rows: no_rows,
};

pub(super) const PEERS_V2: Definition = Definition {
    keyspace: KEYSPACE,
    name: "peers_v2",
    comment: "information about known peers in the cluster",
    columns: &[
        "peer inet",
        "peer_port int",
        "data_center text",
        "host_id uuid",
        "native_address inet",
        "native_port int",
        "preferred_ip inet",
        "preferred_port int",
        "rack text",
        "release_version text",
        "schema_version uuid",
        "tokens set<text>",
    ],
    primary_key: &["peer", "peer_port"],
    rows: no_rows,
};
