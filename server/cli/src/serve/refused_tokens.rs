//! The tokens of HTTP that a server with logins refuses, because they belong to no role.

use std::path::Path;
use std::time::SystemTime;

use ebb_server::tokens::{TokenFile, Tokens};
use tracing::warn;

use super::log_levels::HTTP;

/// Logs the ids of the tokens that belong to no role, in one line. `data` is the directory of the database.
/// If the tokens cannot be read, logs the reason.
pub(super) fn log(data: &Path) {
    match TokenFile::of(data).read() {
        Ok(tokens) => {
            if let Some(warning) = warning(&tokens, SystemTime::now()) {
                warn!(target: HTTP, "{warning}");
            }
        }
        Err(error) => warn!(target: HTTP, "the tokens cannot be read: {error}"),
    }
}

/// Returns the warning about the tokens that belong to no role and have not expired at `now`, with their ids
/// in the order in which they were created; `None` if there are none.
fn warning(tokens: &Tokens, now: SystemTime) -> Option<String> {
    let records = tokens.without_role(now);
    let ids: Vec<&str> = records.map(|record| record.id.as_str()).collect();
    if ids.is_empty() {
        return None;
    }
    Some(format!(
        "tokens that belong to no role are refused, because clients log in as roles: {}; make tokens of \
         roles with `ebb token create --role`",
        ids.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ebb_server::tokens::{Scope, Token, TokenRecord};

    use super::*;

    #[test]
    fn the_warning_names_the_valid_tokens_without_a_role() {
        let (now, minute) = (SystemTime::UNIX_EPOCH, Duration::from_secs(60));
        let mut tokens = Tokens::default();
        assert_eq!(warning(&tokens, now), None);
        let [lasting, short] = [None, Some(minute)].map(|lifetime| {
            let token = Token::random();
            tokens.add(TokenRecord::new(&token, "a", Scope::Read, now, lifetime));
            token.id()
        });
        let both = warning(&tokens, now).unwrap();
        assert!(both.contains(&format!(": {lasting}, {short};")), "{both}");
        let later = warning(&tokens, now + minute).unwrap();
        assert!(later.contains(&format!(": {lasting};")), "{later}");
        assert!(tokens.revoke(&lasting));
        assert_eq!(warning(&tokens, now + minute), None);
    }
}
