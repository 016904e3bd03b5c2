//! Ids of prepared statements.

use md5::{Digest, Md5};

/// Returns the id of a statement: the MD5 of its text. If the statement depends on the keyspace in
/// use, the name of the keyspace precedes the text. Cassandra computes the same id (its `MD5Digest`).
/// Neither a change of the schema nor a restart of the server changes the id.
pub fn prepared_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let digest = Md5::new().chain_update(keyspace.unwrap_or_default());
    digest.chain_update(text).finalize().into()
}
