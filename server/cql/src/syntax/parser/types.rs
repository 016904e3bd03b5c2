//! Parsers of types.

use ebb_model::types::CqlType;

use super::{Parser, Result};
use crate::syntax::ast::TypeName;
use crate::syntax::lexer::TokenKind;
use crate::syntax::words;

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Result<TypeName> {
        self.nested(Self::type_name_inner)
    }

    fn type_name_inner(&mut self) -> Result<TypeName> {
        let token = self.here();
        if matches!(token.kind, TokenKind::String | TokenKind::DollarString) {
            return Ok(TypeName::Custom(self.string()?));
        }
        if token.kind == TokenKind::Word && self.ahead(1).kind == TokenKind::Less {
            return self.type_with_arguments();
        }
        // Before a dot is the name of a keyspace, which may be that of any type.
        if self.ahead(1).kind != TokenKind::Dot {
            if let Some(native) = self.native_type() {
                return Ok(TypeName::Native(native));
            }
            let source = self.source(token);
            let reserved = |known: &&str| known.eq_ignore_ascii_case(source);
            if token.kind == TokenKind::Word && words::RESERVED_TYPES.iter().any(reserved) {
                let message = format!("Invalid (reserved) user type name {source}");
                return Err(self.error(message));
            }
        }
        Ok(TypeName::User(self.qualified("type")?))
    }

    fn type_with_arguments(&mut self) -> Result<TypeName> {
        let name = self.source(self.here()).to_ascii_lowercase();
        if !["list", "set", "map", "tuple", "frozen", "vector"].contains(&name.as_str()) {
            return Err(self.no_viable());
        }
        self.at += 2;
        let first = Box::new(self.type_name()?);
        let read = match name.as_str() {
            "list" => TypeName::List(first),
            "set" => TypeName::Set(first),
            "frozen" => TypeName::Frozen(first),
            "map" => {
                self.expect(TokenKind::Comma)?;
                TypeName::Map(first, Box::new(self.type_name()?))
            }
            "vector" => {
                self.expect(TokenKind::Comma)?;
                let dimensions = self.source(self.here()).parse();
                let (TokenKind::Integer, Ok(dimensions)) = (self.kind(), dimensions) else {
                    return Err(self.mismatched(TokenKind::Integer.expected()));
                };
                self.at += 1;
                TypeName::Vector(first, dimensions)
            }
            _ => {
                let mut types = vec![*first];
                while self.eat(TokenKind::Comma) {
                    types.push(self.type_name()?);
                }
                TypeName::Tuple(types)
            }
        };
        self.expect(TokenKind::Greater)?;
        Ok(read)
    }

    /// Parses a native type, if one comes next.
    fn native_type(&mut self) -> Option<CqlType> {
        let token = self.here();
        if token.kind != TokenKind::Word {
            return None;
        }
        let native = CqlType::native(self.source(token))?;
        self.at += 1;
        Some(native)
    }
}
