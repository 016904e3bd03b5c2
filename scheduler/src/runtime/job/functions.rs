//! The functions of a job, mapper and reducer, and the sink of their results.

use crate::runtime::error::TaskError;
use crate::runtime::shuffle::sorted::Values;

/// The sink of the records of a mapper, a combiner or a reducer.
pub trait Emit {
    /// Emits one record. Blocks while the job has used up its CPU share.
    ///
    /// # Errors
    /// If writing fails or the job is cancelled; return the error to the caller.
    fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), TaskError>;

    /// Gives the runtime an opportunity to pace or cancel the job. Call it now and then in code
    /// that computes for more than a few milliseconds without emitting.
    ///
    /// # Errors
    /// If the job is cancelled; return the error to the caller.
    fn checkpoint(&mut self) -> Result<(), TaskError>;
}

/// Turns one input record into any number of intermediate records.
///
/// Implemented by any `Fn(&[u8], &[u8], &mut dyn Emit) -> Result<(), TaskError>`.
pub trait Mapper: Send + Sync {
    /// Maps a record.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn map(&self, key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError>;
}

/// Turns all values of one key into any number of results.
///
/// A combiner is a reducer that the runtime calls with a part of a key's values, any number of
/// times. It must emit under the same key.
///
/// Implemented by any `Fn(&[u8], &mut Values<'_>, &mut dyn Emit) -> Result<(), TaskError>`.
pub trait Reducer: Send + Sync {
    /// Reduces the values of `key`. They come in the order of the map tasks that emitted them, and
    /// those of one map task in the order of emission. The runtime calls this function for one key
    /// after the other, in ascending order of their bytes.
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
