//! The memory of tasks for their records.

use std::str::FromStr;

use bytesize::ByteSize;
use ebb_scheduler::runtime::TASK_MEMORY_BYTES_MIN;
use procfs::{Current, Meminfo};

use crate::error::CliError;
use crate::print::counted;

/// Parses `256MiB`, `1GB` or bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let size = ByteSize::from_str(text).map_err(|_| "expected a size, as in 256MiB or 1GB")?;
    Ok(size.as_u64())
}

/// Returns the memory of each of `tasks` tasks, which share `all_bytes`.
///
/// # Errors
/// When the share is too small to work with, or `all_bytes` is more than the machine has.
pub(super) fn of_a_task(all_bytes: u64, tasks: u32) -> Result<usize, CliError> {
    // If the memory of the machine is not known, any amount is accepted.
    let machine_bytes = Meminfo::current().map_or(u64::MAX, |memory| memory.mem_total);
    within(all_bytes, tasks, machine_bytes)
}

fn within(all_bytes: u64, tasks: u32, machine_bytes: u64) -> Result<usize, CliError> {
    let least_bytes = TASK_MEMORY_BYTES_MIN as u64 * u64::from(tasks);
    let shown = |bytes: u64| ByteSize(bytes).display().iec();
    if all_bytes < least_bytes {
        return Err(CliError::Usage(format!(
            "--memory {} is too little for {} at a time: at least {}, or fewer --cores",
            shown(all_bytes),
            counted(u64::from(tasks), "task"),
            shown(least_bytes),
        )));
    }
    if all_bytes > machine_bytes {
        return Err(CliError::Usage(format!(
            "--memory {} is more than the machine has, {}",
            shown(all_bytes),
            shown(machine_bytes),
        )));
    }
    Ok(usize::try_from(all_bytes / u64::from(tasks)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("256MiB"), Ok(256 << 20));
        assert_eq!(size("256 MB"), Ok(256_000_000));
        assert_eq!(size("1gib"), Ok(1 << 30));
        assert_eq!(size("65536"), Ok(65536));
        for bad in ["", "much", "-1", "1 parsec"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_tasks_together_have_the_memory_of_the_option() {
        assert_eq!(within(256 << 20, 2, 1 << 30).unwrap(), 128 << 20);
        assert_eq!(within(100_000, 3, 1 << 30).unwrap(), 33_333);
        let little = within(40_000, 3, 1 << 30).unwrap_err().to_string();
        assert!(little.contains("at least 48.0 KiB"), "{little}");
        let much = within(2 << 30, 2, 1 << 30).unwrap_err().to_string();
        assert!(much.contains("has, 1.0 GiB"), "{much}");
    }
}
