//! Random statements about roles and permissions.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::Maker;
use crate::syntax::ast::*;

impl<R: Rng> Maker<R> {
    fn role(&mut self) -> Name {
        if self.chance(20) {
            Name::new("")
        } else {
            self.name()
        }
    }

    fn role_options(&mut self) -> RoleOptions {
        RoleOptions {
            password: self.maybe(|make| {
                if make.chance(2) {
                    Password::Plain("it's".to_owned())
                } else {
                    Password::Hashed("$argon2id$$".to_owned())
                }
            }),
            superuser: self.maybe(|make| make.chance(2)),
            login: self.maybe(|make| make.chance(2)),
            custom: self.maybe(Self::property_map),
            access: self.maybe(|make| {
                if make.chance(2) {
                    DatacenterAccess::All
                } else {
                    DatacenterAccess::Some(make.many(1, |_| "dc'1".to_owned()))
                }
            }),
        }
    }

    pub(super) fn role_statement(&mut self) -> RoleStatement {
        let membership = |make: &mut Self| RoleMembership {
            role: make.role(),
            member: make.role(),
        };
        match self.rng.random_range(0..9) {
            0 => RoleStatement::Create(CreateRole {
                name: self.role(),
                if_not_exists: self.chance(2),
                options: self.role_options(),
            }),
            1 => RoleStatement::Alter(AlterRole {
                name: self.role(),
                if_exists: self.chance(2),
                options: self.role_options(),
            }),
            2 => RoleStatement::Drop(DropRole {
                name: self.role(),
                if_exists: self.chance(2),
            }),
            3 => RoleStatement::Grant(membership(self)),
            4 => RoleStatement::Revoke(membership(self)),
            5 => RoleStatement::List(ListRoles {
                of: self.maybe(Self::role),
                directly: self.chance(2),
            }),
            6 => RoleStatement::AddIdentity(AddIdentity {
                identity: "spiffe://it's/one".to_owned(),
                if_not_exists: self.chance(2),
                role: self.role(),
            }),
            7 => RoleStatement::DropIdentity(DropIdentity {
                identity: String::new(),
                if_exists: self.chance(2),
            }),
            _ => RoleStatement::ListUsers,
        }
    }

    fn permissions(&mut self) -> Permissions {
        if self.chance(2) {
            Permissions::All
        } else {
            Permissions::Some(self.many(1, |make| *Permission::ALL.choose(&mut make.rng).unwrap()))
        }
    }

    fn resource(&mut self) -> Resource {
        match self.rng.random_range(0..6) {
            0 => Resource::AllKeyspaces,
            1 => Resource::Keyspace(self.name()),
            2 => Resource::AllTables(self.name()),
            3 => Resource::Table(self.qualified()),
            4 => Resource::AllRoles,
            _ => Resource::Role(self.role()),
        }
    }

    pub(super) fn permission_statement(&mut self) -> PermissionStatement {
        let grant = |make: &mut Self| PermissionGrant {
            permissions: make.permissions(),
            on: make.resource(),
            role: make.role(),
        };
        match self.rng.random_range(0..3) {
            0 => PermissionStatement::Grant(grant(self)),
            1 => PermissionStatement::Revoke(grant(self)),
            _ => PermissionStatement::List(ListPermissions {
                permissions: self.permissions(),
                on: self.maybe(Self::resource),
                of: self.maybe(Self::role),
                directly: self.chance(2),
            }),
        }
    }
}
