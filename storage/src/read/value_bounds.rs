//! The bounds of expiries and timestamps in values. Files record them, so that readers and
//! merges can skip a file without reading it.

use serde::{Deserialize, Serialize};

use super::{MergeOperator, TimestampBounds};
use crate::key::Kind;
use crate::key::expiry::EXPIRY_BYTES;

/// The bounds of the timestamps and of the expiries in values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueBounds {
    /// The bounds of the timestamps; `None` if they are not known.
    pub timestamps: Option<TimestampBounds>,
    /// The bounds of the times at which something in the values expires.
    pub expiries: ExpiryBounds,
}

impl ValueBounds {
    /// Returns the bounds for no values at all. The timestamps are known only if the merge operator
    /// is known.
    pub(crate) fn of_none(operator: Option<&dyn MergeOperator>) -> Self {
        Self {
            timestamps: operator.map(|_| TimestampBounds::NONE),
            expiries: ExpiryBounds::Never,
        }
    }

    /// Returns the bounds of all values that `self` or `other` covers.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let timestamps = self.timestamps.zip(other.timestamps);
        Self {
            timestamps: timestamps.map(|(one, other)| one.union(other)),
            expiries: self.expiries.union(other.expiries),
        }
    }
}

/// The bounds of the times at which something in values expires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExpiryBounds {
    /// No value expires.
    #[default]
    Never,
    /// All expiries lie between two times, both included.
    Within {
        /// The earliest expiry, in milliseconds since the Unix epoch.
        least_ms: u64,
        /// The latest expiry, in milliseconds since the Unix epoch.
        greatest_ms: u64,
    },
    /// Not known: something in the values may expire at any time.
    Unknown,
}

impl ExpiryBounds {
    /// Returns the bounds of something that expires at this time, in milliseconds since the Unix
    /// epoch: readers at this time or later no longer see it.
    pub fn at_ms(expiry_ms: u64) -> Self {
        Self::Within {
            least_ms: expiry_ms,
            greatest_ms: expiry_ms,
        }
    }

    /// Returns the bounds of all times that `self` or `other` covers.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Never, bounds) | (bounds, Self::Never) => bounds,
            (
                Self::Within {
                    least_ms,
                    greatest_ms,
                },
                Self::Within {
                    least_ms: least,
                    greatest_ms: greatest,
                },
            ) => Self::Within {
                least_ms: least_ms.min(least),
                greatest_ms: greatest_ms.max(greatest),
            },
        }
    }

    pub(crate) fn is_never(&self) -> bool {
        *self == Self::Never
    }

    /// Returns whether something may expire after `after_ms` and not after `up_to_ms`: a reader at
    /// the time `after_ms` may see it, and a reader at `up_to_ms` does not.
    pub(crate) fn may_expire(self, after_ms: u64, up_to_ms: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Within {
                least_ms,
                greatest_ms,
            } => least_ms <= up_to_ms && after_ms < greatest_ms,
            Self::Unknown => after_ms < up_to_ms,
        }
    }
}

/// Returns the bounds of the timestamps and of the expiries in a version. Without an `operator` no
/// timestamps are known, and the expiries in the value are `otherwise`.
pub(crate) fn bounds_of(
    operator: Option<&dyn MergeOperator>,
    otherwise: ExpiryBounds,
    key: &[u8],
    kind: Kind,
    value: &[u8],
) -> ValueBounds {
    let of_value = |value: &[u8]| match operator {
        Some(operator) => operator.bounds(key, value),
        None => ValueBounds {
            timestamps: None,
            expiries: otherwise,
        },
    };
    match kind {
        Kind::Put | Kind::Merge => of_value(value),
        Kind::Delete => ValueBounds::of_none(operator),
        Kind::ExpiringPut => {
            let expiries = match value.split_first_chunk::<EXPIRY_BYTES>() {
                Some((expiry, value)) => {
                    let at = ExpiryBounds::at_ms(u64::from_le_bytes(*expiry));
                    at.union(of_value(value).expiries)
                }
                None => ExpiryBounds::Unknown,
            };
            ValueBounds {
                timestamps: None,
                expiries,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn within(least_ms: u64, greatest_ms: u64) -> ExpiryBounds {
        ExpiryBounds::Within {
            least_ms,
            greatest_ms,
        }
    }

    #[test]
    fn bounds_meet_the_time_between_two_readers_where_one_of_them_sees_more() {
        for (bounds, after_ms, up_to_ms, expected) in [
            (ExpiryBounds::Never, 0, u64::MAX, false),
            (ExpiryBounds::Unknown, 5, 6, true),
            (ExpiryBounds::Unknown, 5, 5, false),
            // Gone for the older reader already.
            (ExpiryBounds::at_ms(5), 5, 9, false),
            (ExpiryBounds::at_ms(6), 5, 9, true),
            (ExpiryBounds::at_ms(9), 5, 9, true),
            // There for the newer reader, too.
            (ExpiryBounds::at_ms(10), 5, 9, false),
            (within(1, 5), 5, 9, false),
            (within(1, 6), 5, 9, true),
            (within(1, 100), 5, 9, true),
            (within(9, 100), 5, 9, true),
            (within(10, 100), 5, 9, false),
        ] {
            assert_eq!(
                bounds.may_expire(after_ms, up_to_ms),
                expected,
                "{bounds:?} from {after_ms} to {up_to_ms}"
            );
        }
    }

    #[test]
    fn the_union_of_bounds_has_both_and_what_is_unknown_stays_so() {
        use ExpiryBounds::{Never, Unknown};
        for (one, other, expected) in [
            (Never, Never, Never),
            (Never, within(3, 5), within(3, 5)),
            (within(3, 5), within(4, 9), within(3, 9)),
            (within(3, 5), within(8, 9), within(3, 9)),
            (within(3, 5), Unknown, Unknown),
            (Never, Unknown, Unknown),
        ] {
            assert_eq!((one.union(other), other.union(one)), (expected, expected));
        }
    }

    #[test]
    fn a_put_that_expires_is_known_without_a_merge_operator() {
        let value = [7_u64.to_le_bytes().as_slice(), b"value"].concat();
        for (kind, value, expected) in [
            (Kind::Put, &value[..], ExpiryBounds::Never),
            (Kind::Delete, b"", ExpiryBounds::Never),
            (Kind::ExpiringPut, &value[..], ExpiryBounds::at_ms(7)),
            (Kind::ExpiringPut, b"short", ExpiryBounds::Unknown),
        ] {
            let bounds = bounds_of(None, ExpiryBounds::Never, b"k", kind, value);
            assert_eq!(bounds.expiries, expected, "{kind:?}");
        }
        let unknown = bounds_of(None, ExpiryBounds::Unknown, b"k", Kind::Put, &value);
        assert_eq!(unknown.expiries, ExpiryBounds::Unknown);
    }
}
