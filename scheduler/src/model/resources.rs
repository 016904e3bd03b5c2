//! A vector of resources: the capacity of a node, or the demand of a task.

use serde::Serialize;

/// Amounts of the three resources that placement counts.
///
/// A node's capacity is Omega in the thesis's equations (10) and (18), a task's demand is Gamma.
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
    /// Returns a demand for CPU only; zero I/O and memory.
    #[must_use]
    pub const fn cpu(cpu_hundredths: u32) -> Self {
        Self {
            cpu_hundredths,
            io_bytes_per_s: 0,
            memory_bytes: 0,
        }
    }

    /// Returns a capacity that bounds CPU only; I/O and memory are unbounded.
    #[must_use]
    pub const fn cpu_bound(cpu_hundredths: u32) -> Self {
        Self {
            cpu_hundredths,
            io_bytes_per_s: u64::MAX,
            memory_bytes: u64::MAX,
        }
    }

    /// Returns whether `demand` fits into `self`, in every resource.
    #[must_use]
    pub const fn fits(&self, demand: &Self) -> bool {
        demand.cpu_hundredths <= self.cpu_hundredths
            && demand.io_bytes_per_s <= self.io_bytes_per_s
            && demand.memory_bytes <= self.memory_bytes
    }

    /// Returns the larger of the two amounts, resource by resource.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.max(other.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.max(other.io_bytes_per_s),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// Returns the smaller of the two amounts, resource by resource.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.min(other.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.min(other.io_bytes_per_s),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
        }
    }

    /// Returns how many times `demand` fits into `self`; `u64::MAX` if `demand` is zero in every
    /// resource.
    #[must_use]
    pub fn times(&self, demand: &Self) -> u64 {
        let times = |have: u64, need: u64| have.checked_div(need).unwrap_or(u64::MAX);
        times(self.cpu_hundredths.into(), demand.cpu_hundredths.into())
            .min(times(self.io_bytes_per_s, demand.io_bytes_per_s))
            .min(times(self.memory_bytes, demand.memory_bytes))
    }

    /// Returns `self` minus `demand`, or 0 for a resource of which `demand` is larger: a node whose
    /// capacity shrank may hold tasks that together demand more than it has.
    #[must_use]
    pub const fn less(&self, demand: &Self) -> Self {
        Self {
            cpu_hundredths: self.cpu_hundredths.saturating_sub(demand.cpu_hundredths),
            io_bytes_per_s: self.io_bytes_per_s.saturating_sub(demand.io_bytes_per_s),
            memory_bytes: self.memory_bytes.saturating_sub(demand.memory_bytes),
        }
    }

    /// Returns `self` plus `demand`, for example the free capacity of a node after a task with this
    /// demand has ended. A sum that is too large for the type becomes its largest value.
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
