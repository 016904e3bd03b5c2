//! Tasks in processes of their own, which isolate the allocator, page tables, page faults and
//! crashes of tasks from the process that serves transactions.
//!
//! ```text
//!   parent: an "ebb-task" thread         child: holds input files and a spill
//!   claims, paces, writes rows           folder, maps and reduces
//!          │        order: a map, a reduce, a sample        │
//!          │ ─────────────────────────────────────────────> │
//!          │ <── CPU used so far ─── may I go on? ── yes ─> │
//!          │ <── rows ────────────────────────────────────  │
//!          │ <────────── done, or failed with a cause ────  │
//! ```
//!
//! Guarantees:
//!
//! - The parent keeps the only account of CPU and of bytes read, opens the output, and decides
//!   which attempt may finish it. Input, spills and the job's own code are in the child.
//! - A child whose attempt is cancelled or given up is killed. A child that dies fails its attempt
//!   and has no other effect.
//! - A child does not outlive its parent, at any point of their work.
//! - Bytes from the other process never cause a panic, nor an allocation larger than the bytes that
//!   have arrived.
//!
//! | file | contents |
//! | --- | --- |
//! | `frame` | bytes on the socket: length, kind, payload |
//! | `message` | the messages, with the descriptions of runs |
//! | `pool` | the processes of one job: start, reuse, end |
//! | `parent` | an attempt in a process, from the side of the parent |
//! | `child` | an attempt in a process, from the side of the child |

mod child;
mod frame;
mod message;
mod parent;
#[expect(
    clippy::disallowed_methods,
    reason = "processes run in real time, and the kernel reports their use in files"
)]
mod pool;

pub use child::TaskServer;
pub(super) use parent::run_in_process;
pub(super) use pool::Pool;
pub use pool::processes_cpu_s;
