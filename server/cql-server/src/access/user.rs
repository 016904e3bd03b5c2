//! Who a connection is of, and what was decided about them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ebb_cql::protocol::ErrorResponse;
use ebb_model::access::{Granted, Need};
use ebb_tables::RoleStore;

use crate::error::Result;

/// Statements of which is remembered that the user may execute them.
const REMEMBERED: usize = 64;

/// A user of one connection. What was decided holds until the roles change, which costs one
/// read of memory to see.
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
    /// Of the role that logged in: another one of this name is somebody else.
    id: u64,
    decided: Mutex<Decided>,
}

#[derive(Default)]
struct Decided {
    /// The change of the roles that it is for, and what the user may do by it; nothing before
    /// somebody asked.
    by: Option<(u64, Arc<Granted>)>,
    /// The statements with these numbers may be executed, each at its place modulo the length;
    /// 0 is none.
    statements: Vec<u64>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("User").field(&self.name()).finish()
    }
}

impl User {
    /// Whoever comes where nobody has to log in: may do everything.
    pub const fn anyone() -> Self {
        Self { who: Who::Anyone }
    }

    /// Whoever has not logged in where they have to: may do nothing.
    pub const fn nobody() -> Self {
        Self { who: Who::Nobody }
    }

    /// Whether it is [`anyone`](Self::anyone).
    pub fn is_anyone(&self) -> bool {
        matches!(self.who, Who::Anyone)
    }

    /// Whether it is [`nobody`](Self::nobody).
    pub fn is_nobody(&self) -> bool {
        matches!(self.who, Who::Nobody)
    }

    /// Who has logged in as this role.
    pub(crate) fn logged_in(name: &str, id: u64) -> Self {
        Self {
            who: Who::Role(LoggedIn {
                name: name.into(),
                id,
                decided: Mutex::default(),
            }),
        }
    }

    /// The name of the role, where one has logged in.
    pub fn name(&self) -> Option<&str> {
        match &self.who {
            Who::Role(role) => Some(&role.name),
            Who::Anyone | Who::Nobody => None,
        }
    }

    /// Whether it may do all that a statement needs. `number` is the statement's, which is
    /// never 0 and never another's.
    pub fn check_statement(&self, roles: &RoleStore, number: u64, needs: &[Need]) -> Result<()> {
        self.decide(roles, (), |decided, granted, name| {
            let place = number as usize % REMEMBERED;
            if granted.is_superuser || decided.get(place) == Some(&number) {
                return Ok(());
            }
            check_all(granted, name, needs)?;
            decided.resize(REMEMBERED, 0);
            decided[place] = number;
            Ok(())
        })
    }

    /// Whether it may do all of this.
    pub fn check(&self, roles: &RoleStore, needs: &[Need]) -> Result<()> {
        self.decide(roles, (), |_, granted, name| {
            check_all(granted, name, needs)
        })
    }

    /// Whether it may do that.
    ///
    /// # Errors
    /// Unauthorized, where its role is gone.
    pub fn may(&self, roles: &RoleStore, need: &Need) -> Result<bool> {
        self.decide(roles, true, |_, granted, _| Ok(granted.permits(need)))
    }

    /// Whether it may do everything.
    ///
    /// # Errors
    /// Unauthorized, where its role is gone.
    pub fn is_superuser(&self, roles: &RoleStore) -> Result<bool> {
        self.decide(roles, true, |_, granted, _| Ok(granted.is_superuser))
    }

    /// What is decided of a role; `of_anyone` without roles.
    fn decide<T>(
        &self,
        roles: &RoleStore,
        of_anyone: T,
        decide: impl FnOnce(&mut Vec<u64>, &Granted, &str) -> Result<T>,
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
        decide: impl FnOnce(&mut Vec<u64>, &Granted, &str) -> Result<T>,
    ) -> Result<T> {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        let Decided { by, statements } = &mut *decided;
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

/// That a role may not log in.
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
