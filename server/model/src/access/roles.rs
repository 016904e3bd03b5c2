//! The set of all roles. Each change is a function from one state to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::granted::Granted;
use super::permission::PermissionSet;
use super::resource::Resource;
use super::role::Role;

/// All roles by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles(BTreeMap<Arc<str>, Arc<Role>>);

/// The reason why a change of roles is rejected, with Cassandra's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// A role of this name exists.
    #[error("{0} already exists")]
    Exists(String),
    /// No role of this name exists.
    #[error("{0} doesn't exist")]
    NotThere(String),
    /// No role has this identity.
    #[error("identity '{0}' doesn't exist")]
    NoIdentity(String),
    /// The grant would change nothing or close a cycle: the member has the role already, directly
    /// or by another role; both are the same role; or the role to be granted is a member of the
    /// other one.
    #[error("{member} is a member of {role}")]
    IsMember {
        /// The role that is a member of `role` already. If the grant would close a cycle, this is
        /// the role that was to be granted.
        member: String,
        /// The role that is granted to `member`.
        role: String,
    },
    /// REVOKE names a role that is not granted to the member.
    #[error("{member} is not a member of {role}")]
    NotMember {
        /// The role that is not a member.
        member: String,
        /// The role that a REVOKE was to take from `member`.
        role: String,
    },
}

type Result<T> = std::result::Result<T, RoleError>;

impl FromIterator<(Arc<str>, Role)> for Roles {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Role)>>(all: I) -> Self {
        let all = all.into_iter();
        Self(all.map(|(name, role)| (name, Arc::new(role))).collect())
    }
}

impl Roles {
    /// Returns the roles of `self` and `others` together. Of two roles with the same name, it keeps
    /// the role of `self`.
    #[must_use]
    pub fn joined(&self, others: Self) -> Self {
        let Self(mut all) = others;
        let own = self.0.iter();
        all.extend(own.map(|(name, role)| (Arc::clone(name), Arc::clone(role))));
        Self(all)
    }

    /// Returns a role by its name; `None` if there is no such role.
    pub fn get(&self, name: &str) -> Option<&Arc<Role>> {
        self.0.get(name)
    }

