//! A range of keys, as arguments.

use std::ffi::OsString;
use std::ops::Bound;

use super::names::{end_of_prefix, key_bytes};

/// A range of keys: from one key to another, or all keys with a prefix; without an option, all
/// keys.
#[derive(Debug, clap::Args)]
pub(super) struct KeyRange {
    /// The first key.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// The end: this key and those after it are left out.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that start with this.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
}

impl KeyRange {
    pub(super) fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let key = |argument: &Option<OsString>| argument.as_deref().map(|a| key_bytes(a).to_vec());
        let (from, to) = match key(&self.prefix) {
            Some(prefix) => (Some(prefix.clone()), end_of_prefix(&prefix)),
            None => (key(&self.from), key(&self.to)),
        };
        (
            from.map_or(Bound::Unbounded, Bound::Included),
            to.map_or(Bound::Unbounded, Bound::Excluded),
        )
    }
}
