//! All roles, and how they change: each change is a function of the present ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::granted::Granted;
use super::permission::PermissionSet;
use super::resource::Resource;
use super::role::Role;

/// All roles by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles(BTreeMap<Arc<str>, Arc<Role>>);

/// Why roles cannot change so, in Cassandra's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// There is one of this name.
    #[error("{0} already exists")]
    Exists(String),
    /// There is none of this name.
    #[error("{0} doesn't exist")]
    NotThere(String),
    /// No role has this identity.
    #[error("identity '{0}' doesn't exist")]
    NoIdentity(String),
    /// The role was granted before, or the grant would close a circle.
    #[error("{member} is a member of {role}")]
    IsMember {
        /// Who has it.
        member: String,
        /// What was granted.
        role: String,
    },
    /// It was not granted.
    #[error("{member} is not a member of {role}")]
    NotMember {
        /// Who does not have it.
        member: String,
        /// What was not granted.
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
    /// The role of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Role>> {
        self.0.get(name)
    }

    /// The role of this name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn find(&self, name: &str) -> Result<&Arc<Role>> {
        let found = self.get(name);
        found.ok_or_else(|| RoleError::NotThere(name.to_owned()))
    }

    /// All, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Role>)> {
        self.0.iter()
    }

    /// A role and those granted to it: all that follow from them too, or only `directly`.
    /// What is no role is not among them.
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

    /// Whether it may do everything, itself or by what was granted to it.
    pub fn is_superuser(&self, name: &str) -> bool {
        let mut all = self.of(name, false).into_iter();
        all.any(|name| self.get(name).is_some_and(|role| role.is_superuser))
    }

    /// What a role may do; `None` where there is none of this name.
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

    /// Returns the role that has an identity. It searches all roles: even for thousands of roles
    /// that takes less time than a handshake with a certificate.
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

    /// With one more.
    ///
    /// # Errors
    /// Where there is one of this name.
    pub fn with_new(&self, name: &str, role: Role) -> Result<Self> {
        match self.get(name) {
            Some(_) => Err(RoleError::Exists(name.to_owned())),
            None => Ok(self.with(name, role)),
        }
    }

    /// With a role changed.
    ///
    /// # Errors
    /// Where there is none of this name.
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

    /// Without a role, its grants to others, and permissions on it.
    ///
    /// # Errors
    /// Where there is none of this name.
    pub fn without(&self, name: &str) -> Result<Self> {
        self.find(name)?;
        Ok(self.without_mentions(name))
    }

    /// Without a role, if there is one of this name, its grants to others, and permissions on it.
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

    /// With `role` granted to `member`.
    ///
    /// # Errors
    /// Where one of them is not there, and where either is a member of the other.
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

    /// With `role` revoked from `member`.
    ///
    /// # Errors
    /// Where one of them is not there, or it was not granted.
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

    /// With more permissions of a role, and those that it did not have.
    ///
    /// # Errors
    /// Where there is no such role.
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

    /// Without some permissions of a role, and those of them that it had.
    ///
    /// # Errors
    /// Where there is no such role.
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
        let next = self.with_changed(name, |role| match left.is_empty() {
            true => drop(role.permissions.remove(on)),
            false => drop(role.permissions.insert(on.clone(), left)),
        })?;
        Ok((next, gone))
    }

    /// Without permissions on what is not there; `None` where all is.
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

    /// What is to be written so that `self` becomes `next`: by name the role, or `None` where
    /// it is gone.
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
