//! The record of the load over weeks: the mean number of cores that it used in each slot of five minutes.
//!
//! The text of a record has a line `TIME,CORES` for each slot that was measured, in the order of time. TIME is
//! the begin of the slot in seconds since 1970. `ebb forecast` reads this form.

use std::collections::BTreeMap;

use crate::mean_cores::MeanCores;

/// The length of a slot in seconds. A day of 288 slots shows each rise of a load, and a forecast of it takes
/// about a second of CPU time.
pub(crate) const SLOT_S: u64 = 300;
/// The number of slots of a day.
pub(crate) const SLOTS_PER_DAY: u64 = 86_400 / SLOT_S;
/// The earliest time of a slot, in seconds since 1970: 2025-01-01 00:00 UTC. This version of ebb is younger, so only a
/// wrong clock shows an earlier time. Such a clock is mostly one that begins at 1970 when the machine starts, and its
/// slots would make `ebb forecast` read gaps of decades.
const EARLIEST_S: u64 = 1_735_689_600;
/// The most slots of a record: eight weeks of measurements, so a file of 372 kB at most. Older slots than
/// these are in no forecast either.
const SLOTS_MAX: u64 = 56 * SLOTS_PER_DAY;
/// The number of slots that a record has after its oldest slots were dropped: a week less than
/// [`SLOTS_MAX`], so that the file of the record has to be rewritten only once a week.
const SLOTS_KEPT: u64 = 49 * SLOTS_PER_DAY;
/// The number of slots that have to be added in a row before later slots until the record drops the later ones: a
/// day. Most machines set a wrong clock within minutes, by NTP. While the clock is behind, each slot has the file of
/// the record rewritten, 372 kB at most.
const BEHIND_MAX: u64 = SLOTS_PER_DAY;
/// The least measured time from which the mean of a slot is recorded, in seconds: half of the slot.
const SECONDS_MIN: f64 = SLOT_S as f64 / 2.0;
/// The greatest number of cores in a line. A larger one is damage.
const CORES_MAX: f64 = 1e6;

/// The load of the last weeks, at most eight weeks of measurements. A slot without a measurement, for example
/// while the server was down, is missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadRecord {
    /// The cores that the load used, by the number of the slot: its begin in seconds since 1970, divided by
    /// [`SLOT_S`].
    cores: BTreeMap<u64, f64>,
    /// The number of slots that were added in a row while the record had later ones, or the same. No file has it, so
    /// a server that is restarted each day keeps later slots until their time comes: forecasts do not use them.
    added_behind: u64,
}

/// The change of a record by a slot that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordChange {
    /// True if the lines of the record are those from before and then the line of the slot, so that this line can be
    /// appended to a file of them. Otherwise the file must be rewritten.
    pub is_appended: bool,
    /// The number of slots that were dropped because they were ahead of the clock.
    pub dropped_ahead: usize,
}

/// The load in one slot of five minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadSlot {
    number: u64,
    cores: f64,
}

impl LoadSlot {
    /// Returns the line of the slot, with a line feed.
    pub fn line(self) -> String {
        format!("{},{:.3}\n", self.number * SLOT_S, self.cores)
    }

    /// Returns the slot of a line without its line feed; `None` if the line is damaged, or its time is before
    /// [`EARLIEST_S`].
    fn of(line: &str) -> Option<Self> {
        let (time, cores) = line.split_once(',')?;
        let (unix_s, cores) = (time.parse::<u64>().ok()?, cores.parse::<f64>().ok()?);
        let is_possible = unix_s >= EARLIEST_S && (0.0..=CORES_MAX).contains(&cores);
        is_possible.then_some(Self {
            number: unix_s / SLOT_S,
            cores,
        })
    }
}

impl LoadRecord {
    /// Reads a record from the lines of a file. Lines that are damaged or of a time before 2025 are skipped, and so
    /// is a last line without a line feed, whose end may be missing. Returns false beside the record if lines were
    /// skipped or were not in the order of time: then the file should be rewritten, for others that read it.
    pub fn read(text: &[u8]) -> (Self, bool) {
        let text = String::from_utf8_lossy(text);
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut is_whole = whole.len() == text.len();
        let mut record = Self::default();
        for line in whole.lines() {
            let Some(slot) = LoadSlot::of(line) else {
                is_whole = false;
                continue;
            };
            // `push` would take a damaged time for one of a clock that was ahead.
            is_whole &= record.last().is_none_or(|last| last < slot.number);
            record.cores.insert(slot.number, slot.cores);
        }
        (record, is_whole)
    }

