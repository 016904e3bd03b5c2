//! The user of a connection, and a cache of permission checks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ebb_cql::protocol::ErrorResponse;
use ebb_model::access::{ActingRole, Granted, Need};
use ebb_tables::RoleStore;

use crate::error::Result;

/// The number of slots, for each connection, in the cache of statements that the user may execute.
const CACHE_SLOTS: usize = 64;

/// The user of one connection. Permission checks are cached until the roles change; noticing a
/// change costs one atomic load.
pub struct User {
    who: Who,
}

enum Who {
    Anyone,
    Nobody,
    Role(LoggedIn),
}

struct LoggedIn {
    name: Box<str>,
    /// The id of the role that logged in: a role that is created later with the same name has
    /// another id.
    id: u64,
    decided: Mutex<Decisions>,
}

#[derive(Default)]
struct Decisions {
    /// The permissions of the user, with the generation of the roles from which they were computed.
    /// `None` before the first check.
    by: Option<(u64, Arc<Granted>)>,
    /// The numbers of the statements that the user may execute, as a hash table: statement `n` is
    /// in slot `n` modulo the length. 0 marks an empty slot.
    statements: Vec<u64>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("User").field(&self.name()).finish()
    }
}

impl User {
    /// Returns the user of every connection of a server without authentication, who may do
    /// everything.
    pub const fn anyone() -> Self {
        Self { who: Who::Anyone }
    }

    /// Returns the user of a connection before its login, who may do nothing.
    pub const fn nobody() -> Self {
        Self { who: Who::Nobody }
    }

    /// Returns whether this is the user of a server without authentication.
    pub fn is_anyone(&self) -> bool {
        matches!(self.who, Who::Anyone)
    }

    /// Returns whether the client has yet to log in.
    pub fn is_nobody(&self) -> bool {
        matches!(self.who, Who::Nobody)
    }

    /// Returns a user who has logged in as a role.
    pub(crate) fn logged_in(name: &str, id: u64) -> Self {
        Self {
            who: Who::Role(LoggedIn {
                name: name.into(),
                id,
                decided: Mutex::default(),
            }),
        }
    }

    /// Returns the name of the role; `None` without a login.
    pub fn name(&self) -> Option<&str> {
        match &self.who {
            Who::Role(role) => Some(&role.name),
            Who::Anyone | Who::Nobody => None,
        }
    }

    /// Checks the permissions that a statement requires, and caches success. `number` identifies
    /// the statement: a number is never 0 and never reused.
    pub fn check_statement(&self, roles: &RoleStore, number: u64, needs: &[Need]) -> Result<()> {
        self.decide(roles, (), |decided, granted, name| {
            let place = number as usize % CACHE_SLOTS;
            if granted.is_superuser || decided.get(place) == Some(&number) {
                return Ok(());
            }
            check_all(granted, name, needs)?;
            decided.resize(CACHE_SLOTS, 0);
            decided[place] = number;
            Ok(())
        })
    }

    /// Checks that the user has all permissions in `needs`.
    ///
    /// # Errors
    /// Unauthorized, if a permission is missing, the role was dropped, or it may not log in any
    /// more.
    pub fn check(&self, roles: &RoleStore, needs: &[Need]) -> Result<()> {
        self.decide(roles, (), |_, granted, name| {
            check_all(granted, name, needs)
        })
    }

    /// Checks that the user has all permissions that `needs` returns. Reads the permissions of the
    /// user before it calls `needs`. So if `needs` finds that an object still exists, the
    /// permissions cannot be those on a later object of the same name.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn check_with(&self, roles: &RoleStore, needs: impl FnOnce() -> Vec<Need>) -> Result<()> {
        self.decide(roles, (), |_, granted, name| {
            check_all(granted, name, &needs())
        })
    }

    /// Returns whether the user has a permission.
    ///
    /// # Errors
    /// Unauthorized, if the role was dropped or may not log in any more.
    pub fn may(&self, roles: &RoleStore, need: &Need) -> Result<bool> {
        self.decide(roles, true, |_, granted, _| Ok(granted.permits(need)))
    }

    /// Returns the user's role with its present permissions; `None` for a client of a server
    /// without authentication.
    ///
    /// # Errors
    /// Unauthorized, if the role was dropped or may not log in any more.
    pub fn role(&self, roles: &RoleStore) -> Result<Option<ActingRole>> {
        self.decide(roles, None, |_, granted, name| {
            Ok(Some(ActingRole {
                name: name.to_owned(),
                granted: granted.clone(),
            }))
        })
    }

    /// Returns whether the user is a superuser.
    ///
    /// # Errors
    /// Unauthorized, if the role was dropped or may not log in any more.
    pub fn is_superuser(&self, roles: &RoleStore) -> Result<bool> {
        self.decide(roles, true, |_, granted, _| Ok(granted.is_superuser))
    }

    /// Calls `decide` with the cache of the statements that the user may execute, the permissions
    /// of the user, and the name of the role. Returns `of_anyone` instead for a client of a server
    /// without authentication, and an error before the login.
    fn decide<T>(
        &self,
        roles: &RoleStore,
        of_anyone: T,
        decide: impl FnOnce(&mut Vec<u64>, &Arc<Granted>, &str) -> Result<T>,
    ) -> Result<T> {
        match &self.who {
            Who::Anyone => Ok(of_anyone),
            Who::Nobody => Err(ErrorResponse::unauthorized("You have not logged in")),
            Who::Role(role) => role.decide(roles, decide),
        }
    }
}

impl LoggedIn {
    fn decide<T>(
        &self,
        roles: &RoleStore,
        decide: impl FnOnce(&mut Vec<u64>, &Arc<Granted>, &str) -> Result<T>,
    ) -> Result<T> {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        let Decisions { by, statements } = &mut *decided;
        let generation = roles.generation();
        if by.as_ref().is_none_or(|(known, _)| *known != generation) {
            statements.clear();
            let state = roles.state();
            let granted = state.granted(&self.name);
            let granted = granted.filter(|granted| granted.id == self.id);
            let Some(granted) = granted else {
                *by = None;
                return Err(ErrorResponse::unauthorized(format!(
                    "Role {} doesn't exist any more",
                    self.name
                )));
            };
            if !granted.can_login {
                *by = None;
                return Err(ErrorResponse::unauthorized(not_permitted(&self.name)));
            }
            *by = Some((state.generation(), granted));
        }
        let (_, granted) = by.as_ref().expect("it was just set where it was not");
        decide(statements, granted, &self.name)
    }
}

/// Returns the error message for a role that may not log in.
pub(super) fn not_permitted(name: &str) -> String {
    format!("{name} is not permitted to log in")
}

fn check_all(granted: &Granted, name: &str, needs: &[Need]) -> Result<()> {
    match needs.iter().find(|need| !granted.permits(need)) {
        None => Ok(()),
        Some(Need { permission, on }) => Err(ErrorResponse::unauthorized(format!(
            "User {name} has no {permission} permission on {on} or any of its parents"
        ))),
    }
}
