//! Permissions of users, through the executor as the server calls it.

mod login;
mod matrix;
mod sessions;
mod statements;
mod unreadable;

use ebb_cql::protocol::{ErrorKind, ErrorResponse, QueryParameters, Response};
use ebb_model::access::{PermissionSet, Resource, Role};

use super::User;
use crate::executor::harness::Server;

/// The role that executes the statements of most tests.
const U: &str = "u";

impl Server {
    /// Creates a role that may log in and has no permissions.
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

    /// Changes a role without the checks of a statement.
    fn set(&self, name: &str, change: impl FnOnce(&mut Role)) {
        let roles = self.executor.catalog().roles();
        let changed = roles.change(|roles| roles.with_changed(name, change).map(Some));
        changed.unwrap().unwrap();
    }

    /// Sends all later statements as the role `name`, on a new connection.
    fn log_in(&mut self, name: &str) {
        let state = self.executor.catalog().roles().state();
        let role = state.roles().get(name).expect("there is such a role");
        self.user = User::logged_in(name, role.id);
    }

    /// Replaces all permissions of the role `name` by `held`.
    fn only(&self, name: &str, held: &[(Resource, PermissionSet)]) {
        self.set(name, |role| {
            role.permissions = held.iter().cloned().collect();
        });
    }

    fn try_run(&mut self, text: &str) -> Result<Response, ErrorResponse> {
        let prepared = self.prepare(text)?;
        self.execute(&prepared, QueryParameters::default())
    }

    /// Returns the message with which a statement is rejected as Unauthorized.
    #[track_caller]
    fn unauthorized(&mut self, text: &str) -> String {
        match self.try_run(text) {
            Err(error) if error.kind == ErrorKind::Unauthorized => error.message,
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// Returns a server that has executed `statements` and has a role `u`. Before [`Server::log_in`],
/// statements are executed as without authentication: everything is permitted.
fn server(statements: &[&str]) -> Server {
    let server = Server::with(statements);
    server.add(U);
    server
}
