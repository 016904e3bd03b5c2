//! The parser of statements: chooses the kind of a statement, and parses short statements and those
//! that ebb does not support.

use super::{Parser, Result};
use crate::syntax::ast::{
    CreateSnapshot, Describe, DescribeTarget, DropSnapshot, ListSnapshots, RoleStatement,
    SnapshotScope, Statement, Unsupported, Write,
};
use crate::syntax::lexer::TokenKind;

/// The statements that ebb does not support: the words with which each begins, and its name.
const UNSUPPORTED: [(&str, &str); 12] = [
    ("CREATE AGGREGATE", "CREATE AGGREGATE"),
    ("CREATE FUNCTION", "CREATE FUNCTION"),
    ("CREATE OR REPLACE AGGREGATE", "CREATE AGGREGATE"),
    ("CREATE OR REPLACE FUNCTION", "CREATE FUNCTION"),
    ("CREATE MATERIALIZED VIEW", "CREATE MATERIALIZED VIEW"),
    ("CREATE TRIGGER", "CREATE TRIGGER"),
    ("ALTER MATERIALIZED VIEW", "ALTER MATERIALIZED VIEW"),
    ("DROP AGGREGATE", "DROP AGGREGATE"),
    ("DROP FUNCTION", "DROP FUNCTION"),
    ("DROP MATERIALIZED VIEW", "DROP MATERIALIZED VIEW"),
    ("DROP TRIGGER", "DROP TRIGGER"),
    ("LIST SUPERUSERS", "LIST SUPERUSERS"),
];

