//! The solution of a linear programme of the relaxation.

/// The solution of a linear programme. `value` is its optimal value as far as the solver is exact;
/// for `Objective::Jobs` it is a proven lower bound on the optimum.
#[derive(Debug)]
pub(super) struct Solved {
    pub value: f64,
    /// The start of each task, in seconds.
    pub start_s: Vec<f64>,
}
