//! Statements through the executor, on a database in memory.

mod computed;
mod prepared;
mod reads;
mod refusals;
mod schema_changes;

use std::sync::Arc;

use bytes::BytesMut;
use ebb_cql::protocol::{QueryParameters, Response};
use ebb_test_support::cases::parse_cases;

use super::harness::Server;
use crate::call::{SchemaChanges, Service, Statement};

/// Returns a server with a table `t`: partitions 1 to 3, each with the clusterings (b, c) in 1..=3
/// x 1..=2, b descending, and `v = 100 a + 10 b + c`. The static column `s` is 7 in partition 1 and
/// in partition 4, which has no rows.
fn squares() -> Server {
    let table = "CREATE TABLE t (a int, b int, c int, s int STATIC, v int, PRIMARY KEY (a, b, c)) \
                 WITH CLUSTERING ORDER BY (b DESC, c ASC)";
    let mut server = Server::with(&[table]);
    for a in 1..=3 {
        for b in 1..=3 {
            for c in 1..=2 {
                let [v, a, b, c] = [100 * a + 10 * b + c, a, b, c].map(|n| n.to_string());
                server.put("t", &[("a", &a), ("b", &b), ("c", &c), ("v", &v)]);
            }
        }
    }
    server.put("t", &[("a", "1"), ("s", "7")]);
    server.put("t", &[("a", "4"), ("s", "7")]);
    server
}
