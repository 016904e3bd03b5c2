//! The lexer, which splits text into tokens.
//!
//! A token is a kind and a range; its text is read from the statement on demand. Numbers have no
//! sign: the parser adds it, because `a -1` is a subtraction.

use super::ParseError;
use super::ast::ConstantKind;

/// The kind and the range of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    /// The offset of the first byte.
    pub start: usize,
    /// The offset after the last byte.
    pub end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word without quotes, possibly a keyword.
    Word,
    QuotedName,
    /// `'...'`
    String,
    /// `$$...$$`
    DollarString,
    Integer,
    Float,
    Boolean,
    Uuid,
    Hex,
    Duration,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Comma,
    Semicolon,
    Colon,
    Question,
    Dot,
    Range,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    PlusEqual,
    MinusEqual,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// The end of the text, after the last token.
    End,
}

impl TokenKind {
    /// Returns the name that error messages give to a token that is expected but missing.
    pub fn expected(self) -> &'static str {
        match self {
            TokenKind::Word => "IDENT",
            TokenKind::QuotedName => "QUOTED_NAME",
            TokenKind::String | TokenKind::DollarString => "STRING_LITERAL",
            TokenKind::Integer => "INTEGER",
            TokenKind::Float => "FLOAT",
            TokenKind::Boolean => "BOOLEAN",
            TokenKind::Uuid => "UUID",
            TokenKind::Hex => "HEXNUMBER",
            TokenKind::Duration => "DURATION",
            TokenKind::OpenParen => "'('",
            TokenKind::CloseParen => "')'",
            TokenKind::OpenBracket => "'['",
            TokenKind::CloseBracket => "']'",
            TokenKind::OpenBrace => "'{'",
            TokenKind::CloseBrace => "'}'",
            TokenKind::Comma => "','",
            TokenKind::Semicolon => "';'",
            TokenKind::Colon => "':'",
            TokenKind::Question => "QMARK",
            TokenKind::Dot => "'.'",
            TokenKind::Range => "RANGE",
            TokenKind::Plus => "'+'",
            TokenKind::Minus => "'-'",
            TokenKind::Star => "'*'",
            TokenKind::Slash => "'/'",
            TokenKind::Percent => "'%'",
            TokenKind::PlusEqual => "'+='",
            TokenKind::MinusEqual => "'-='",
            TokenKind::Equal => "'='",
            TokenKind::NotEqual => "'!='",
            TokenKind::Less => "'<'",
            TokenKind::LessOrEqual => "'<='",
            TokenKind::Greater => "'>'",
            TokenKind::GreaterOrEqual => "'>='",
            TokenKind::End => "EOF",
        }
    }

    /// Returns the kind of constant that the token is, if it is one.
    pub fn constant(self) -> Option<ConstantKind> {
        match self {
            TokenKind::String | TokenKind::DollarString => Some(ConstantKind::String),
            TokenKind::Integer => Some(ConstantKind::Integer),
            TokenKind::Float => Some(ConstantKind::Float),
            TokenKind::Boolean => Some(ConstantKind::Boolean),
            TokenKind::Uuid => Some(ConstantKind::Uuid),
            TokenKind::Hex => Some(ConstantKind::Hex),
            TokenKind::Duration => Some(ConstantKind::Duration),
            _ => None,
        }
    }
}

