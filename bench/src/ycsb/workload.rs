//! Workloads: mixes of operations, and their distributions of records.
//!
//! There are two sets of names, because two papers use the same letters for different mixes: `a` to
//! `f` are YCSB's own (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010), and
//! `thesis-a` to `thesis-e` are those of section 5.2.4.1 of the thesis that ebb reproduces.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};

/// A named mix of operations, which can be parsed from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// The name, such as `a` or `thesis-c`.
    pub name: &'static str,
    /// The share of each operation in percent; they add up to 100.
    pub mix: &'static [(u32, Operation)],
    /// The distribution by which operations choose their records.
    pub distribution: Distribution,
}

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads one record.
    Read,
    /// Writes a new value for an existing record, without reading it.
    Update,
    /// Writes a new record.
    Insert,
    /// Reads 1 to 100 consecutive records; all these numbers are equally likely.
    Scan,
    /// Reads a record, then writes a new value for it; one latency for both.
    ReadModifyWrite,
}

/// The distribution of requests over records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// A few records get most requests; they lie anywhere in the key space.
    Zipfian,
    /// All records get equally many requests.
    Uniform,
    /// More recently inserted records get more requests.
    Latest,
}

impl Workload {
    /// All workloads, in the order of their names.
    pub const ALL: [Self; 11] = [
        Self::new("a", &[(50, Read), (50, Update)], Distribution::Zipfian),
        Self::new("b", &[(95, Read), (5, Update)], Distribution::Zipfian),
        Self::new("c", &[(100, Read)], Distribution::Zipfian),
        Self::new("d", &[(95, Read), (5, Insert)], Distribution::Latest),
        Self::new("e", &[(95, Scan), (5, Insert)], Distribution::Zipfian),
        Self::new(
            "f",
            &[(50, Read), (50, ReadModifyWrite)],
            Distribution::Zipfian,
        ),
        Self::new(
            "thesis-a",
            &[(50, Read), (50, Update)],
            Distribution::Zipfian,
        ),
        Self::new(
            "thesis-b",
            &[(95, Read), (5, Update)],
            Distribution::Zipfian,
        ),
        Self::new(
            "thesis-c",
            &[(50, Read), (50, ReadModifyWrite)],
            Distribution::Zipfian,
        ),
        Self::new("thesis-d", &[(100, Read)], Distribution::Zipfian),
        Self::new("thesis-e", &[(95, Read), (5, Insert)], Distribution::Latest),
    ];

    const fn new(
        name: &'static str,
        mix: &'static [(u32, Operation)],
        distribution: Distribution,
    ) -> Self {
        Self {
            name,
            mix,
            distribution,
        }
    }

    /// Returns the operation for a number that was drawn from `0..100`.
    ///
    /// # Panics
    /// If `percent` is 100 or more.
    pub fn operation(&self, percent: u32) -> Operation {
        let mut left = percent;
        for &(share, operation) in self.mix {
            if left < share {
                return operation;
            }
            left -= share;
        }
        panic!("{percent} is beyond the mix of workload {}", self.name)
    }

    /// Returns one line for each workload: its name, its mix, its distribution.
    pub fn listing() -> String {
        let line = |workload: &Self| format!("  {:<9} {workload:#}\n", workload.name);
        Self::ALL.iter().map(line).collect()
    }
}

/// Formats the name; with `{:#}` the mix and the distribution, such as "50% read, 50% update,
/// zipfian".
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return f.write_str(self.name);
        }
        for (share, operation) in self.mix {
            write!(f, "{share}% {operation}, ")?;
        }
        self.distribution.fmt(f)
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl FromStr for Workload {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|workload| workload.name == name);
        found.copied().ok_or_else(|| UnknownName {
            what: "workload",
            name: name.to_string(),
            known: Self::ALL.iter().map(|workload| workload.name).collect(),
        })
    }
}

impl Operation {
    /// All operations; the position is `Operation::index`.
    pub const ALL: [Self; 5] = [Read, Update, Insert, Scan, ReadModifyWrite];

    pub fn writes(self) -> bool {
        matches!(self, Update | Insert | ReadModifyWrite)
    }

    /// Returns the position of the operation in [`Operation::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Read => "read",
            Update => "update",
            Insert => "insert",
            Scan => "scan",
            ReadModifyWrite => "read-modify-write",
        })
    }
}

impl Distribution {
    const ALL: [(&'static str, Self); 3] = [
        ("zipfian", Self::Zipfian),
        ("uniform", Self::Uniform),
        ("latest", Self::Latest),
    ];
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Zipfian => "zipfian",
            Self::Uniform => "uniform",
            Self::Latest => "latest",
        })
    }
}

impl FromStr for Distribution {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, it)| *it).ok_or_else(|| UnknownName {
            what: "distribution",
            name: name.to_string(),
            known: Self::ALL.iter().map(|(known, _)| *known).collect(),
        })
    }
}

/// An error: there is no workload or distribution of the given name. Lists the names that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// "workload" or "distribution".
    pub what: &'static str,
    pub name: String,
    /// The existing names.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, known } = self;
        write!(f, "no {what} {name:?}; there are {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_covers_exactly_all_draws() {
        for workload in Workload::ALL {
            let total: u32 = workload.mix.iter().map(|(share, _)| share).sum();
            assert_eq!(total, 100, "{workload}");
            for (share, operation) in workload.mix {
                let drawn = (0..100).filter(|p| workload.operation(*p) == *operation);
                assert_eq!(drawn.count(), *share as usize, "{workload} {operation}");
            }
        }
    }

    #[test]
    fn names_parse_to_themselves_and_the_error_lists_all_names() {
        for workload in Workload::ALL {
            assert_eq!(workload.to_string().parse(), Ok(workload));
            assert!(Workload::listing().contains(workload.name));
        }
        let error = "g".parse::<Workload>().unwrap_err().to_string();
        assert!(
            error.contains("\"g\"") && error.contains("thesis-e"),
            "{error}"
        );
        for (name, distribution) in Distribution::ALL {
            assert_eq!(name.parse(), Ok(distribution));
            assert_eq!(distribution.to_string(), name);
        }
    }

    #[test]
    fn the_index_of_an_operation_is_its_position() {
        for (position, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation.index(), position);
        }
    }

    #[test]
    fn mixes_of_the_thesis_differ_from_c_on() {
        let mix = |name: &str| name.parse::<Workload>().unwrap().mix;
        assert_eq!(mix("thesis-c"), mix("f"));
        assert_eq!(mix("thesis-d"), mix("c"));
        assert_eq!(mix("thesis-e"), mix("d"));
    }
}
