//! Ids of prepared statements.

use md5::{Digest, Md5};

/// Returns the id of a statement: the MD5 of the text, after the name of the keyspace in use if the
/// statement depends on it. Cassandra computes the same id (its `MD5Digest`). It does not change
/// with the schema or a restart of the server.
pub fn prepared_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let digest = Md5::new().chain_update(keyspace.unwrap_or_default());
    digest.chain_update(text).finalize().into()
}
