//! What a job computes: mapper, reducer, and where both put their results.

use crate::runtime::error::TaskError;
use crate::runtime::shuffle::sorted::Values;

/// Takes the results of a mapper, a combiner or a reducer.
pub trait Emit {
    /// Emits one record. May wait here while the job has no CPU left to use.
    ///
    /// # Errors
    /// When writing fails or the job is cancelled; pass it on.
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError>;

    /// Lets the job be paced and cancelled. Call it now and then in code that
    /// computes for more than a few milliseconds without emitting.
    ///
    /// # Errors
    /// When the job is cancelled; pass it on.
    fn checkpoint(&mut self) -> Result<(), TaskError>;
}

/// Turns one input record into any number of intermediate records.
///
/// Any `Fn(&[u8], &[u8], &mut dyn Emit) -> Result<(), TaskError>` is one.
pub trait Mapper: Send + Sync {
    /// Maps a record.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError>;
}

/// Turns all values of one key into any number of results.
///
/// As a combiner it sees part of a key's values, any number of times, and has
/// to emit under the key it was given.
///
/// Any `Fn(&[u8], &mut Values<'_>, &mut dyn Emit) -> Result<(), TaskError>` is one.
pub trait Reducer: Send + Sync {
    /// Reduces the values of `key`, streamed in the order of map tasks and, in
    /// each, of emission. Keys come in ascending order of their bytes.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError>;
}

impl<F> Mapper for F
where
    F: Fn(&[u8], &[u8], &mut dyn Emit) -> Result<(), TaskError> + Send + Sync,
{
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
        self(key, value, emit)
    }
}

impl<F> Reducer for F
where
    F: Fn(&[u8], &mut Values<'_>, &mut dyn Emit) -> Result<(), TaskError> + Send + Sync,
{
    fn reduce(
        &self,
        key: &[u8],
        values: &mut Values<'_>,
        emit: &mut dyn Emit,
    ) -> Result<(), TaskError> {
        self(key, values, emit)
    }
}
