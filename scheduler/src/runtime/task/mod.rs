//! One task: a map or a reduce, on whatever thread it is carried out.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `map`, `reduce` | the two kinds |
//! | `key_sample` | where the ranges of a global sort are cut |

pub(in crate::runtime) mod key_sample;
pub(in crate::runtime) mod map;
pub(in crate::runtime) mod reduce;