/// Reads tokens in sequence.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Lexer {
            text,
            bytes: text.as_bytes(),
            at: 0,
        }
    }

    /// Returns the next token; at the end of the text, always [`TokenKind::End`].
    pub fn next(&mut self) -> Result<Token, ParseError> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(&first) = self.bytes.get(start) else {
            return Ok(self.token(TokenKind::End, start, 0));
        };
        if first.is_ascii_hexdigit() && is_uuid(&self.bytes[start..]) {
            return Ok(self.token(TokenKind::Uuid, start, UUID_LEN));
        }
        match first {
            b'a'..=b'z' | b'A'..=b'Z' => Ok(self.word(start)),
            b'0'..=b'9' => Ok(self.number(start)),
            b'\'' => self.quoted(start, b'\'', TokenKind::String),
            b'"' => self.quoted(start, b'"', TokenKind::QuotedName),
            b'$' if self.bytes.get(start + 1) == Some(&b'$') => {
                let body = &self.text[start + 2..];
                match body.find("$$") {
                    Some(len) => Ok(self.token(TokenKind::DollarString, start, len + 4)),
                    None => Err(self.cut_short("'$'")),
                }
            }
            _ => self.symbol(start, first),
        }
    }

    fn token(&mut self, kind: TokenKind, start: usize, len: usize) -> Token {
        self.at = start + len;
        Token {
            kind,
            start,
            end: self.at,
        }
    }

    fn cut_short(&self, expected: &str) -> ParseError {
        let message = format!("mismatched character '<EOF>' expecting {expected}");
        ParseError::syntax(self.text, self.text.len(), message)
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let rest = &self.bytes[self.at..];
            match rest {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'-', b'-', ..] | [b'/', b'/', ..] => {
                    let newline = |byte: &u8| matches!(byte, b'\n' | b'\r');
                    self.at += rest.iter().position(newline).unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => match self.text[self.at + 2..].find("*/") {
                    Some(len) => self.at += len + 4,
                    None => return Err(self.cut_short("'*'")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self, start: usize) -> Token {
        let rest = &self.bytes[start..];
        let len = count(rest, is_word_byte);
        // `P1Y` is a duration, `P1Year` is a word.
        if let Some(duration) = iso_duration(rest)
            && duration >= len
        {
            return self.token(TokenKind::Duration, start, duration);
        }
        let word = &self.text[start..start + len];
        let boolean = word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false");
        let kind = if boolean {
            TokenKind::Boolean
        } else {
            TokenKind::Word
        };
        self.token(kind, start, len)
    }

    fn number(&mut self, start: usize) -> Token {
        let rest = &self.bytes[start..];
        if let [b'0', b'x' | b'X', digits @ ..] = rest {
            let len = count(digits, |byte| byte.is_ascii_hexdigit());
            return self.token(TokenKind::Hex, start, len + 2);
        }
        if let Some(len) = duration(rest) {
            return self.token(TokenKind::Duration, start, len);
        }
        let mut len = count(rest, |byte| byte.is_ascii_digit());
        let mut kind = TokenKind::Integer;
        // `1..2` is a range from 1, `1...2` is a range from `1.`.
        let range = rest[len..].starts_with(b"..") && !rest[len..].starts_with(b"...");
        if rest.get(len) == Some(&b'.') && !range {
            kind = TokenKind::Float;
            len += 1;
            len += count(&rest[len..], |byte| byte.is_ascii_digit());
        }
        if let [b'e' | b'E', exponent @ ..] = &rest[len..] {
            let sign = usize::from(matches!(exponent, [b'+' | b'-', ..]));
            let digits = count(&exponent[sign..], |byte| byte.is_ascii_digit());
            if digits > 0 {
                kind = TokenKind::Float;
                len += 1 + sign + digits;
            }
        }
        self.token(kind, start, len)
    }

    /// Reads up to the closing quote; a doubled quote is part of the text.
    fn quoted(&mut self, start: usize, quote: u8, kind: TokenKind) -> Result<Token, ParseError> {
        let mut at = start + 1;
        loop {
            match self.bytes[at..].iter().position(|&byte| byte == quote) {
                None if quote == b'"' => return Err(self.cut_short("'\"'")),
                None => return Err(self.cut_short("'''")),
                Some(len) => at += len + 1,
            }
            if self.bytes.get(at) != Some(&quote) {
                return Ok(self.token(kind, start, at - start));
            }
            at += 1;
        }
    }

    fn symbol(&mut self, start: usize, first: u8) -> Result<Token, ParseError> {
        let second = self.bytes.get(start + 1).copied().unwrap_or(0);
        let (kind, len) = match (first, second) {
            (b'(', _) => (TokenKind::OpenParen, 1),
            (b')', _) => (TokenKind::CloseParen, 1),
            (b'[', _) => (TokenKind::OpenBracket, 1),
            (b']', _) => (TokenKind::CloseBracket, 1),
            (b'{', _) => (TokenKind::OpenBrace, 1),
            (b'}', _) => (TokenKind::CloseBrace, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b'?', _) => (TokenKind::Question, 1),
            (b'.', b'.') => (TokenKind::Range, 2),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'+', b'=') => (TokenKind::PlusEqual, 2),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'-', b'=') => (TokenKind::MinusEqual, 2),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            (b'=', _) => (TokenKind::Equal, 1),
            (b'!', b'=') => (TokenKind::NotEqual, 2),
            (b'<', b'=') => (TokenKind::LessOrEqual, 2),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', b'=') => (TokenKind::GreaterOrEqual, 2),
            (b'>', _) => (TokenKind::Greater, 1),
            _ => {
                let character = self.text[start..].chars().next().unwrap_or(' ');
                let message = format!("no viable alternative at character '{character}'");
                return Err(ParseError::syntax(self.text, start, message));
            }
        };
        Ok(self.token(kind, start, len))
    }
}