    /// Adds a slot that was just measured. If the record has later slots, either the clock is behind now, for
    /// example until the machine gets the time from the network, or it was ahead then. So later slots stay until a
    /// day of slots in a row was added before them, and are dropped then. A forecast is made only of slots before the
    /// present, so later ones do no harm meanwhile.
    ///
    /// If the record has more than eight weeks of slots, keeps the latest seven: their number counts, not their
    /// age, so that a clock that is far ahead for a while displaces no other slot.
    pub fn push(&mut self, slot: LoadSlot) -> RecordChange {
        let mut later = self.cores.split_off(&slot.number);
        let is_last = later.is_empty();
        later.remove(&slot.number);
        self.cores.insert(slot.number, slot.cores);
        self.added_behind = if is_last { 0 } else { self.added_behind + 1 };
        let mut dropped_ahead = 0;
        if self.added_behind < BEHIND_MAX {
            self.cores.extend(later);
        } else {
            self.added_behind = 0;
            dropped_ahead = later.len();
        }
        let is_long = self.cores.len() as u64 > SLOTS_MAX;
        let oldest = self.cores.keys().nth_back(SLOTS_KEPT as usize - 1).copied();
        if let Some(oldest) = oldest.filter(|_| is_long) {
            self.cores = self.cores.split_off(&oldest);
        }
        RecordChange {
            is_appended: is_last && !is_long,
            dropped_ahead,
        }
    }

    /// Returns all lines, in the order of time.
    pub fn text(&self) -> String {
        let slots = self.cores.iter();
        let line = |(&number, &cores): (&u64, &f64)| LoadSlot { number, cores }.line();
        slots.map(line).collect()
    }

    fn last(&self) -> Option<u64> {
        self.cores.last_key_value().map(|(number, _)| *number)
    }

    /// Returns the number of the first slot in the eight weeks before the slot `end`, and the cores of all slots
    /// from it until `end`, without `end` itself; `None` for slots that were not measured. Returns `None` if
    /// there is no slot.
    pub(crate) fn until(&self, end: u64) -> Option<(u64, Vec<Option<f64>>)> {
        let (first, _) = self
            .cores
            .range(end.saturating_sub(SLOTS_MAX)..end)
            .next()?;
        let slots = (*first..end).map(|number| self.cores.get(&number).copied());
        Some((*first, slots.collect()))
    }
}

/// The mean of the load in the present slot, from measurements that are shorter than a slot.
#[derive(Debug, Default)]
pub struct SlotMean {
    /// The number of the present slot, and its measurements so far.
    open: Option<(u64, MeanCores)>,
}

