//! Shares the threads between merges: if there are several threads, short merges never wait for
//! long ones.
//!
//! A long merge takes minutes. Meanwhile a busy table would get more runs than it may have. So one
//! of several threads is for short merges alone. Pure: numbers in, a number out.

/// The limits of merges: the number that may go on at once, and the size from which a merge is
/// long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// The largest number of merges that may go on at once; at least 1.
    pub(crate) merges_max: usize,
    /// A merge that reads at least this many bytes is long.
    pub(crate) long_bytes: u64,
}

/// The numbers of merges under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UnderWay {
    pub(crate) merges: usize,
    /// The number of long merges (see [`Lanes::long_bytes`]) among `merges`.
    pub(crate) long: usize,
}

impl Lanes {
    /// Returns the limit below which the input of the next merge must stay, in bytes: [`u64::MAX`]
    /// if the next merge may be long; `None` if no merge may begin. If long merges take all threads
    /// but one, the next merge must be short.
    pub(crate) fn bytes_below(self, under_way: UnderWay) -> Option<u64> {
        let long_max = (self.merges_max - 1).max(1);
        if under_way.merges >= self.merges_max {
            return None;
        }
        Some(if under_way.long >= long_max {
            self.long_bytes
        } else {
            u64::MAX
        })
    }

    pub(crate) fn is_long(self, bytes: u64) -> bool {
        bytes >= self.long_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_of_several_is_for_short_merges() {
        const ANY: Option<u64> = Some(u64::MAX);
        const SHORT: Option<u64> = Some(100);
        for (merges_max, merges, long, expected) in [
            (1, 0, 0, ANY),
            (1, 1, 0, None),
            (1, 1, 1, None),
            (2, 0, 0, ANY),
            (2, 1, 0, ANY),
            (2, 1, 1, SHORT),
            (2, 2, 1, None),
            (4, 2, 2, ANY),
            (4, 3, 3, SHORT),
            (4, 3, 2, ANY),
            (4, 4, 3, None),
        ] {
            let lanes = Lanes {
                merges_max,
                long_bytes: 100,
            };
            let under_way = UnderWay { merges, long };
            let found = lanes.bytes_below(under_way);
            assert_eq!(found, expected, "{merges_max}: {under_way:?}");
        }
    }
}
