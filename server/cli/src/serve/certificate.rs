//! Lines of the log about a certificate that expires soon: at the start, and once a day.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ebb_cql_server::serve::Tls;

use super::log_levels::SERVER;

const DAY_S: u64 = 24 * 60 * 60;
/// A certificate that expires in fewer days than this is reported. Certificates of 90 days, as public
/// authorities issue them, are normally renewed before so little time is left.
const REPORTED_DAYS: u64 = 30;

/// Reports the certificate of a server while it expires soon.
#[derive(Debug, Default)]
pub(super) struct ExpiryWatch {
    /// The time at which the last reported certificate expires, and the time of the report, both in seconds
    /// since 1970.
    reported: Option<(u64, u64)>,
}

impl ExpiryWatch {
    /// Logs a warning if the certificate in use expires soon or has expired, but at most once a day
    /// for the same certificate.
    pub(super) fn look(&mut self, tls: &Tls) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now_s.map_or(0, |since| since.as_secs());
        let due = tls.expires_unix_s().filter(|&end| self.is_due(end, now_s));
        if let Some(expires_unix_s) = due {
            let line = Expiry {
                certificate: tls.certificate(),
                expires_unix_s,
                now_s,
            };
            tracing::warn!(target: SERVER, "TLS: {line}");
        }
    }

    /// Decides whether a certificate that expires at `expires_unix_s` is reported now. One that expires soon
    /// is reported once a day, and at once after the certificate changed.
    fn is_due(&mut self, expires_unix_s: u64, now_s: u64) -> bool {
        if expires_unix_s.saturating_sub(now_s) >= REPORTED_DAYS * DAY_S {
            return false;
        }
        let is_known = self.reported.is_some_and(|(reported, at_s)| {
            // The clock may have been set back.
            reported == expires_unix_s && now_s.abs_diff(at_s) < DAY_S
        });
        if !is_known {
            self.reported = Some((expires_unix_s, now_s));
        }
        !is_known
    }
}

/// A certificate that expires soon or has expired.
struct Expiry<'a> {
    certificate: &'a Path,
    expires_unix_s: u64,
    now_s: u64,
}

impl fmt::Display for Expiry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = UNIX_EPOCH + Duration::from_secs(self.expires_unix_s);
        let date = humantime::format_rfc3339_seconds(date);
        write!(f, "the certificate in {} ", self.certificate.display())?;
        match self.expires_unix_s.checked_sub(self.now_s) {
            Some(left_s) => write!(f, "expires in {} days, at {date}", left_s / DAY_S)?,
            None => write!(
                f,
                "has expired at {date}, and clients that verify it do not connect"
            )?,
        }
        f.write_str("; replace the files, and the server will read them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_reported_daily_in_its_last_thirty_days_and_a_new_one_at_once() {
        let (mut watch, end_s) = (ExpiryWatch::default(), 1_000 * DAY_S);
        for (now_s, is_due) in [
            (end_s - 31 * DAY_S, false),
            (end_s - 30 * DAY_S, false),
            (end_s - 30 * DAY_S + 1, true),
            (end_s - 30 * DAY_S + 4, false),
            (end_s - 29 * DAY_S, false),
            (end_s - 29 * DAY_S + 1, true),
            // The clock is set back, and forward.
            (end_s - 30 * DAY_S + 1, true),
            (end_s - DAY_S, true),
            (end_s + DAY_S, true),
        ] {
            assert_eq!(watch.is_due(end_s, now_s), is_due, "{now_s}");
        }
        assert!(watch.is_due(end_s + 9 * DAY_S, end_s + DAY_S));
        assert!(!watch.is_due(end_s + 99 * DAY_S, end_s + DAY_S));
    }

    #[test]
    fn a_line_has_the_file_the_days_and_the_date() {
        let line = |now_s| {
            let expiry = Expiry {
                certificate: Path::new("server.pem"),
                expires_unix_s: 1_927_843_200,
                now_s,
            };
            expiry.to_string()
        };
        let end = "; replace the files, and the server will read them";
        let soon = "the certificate in server.pem expires in 2 days, at 2031-02-03T00:00:00Z";
        assert_eq!(line(1_927_843_200 - 3 * DAY_S + 1), format!("{soon}{end}"));
        let over = "the certificate in server.pem has expired at 2031-02-03T00:00:00Z, and clients \
                    that verify it do not connect";
        assert_eq!(line(1_927_843_201), format!("{over}{end}"));
    }
}
