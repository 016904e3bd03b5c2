//! The log of events of the CQL server: refused logins, administration, failures and overload. Logins that
//! succeed are in the audit log only.

use std::sync::Arc;

use ebb_cql_server::serve::{ServerEvent, ServerEvents};
use ebb_server::audit::{AuditLog, Entry};
use tracing::{info, warn};

use super::audit::login;
use super::line_bound::LineBound;
use super::log_levels::CQL;

/// The greatest number of characters that a log line shows of the name and of the reason of a refused login.
/// The client chose the name, and the reason may repeat the name. The number is arbitrary.
const SHOWN_CHARS_MAX: usize = 200;

/// Returns the callbacks through which the CQL server logs its events. The bound on the rate of lines about
/// administration is high, because an operator needs each of them, and most such statements are slow anyway:
/// they cost an fsync. Without a bound, fast statements that change nothing (`IF NOT EXISTS`) would fill the
/// queue of the log, and other lines would be dropped.
pub(super) fn log(audit: Arc<AuditLog>) -> ServerEvents {
    let (logins, overloads) = (LineBound::new(), LineBound::of_state());
    let administration = LineBound::of_administration();
    // A damaged block may fail every read of a key.
    let failures = LineBound::of_state();
    ServerEvents::new(move |event| match event {
        ServerEvent::LoggedIn { address, user } => audit.note_login(login(address, Some(user))),
        ServerEvent::LoginRefused {
            address,
            user,
            cause,
        } => {
            // Outside of the bound below: the audit log has a bound of its own for refusals.
            audit.note_refusal(Entry {
                cause: Some(cause.to_owned()),
                ..login(address, user)
            });
            if let Some(left_out) = logins.pass() {
                warn!(
                    target: CQL,
                    user = user.map(shortened),
                    %address,
                    cause = shortened(cause),
                    left_out,
                    "login refused"
                );
            }
        }
        ServerEvent::Administered {
            address,
            user,
            keyspace,
            statement,
            query,
        } => {
            if let Some(left_out) = administration.pass() {
                info!(
                    target: CQL,
                    user,
                    %address,
                    keyspace,
                    statement = statement.to_string(),
                    query,
                    left_out,
                    "administration"
                );
            }
        }
        ServerEvent::Failed {
            address,
            user,
            cause,
        } => {
            if let Some(left_out) = failures.pass() {
                warn!(target: CQL, user, %address, cause, left_out, "request failed");
            }
        }
        ServerEvent::OverloadBegan => {
            if let Some(left_out) = overloads.pass() {
                warn!(
                    target: CQL,
                    left_out,
                    "overload: requests that have waited for long are rejected"
                );
            }
        }
        ServerEvent::OverloadEnded { refused } => {
            if let Some(left_out) = overloads.pass() {
                info!(target: CQL, refused, left_out, "the overload is over");
            }
        }
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
