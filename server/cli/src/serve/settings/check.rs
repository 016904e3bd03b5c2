//! The check of the settings, each by itself and against each other.

use bytesize::ByteSize;
use ebb_colocate::FLOOR_CORES_MIN;

use super::fields::Settings;
use crate::error::CliError;
use crate::listening::check_clear_http;

/// The least value of the setting `request-bytes-max`. Drivers' queries of system tables fit into it.
const REQUEST_BYTES_LEAST: u64 = 64 << 10;
/// The greatest value of the setting `request-bytes-max`: the limit of the protocol.
const REQUEST_BYTES_MOST: u64 = 256 << 20;

/// The greatest value of the setting `analytics-floor`, far above the cores of any machine.
const FLOOR_CORES_MOST: f64 = 1024.0;

/// The least value of the setting `memory`: a server still works well with it.
const MEMORY_BYTES_LEAST: u64 = 16 << 20;
/// The least value of the setting `memtables-bytes`: a server still works well with it.
const MEMTABLES_BYTES_LEAST: u64 = 4 << 20;
/// The least value of the setting `wal-bytes-max`: a server still works well with it.
const WAL_BYTES_LEAST: u64 = 4 << 20;

impl Settings {
    /// Checks values that the type of a setting does not exclude, and settings against each other. Without a
    /// value (`None`) a setting has its default or no bound, so only values that were given are rejected.
    ///
    /// # Errors
    /// When a value or several together make no sense, or a path is not UTF-8. Also when `insecure` is not set,
    /// and clients of other machines would need no password, or HTTP would carry tokens to other machines in the
    /// clear.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        // Only for its error: later uses of the table cannot report one.
        self.table()?;
        let refused = |text: String| Err(CliError::Usage(text));
        if self.is_open_to_others() && !self.insecure {
            return refused(format!(
                "{} can be reached from other machines, and clients need no password: use --auth, \
                 listen on 127.0.0.1, or use --insecure if every client that reaches the port may \
                 read and write everything",
                self.cql
            ));
        }
        let is_clear = self.tls_cert.is_none() && !self.insecure;
        if let Some(http) = self.http.filter(|_| is_clear) {
            let remedy = "use --tls-cert and --tls-key, listen on 127.0.0.1, or use --insecure if others on \
                          the network may read them";
            check_clear_http(http, remedy)?;
        }
        let floor = self.analytics_floor;
        if floor != 0.0 && !(FLOOR_CORES_MIN..=FLOOR_CORES_MOST).contains(&floor) {
            return refused(format!(
                "analytics-floor is {floor}: use 0 for none, or a number of cores from \
                 {FLOOR_CORES_MIN} to {FLOOR_CORES_MOST}"
            ));
        }
        if self.connections_max == Some(0) {
            return refused("connections-max is 0: no client could connect".into());
        }
        for (name, is_zero) in [
            (
                "connections-per-address-max",
                self.connections_per_address_max == Some(0),
            ),
            ("connection-requests-max", self.connection_requests_max == 0),
        ] {
            if is_zero {
                return refused(format!("{name} is 0: no client could send a request"));
            }
        }
        let bytes = self.request_bytes_max.as_u64();
        if !(REQUEST_BYTES_LEAST..=REQUEST_BYTES_MOST).contains(&bytes) {
            let size = self.request_bytes_max;
            return refused(format!(
                "request-bytes-max is {size}: use 64 KiB to 256 MiB"
            ));
        }
        for (name, bytes, least) in [
            ("memory", self.memory, MEMORY_BYTES_LEAST),
            (
                "memtables-bytes",
                self.memtables_bytes,
                MEMTABLES_BYTES_LEAST,
            ),
            ("wal-bytes-max", Some(self.wal_bytes_max), WAL_BYTES_LEAST),
        ] {
            if bytes.is_some_and(|bytes| bytes.as_u64() < least) {
                return refused(format!(
                    "{name} is less than {}, with which a server still works well: raise it",
                    ByteSize(least)
                ));
            }
        }
        // The machine's memory matters only for the default of `memory`, which has room for any memtables.
        let store_bytes = self.memory_limits(None).store_bytes;
        if (self.memtables_bytes).is_some_and(|bytes| bytes.as_u64() > store_bytes) {
            let store = ByteSize(store_bytes);
            return refused(format!(
                "memtables-bytes is more than the {store} of memory that the store has: lower it, \
                 or raise memory"
            ));
        }
        if self.startup_timeout.is_zero() {
            return refused("startup-timeout is 0: no client could connect".into());
        }
        // Only for its errors: the options are made at the start.
        self.tls_options()?;
        if self.login_timeout.is_zero() {
            return refused("login-timeout is 0: no client could log in".into());
        }
        if self.request_timeout.is_zero() {
            return refused("request-timeout is 0: no request could be answered".into());
        }
        // `system.local` has this address, and drivers connect to it.
        let advertised = self.advertise.unwrap_or(self.cql).ip();
        if advertised.is_unspecified() {
            return refused(format!(
                "drivers cannot connect to {advertised}: name an address of this machine with \
                 --advertise"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ebb_colocate::FLOOR_CORES;

    use super::*;

    #[test]
    fn the_floor_of_analytics_is_a_number_of_cores() {
        assert_eq!(Settings::default().analytics_floor, FLOOR_CORES);
        for (text, is_good) in [
            ("0", true),
            ("0.01", true),
            ("1.5", true),
            ("0.004", false),
            ("-0.1", false),
            ("1e300", false),
            ("inf", false),
            ("nan", false),
        ] {
            let settings = Settings::parse(&format!("analytics-floor = {text}")).unwrap();
            assert_eq!(settings.check().is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn other_machines_are_let_in_only_on_request() {
        let listening = |ip: [u8; 4], insecure, authentication: &str| {
            let settings = Settings {
                cql: (ip, 9042).into(),
                advertise: Some(([10, 0, 0, 1], 9042).into()),
                insecure,
                authentication: authentication.parse().unwrap(),
                ..Settings::default()
            };
            settings.check().is_ok()
        };
        assert!(listening([127, 0, 0, 1], false, "none"));
        assert!(!listening([0, 0, 0, 0], false, "none"));
        assert!(!listening([10, 0, 0, 1], false, "none"));
        assert!(listening([0, 0, 0, 0], true, "none"));
        assert!(listening([10, 0, 0, 1], false, "password"));
    }

    #[test]
    fn memory_and_log_have_bounds_that_make_sense() {
        let check = |text: &str| Settings::parse(text).unwrap().check();
        for good in [
            "",
            "memory = \"2 GiB\"",
            "memtables-bytes = \"100 GiB\"",
            "memory = \"64 MiB\"\nmemtables-bytes = \"8 MiB\"\nwal-bytes-max = \"1 GiB\"",
        ] {
            check(good).unwrap();
        }
        for (bad, named) in [
            ("memory = \"1 MiB\"", "memory is less than"),
            ("memtables-bytes = \"0\"", "memtables-bytes is less than"),
            ("wal-bytes-max = \"1 KiB\"", "wal-bytes-max is less than"),
            (
                "memory = \"64 MiB\"\nmemtables-bytes = \"43 MiB\"",
                "more than the 42.0 MiB of memory",
            ),
        ] {
            let error = check(bad).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        // The former name of the setting.
        let settings = Settings::parse("memory-bytes = \"2 GiB\"").unwrap();
        assert_eq!(settings.memory, Some(ByteSize::gib(2)));
        assert!(Settings::parse("memory-bytes = \"1\"\nmemory = \"1\"").is_err());
        assert_eq!(settings.memory_limits(Some(1 << 40)).all_bytes, 2 << 30);
        let settings = Settings::default();
        assert_eq!(settings.memory, None);
        assert_eq!(settings.memory_limits(Some(1 << 40)).all_bytes, 1 << 38);
        let options = ebb_storage::Options::default();
        let log_bytes = Settings::default().wal_bytes_max.as_u64();
        assert_eq!(log_bytes, options.wal_bytes_max);
    }

    #[test]
    fn the_address_for_drivers_must_be_a_real_one() {
        let everywhere = Settings {
            cql: ([0, 0, 0, 0], 9042).into(),
            insecure: true,
            ..Settings::default()
        };
        let error = everywhere.check().unwrap_err().to_string();
        assert!(error.contains("--advertise"), "{error}");
        let advertised = Settings {
            advertise: Some(([0, 0, 0, 0], 9042).into()),
            ..Settings::default()
        };
        assert!(advertised.check().is_err());
    }
}
