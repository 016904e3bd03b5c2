//! The pace of a statement's reads: among keys that the statement does not see, and before decimals.

use std::sync::Arc;

use ebb_tables::read::{Ended, Pace};

use crate::interrupt;

/// The approximate microseconds for passing [`PASSED_MAX`](ebb_tables::read::PASSED_MAX) keys in
/// memory.
const PASSED_UNITS: u64 = 2;

/// Charges the statement of this thread for a value that a read is about to encode or decode. That
/// work takes as long as comparing `bytes` bytes.
///
/// # Errors
/// The error of [`interrupt::charge_bytes`].
pub fn charge_decoding(bytes: usize) -> Result<(), Ended> {
    interrupt::charge_bytes(bytes).map_err(|error| -> Ended { Arc::new(error) })
}

/// Charges the statement of this thread for keys that a search passes, and so ends the search at the
/// statement's time-out, or when the statement is killed.
#[derive(Debug)]
pub struct StatementPace;

impl Pace for StatementPace {
    fn passed(&self) -> Result<(), Ended> {
        interrupt::charge(PASSED_UNITS).map_err(|error| -> Ended { Arc::new(error) })
    }
}
