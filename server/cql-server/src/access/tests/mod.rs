//! Who may do what, driven through the executor as the server drives it.

mod login;
mod matrix;
mod sessions;
mod statements;
mod unreadable;

use ebb_cql::protocol::{ErrorKind, ErrorResponse, QueryParameters, Response};
use ebb_model::access::{PermissionSet, Resource, Role};

use super::User;
use crate::executor::harness::Server;

/// The role that most tests are about.
const U: &str = "u";

impl Server {
    /// Makes a role that may log in, and nothing else.
    fn add(&self, name: &str) {
        let role = Role {
            id: rand::random(),
            can_login: true,
            ..Role::default()
        };
        let roles = self.executor.catalog().roles();
        let added = roles.change(|roles| roles.with_new(name, role).map(Some));
        added.unwrap().unwrap();
    }

    /// Changes a role past all checks.
    fn set(&self, name: &str, change: impl FnOnce(&mut Role)) {
        let roles = self.executor.catalog().roles();
        let changed = roles.change(|roles| roles.with_changed(name, change).map(Some));
        changed.unwrap().unwrap();
    }

    /// What follows is asked by this role, from a connection of its own.
    fn log_in(&mut self, name: &str) {
        let state = self.executor.catalog().roles().state();
        let role = state.roles().get(name).expect("there is such a role");
        self.user = User::logged_in(name, role.id);
    }

    /// Lets a role have this permission and no other.
    fn only(&self, name: &str, held: &[(Resource, PermissionSet)]) {
        self.set(name, |role| {
            role.permissions = held.iter().cloned().collect();
        });
    }

    /// What comes of a statement.
    fn try_run(&mut self, text: &str) -> Result<Response, ErrorResponse> {
        let prepared = self.prepare(text)?;
        self.execute(&prepared, QueryParameters::default())
    }

    /// The message with which a statement is refused because of who asks.
    #[track_caller]
    fn unauthorized(&mut self, text: &str) -> String {
        match self.try_run(text) {
            Err(error) if error.kind == ErrorKind::Unauthorized => error.message,
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// A server with a role `u`, in use by everybody.
fn server(statements: &[&str]) -> Server {
    let server = Server::with(statements);
    server.add(U);
    server
}
