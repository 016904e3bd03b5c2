//! The solution of a linear programme of the relaxation.

/// The optimal value of a linear programme, and start times that belong to it.
#[derive(Debug)]
pub(super) struct Solved {
    pub value: f64,
    /// The start of each task, in seconds.
    pub start_s: Vec<f64>,
}
