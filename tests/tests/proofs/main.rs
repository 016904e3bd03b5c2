//! The proofs of the storage engine for a bounded time, in one binary.

mod backup;
mod backup_beside_writer;
mod crash;
mod full_disk;
mod isolation;
mod model;
mod repair;
mod soak;
mod verify;
