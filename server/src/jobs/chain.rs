//! Jobs of which each reads what the one before has left.

use ebb_scheduler::runtime::{JobReport, JobSpec, TaskError};

/// Says which job is next. Whoever runs a chain submits one job at a time and stops
/// at the first that does not succeed.
pub trait Chain: Send {
    /// What the whole is called.
    fn name(&self) -> &str;

    /// How many jobs there are in all.
    fn length(&self) -> u32;

    /// The next job, after the one that `done` tells of; the first without one.
    /// `None` after the last, whose output is that of the chain.
    ///
    /// # Errors
    /// When what the last job left cannot be read.
    fn next(&mut self, done: Option<&JobReport>) -> Result<Option<JobSpec>, TaskError>;
}
