//! Pictures of studies and analyses, each an SVG file of its own.
//!
//! ```text
//!   study    ─► bars (goals missed, ...)   shares (cores that jobs held)
//!              rows (running tasks, satisfaction of each job)
//!   analysis ─► curves, heat
//!   advice   ─► reliability
//! ```

mod bars;
mod curves;
mod heat;
mod reliability;
mod rows;
mod shares;

pub use bars::bars;
pub use curves::{Curves, Line};
pub use heat::Heat;
pub use reliability::reliability;
pub use rows::{running_tasks, satisfaction};
pub use shares::shares;

/// Formats the time `t_s`: in hours if `whole_s`, the length of the time axis, is more than four
/// hours, else in seconds.
fn time(t_s: f64, whole_s: f64) -> String {
    if whole_s > 4.0 * 3600.0 {
        format!("{:.1} h", t_s / 3600.0)
    } else {
        format!("{t_s:.0} s")
    }
}
