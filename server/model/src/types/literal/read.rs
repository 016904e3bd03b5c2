//! Parses the literal of any value, in CQL or JSON.

use super::{CqlType, TypeError};
use crate::types::{UserType, elements};

impl CqlType {
    /// Parses a literal in the form of [`literal`](Self::literal): `[1, 2]`, `{'a', 'b'}`,
    /// `{'a': 0xcafe}`, `(1, null)`, `{street: 'x'}`. JSON is accepted too: texts and the names of
    /// fields may stand in double quotes, other values in quotes of either kind, and sets and
    /// tuples may be lists. Sets and maps get their [normal form](Self::normalize).
    ///
    /// # Errors
    /// If the text is null or no value of the type.
    pub fn parse_literal(&self, text: &str) -> Result<Vec<u8>, TypeError> {
        let mut reader = Reader { rest: text };
        let value = reader.value(self)?;
        let value = value.ok_or_else(|| TypeError::new("null is no value"))?;
        match reader.rest.trim_start() {
            "" => Ok(self.normalize(&value).into_owned()),
            _ => Err(reader.refuse("the end")),
        }
    }
}

/// A parser over the rest of the text.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    /// Parses a value; `None` is null.
    fn value(&mut self, ty: &CqlType) -> Result<Option<Vec<u8>>, TypeError> {
        if self.takes_word("null") {
            return Ok(None);
        }
        Ok(Some(match ty {
            CqlType::List { element, .. } => self.elements(element, '[', ']')?,
            CqlType::Set { element, .. } if self.begins_with('[') => {
                self.elements(element, '[', ']')?
            }
            CqlType::Set { element, .. } => self.elements(element, '{', '}')?,
            CqlType::Map { key, value, .. } => self.entries(key, value)?,
            CqlType::Tuple(types) => self.tuple(types)?,
            CqlType::Udt { definition, .. } => self.fields(definition)?,
            native => self.native(native)?,
        }))
    }

    fn elements(&mut self, ty: &CqlType, open: char, close: char) -> Result<Vec<u8>, TypeError> {
        let mut found = Vec::new();
        self.each(open, close, |reader| {
            found.push(reader.some(ty)?);
            Ok(())
        })?;
        Ok(elements::build(found))
    }

    fn entries(&mut self, key: &CqlType, value: &CqlType) -> Result<Vec<u8>, TypeError> {
        let mut found = Vec::new();
        self.each('{', '}', |reader| {
            let key = reader.some(key)?;
            reader.expect(':')?;
            found.push((key, reader.some(value)?));
            Ok(())
        })?;
        Ok(elements::build_map(found))
    }

    fn tuple(&mut self, types: &[CqlType]) -> Result<Vec<u8>, TypeError> {
        let (open, close) = if self.begins_with('[') {
            ('[', ']')
        } else {
            ('(', ')')
        };
        let mut left = types.iter();
        let mut found = Vec::new();
        self.each(open, close, |reader| match left.next() {
            Some(ty) => {
                found.push(reader.value(ty)?);
                Ok(())
            }
            None => Err(reader.refuse("no more parts of a tuple")),
        })?;
        Ok(elements::build_tuple(found.iter().map(Option::as_deref)))
    }

    fn fields(&mut self, definition: &UserType) -> Result<Vec<u8>, TypeError> {
        let mut found = vec![None; definition.fields().len()];
        self.each('{', '}', |reader| {
            let name = reader.name()?;
            let unknown = || {
                let ty = definition.name();
                TypeError::new(format!("user-defined type {ty} has no field {name}"))
            };
            let at = definition.field(&name).ok_or_else(unknown)?;
            reader.expect(':')?;
            found[at] = reader.value(&definition.fields()[at].1)?;
            Ok(())
        })?;
        Ok(elements::build_tuple(found.iter().map(Option::as_deref)))
    }

    /// Parses a comma-separated list between two delimiters.
    fn each(
        &mut self,
        open: char,
        close: char,
        mut one: impl FnMut(&mut Self) -> Result<(), TypeError>,
    ) -> Result<(), TypeError> {
        self.expect(open)?;
        if self.takes(close) {
            return Ok(());
        }
        loop {
            one(self)?;
            if self.takes(close) {
                return Ok(());
            }
            self.expect(',')?;
        }
    }

    fn some(&mut self, ty: &CqlType) -> Result<Vec<u8>, TypeError> {
        let null = || TypeError::new("null is not supported inside collections");
        self.value(ty)?.ok_or_else(null)
    }

    fn native(&mut self, ty: &CqlType) -> Result<Vec<u8>, TypeError> {
        if self.takes_word(&format!("blobas{ty}(0x)")) {
            return Ok(Vec::new());
        }
        let text = match self.quoted(false)? {
            Some(text) => text,
            None if matches!(ty, CqlType::Text | CqlType::Ascii) => {
                return Err(self.refuse("a text in quotes"));
            }
            None => match self.bare() {
                "" => return Err(self.refuse(&format!("a value of type {ty}"))),
                bare => bare.to_owned(),
            },
        };
        match ty {
            CqlType::Blob => ty.parse_value(text.strip_prefix("0x").unwrap_or(&text)),
            _ => ty.parse_value(&text),
        }
    }

    /// Parses a field's name. A name in quotes is returned unchanged, any other in lower case.
    fn name(&mut self) -> Result<String, TypeError> {
        match self.quoted(true)? {
            Some(name) => Ok(name),
            None => Ok(self.bare().to_ascii_lowercase()),
        }
    }

    /// Parses a quoted text, if one comes next: in single quotes, or in double ones. Double quotes
    /// are escaped as in CQL within a name, and as in JSON elsewhere.
    fn quoted(&mut self, is_name: bool) -> Result<Option<String>, TypeError> {
        let quote = match self.rest.trim_start().chars().next() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Ok(None),
        };
        let inner = &self.rest.trim_start()[1..];
        if quote == '"' && !is_name {
            let mut json = serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
            let Some(Ok(text)) = json.next() else {
                return Err(self.refuse("a text in quotes"));
            };
            self.rest = &self.rest[json.byte_offset()..];
            return Ok(Some(text));
        }
        let mut text = String::new();
        let mut left = inner;
        loop {
            let Some((before, after)) = left.split_once(quote) else {
                return Err(self.refuse("a text in quotes"));
            };
            text.push_str(before);
            match after.strip_prefix(quote) {
                Some(more) => {
                    text.push(quote);
                    left = more;
                }
                None => {
                    self.rest = after;
                    return Ok(Some(text));
                }
            }
        }
    }

    /// Takes the text before the next delimiter or space.
    fn bare(&mut self) -> &'t str {
        let text = self.rest.trim_start();
        let is_end = |c: char| c.is_whitespace() || ",:]})".contains(c);
        let (bare, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
        self.rest = rest;
        bare
    }

    fn begins_with(&self, sign: char) -> bool {
        self.rest.trim_start().starts_with(sign)
    }

    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes `word` if it comes next as a whole word, and returns whether it did.
    fn takes_word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(word);
        let ends = |rest: &&str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = rest.filter(ends);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, sign: char) -> Result<(), TypeError> {
        if self.takes(sign) {
            Ok(())
        } else {
            Err(self.refuse(&format!("'{sign}'")))
        }
    }

    fn refuse(&self, expected: &str) -> TypeError {
        const SHOWN: usize = 20;
        let rest = self.rest.trim_start();
        let shown: String = rest.chars().take(SHOWN).collect();
        if rest.is_empty() {
            TypeError::new(format!("expected {expected}, and it ends"))
        } else {
            TypeError::new(format!("expected {expected} at \"{shown}\""))
        }
    }
}