impl SlotMean {
    /// Adds a measurement: the load used `cores` cores on average over the `length_s` seconds before `unix_s`, a
    /// time in seconds since 1970. Returns the slot before if this measurement begins another one, and at least
    /// half of the slot before was measured. Ignores numbers that are not finite, and a time before 2025, which only
    /// a wrong clock shows.
    pub fn take(&mut self, unix_s: f64, length_s: f64, cores: f64) -> Option<LoadSlot> {
        let measured = MeanCores::of(length_s, cores)?;
        if !(EARLIEST_S as f64..1e15).contains(&unix_s) {
            return None;
        }
        let present = unix_s as u64 / SLOT_S;
        let ended = self.open.take_if(|(number, _)| *number != present);
        let (_, open) = self.open.get_or_insert((present, MeanCores::default()));
        open.add(measured);
        let (number, measured) = ended?;
        let cores = measured.mean()?;
        (measured.seconds() >= SECONDS_MIN).then_some(LoadSlot {
            number,
            cores: cores.min(CORES_MAX),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A midnight: 2026-11-30 00:00 UTC.
    pub(crate) const MIDNIGHT_S: u64 = 1_795_996_800;

    /// Returns a record of a load that `cores` gives for each slot, counted from 0 at [`MIDNIGHT_S`].
    pub(crate) fn record(slots: u64, cores: impl Fn(u64) -> Option<f64>) -> LoadRecord {
        let first = MIDNIGHT_S / SLOT_S;
        let slots = (0..slots).filter_map(|slot| Some((first + slot, cores(slot)?)));
        LoadRecord {
            cores: slots.collect(),
            added_behind: 0,
        }
    }

    pub(crate) fn slot(number: u64, cores: f64) -> LoadSlot {
        LoadSlot { number, cores }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let written = record(500, |slot| (slot % 7 != 3).then_some(slot as f64 / 8.0));
        let text = written.text();
        assert_eq!(
            text.lines().next(),
            Some(format!("{MIDNIGHT_S},0.000").as_str())
        );
        assert_eq!(LoadRecord::read(text.as_bytes()), (written, true));
        assert_eq!(LoadRecord::read(b""), (LoadRecord::default(), true));
    }

    #[test]
    fn damaged_lines_are_skipped_and_reported() {
        let good = record(3, |_| Some(0.5));
        for damage in [
            // A torn line, and one that looks like a whole one.
            "1795",
            "1795999999,0.",
            "1795999999\n",
            "x,1\n",
            "1795999999,-1\n",
            "1795999999,NaN\n",
            "1795999999,1e300\n",
            "1795999999,1,2\n",
            "\0\0\0\0\n",
            "\n",
            // The times of a clock that began at 1970, and of the last second before 2025.
            "300,1.000\n",
            "1735689599,1.000\n",
        ] {
            let text = good.text() + damage;
            assert_eq!(LoadRecord::read(text.as_bytes()), (good.clone(), false));
            let before = format!("{damage}\n{}", good.text());
            let (read, is_whole) = LoadRecord::read(before.as_bytes());
            assert!(!is_whole && read.cores.len() >= 3, "{damage:?}");
        }
        let (read, is_whole) = LoadRecord::read(b"\xff\xfe,1\n1795996800,0.250\n");
        assert_eq!((read.cores.len(), is_whole), (1, false));
    }

    #[test]
    fn a_line_with_a_wrong_time_displaces_no_other() {
        let good = record(4, |_| Some(0.5)).text();
        for wrong in ["9795996800,1.000\n", "1735689600,1.000\n"] {
            let (read, is_whole) = LoadRecord::read((wrong.to_owned() + &good).as_bytes());
            assert_eq!(read.cores.len(), 5);
            assert_eq!(is_whole, wrong.starts_with('1'));
        }
    }

    #[test]
    fn a_record_has_eight_weeks_of_slots_at_most() {
        let mut full = record(SLOTS_MAX, |_| Some(0.5));
        let first = MIDNIGHT_S / SLOT_S;
        let next = slot(first + SLOTS_MAX, 1.0);
        assert!(full.text().len() <= 372_000);
        assert!(!full.push(next).is_appended);
        assert_eq!(full.cores.len() as u64, SLOTS_KEPT);
        assert_eq!(full.last(), Some(next.number));
        assert!(full.push(slot(next.number + 1, 1.0)).is_appended);
        // For one slot, the clock is years ahead.
        let ahead = next.number + 10 * SLOTS_MAX;
        assert!(full.push(slot(ahead, 1.0)).is_appended);
        assert!(!full.push(slot(next.number + 2, 1.0)).is_appended);
        assert_eq!(full.cores.len() as u64, SLOTS_KEPT + 3);
        assert_eq!(full.last(), Some(ahead));
    }

    #[test]
    fn slots_that_were_not_measured_are_gaps() {
        let is_down = |slot: u64| (50..63).contains(&slot);
        let load = record(100, |slot| (!is_down(slot)).then_some(slot as f64));
        let first = MIDNIGHT_S / SLOT_S;
        let (begin, slots) = load.until(first + 103).unwrap();
        assert_eq!((begin, slots.len()), (first, 103));
        for (at, cores) in slots.into_iter().enumerate() {
            let is_missing = (50..63).contains(&at) || at >= 100;
            assert_eq!(cores.is_none(), is_missing, "{at}");
            assert!(cores.is_none_or(|cores| cores == at as f64));
        }
        assert!(load.until(first).is_none());
    }

    /// Adds `slots` slots from the number `first` on, which are before others of the record. None of these is dropped.
    fn push_behind(load: &mut LoadRecord, first: u64, slots: u64) {
        for number in first..first + slots {
            let between = RecordChange {
                is_appended: false,
                dropped_ahead: 0,
            };
            assert_eq!(load.push(slot(number, 1.0)), between);
        }
    }

    #[test]
    fn slots_of_a_clock_that_was_ahead_are_dropped_after_a_day() {
        let mut load = record(400, |_| Some(0.5));
        let first = MIDNIGHT_S / SLOT_S;
        push_behind(&mut load, first + 10, SLOTS_PER_DAY - 1);
        assert_eq!((load.cores.len(), load.last()), (400, Some(first + 399)));
        let now = first + 10 + SLOTS_PER_DAY - 1;
        let dropped = load.push(slot(now, 1.0));
        assert!(!dropped.is_appended);
        assert_eq!(dropped.dropped_ahead as u64, first + 399 - now);
        assert_eq!(load.last(), Some(now));
        // The same slot a second time, after the clock was set back by minutes.
        assert!(!load.push(slot(now, 2.0)).is_appended);
        assert_eq!(load.cores[&now], 2.0);
        assert!(load.push(slot(now + 1, 1.0)).is_appended);
    }

    /// Regression: one slot of a clock that was far behind, for example before it was set after the start of the
    /// machine, erased the record.
    #[test]
    fn a_clock_that_is_behind_for_hours_drops_no_slot() {
        let mut load = record(3 * SLOTS_PER_DAY, |slot| Some(slot as f64));
        let end = MIDNIGHT_S / SLOT_S + 3 * SLOTS_PER_DAY;
        let before = load.until(end);
        // Twice it is January 2025, and the clock is set in between.
        for now in [end, end + 1] {
            push_behind(&mut load, EARLIEST_S / SLOT_S, SLOTS_PER_DAY - 1);
            assert!(load.push(slot(now, 1.0)).is_appended);
        }
        assert_eq!(load.until(end), before);
    }

    /// Regression: a slot that was measured while the clock was at 1970 stayed in the record, and `ebb forecast` read
    /// gaps of 56 years behind it.
    #[test]
    fn a_time_that_no_right_clock_has_is_not_recorded() {
        let mut mean = SlotMean::default();
        for second in [60, 300, 600, EARLIEST_S - 1] {
            assert_eq!(mean.take(second as f64, 250.0, 1.0), None);
        }
        // The clock is set.
        let at = |second: u64| (EARLIEST_S + second) as f64;
        assert_eq!(mean.take(at(0), 200.0, 2.0), None);
        // For a moment it is 1970 again.
        assert_eq!(mean.take(60.0, 60.0, 9.0), None);
        let first = slot(EARLIEST_S / SLOT_S, 2.0);
        assert_eq!(mean.take(at(300), 1.0, 1.0), Some(first));
    }

    #[test]
    fn the_mean_of_a_slot_weights_measurements_by_their_length() {
        let mut mean = SlotMean::default();
        let at = |second: u64| (MIDNIGHT_S + second) as f64;
        assert_eq!(mean.take(at(60), 60.0, 1.0), None);
        assert_eq!(mean.take(at(180), 120.0, 4.0), None);
        let number = MIDNIGHT_S / SLOT_S;
        assert_eq!(mean.take(at(300), 1.0, 9.0), Some(slot(number, 3.0)));
        // Of the slot that began there, less than half is measured.
        assert_eq!(mean.take(at(600), 100.0, 1.0), None);
        // The clock is set back.
        assert_eq!(mean.take(at(60), 60.0, 1.0), None);
        for (unix_s, length_s, cores) in [
            (f64::NAN, 1.0, 1.0),
            (-1.0, 1.0, 1.0),
            (f64::INFINITY, 1.0, 1.0),
            (at(900), 0.0, 1.0),
            (at(900), 1.0, f64::NAN),
            (at(900), f64::MAX, f64::MAX),
        ] {
            assert_eq!(mean.take(unix_s, length_s, cores), None);
        }
    }
}
