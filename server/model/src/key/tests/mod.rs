//! Keys, compared with Cassandra's hash and comparators.

mod entry;
mod layout;
mod murmur3;
mod ordered;
mod slice;
