//! Parsers of CREATE, ALTER, DROP: the kind of object, then keyspaces, types and indexes.

use std::collections::HashSet;

use super::{Parser, Result};
use crate::syntax::ast::{
    AlterKeyspace, AlterType, Constant, ConstantKind, CreateIndex, CreateKeyspace, CreateType,
    DropKeyspace, DropObject, IndexTarget, IndexTargetKind, Name, Property, PropertyValue,
    QualifiedName, Statement, Term, TypeChange, TypeName,
};
use crate::syntax::lexer::TokenKind;

/// Properties without repeated names.
#[derive(Default)]
pub(super) struct Properties {
    pub all: Vec<Property>,
    names: HashSet<Name>,
}

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement> {
        Ok(if self.eat_keyspace_word() {
            let if_not_exists = self.if_not_exists()?;
            let name = self.keyspace()?;
            self.expect_word("WITH")?;
            Statement::CreateKeyspace(CreateKeyspace {
                name,
                if_not_exists,
                properties: self.properties()?,
            })
        } else if self.eat_table_word() {
            Statement::CreateTable(self.create_table()?)
        } else if self.eat_word("TYPE") {
            Statement::CreateType(self.create_type()?)
        } else if self.eat_word("INDEX") {
            Statement::CreateIndex(self.create_index(false)?)
        } else if self.eat_words("CUSTOM INDEX") {
            Statement::CreateIndex(self.create_index(true)?)
        } else if self.eat_word("SNAPSHOT") {
            Statement::CreateSnapshot(self.create_snapshot()?)
        } else if self.eat_word("ROLE") {
            Statement::Role(self.create_role()?)
        } else if self.eat_word("USER") {
            Statement::Role(self.create_user()?)
        } else {
            return Err(self.no_viable());
        })
    }

    pub(super) fn alter(&mut self) -> Result<Statement> {
        Ok(if self.eat_keyspace_word() {
            let if_exists = self.if_exists()?;
            let name = self.keyspace()?;
            self.expect_word("WITH")?;
            Statement::AlterKeyspace(AlterKeyspace {
                name,
                if_exists,
                properties: self.properties()?,
            })
        } else if self.eat_table_word() {
            Statement::AlterTable(self.alter_table()?)
        } else if self.eat_word("TYPE") {
            Statement::AlterType(AlterType {
                if_exists: self.if_exists()?,
                name: self.type_ref()?,
                change: self.type_change()?,
            })
        } else if self.eat_word("ROLE") {
            Statement::Role(self.alter_role()?)
        } else if self.eat_word("USER") {
            Statement::Role(self.alter_user()?)
        } else {
            return Err(self.no_viable());
        })
    }

    pub(super) fn drop_statement(&mut self) -> Result<Statement> {
        Ok(if self.eat_keyspace_word() {
            Statement::DropKeyspace(DropKeyspace {
                if_exists: self.if_exists()?,
                name: self.keyspace()?,
            })
        } else if self.eat_table_word() {
            Statement::DropTable(self.drop_object(Self::table)?)
        } else if self.eat_word("TYPE") {
            Statement::DropType(self.drop_object(Self::type_ref)?)
        } else if self.eat_word("INDEX") {
            Statement::DropIndex(self.drop_object(|parser| parser.qualified("index"))?)
        } else if self.eat_word("SNAPSHOT") {
            Statement::DropSnapshot(self.drop_snapshot()?)
        } else if self.eat_word("USER") {
            Statement::Role(self.drop_role(true)?)
        } else if self.eat_word("ROLE") {
            Statement::Role(self.drop_role(false)?)
        } else if self.eat_word("IDENTITY") {
            Statement::Role(self.drop_identity()?)
        } else {
            return Err(self.no_viable());
        })
    }

    /// Parses `[IF EXISTS] name`.
    fn drop_object(
        &mut self,
        name: impl FnOnce(&mut Self) -> Result<QualifiedName>,
    ) -> Result<DropObject> {
        Ok(DropObject {
            if_exists: self.if_exists()?,
            name: name(self)?,
        })
    }

    /// Parses the name of a user-defined type.
    fn type_ref(&mut self) -> Result<QualifiedName> {
        let at = self.at;
        match self.type_name()? {
            TypeName::User(name) => Ok(name),
            _ => {
                self.at = at;
                Err(self.no_viable())
            }
        }
    }

    /// Parses the rest after `CREATE TYPE`.
    fn create_type(&mut self) -> Result<CreateType> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.type_ref()?;
        self.expect(TokenKind::OpenParen)?;
        let mut fields = vec![self.field()?];
        // One or more commas may follow the last field.
        while self.eat(TokenKind::Comma) {
            if self.at_name() {
                fields.push(self.field()?);
            }
        }
        self.expect(TokenKind::CloseParen)?;
        Ok(CreateType {
            name,
            if_not_exists,
            fields,
        })
    }

    fn field(&mut self) -> Result<(Name, TypeName)> {
        Ok((self.name()?, self.type_name()?))
    }

    /// Parses the rest after the name in ALTER TYPE.
    fn type_change(&mut self) -> Result<TypeChange> {
        if self.eat_word("ADD") {
            let if_not_exists = self.if_not_exists()?;
            let (field, type_name) = self.field()?;
            return Ok(TypeChange::Add {
                if_not_exists,
                field,
                type_name,
            });
        }
        if self.eat_word("RENAME") {
            return Ok(TypeChange::Rename {
                if_exists: self.if_exists()?,
                fields: self.renames()?,
            });
        }
        if self.eat_word("ALTER") {
            let if_exists = self.if_exists()?;
            let field = self.name()?;
            self.expect_word("TYPE")?;
            return Ok(TypeChange::Retype {
                if_exists,
                field,
                type_name: self.type_name()?,
            });
        }
        Err(self.no_viable())
    }

    /// Parses `a TO b AND c TO d`.
    pub(super) fn renames(&mut self) -> Result<Vec<(Name, Name)>> {
        let mut renames = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_word("TO")?;
            renames.push((from, self.name()?));
            if !self.eat_word("AND") {
                return Ok(renames);
            }
        }
    }

    /// Parses the rest after `CREATE [CUSTOM] INDEX`.
    fn create_index(&mut self, custom: bool) -> Result<CreateIndex> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.at_word("ON") {
            None
        } else {
            Some(self.qualified("index")?)
        };
        self.expect_word("ON")?;
        let table = self.table()?;
        self.expect(TokenKind::OpenParen)?;
        let targets = self.until(TokenKind::CloseParen, Self::index_target)?;
        let class = self.after_word("USING", Self::string)?;
        Ok(CreateIndex {
            name,
            if_not_exists,
            custom,
            table,
            targets,
            class,
            properties: self.with_properties()?,
        })
    }

    fn index_target(&mut self) -> Result<IndexTarget> {
        use IndexTargetKind::{Entries, Full, Keys, Values};
        for kind in [Values, Keys, Entries, Full] {
            if self.ahead(1).kind == TokenKind::OpenParen && self.eat_word(kind.as_str()) {
                self.at += 1;
                let column = self.column()?;
                self.expect(TokenKind::CloseParen)?;
                return Ok(IndexTarget { kind, column });
            }
        }
        Ok(IndexTarget {
            kind: IndexTargetKind::Simple,
            column: self.column()?,
        })
    }

    /// Parses `[WITH a = 1 AND b = 2]`.
    pub(super) fn with_properties(&mut self) -> Result<Vec<Property>> {
        let properties = self.after_word("WITH", Self::properties)?;
        Ok(properties.unwrap_or_default())
    }

    /// Parses the properties after `WITH`.
    pub(super) fn properties(&mut self) -> Result<Vec<Property>> {
        let mut properties = Properties::default();
        loop {
            self.property(&mut properties)?;
            if !self.eat_word("AND") {
                return Ok(properties.all);
            }
        }
    }

    /// Parses `{'a': 1}`, the value of the property whose name is the token at `at`.
    pub(super) fn property_map(&mut self, at: usize) -> Result<Vec<(Constant, Constant)>> {
        self.expect(TokenKind::OpenBrace)?;
        let entries = self.until(TokenKind::CloseBrace, Self::property_entry)?;
        match twice(entries.iter().map(|(key, _)| &key.text)) {
            Some(key) => {
                let message = format!("Multiple definition for property {key}");
                Err(self.error_at(at, message))
            }
            None => Ok(entries),
        }
    }

    /// Parses a property and adds it. Fails if `properties` has one with this name.
    pub(super) fn property(&mut self, properties: &mut Properties) -> Result<()> {
        let at = self.at;
        let name = self.name()?;
        self.expect(TokenKind::Equal)?;
        let value = if let Some(constant) = self.constant() {
            PropertyValue::Constant(constant)
        } else if self.kind() == TokenKind::Word && self.at_name() {
            let word = self.name()?.into_string();
            PropertyValue::Constant(Constant {
                kind: ConstantKind::String,
                text: word,
            })
        } else if self.kind() == TokenKind::OpenBrace {
            PropertyValue::Map(self.property_map(at)?)
        } else {
            return Err(self.no_viable());
        };
        if !properties.names.insert(name.clone()) {
            let message = format!("Multiple definition for property '{}'", name.as_str());
            return Err(self.error_at(at, message));
        }
        properties.all.push(Property { name, value });
        Ok(())
    }

    fn property_entry(&mut self) -> Result<(Constant, Constant)> {
        let (at, key) = (self.at, self.term()?);
        self.expect(TokenKind::Colon)?;
        let (value_at, value) = (self.at, self.term()?);
        let refuse = |what: String, term: &Term| match term {
            Term::Marker(_) => {
                format!("{what} (bind variables are not supported in DDL queries)")
            }
            _ => what,
        };
        let Term::Constant(key) = key else {
            let message = refuse(format!("Invalid property name: {key}"), &key);
            return Err(self.error_at(at, message));
        };
        let Term::Constant(value) = value else {
            let what = format!("Invalid property value: {value} for property: {key}");
            return Err(self.error_at(value_at, refuse(what, &value)));
        };
        Ok((key, value))
    }
}

/// Returns the first repeated item.
fn twice<'a>(mut items: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = HashSet::new();
    items.find(|item| !seen.insert(*item))
}
