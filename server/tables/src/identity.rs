//! The identity of this node for drivers: a host id and a token that survive restarts.

use ebb_model::schema::Unreadable;
use ebb_storage::{Db, Table, WriteBatch, WriteOptions};
use uuid::{Builder, Uuid};

use super::damage::{Readable, readable_unless_failed};
use super::error::Result;
use crate::names::SYSTEM_KEYSPACE;

/// The table of the node's own records, in [`SYSTEM_KEYSPACE`].
pub(super) const NODE_TABLE: &str = "node";

const HOST_ID_KEY: &[u8] = b"host_id";
const TOKEN_KEY: &[u8] = b"token";

/// The identity of this node, drawn when its database is first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The random id of this host (version 4).
    pub host_id: Uuid,
    /// The end of the node's only token range; with one node the range is the whole ring.
    pub token: i64,
}

impl Identity {
    /// Returns the identity of a database. If the stored identity is unreadable, or there is none yet,
    /// draws a new one, which is durable before this returns. The second value is the reason why the stored
    /// identity is unreadable; `None` if it is readable or there was none.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn open(db: &Db, node: &Table) -> Result<(Self, Option<String>)> {
        let damage = match Self::read(node)? {
            Ok(Some(stored)) => return Ok((stored, None)),
            Ok(None) => None,
            Err(damage) => Some(damage),
        };
        let drawn = Self {
            host_id: Builder::from_random_bytes(rand::random()).into_uuid(),
            // The least token is excluded, because no partition has it.
            token: rand::random::<i64>().max(i64::MIN + 1),
        };
        let mut batch = WriteBatch::new();
        batch.put(node, HOST_ID_KEY, drawn.host_id.as_bytes());
        batch.put(node, TOKEN_KEY, &drawn.token.to_be_bytes());
        db.write_with(batch, WriteOptions { sync: true })?;
        Ok((drawn, damage))
    }

    /// Reads the identity of a database; `None` before it is first served.
    ///
    /// # Errors
    /// If the store failed for another reason than damage.
    pub(super) fn read(node: &Table) -> Result<Readable<Option<Self>>> {
        let found = (
            readable_unless_failed(node.get(HOST_ID_KEY))?,
            readable_unless_failed(node.get(TOKEN_KEY))?,
        );
        let (host_id, token) = match found {
            (Ok(Some(host_id)), Ok(Some(token))) => (host_id, token),
            (Err(damage), _) | (_, Err(damage)) => return Ok(Err(damage)),
            _ => return Ok(Ok(None)),
        };
        let parts = (
            <[u8; 16]>::try_from(&host_id[..]),
            <[u8; 8]>::try_from(&token[..]),
        );
        Ok(match parts {
            (Ok(host_id), Ok(token)) => Ok(Some(Self {
                host_id: Uuid::from_bytes(host_id),
                token: i64::from_be_bytes(token),
            })),
            _ => Err(format!(
                "host id and token have {} and {} bytes, not 16 and 8",
                host_id.len(),
                token.len()
            )),
        })
    }
}

/// Lists the unreadable records of the node. `identity` and `bound` are the reasons why the identity, and
/// the stored upper bound on the timestamps that the server has assigned, cannot be read; `None` if they can.
pub(super) fn node_records(identity: Option<String>, bound: Option<String>) -> Vec<Unreadable> {
    let records = [("identity", identity), ("timestamp bound", bound)];
    let unreadable = |(name, why): (&str, Option<String>)| {
        let why = why?;
        Some(Unreadable::node(SYSTEM_KEYSPACE, name, &why))
    };
    records.into_iter().filter_map(unreadable).collect()
}
