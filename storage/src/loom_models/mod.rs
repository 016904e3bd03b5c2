//! Every interleaving of the small pieces where threads meet, explored by loom.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p ebb-storage --release --lib loom_`
//!
//! Each model states its property and drives the engine's own pieces. Beside it stands a
//! variant that breaks the protocol in the way that suggests itself, and must fail: a model
//! that cannot fail proves nothing. Schedules with more than [`PREEMPTIONS_MAX`] forced
//! switches between threads are not explored; `LOOM_MAX_PREEMPTIONS` raises the limit.

mod counting_disk;
mod deletion;
mod files;
mod group_commit;
mod memtables;
mod snapshots;
mod transactions;
mod visibility;

use std::sync::Arc;

use loom::thread;

use crate::key::TableId;
use crate::snapshots::{Lifetime, TableSpan};

const PREEMPTIONS_MAX: usize = 3;

/// Runs `model` in all schedules with at most [`PREEMPTIONS_MAX`] forced switches.
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS_MAX);
    builder.check(model);
}

/// Runs `work` on `shared` in another thread of the model.
pub(crate) fn spawn<T: 'static, R: 'static>(
    shared: &Arc<T>,
    work: impl FnOnce(&T) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || work(&shared))
}

const TABLE: TableId = TableId(1);

/// Returns the table of the models, with its lifetime. The table was created before the first commit.
fn span() -> TableSpan<'static> {
    TableSpan {
        keyspace: "app",
        id: TABLE,
        lifetime: Lifetime::default(),
    }
}
