//! Tasks in processes of their own: what keeps allocator, page tables, faults and
//! crashes of a task apart from the process that serves transactions.
//!
//! ```text
//!   parent: an "ebb-task" thread         child: holds input files and a spill
//!   claims, paces, writes rows           folder, maps and reduces
//!          │        order: a map, a reduce, a sample        │
//!          │ ─────────────────────────────────────────────> │
//!          │ <── used so much CPU ── may I go on? ── yes ─> │
//!          │ <── rows ────────────────────────────────────  │
//!          │ <────────────── done, or failed: why ────────  │
//! ```
//!
//! What always holds:
//!
//! - The parent has the one account of CPU and of bytes read, opens the output, and
//!   decides who may finish it. Input, spills and the job's own code are the child's.
//! - A child whose attempt is cancelled or given up is killed. One that dies has
//!   failed its attempt, and nothing else.
//! - A child does not outlive its parent, whatever either of them is doing.
//! - No bytes that come from the other side make this one panic, or allocate before
//!   they came.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `frame` | bytes on the socket: length, kind, payload |
//! | `message` | the messages, with the descriptions of runs |
//! | `pool` | the processes of one job: started, reused, ended |
//! | `parent` | an attempt as its thread in the parent sees it |
//! | `child` | the same from inside the child |

mod child;
mod frame;
mod message;
mod parent;
#[expect(
    clippy::disallowed_methods,
    reason = "processes start and live in real time, and tell by files"
)]
mod pool;

pub use child::TaskServer;
pub(super) use parent::run_in_process;
pub(super) use pool::Pool;
pub use pool::processes_cpu_s;