impl Parser<'_> {
    /// Parses a statement by its first words. The caller checks that nothing but a semicolon follows.
    pub(super) fn statement(&mut self) -> Result<Statement> {
        if self.kind() != TokenKind::Word {
            return Err(self.no_viable());
        }
        Ok(if self.eat_word("SELECT") {
            Statement::Select(self.select()?)
        } else if self.eat_word("INSERT") {
            Statement::Write(Write::Insert(self.insert()?))
        } else if self.eat_word("UPDATE") {
            Statement::Write(Write::Update(self.update()?))
        } else if self.eat_word("DELETE") {
            Statement::Write(Write::Delete(self.delete()?))
        } else if self.eat_word("BEGIN") {
            Statement::Batch(self.batch()?)
        } else if self.eat_word("USE") {
            Statement::Use(self.keyspace()?)
        } else if self.eat_word("TRUNCATE") {
            // TABLE is optional.
            self.eat_table_word();
            Statement::Truncate(self.table()?)
        } else if self.eat_word("DESCRIBE") || self.eat_word("DESC") {
            Statement::Describe(self.describe()?)
        } else if let Some(unsupported) = self.unsupported() {
            // Before the branches of CREATE, ALTER, DROP and LIST, which consume the word and would
            // return a syntax error for these statements.
            Statement::Unsupported(unsupported)
        } else if self.eat_word("CREATE") {
            self.create()?
        } else if self.eat_word("ALTER") {
            self.alter()?
        } else if self.eat_word("DROP") {
            self.drop_statement()?
        } else if self.eat_words("ADD IDENTITY") {
            Statement::Role(self.add_identity()?)
        } else if self.eat_words("LIST SNAPSHOTS") {
            let on = self.after_word("ON", Self::snapshot_scope)?;
            Statement::ListSnapshots(ListSnapshots { on })
        } else if self.eat_words("KILL QUERY") {
            Statement::KillQuery(self.query_id()?)
        } else if self.eat_word("GRANT") {
            self.grant()?
        } else if self.eat_word("REVOKE") {
            self.revoke()?
        } else if self.eat_words("LIST ROLES") {
            Statement::Role(self.list_roles()?)
        } else if self.eat_words("LIST USERS") {
            Statement::Role(RoleStatement::ListUsers)
        } else if self.eat_word("LIST")
            && (self.at_word("ALL") || self.permission_ahead().is_some())
        {
            self.list_permissions()?
        } else {
            // If the word was LIST, it was consumed already, so the error is about the word after it.
            return Err(self.no_viable());
        })
    }

    /// Consumes `TABLE` or `COLUMNFAMILY`, and returns true, if it comes next.
    pub(super) fn eat_table_word(&mut self) -> bool {
        self.eat_word("TABLE") || self.eat_word("COLUMNFAMILY")
    }

    /// Consumes `KEYSPACE` or `SCHEMA`, and returns true, if it comes next.
    pub(super) fn eat_keyspace_word(&mut self) -> bool {
        self.eat_word("KEYSPACE") || self.eat_word("SCHEMA")
    }

    /// Parses the first words of a statement that ebb does not support, and skips the rest. `None`
    /// if the statement is not one of these; then nothing is consumed.
    fn unsupported(&mut self) -> Option<Unsupported> {
        let start = self.here().start;
        let mut known = UNSUPPORTED.into_iter();
        let (_, what) = known.find(|(words, _)| self.eat_words(words))?;
        let before = self.text[..self.here().start].trim_end().len();
        let mut end = before.max(start);
        loop {
            let token = self.here();
            match token.kind {
                TokenKind::End => break,
                // Semicolons may occur within the statement or after it.
                TokenKind::Semicolon => {}
                _ => end = token.end,
            }
            self.at += 1;
        }
        let text = self.text[start..end].to_owned();
        Some(Unsupported { what, text })
    }

    /// Parses the rest after `CREATE SNAPSHOT`.
    pub(super) fn create_snapshot(&mut self) -> Result<CreateSnapshot> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name()?;
        self.expect_word("ON")?;
        let on = self.snapshot_scope()?;
        let properties = self.with_properties()?;
        Ok(CreateSnapshot {
            name,
            if_not_exists,
            on,
            properties,
        })
    }

    /// Parses the rest after `DROP SNAPSHOT`.
    pub(super) fn drop_snapshot(&mut self) -> Result<DropSnapshot> {
        let if_exists = self.if_exists()?;
        let name = self.name()?;
        let on = self.after_word("ON", Self::snapshot_scope)?;
        Ok(DropSnapshot {
            name,
            if_exists,
            on,
        })
    }

    /// Parses the scope of a snapshot: `KEYSPACE ks`, `TABLE t` or just `t`. `SCHEMA` stands for
    /// `KEYSPACE`, and `COLUMNFAMILY` for `TABLE`, as in other statements.
    fn snapshot_scope(&mut self) -> Result<SnapshotScope> {
        if self.eat_keyspace_word() {
            return Ok(SnapshotScope::Keyspace(self.keyspace()?));
        }
        self.eat_table_word();
        Ok(SnapshotScope::Table(self.table()?))
    }

    /// Parses the id after `KILL QUERY`.
    fn query_id(&mut self) -> Result<u64> {
        let id = self.source(self.here()).parse();
        let (TokenKind::Integer, Ok(id)) = (self.kind(), id) else {
            return Err(self.mismatched(TokenKind::Integer.expected()));
        };
        self.at += 1;
        Ok(id)
    }

    /// Parses the rest after `DESCRIBE`.
    fn describe(&mut self) -> Result<Describe> {
        let target = self.describe_target()?;
        let internals = self.eat_word("WITH");
        if internals {
            self.expect_word("INTERNALS")?;
        }
        Ok(Describe { target, internals })
    }

    /// Parses what DESCRIBE names: all objects of a kind, or one object.
    fn describe_target(&mut self) -> Result<DescribeTarget> {
        // These words are not reserved, but always mean the list here: a table with such a name is
        // described by its quoted name, or after TABLE.
        let all = [
            ("CLUSTER", DescribeTarget::Cluster),
            ("KEYSPACES", DescribeTarget::Keyspaces),
            ("SNAPSHOTS", DescribeTarget::Snapshots),
            ("TABLES", DescribeTarget::Tables),
            ("COLUMNFAMILIES", DescribeTarget::Tables),
            ("TYPES", DescribeTarget::Types),
            ("FUNCTIONS", DescribeTarget::Functions),
            ("AGGREGATES", DescribeTarget::Aggregates),
        ];
        for (word, target) in all {
            if self.eat_word(word) {
                return Ok(target);
            }
        }
        if self.eat_word("FULL") {
            self.expect_word("SCHEMA")?;
            return Ok(DescribeTarget::Schema { full: true });
        }
        // `SCHEMA` alone means the whole schema; before a name it is a synonym of KEYSPACE.
        let names = self.is_name(self.ahead(1));
        if self.at_word("SCHEMA") && !names {
            self.at += 1;
            return Ok(DescribeTarget::Schema { full: false });
        }
        // ONLY is not reserved: without KEYSPACE behind it, it is the name of an object.
        let only = (self.word_ahead(1, "KEYSPACE") || self.word_ahead(1, "SCHEMA"))
            && self.eat_word("ONLY");
        if self.eat_keyspace_word() {
            // Without a name the keyspace in use is described.
            let name = if self.at_name() {
                Some(self.keyspace()?)
            } else {
                None
            };
            return Ok(DescribeTarget::Keyspace { name, only });
        }
        if self.eat_table_word() {
            return Ok(DescribeTarget::Table(self.table()?));
        }
        if self.eat_word("INDEX") {
            return Ok(DescribeTarget::Index(self.qualified("index")?));
        }
        if self.eat_words("MATERIALIZED VIEW") {
            return Ok(DescribeTarget::View(self.qualified("view")?));
        }
        // TYPE, FUNCTION and AGGREGATE are not reserved, unlike TABLE, INDEX and MATERIALIZED. Without
        // a name behind them they are themselves the name of an object.
        if names && self.eat_word("TYPE") {
            return Ok(DescribeTarget::Type(self.qualified("type")?));
        }
        if names && self.eat_word("FUNCTION") {
            return Ok(DescribeTarget::Function(self.qualified("function")?));
        }
        if names && self.eat_word("AGGREGATE") {
            return Ok(DescribeTarget::Aggregate(self.qualified("aggregate")?));
        }
        Ok(DescribeTarget::Any(self.qualified("table")?))
    }
}