const UUID_LEN: usize = 36;

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the number of leading bytes for which `of` returns true.
fn count(bytes: &[u8], of: impl Fn(u8) -> bool) -> usize {
    let other = bytes.iter().position(|&byte| !of(byte));
    other.unwrap_or(bytes.len())
}

fn is_uuid(bytes: &[u8]) -> bool {
    let digit = |at: usize, byte: u8| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let Some(uuid) = bytes.get(..UUID_LEN) else {
        return false;
    };
    uuid.iter().enumerate().all(|(at, &byte)| digit(at, byte))
}

/// Returns the length of a duration such as `1h30m`, if `bytes` begin with one, and no letter, digit
/// or `_` follows it.
fn duration(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let digits = count(&bytes[at..], |byte| byte.is_ascii_digit());
        if digits == 0 {
            break;
        }
        at += digits + unit(&bytes[at + digits..])?;
    }
    let goes_on = bytes.get(at).is_some_and(|&byte| is_word_byte(byte));
    (at > 0 && !goes_on).then_some(at)
}

/// Returns the length of the unit of a duration, if `bytes` begin with one.
fn unit(bytes: &[u8]) -> Option<usize> {
    const MICRO: &[u8] = "\u{b5}".as_bytes();
    let lower = |at: usize| bytes.get(at).map(u8::to_ascii_lowercase);
    match (lower(0)?, lower(1)) {
        (b'm', Some(b'o' | b's')) | (b'u' | b'n', Some(b's')) => Some(2),
        (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => Some(1),
        _ if bytes.starts_with(MICRO) && lower(2) == Some(b's') => Some(3),
        _ => None,
    }
}

/// Returns the length of a duration such as `P1Y2M3DT4H5M6S`, `P3W` or `P0001-02-03T04:05:06`, in
/// capitals, if `bytes` begin with one.
fn iso_duration(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'P') {
        return None;
    }
    const DATE_TIME: &[u8] = b"P####-##-##T##:##:##";
    let fits = |(&byte, &form): (&u8, &u8)| match form {
        b'#' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    if bytes.len() >= DATE_TIME.len() && bytes.iter().zip(DATE_TIME).all(fits) {
        return Some(DATE_TIME.len());
    }
    let weeks = 1 + count(&bytes[1..], |byte| byte.is_ascii_digit());
    if weeks > 1 && bytes.get(weeks) == Some(&b'W') {
        return Some(weeks + 1);
    }
    let date = 1 + designated(&bytes[1..], b"YMD");
    let mut end = date;
    if bytes.get(date) == Some(&b'T') {
        let time = designated(&bytes[date + 1..], b"HMS");
        if time > 0 {
            end = date + 1 + time;
        }
    }
    (end > 1).then_some(end)
}

/// Returns the length of the longest start of `bytes` like `1Y2M3D`: numbers, each followed by one
/// of `designators`. The designators must have the given order; any of them may be missing.
fn designated(bytes: &[u8], designators: &[u8]) -> usize {
    let mut at = 0;
    for &designator in designators {
        let digits = count(&bytes[at..], |byte| byte.is_ascii_digit());
        if digits > 0 && bytes.get(at + digits) == Some(&designator) {
            at += digits + 1;
        }
    }
    at
}