    /// Returns a role by its name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, name: &str) -> Result<&Arc<Role>> {
        let found = self.get(name);
        found.ok_or_else(|| RoleError::NotThere(name.to_owned()))
    }

    /// Returns all roles, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Role>)> {
        self.0.iter()
    }

    /// Returns the name of a role, and the names of the roles granted to it: directly or through
    /// other roles, or only directly if `directly` is true. Names that are not roles are left out.
    pub fn of<'a>(&'a self, name: &'a str, directly: bool) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open = vec![(name, 0)];
        while let Some((name, depth)) = open.pop() {
            let Some(role) = self.get(name) else {
                continue;
            };
            if found.insert(name) && (!directly || depth == 0) {
                open.extend(role.member_of.iter().map(|name| (name.as_str(), depth + 1)));
            }
        }
        found
    }

    /// Returns whether a role is a superuser, either itself or through a role that it is a member
    /// of.
    pub fn is_superuser(&self, name: &str) -> bool {
        let mut all = self.of(name, false).into_iter();
        all.any(|name| self.get(name).is_some_and(|role| role.is_superuser))
    }

    /// Returns the effective permissions of a role; `None` if there is no such role.
    pub fn granted(&self, name: &str) -> Option<Granted> {
        let own = self.get(name)?;
        let mut permissions: HashMap<Resource, PermissionSet> = HashMap::new();
        for role in self.of(name, false) {
            for (resource, set) in self.get(role).iter().flat_map(|role| &role.permissions) {
                let all = permissions.entry(resource.clone()).or_default();
                *all = all.union(*set);
            }
        }
        Some(Granted {
            id: own.id,
            can_login: own.can_login,
            is_superuser: self.is_superuser(name),
            permissions,
        })
    }

    /// Returns the role that has an identity. A search of all roles is enough: even for thousands of
    /// them it is faster than a handshake with a certificate.
    pub fn of_identity(&self, identity: &str) -> Option<(&Arc<str>, &Arc<Role>)> {
        let mut all = self.0.iter();
        all.find(|(_, role)| role.identities.contains(identity))
    }

    /// Returns the roles after an identity was added to a role.
    ///
    /// # Errors
    /// [`RoleError::Exists`] if a role has the identity already, [`RoleError::NotThere`] if there is
    /// no such role.
    pub fn with_identity(&self, identity: &str, role: &str) -> Result<Self> {
        match self.of_identity(identity) {
            Some(_) => Err(RoleError::Exists(identity.to_owned())),
            None => self.with_changed(role, |role| {
                role.identities.insert(identity.to_owned());
            }),
        }
    }

    /// Returns the roles after an identity was removed from its role.
    ///
    /// # Errors
    /// [`RoleError::NoIdentity`] if no role has the identity.
    pub fn without_identity(&self, identity: &str) -> Result<Self> {
        match self.of_identity(identity) {
            None => Err(RoleError::NoIdentity(identity.to_owned())),
            Some((role, _)) => self.with_changed(role, |role| {
                role.identities.remove(identity);
            }),
        }
    }

    /// Returns the roles with the new role `name`. Grants of an earlier role of this name, and
    /// permissions on it, are removed first. A crash or a full disk may have left them, and they
    /// must not apply to the new role.
    ///
    /// # Errors
    /// If a role of this name exists.
    pub fn with_new(&self, name: &str, role: Role) -> Result<Self> {
        match self.get(name) {
            Some(_) => Err(RoleError::Exists(name.to_owned())),
            None => Ok(self.without_mentions(name).with(name, role)),
        }
    }

    /// Returns the roles with the role `name` changed by `change`.
    ///
    /// # Errors
    /// If there is no such role.
    pub fn with_changed(&self, name: &str, change: impl FnOnce(&mut Role)) -> Result<Self> {
        let mut role = Role::clone(self.find(name)?);
        change(&mut role);
        Ok(self.with(name, role))
    }

    fn with(&self, name: &str, role: Role) -> Self {
        let mut next = self.clone();
        next.0.insert(name.into(), Arc::new(role));
        next
    }

    /// Returns the roles without the role `name`, its grants to others, and the permissions on it.
    ///
    /// # Errors
    /// If there is no such role.
    pub fn without(&self, name: &str) -> Result<Self> {
        self.find(name)?;
        Ok(self.without_mentions(name))
    }

    /// Returns the roles without any trace of `name`: the role (if there is one), its grants to
    /// others, and the permissions on it.
    #[must_use]
    pub fn without_mentions(&self, name: &str) -> Self {
        let on_it = Resource::role(name);
        let mut next = self.clone();
        next.0.remove(name);
        for role in next.0.values_mut() {
            if role.member_of.contains(name) || role.permissions.contains_key(&on_it) {
                let role = Arc::make_mut(role);
                role.member_of.remove(name);
                role.permissions.remove(&on_it);
            }
        }
        next
    }

    /// Returns the roles with `role` granted to `member`.
    ///
    /// # Errors
    /// If one of them does not exist, if either is a member of the other, or if they are the same.
    pub fn with_member(&self, role: &str, member: &str) -> Result<Self> {
        self.find(role)?;
        self.find(member)?;
        for (role, member) in [(role, member), (member, role)] {
            if self.of(member, false).contains(role) {
                let (role, member) = (role.to_owned(), member.to_owned());
                return Err(RoleError::IsMember { member, role });
            }
        }
        self.with_changed(member, |member| {
            member.member_of.insert(role.to_owned());
        })
    }

    /// Returns the roles with `role` revoked from `member`.
    ///
    /// # Errors
    /// If one of them does not exist, or if `role` was not granted to `member`.
    pub fn without_member(&self, role: &str, member: &str) -> Result<Self> {
        self.find(role)?;
        if !self.find(member)?.member_of.contains(role) {
            let (role, member) = (role.to_owned(), member.to_owned());
            return Err(RoleError::NotMember { member, role });
        }
        self.with_changed(member, |member| {
            member.member_of.remove(role);
        })
    }

    /// Grants the permissions `set` on the resource `on` to the role `name`. Returns the roles
    /// after this change, and the permissions in `set` that the role did not have before.
    ///
    /// # Errors
    /// If there is no such role.
    pub fn with_permissions(
        &self,
        name: &str,
        on: &Resource,
        set: PermissionSet,
    ) -> Result<(Self, PermissionSet)> {
        let had = self.find(name)?.permissions.get(on).copied();
        let new = set.without(had.unwrap_or_default());
        if new.is_empty() {
            return Ok((self.clone(), new));
        }
        let next = self.with_changed(name, |role| {
            let all = role.permissions.entry(on.clone()).or_default();
            *all = all.union(new);
        })?;
        Ok((next, new))
    }

    /// Revokes the permissions `set` on the resource `on` from the role `name`. Returns the roles
    /// after this change, and the permissions in `set` that the role had before.
    ///
    /// # Errors
    /// If there is no such role.
    pub fn without_permissions(
        &self,
        name: &str,
        on: &Resource,
        set: PermissionSet,
    ) -> Result<(Self, PermissionSet)> {
        let had = self.find(name)?.permissions.get(on).copied();
        let had = had.unwrap_or_default();
        let (gone, left) = (had.intersection(set), had.without(set));
        if gone.is_empty() {
            return Ok((self.clone(), gone));
        }
        let next = self.with_changed(name, |role| {
            if left.is_empty() {
                role.permissions.remove(on);
            } else {
                role.permissions.insert(on.clone(), left);
            }
        })?;
        Ok((next, gone))
    }

    /// Returns the roles without permissions on resources that do not exist, as `is_there` reports;
    /// `None` if all resources exist.
    pub fn retained(&self, is_there: impl Fn(&Resource) -> bool) -> Option<Self> {
        let all_there = |role: &Role| role.permissions.keys().all(&is_there);
        if self.0.values().all(|role| all_there(role)) {
            return None;
        }
        let mut next = self.clone();
        for role in next.0.values_mut().filter(|role| !all_there(role)) {
            let role = Arc::make_mut(role);
            role.permissions.retain(|resource, _| is_there(resource));
        }
        Some(next)
    }

    /// Returns the writes that turn `self` into `next`: names with their roles, or with `None` for a
    /// dropped role.
    pub fn difference<'a>(&self, next: &'a Self) -> Vec<(Arc<str>, Option<&'a Role>)> {
        let is_same = |name: &Arc<str>, role: &Arc<Role>| {
            let own = self.get(name);
            own.is_some_and(|own| Arc::ptr_eq(own, role) || own == role)
        };
        let gone = self.0.keys().filter(|name| next.get(name).is_none());
        let changed = next.0.iter().filter(|(name, role)| !is_same(name, role));
        let changed = changed.map(|(name, role)| (name.clone(), Some(&**role)));
        gone.map(|name| (name.clone(), None))
            .chain(changed)
            .collect()
    }
}
