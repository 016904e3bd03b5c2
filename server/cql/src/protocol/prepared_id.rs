//! Ids of prepared statements.

use md5::{Digest, Md5};

/// The id of a statement: the MD5 of the keyspace, where the statement's names need
/// one that USE gave, and its text. Cassandra computes the same (its `MD5Digest`), and
/// it stays when the schema changes or the server starts again.
pub fn prepared_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let digest = Md5::new().chain_update(keyspace.unwrap_or_default());
    digest.chain_update(text).finalize().into()
}
