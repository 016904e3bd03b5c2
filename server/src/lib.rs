//! The ebb server library.
