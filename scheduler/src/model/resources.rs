//! A vector of resources: the capacity of a node, or the demand of a task.

use serde::Serialize;

/// Amounts of the three resources that placement counts.
///
/// As a node's capacity it is the Omega of equations (10) and (18), as a task's
/// demand the Gamma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Resources {
    /// CPU in hundredths of a core.
    pub cpu_hundredths: u32,
    /// Disk and network traffic in bytes per second.
    pub io_bytes_per_s: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Resources {
    /// CPU only: no demand for the other two.
    #[must_use]
    pub const fn cpu(cpu_hundredths: u32) -> Self {
        Self {
            cpu_hundredths,
            io_bytes_per_s: 0,
            memory_bytes: 0,
        }
    }

    /// A capacity bounded in CPU and unbounded in the other two.
    #[must_use]
    pub const fn cpu_bound(cpu_hundredths: u32) -> Self {
        Self {
            cpu_hundredths,
            io_bytes_per_s: u64::MAX,
            memory_bytes: u64::MAX,
        }
    }

    /// Whether `demand` fits in what is left here, in every resource.
    #[must_use]
    pub const fn fits(&self, demand: &Self) -> bool {
        demand.cpu_hundredths <= self.cpu_hundredths
            && demand.io_bytes_per_s <= self.io_bytes_per_s
            && demand.memory_bytes <= self.memory_bytes
    }

    /// The larger amount of each resource.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.max(other.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.max(other.io_bytes_per_s),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// The smaller amount of each resource.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.min(other.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.min(other.io_bytes_per_s),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
        }
    }

    /// How many times `demand`, which is not nothing, fits in here.
    #[must_use]
    pub fn times(&self, demand: &Self) -> u64 {
        let times = |have: u64, need: u64| have.checked_div(need).unwrap_or(u64::MAX);
        times(self.cpu_hundredths.into(), demand.cpu_hundredths.into())
            .min(times(self.io_bytes_per_s, demand.io_bytes_per_s))
            .min(times(self.memory_bytes, demand.memory_bytes))
    }

    /// What is left after `demand`; never below zero, because a node may be
    /// asked to hold more than it has while running tasks drain.
    #[must_use]
    pub const fn less(&self, demand: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.saturating_sub(demand.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.saturating_sub(demand.io_bytes_per_s),
            memory_bytes: self.memory_bytes.saturating_sub(demand.memory_bytes),
        }
    }

    /// What there is after `demand` was given back.
    #[must_use]
    pub const fn plus(&self, demand: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.saturating_add(demand.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.saturating_add(demand.io_bytes_per_s),
            memory_bytes: self.memory_bytes.saturating_add(demand.memory_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_fits_only_if_every_resource_suffices() {
        let node = Resources {
            cpu_hundredths: 200,
            io_bytes_per_s: 50,
            memory_bytes: 10,
        };
        let task = Resources {
            cpu_hundredths: 100,
            io_bytes_per_s: 25,
            memory_bytes: 6,
        };
        assert!(node.fits(&task));
        let left = node.less(&task);
        assert!(!left.fits(&task), "4 bytes of memory are left for 6");
        assert_eq!(left.plus(&task), node);
        assert_eq!(node.times(&task), 1);
        assert_eq!(node.times(&Resources::cpu(50)), 4);
        assert_eq!(Resources::cpu_bound(300).times(&Resources::cpu(100)), 3);
    }
}
