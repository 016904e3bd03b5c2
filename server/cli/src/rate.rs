//! The option `--rate` of commands that read the whole database.

use std::num::NonZeroU64;
use std::str::FromStr;

use bytesize::ByteSize;
use ebb_server::node::Pace;
use ebb_storage::MaintenanceProgress;

/// The limit on the bytes per second that a command reads.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Rate {
    /// Bytes per second at most, as in 50MiB [default: no limit].
    #[arg(long = "rate", value_name = "BYTES_PER_S", value_parser = rate)]
    pub(super) bytes_per_s: Option<NonZeroU64>,
}

impl Rate {
    /// Returns a callback for the progress of some work. The callback calls `tell`, and then sleeps
    /// as long as more bytes are done than the rate allows.
    pub(super) fn paced(
        self,
        tell: &mut dyn FnMut(MaintenanceProgress),
    ) -> impl FnMut(MaintenanceProgress) {
        let mut pace = self.bytes_per_s.map(Pace::new);
        move |now| {
            tell(now);
            if let Some(pace) = &mut pace {
                pace.wait(now.bytes_done, || true);
            }
        }
    }
}

/// Parses `50MiB`, `1GB` or bytes.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    let size = ByteSize::from_str(text).map_err(|_| "expected bytes per second, as in 50MiB")?;
    let none = || "at least 1 byte per second is expected; without --rate there is no limit";
    Ok(NonZeroU64::new(size.as_u64()).ok_or_else(none)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes_above_zero() {
        assert_eq!(rate("50MiB").unwrap().get(), 50 << 20);
        assert_eq!(rate("1000").unwrap().get(), 1000);
        for bad in ["", "0", "0MiB", "fast", "-1", "50MiB/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
