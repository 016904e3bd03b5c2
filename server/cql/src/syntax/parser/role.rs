//! Parsers of statements about roles, and of the names of roles.

use super::{Parser, Result};
use crate::syntax::ast::{
    AddIdentity, AlterRole, CreateRole, DatacenterAccess, DropIdentity, DropRole, ListRoles, Name,
    Password, RoleMembership, RoleOptions, RoleStatement,
};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    /// Parses the rest after `CREATE ROLE`.
    pub(super) fn create_role(&mut self) -> Result<RoleStatement> {
        Ok(RoleStatement::Create(CreateRole {
            if_not_exists: self.if_not_exists()?,
            name: self.role()?,
            options: self.role_options()?,
        }))
    }

    /// Parses the rest after `CREATE USER`, as a role that may log in.
    pub(super) fn create_user(&mut self) -> Result<RoleStatement> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user()?;
        let mut options = self.user_options()?;
        options.login = Some(true);
        options.superuser.get_or_insert(false);
        Ok(RoleStatement::Create(CreateRole {
            name,
            if_not_exists,
            options,
        }))
    }

    /// Parses the rest after `ALTER ROLE`.
    pub(super) fn alter_role(&mut self) -> Result<RoleStatement> {
        Ok(RoleStatement::Alter(AlterRole {
            if_exists: self.if_exists()?,
            name: self.role()?,
            options: self.role_options()?,
        }))
    }

    /// Parses the rest after `ALTER USER`.
    pub(super) fn alter_user(&mut self) -> Result<RoleStatement> {
        Ok(RoleStatement::Alter(AlterRole {
            if_exists: self.if_exists()?,
            name: self.user()?,
            options: self.user_options()?,
        }))
    }

    /// Parses the rest after `DROP ROLE`, or after `DROP USER` if `is_user`.
    pub(super) fn drop_role(&mut self, is_user: bool) -> Result<RoleStatement> {
        let if_exists = self.if_exists()?;
        let name = if is_user { self.user()? } else { self.role()? };
        Ok(RoleStatement::Drop(DropRole { name, if_exists }))
    }

    /// Parses the rest after `ADD IDENTITY`.
    pub(super) fn add_identity(&mut self) -> Result<RoleStatement> {
        let if_not_exists = self.if_not_exists()?;
        let identity = self.string()?;
        self.expect_word("TO")?;
        self.expect_word("ROLE")?;
        Ok(RoleStatement::AddIdentity(AddIdentity {
            identity,
            if_not_exists,
            role: self.role()?,
        }))
    }

    /// Parses the rest after `DROP IDENTITY`.
    pub(super) fn drop_identity(&mut self) -> Result<RoleStatement> {
        Ok(RoleStatement::DropIdentity(DropIdentity {
            if_exists: self.if_exists()?,
            identity: self.string()?,
        }))
    }

    /// Parses `role TO member` or `role FROM member`: `between` is the word between the names.
    pub(super) fn membership(&mut self, between: &str) -> Result<RoleMembership> {
        let role = self.role()?;
        self.expect_word(between)?;
        let member = self.role()?;
        Ok(RoleMembership { role, member })
    }

    /// Parses the rest after `LIST ROLES`.
    pub(super) fn list_roles(&mut self) -> Result<RoleStatement> {
        Ok(RoleStatement::List(ListRoles {
            of: self.after_word("OF", Self::role)?,
            directly: self.eat_word("NORECURSIVE"),
        }))
    }

    /// Returns whether the token that comes `ahead` tokens after the next one may be a role's name.
    pub(super) fn is_role(&self, ahead: usize) -> bool {
        let token = self.ahead(ahead);
        self.is_name(token) || matches!(token.kind, TokenKind::String | TokenKind::DollarString)
    }

    /// Parses a role's name: unchanged in quotes of either kind, otherwise in small letters.
    pub(super) fn role(&mut self) -> Result<Name> {
        if self.kind() == TokenKind::Question {
            return Err(self.error("Bind variables cannot be used for role names"));
        }
        match self.kind() {
            TokenKind::String | TokenKind::DollarString => Ok(Name::new(self.string()?)),
            _ => self.name(),
        }
    }

    /// Parses a user's name, unchanged even without quotes.
    fn user(&mut self) -> Result<Name> {
        match self.kind() {
            TokenKind::QuotedName => Err(self.error(
                "Quoted strings are are not supported for user names and USER is deprecated, \
                 please use ROLE",
            )),
            TokenKind::Word if self.at_name() => {
                let token = self.advance();
                Ok(Name::new(self.source(token)))
            }
            _ => self.role(),
        }
    }

    /// Parses `[WITH [HASHED] PASSWORD '...'] [SUPERUSER | NOSUPERUSER]`.
    fn user_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if self.eat_word("WITH") {
            let is_hashed = self.eat_word("HASHED");
            self.expect_word("PASSWORD")?;
            options.password = Some(self.password(is_hashed)?);
        }
        if self.eat_word("SUPERUSER") {
            options.superuser = Some(true);
        } else if self.eat_word("NOSUPERUSER") {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    /// Parses `[WITH option AND option]`.
    fn role_options(&mut self) -> Result<RoleOptions> {
        let mut options = RoleOptions::default();
        if !self.eat_word("WITH") {
            return Ok(options);
        }
        loop {
            self.role_option(&mut options)?;
            if !self.eat_word("AND") {
                return Ok(options);
            }
        }
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Result<()> {
        let at = self.at;
        let twice = |name: &str| format!("Multiple definition for property '{name}'");
        let is_hashed = self.at_word("HASHED");
        if self.eat_words("HASHED PASSWORD") || self.eat_word("PASSWORD") {
            self.expect(TokenKind::Equal)?;
            let password = self.password(is_hashed)?;
            return match options.password.replace(password) {
                None => Ok(()),
                Some(other) if is_hashed == matches!(other, Password::Hashed(_)) => {
                    let name = if is_hashed {
                        "HASHED PASSWORD"
                    } else {
                        "PASSWORD"
                    };
                    Err(self.error_at(at, twice(name)))
                }
                Some(_) => Err(self.invalid_at(
                    at,
                    "Properties 'PASSWORD' and 'HASHED PASSWORD' are mutually exclusive",
                )),
            };
        }
        let (name, stands_twice) = if self.eat_word("SUPERUSER") {
            let value = self.flag()?;
            ("SUPERUSER", options.superuser.replace(value).is_some())
        } else if self.eat_word("LOGIN") {
            let value = self.flag()?;
            ("LOGIN", options.login.replace(value).is_some())
        } else if self.eat_word("OPTIONS") {
            self.expect(TokenKind::Equal)?;
            let map = self.property_map(at)?;
            ("OPTIONS", options.custom.replace(map).is_some())
        } else if self.eat_words("ACCESS TO") {
            let access = self.datacenter_access()?;
            let stands_twice = options.access.replace(access).is_some();
            ("ACCESS TO DATACENTERS", stands_twice)
        } else {
            return Err(self.no_viable());
        };
        if stands_twice {
            return Err(self.error_at(at, twice(name)));
        }
        Ok(())
    }

    /// Parses the rest after `ACCESS TO`.
    fn datacenter_access(&mut self) -> Result<DatacenterAccess> {
        if self.eat_words("ALL DATACENTERS") {
            return Ok(DatacenterAccess::All);
        }
        self.expect_word("DATACENTERS")?;
        self.expect(TokenKind::OpenBrace)?;
        let names = self.list(Self::string)?;
        self.expect(TokenKind::CloseBrace)?;
        Ok(DatacenterAccess::Some(names))
    }

    fn password(&mut self, is_hashed: bool) -> Result<Password> {
        let text = self.string()?;
        Ok(if is_hashed {
            Password::Hashed(text)
        } else {
            Password::Plain(text)
        })
    }

    /// Parses `= true` or `= false`.
    fn flag(&mut self) -> Result<bool> {
        self.expect(TokenKind::Equal)?;
        if self.kind() != TokenKind::Boolean {
            return Err(self.mismatched(TokenKind::Boolean.expected()));
        }
        let token = self.advance();
        Ok(self.source(token).eq_ignore_ascii_case("true"))
    }
}
