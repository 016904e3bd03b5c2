//! Who this node is to drivers: a host id and a token that stay the same over restarts.

use ebb_storage::{Db, Table, WriteBatch, WriteOptions};
use uuid::{Builder, Uuid};

use super::error::{CatalogError, Result};

const HOST_ID_KEY: &[u8] = b"host_id";
const TOKEN_KEY: &[u8] = b"token";

/// Who this node is. Drawn when a database is first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Random (version 4).
    pub host_id: Uuid,
    /// Where on the ring the node's only range ends; with one node it has all of it.
    pub token: i64,
}

impl Identity {
    /// That of this database, drawn where it has none; durable before this returns.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(super) fn open(db: &Db, node: &Table) -> Result<Self> {
        match (node.get(HOST_ID_KEY)?, node.get(TOKEN_KEY)?) {
            (Some(host_id), Some(token)) => {
                let corrupt = |what: &str| CatalogError::Corrupt {
                    what: format!("{what} in ebb_system.node"),
                    detail: "it has another length".to_string(),
                };
                let host_id = host_id[..].try_into().map_err(|_| corrupt("host_id"))?;
                let token = token[..].try_into().map_err(|_| corrupt("token"))?;
                Ok(Self {
                    host_id: Uuid::from_bytes(host_id),
                    token: i64::from_be_bytes(token),
                })
            }
            _ => {
                let drawn = Self {
                    host_id: Builder::from_random_bytes(rand::random()).into_uuid(),
                    // Not the least one, which no partition has.
                    token: rand::random::<i64>().max(i64::MIN + 1),
                };
                let mut batch = WriteBatch::new();
                batch.put(node, HOST_ID_KEY, drawn.host_id.as_bytes());
                batch.put(node, TOKEN_KEY, &drawn.token.to_be_bytes());
                db.write_with(batch, WriteOptions { sync: true })?;
                Ok(drawn)
            }
        }
    }
}
