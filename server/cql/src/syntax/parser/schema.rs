//! Parsers of CREATE TABLE and ALTER TABLE.

use super::definition::Properties;
use super::{Parser, Result};
use crate::syntax::ast::{
    AlterTable, ColumnDefinition, CreateTable, Name, Order, PrimaryKey, TableChange,
};
use crate::syntax::lexer::TokenKind;

impl Parser<'_> {
    /// Parses the rest after `CREATE TABLE`.
    pub(super) fn create_table(&mut self) -> Result<CreateTable> {
        let if_not_exists = self.if_not_exists()?;
        let mut created = CreateTable {
            table: self.table()?,
            if_not_exists,
            columns: Vec::new(),
            primary_key: None,
            clustering_order: Vec::new(),
            compact_storage: false,
            properties: Vec::new(),
        };
        self.expect(TokenKind::OpenParen)?;
        self.table_item(&mut created)?;
        // One or more commas may follow the last item.
        while self.eat(TokenKind::Comma) {
            if !matches!(self.kind(), TokenKind::Comma | TokenKind::CloseParen) {
                self.table_item(&mut created)?;
            }
        }
        self.expect(TokenKind::CloseParen)?;
        if self.eat_word("WITH") {
            let mut properties = Properties::default();
            self.table_option(&mut created, &mut properties)?;
            while self.eat_word("AND") {
                self.table_option(&mut created, &mut properties)?;
            }
            created.properties = properties.all;
        }
        Ok(created)
    }

    /// Parses a column or the primary key.
    fn table_item(&mut self, created: &mut CreateTable) -> Result<()> {
        let at = self.at;
        let primary_key = if self.eat_words("PRIMARY KEY") {
            self.primary_key()?
        } else {
            let column = self.column_definition()?;
            let name = column.name.clone();
            created.columns.push(column);
            if !self.eat_word("PRIMARY") {
                return Ok(());
            }
            self.expect_word("KEY")?;
            PrimaryKey {
                partition: vec![name],
                clustering: Vec::new(),
            }
        };
        if created.primary_key.is_some() {
            let table = &created.table;
            let keyspace = table.keyspace.as_ref();
            let keyspace = keyspace.map(|name| format!("{}.", name.as_str()));
            let message = format!(
                "Multiple PRIMARY KEY specified for table '{}{}' (exactly one required)",
                keyspace.unwrap_or_default(),
                table.name.as_str()
            );
            return Err(self.invalid_at(at, message));
        }
        created.primary_key = Some(primary_key);
        Ok(())
    }

    fn column_definition(&mut self) -> Result<ColumnDefinition> {
        Ok(ColumnDefinition {
            name: self.name()?,
            type_name: self.type_name()?,
            is_static: self.eat_word("STATIC"),
        })
    }

    /// Parses the key after `PRIMARY KEY`.
    fn primary_key(&mut self) -> Result<PrimaryKey> {
        self.expect(TokenKind::OpenParen)?;
        let partition = match self.kind() {
            TokenKind::OpenParen => self.parenthesized(Self::name)?,
            _ => vec![self.name()?],
        };
        let mut clustering = Vec::new();
        while self.eat(TokenKind::Comma) {
            clustering.push(self.name()?);
        }
        self.expect(TokenKind::CloseParen)?;
        Ok(PrimaryKey {
            partition,
            clustering,
        })
    }

    fn table_option(
        &mut self,
        created: &mut CreateTable,
        properties: &mut Properties,
    ) -> Result<()> {
        if self.eat_words("COMPACT STORAGE") {
            created.compact_storage = true;
            return Ok(());
        }
        if self.eat_words("CLUSTERING ORDER") {
            self.expect_word("BY")?;
            let order = self.parenthesized(Self::clustering_order)?;
            created.clustering_order.extend(order);
            return Ok(());
        }
        self.property(properties)
    }

    fn clustering_order(&mut self) -> Result<(Name, Order)> {
        let column = self.name()?;
        if self.eat_word("DESC") {
            return Ok((column, Order::Desc));
        }
        self.expect_word("ASC")?;
        Ok((column, Order::Asc))
    }

    /// Parses the rest after `ALTER TABLE`.
    pub(super) fn alter_table(&mut self) -> Result<AlterTable> {
        Ok(AlterTable {
            if_exists: self.if_exists()?,
            table: self.table()?,
            change: self.table_change()?,
        })
    }

    fn table_change(&mut self) -> Result<TableChange> {
        if self.eat_word("ADD") {
            return Ok(TableChange::Add {
                if_not_exists: self.if_not_exists()?,
                columns: self.one_or_more(Self::column_definition)?,
            });
        }
        if self.eat_words("DROP COMPACT STORAGE") {
            return Ok(TableChange::DropCompactStorage);
        }
        if self.eat_word("DROP") {
            let if_exists = self.if_exists()?;
            let columns = self.one_or_more(Self::name)?;
            let timestamp = self.after_word("USING", |parser| {
                parser.expect_word("TIMESTAMP")?;
                parser.integer()
            })?;
            return Ok(TableChange::Drop {
                if_exists,
                columns,
                timestamp,
            });
        }
        if self.eat_word("RENAME") {
            return Ok(TableChange::Rename {
                if_exists: self.if_exists()?,
                columns: self.renames()?,
            });
        }
        if self.eat_word("ALTER") {
            let if_exists = self.if_exists()?;
            let column = self.column()?;
            self.expect_word("TYPE")?;
            return Ok(TableChange::Retype {
                if_exists,
                column,
                type_name: self.type_name()?,
            });
        }
        if self.eat_word("WITH") {
            return Ok(TableChange::With(self.properties()?));
        }
        Err(self.no_viable())
    }

    /// Parses `item, item`, with or without parentheses.
    fn one_or_more<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        match self.kind() {
            TokenKind::OpenParen => self.parenthesized(item),
            _ => self.list(item),
        }
    }
}
