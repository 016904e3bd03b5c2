//! One task: a map or a reduce, on a thread or in a process.
//!
//! | file | contents |
//! | --- | --- |
//! | `map`, `reduce` | the two kinds of task |
//! | `key_sample` | the sample that determines the ranges of a global sort |

pub(in crate::runtime) mod key_sample;
pub(in crate::runtime) mod map;
pub(in crate::runtime) mod reduce;
