//! The user of a session, and the logins that change it.

use std::sync::Arc;
use std::time::Instant;

use ebb_cql::protocol::ErrorResponse;

use super::Session;
use crate::access::User;
use crate::call::Service;
use crate::error::Result;
use crate::serve::events::ServerEvent;
use crate::serve::login::{EndedLogin, LoginAttempt, recall};

impl<S: Service> Session<S> {
    /// Returns whether the client has logged in, or does not have to, and may send any request.
    pub(in crate::serve) fn is_logged_in(&self) -> bool {
        !self.sender.user.is_nobody()
    }

    /// Completes a login after another thread has verified the password.
    pub(in crate::serve) fn end_login(&mut self, ended: EndedLogin) {
        let EndedLogin { attempt, user } = ended;
        if let Some(user) = user {
            self.take_user(user);
        }
        // From now on the session accepts another attempt, if this one failed.
        drop(attempt);
    }

    fn take_user(&mut self, user: Arc<User>) {
        if let Some(name) = user.name() {
            self.client.note_user(name);
            let address = self.sender.address;
            let event = ServerEvent::LoggedIn {
                address,
                user: name,
            };
            self.shared.options.events.report(event);
        }
        self.sender.user = user;
    }

    /// Logs the client in if its certificate has the identity of a role. All other clients need a
    /// password.
    pub(super) fn log_in_by_certificate(&mut self) -> Result<()> {
        let (None, Some(login), Some(identity)) = (
            self.sender.user.name(),
            self.shared.service.login(),
            &self.identity,
        ) else {
            return Ok(());
        };
        let user = (login.recognize(identity))
            .inspect_err(|error| self.shared.report_login(&self.sender, None, error))?;
        if let Some(user) = user {
            self.take_user(user);
            self.identity = None;
        }
        Ok(())
    }

    /// Logs the client in with recently verified credentials. If they have to be verified, returns
    /// the attempt instead, and accepts no other login while the attempt exists.
    pub(super) fn log_in(
        &mut self,
        token: Option<&[u8]>,
        now: Instant,
    ) -> Result<Option<Arc<LoginAttempt>>> {
        let is_verifying = self.verifying.strong_count() > 0;
        let login = match self.shared.service.login() {
            Some(login) if !self.is_logged_in() && !is_verifying => login,
            _ => {
                let message = "Unexpected message AUTH_RESPONSE, no login is expected";
                return Err(ErrorResponse::protocol(message));
            }
        };
        let address = self.sender.address.ip();
        let user = recall(login, &self.shared.failed_logins, address, token, now)
            .inspect_err(|error| self.shared.report_login(&self.sender, token, error))?;
        if let Some(user) = user {
            self.take_user(user);
            return Ok(None);
        }
        let attempt = Arc::new(LoginAttempt);
        self.verifying = Arc::downgrade(&attempt);
        Ok(Some(attempt))
    }
}
