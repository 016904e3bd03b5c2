//! The node: the store, and the co-location loop beside it.
//!
//! `store` shows what a store measures of itself to crate `ebb-colocate`, which knows
//! no store.

mod store;

pub use store::{StoreRequests, StoreWindows};
