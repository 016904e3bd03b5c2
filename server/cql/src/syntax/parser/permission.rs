//! Parsers of statements about permissions, and of GRANT and REVOKE of either kind.

use super::{Parser, Result};
use crate::syntax::ast::{
    ListPermissions, Permission, PermissionGrant, PermissionStatement, Permissions, Resource,
    RoleStatement, Statement,
};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    pub(super) fn grant(&mut self) -> Result<Statement> {
        Ok(if self.at_permissions() {
            Statement::Permission(PermissionStatement::Grant(self.permission_grant("TO")?))
        } else {
            Statement::Role(RoleStatement::Grant(self.membership("TO")?))
        })
    }

    pub(super) fn revoke(&mut self) -> Result<Statement> {
        Ok(if self.at_permissions() {
            Statement::Permission(PermissionStatement::Revoke(self.permission_grant("FROM")?))
        } else {
            Statement::Role(RoleStatement::Revoke(self.membership("FROM")?))
        })
    }

    /// Parses `LIST p ...` after `LIST`.
    pub(super) fn list_permissions(&mut self) -> Result<Statement> {
        Ok(Statement::Permission(PermissionStatement::List(
            ListPermissions {
                permissions: self.permissions()?,
                on: self.after_word("ON", Self::resource)?,
                of: self.after_word("OF", Self::role)?,
                directly: self.eat_word("NORECURSIVE"),
            },
        )))
    }

    fn permission_grant(&mut self, before_role: &str) -> Result<PermissionGrant> {
        let permissions = self.permissions()?;
        self.expect_word("ON")?;
        let on = self.resource()?;
        self.expect_word(before_role)?;
        let role = self.role()?;
        Ok(PermissionGrant {
            permissions,
            on,
            role,
        })
    }

    /// Returns whether permissions come next, and not a role with the name of a permission.
    fn at_permissions(&self) -> bool {
        let follows = ["ON", "PERMISSION", "PERMISSIONS"];
        (self.at_word("ALL") || self.permission_ahead().is_some())
            && (follows.iter().any(|word| self.word_ahead(1, word))
                || self.ahead(1).kind == TokenKind::Comma)
    }

    /// Returns the permission that the next word names, without consuming the word.
    pub(super) fn permission_ahead(&self) -> Option<Permission> {
        let mut all = Permission::ALL.into_iter();
        all.find(|permission| self.at_word(permission.word()))
    }

    /// Parses `ALL [PERMISSIONS]`, or `p [PERMISSION], ...`.
    fn permissions(&mut self) -> Result<Permissions> {
        if self.eat_word("ALL") {
            self.eat_word("PERMISSIONS");
            return Ok(Permissions::All);
        }
        let one = |parser: &mut Self| {
            let Some(permission) = parser.permission_ahead() else {
                return Err(parser.no_viable());
            };
            parser.at += 1;
            parser.eat_word("PERMISSION");
            Ok(permission)
        };
        Ok(Permissions::Some(self.list(one)?))
    }

    fn resource(&mut self) -> Result<Resource> {
        let functions = self.word_ahead(1, "FUNCTIONS") || self.word_ahead(1, "MBEANS");
        let function = self.is_name(self.ahead(1)) || self.ahead(1).kind == TokenKind::String;
        let kinds = ["FUNCTION", "MBEAN", "MBEANS"];
        if (self.at_word("ALL") && functions)
            || (kinds.iter().any(|kind| self.at_word(kind)) && function)
        {
            let message = "Permissions on functions and MBeans are not supported";
            return Err(self.invalid_at(self.at, message));
        }
        if self.eat_words("ALL KEYSPACES") {
            return Ok(Resource::AllKeyspaces);
        }
        if self.eat_words("ALL TABLES IN KEYSPACE") {
            return Ok(Resource::AllTables(self.keyspace()?));
        }
        if self.eat_words("ALL ROLES") {
            return Ok(Resource::AllRoles);
        }
        if self.eat_keyspace_word() {
            return Ok(Resource::Keyspace(self.keyspace()?));
        }
        if self.at_word("ROLE") && self.is_role(1) {
            self.at += 1;
            return Ok(Resource::Role(self.role()?));
        }
        self.eat_table_word();
        Ok(Resource::Table(self.table()?))
    }
}
