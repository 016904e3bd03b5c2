//! The workloads of the section: mixes of operations.

use serde::{Deserialize, Serialize};

/// A workload of section 5.2.4.1 of the thesis: the mix of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// 50% read, 50% update.
    A,
    /// 95% read, 5% update.
    B,
    /// 50% read, 50% read-modify-write.
    C,
    /// Read only.
    D,
    /// 95% read of the latest, 5% insert.
    E,
}

impl Mix {
    pub const ALL: [Self; 5] = [Self::A, Self::B, Self::C, Self::D, Self::E];

    /// Returns the name of the driver's workload.
    pub fn workload(self) -> &'static str {
        match self {
            Self::A => "thesis-a",
            Self::B => "thesis-b",
            Self::C => "thesis-c",
            Self::D => "thesis-d",
            Self::E => "thesis-e",
        }
    }

    pub fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_those_of_the_driver() {
        for mix in Mix::ALL {
            let workload: crate::ycsb::Workload = mix.workload().parse().unwrap();
            assert!(workload.name.ends_with(&mix.letter().to_lowercase()));
        }
    }
}
