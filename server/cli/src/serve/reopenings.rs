//! The decision of a server after a failed write: to open its database again, or to give up.
//!
//! ```text
//!   text ─> the earlier reopenings ─ a write failed, now ─┬─> reopen: the list with now ─> text
//!                                                         └─> give up: too many within an hour
//! ```
//!
//! Times are seconds since the boot of the machine, so setting the clock of the machine has no effect.

/// The most reopenings within [`WITHIN_S`]. A disk whose writes fail again and again is not written to
/// for ever.
pub(super) const REOPENINGS_MAX: usize = 3;

/// The time in which reopenings count, in seconds: an hour.
const WITHIN_S: u64 = 3600;

/// The times at which a server has opened its database again after a failed write. The server passes them to
/// the program that replaces it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reopenings {
    /// Seconds since the boot of the machine, ascending.
    at_s: Vec<u64>,
}

/// The reaction to a failed write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The server opens its database again. The list contains this reopening, and the earlier ones of the
    /// last hour.
    Reopen(Reopenings),
    /// The server ends: it has opened its database [`REOPENINGS_MAX`] times within the last hour.
    GiveUp,
}

impl Reopenings {
    /// Reads the output of [`text`](Self::text). Returns `None` if the text is malformed or has the id of
    /// another process, because a child process inherits the text of its parent.
    pub(super) fn parse(text: &str, process: u32) -> Option<Self> {
        let (id, times) = text.split_once(':')?;
        if id.parse::<u32>() != Ok(process) {
            return None;
        }
        let times: Result<Vec<u64>, _> = times.split(',').map(str::parse::<u64>).collect();
        Some(Self { at_s: times.ok()? })
    }

    /// Returns the id of the process and the times, as in `4711:86400,86523`.
    pub(super) fn text(&self, process: u32) -> String {
        let times: Vec<String> = self.at_s.iter().map(u64::to_string).collect();
        format!("{process}:{}", times.join(","))
    }

    /// Returns the number of reopenings in the list.
    pub(super) fn count(&self) -> usize {
        self.at_s.len()
    }

    /// Returns the time of the last reopening, in seconds since the boot of the machine; `None` without any.
    pub(super) fn last_s(&self) -> Option<u64> {
        self.at_s.last().copied()
    }

    /// Decides what the server does after a write that failed `now_s` seconds after the boot. Times above
    /// `now_s` do not count: they are of an earlier boot.
    pub(super) fn decide(&self, now_s: u64) -> Decision {
        let counts = |at_s: &u64| now_s.checked_sub(*at_s).is_some_and(|ago| ago < WITHIN_S);
        let mut at_s: Vec<u64> = self.at_s.iter().copied().filter(counts).collect();
        if at_s.len() >= REOPENINGS_MAX {
            return Decision::GiveUp;
        }
        at_s.push(now_s);
        Decision::Reopen(Self { at_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(at_s: &[u64]) -> Reopenings {
        Reopenings {
            at_s: at_s.to_vec(),
        }
    }

    #[test]
    fn the_fourth_failed_write_within_an_hour_is_one_too_many() {
        let mut reopenings = Reopenings::default();
        for now_s in [100, 200, 3699] {
            let Decision::Reopen(next) = reopenings.decide(now_s) else {
                panic!("{reopenings:?} at {now_s}");
            };
            reopenings = next;
        }
        assert_eq!(reopenings, of(&[100, 200, 3699]));
        assert_eq!(reopenings.last_s(), Some(3699));
        assert_eq!(reopenings.decide(3699), Decision::GiveUp);
    }

    #[test]
    fn reopenings_count_for_an_hour() {
        let reopenings = of(&[100, 200, 300]);
        assert_eq!(reopenings.decide(3699), Decision::GiveUp);
        let next = Decision::Reopen(of(&[200, 300, 3700]));
        assert_eq!(reopenings.decide(3700), next);
        let next = Decision::Reopen(of(&[9000]));
        assert_eq!(reopenings.decide(9000), next);
    }

    #[test]
    fn times_of_an_earlier_boot_do_not_count() {
        let reopenings = of(&[7000, 8000, 9000]);
        assert_eq!(reopenings.decide(50), Decision::Reopen(of(&[50])));
    }

    #[test]
    fn the_text_is_read_by_the_process_that_wrote_it() {
        for reopenings in [of(&[5]), of(&[86_400, 86_523, 86_600])] {
            let text = reopenings.text(4711);
            assert_eq!(Reopenings::parse(&text, 4711), Some(reopenings));
            assert_eq!(Reopenings::parse(&text, 4712), None);
        }
        assert_eq!(of(&[86_400, 86_523]).text(4711), "4711:86400,86523");
    }

    #[test]
    fn malformed_text_is_no_reopening() {
        for text in ["", "7", "7:", "7:x", "7:1,", "7:1,-2", ":1", "x:1", "7:1:2"] {
            assert_eq!(Reopenings::parse(text, 7), None, "{text:?}");
        }
    }
}
