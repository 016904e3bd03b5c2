//! The solution of a linear programme of the relaxation.

/// The solution of a linear programme.
#[derive(Debug)]
pub(super) struct Solved {
    /// The optimal value, as far as the solver is exact. For `Objective::Jobs`, it is a proven lower
    /// bound on the optimum.
    pub value: f64,
    /// The start of each task, in seconds.
    pub start_s: Vec<f64>,
}
