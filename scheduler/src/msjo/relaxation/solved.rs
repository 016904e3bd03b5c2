//! The solution of a linear programme of the relaxation.

/// The value of a programme, and the start times that have it.
#[derive(Debug)]
pub(super) struct Solved {
    pub value: f64,
    /// The start of each task, in seconds.
    pub start_s: Vec<f64>,
}
