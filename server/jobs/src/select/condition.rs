//! A condition on a column, as a user writes it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::records::number::NumberProblem;
use crate::records::{Number, shown};

/// A condition on a column, written `COLUMN OP VALUE`, with the operator `=`, `!=`, `<`, `<=`, `>`,
/// `>=` or `~` ("contains").
///
/// If VALUE is a number, fields must be numbers; otherwise fields must be text. A field of the
/// other kind is an error, since numbers and text have no common order. In single or double quotes,
/// VALUE is always text, and any field is compared with it byte by byte. `~` searches for text in
/// any field. A row without the column meets no condition, and an empty field meets no condition
/// with a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Condition {
    column: String,
    operator: Operator,
    operand: Operand,
}

/// The operand of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    /// A number: its text as the user wrote it, and its value.
    Number(String, Number),
    Text(String),
    /// A text that the user wrote in quotes, without the quotes.
    Quoted(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Contains,
}

/// The signs of the operators in conditions.
const OPERATORS: [(&str, Operator); 7] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The first operator counts; of two at the same place, the longer one.
        let found = OPERATORS.iter().filter_map(|(sign, operator)| {
            let at = text.find(sign)?;
            Some((at, std::cmp::Reverse(sign.len()), *sign, *operator))
        });
        let found = found.min_by_key(|&(at, length, ..)| (at, length));
        let split = found.map(|(at, _, sign, operator)| {
            (text[..at].trim(), operator, text[at + sign.len()..].trim())
        });
        match split {
            Some((column, operator, value)) if !column.is_empty() => Ok(Self {
                column: column.to_string(),
                operator,
                operand: Operand::new(operator, value)?,
            }),
            _ => Err("expected COLUMN OP VALUE with OP one of = != < <= > >= ~, \
                      as in \"age >= 18\""
                .to_string()),
        }
    }
}

impl Operand {
    fn new(operator: Operator, value: &str) -> Result<Self, String> {
        let quoted = ['"', '\''].iter().find_map(|&quote| {
            let text = value.strip_prefix(quote)?.strip_suffix(quote)?;
            (!text.contains(quote)).then(|| text.to_string())
        });
        if let Some(text) = quoted {
            return Ok(Self::Quoted(text));
        }
        if operator == Operator::Contains {
            return match value {
                "" => Err("every field contains nothing: expected a text after ~".to_string()),
                text => Ok(Self::Text(text.to_string())),
            };
        }
        if value.starts_with(['"', '\'']) {
            return Err(format!(
                "the quotes of {value} do not enclose it: write one at each end, and none of the \
                 same kind between them"
            ));
        }
        if value.starts_with(['=', '<', '>', '~', '!']) {
            return Err(format!(
                "there is no such operator; they are = != < <= > >= ~. If the value begins with \
                 {:?}, write it in quotes: '{value}'",
                &value[..1]
            ));
        }
        if value.is_empty() && !matches!(operator, Operator::Equal | Operator::NotEqual) {
            return Err("a value is missing after the operator".to_string());
        }
        match Number::parse(value.as_bytes()) {
            Ok(number) => Ok(Self::Number(value.to_string(), number)),
            Err(NumberProblem::None) => Ok(Self::Text(value.to_string())),
            Err(problem) => Err(format!(
                "{value} {problem}; write it in quotes to compare text"
            )),
        }
    }

    /// Returns the operand as a user writes it in a condition.
    fn written(&self) -> Cow<'_, str> {
        match self {
            Self::Number(text, _) | Self::Text(text) => text.into(),
            Self::Quoted(text) if text.contains('"') => format!("'{text}'").into(),
            Self::Quoted(text) => format!("\"{text}\"").into(),
        }
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = OPERATORS.iter().find(|(_, other)| *other == self.operator);
        let sign = sign.map_or("", |(sign, _)| sign);
        write!(f, "{} {sign} {}", self.column, self.operand.written())
    }
}

impl Condition {
    pub(crate) fn column(&self) -> &str {
        &self.column
    }

    /// Returns whether `field`, a row's field of the condition's column, meets the condition.
    ///
    /// # Errors
    /// When a number would be compared with text; the error shows how to write the
    /// condition.
    pub(super) fn is_met_by(&self, field: &[u8]) -> Result<bool, String> {
        let order = match &self.operand {
            Operand::Quoted(text) | Operand::Text(text) if self.operator == Operator::Contains => {
                return Ok(memchr::memmem::find(field, text.as_bytes()).is_some());
            }
            Operand::Quoted(text) => field.cmp(text.as_bytes()),
            Operand::Text(text) => match Number::parse(field) {
                // An empty text is compared with empty fields as text.
                Ok(_) if !text.is_empty() => {
                    return Err(self.mixed(field, "is a number", "is none"));
                }
                _ => field.cmp(text.as_bytes()),
            },
            Operand::Number(_, number) => match Number::parse(field) {
                Ok(field) => field.cmp(number),
                Err(_) if field.trim_ascii().is_empty() => return Ok(false),
                Err(problem) => return Err(self.mixed(field, &problem.to_string(), "is a number")),
            },
        };
        Ok(match self.operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Less => order == Ordering::Less,
            Operator::AtMost => order != Ordering::Greater,
            Operator::Greater => order == Ordering::Greater,
            Operator::AtLeast => order != Ordering::Less,
            Operator::Contains => unreachable!("answered above"),
        })
    }

    fn mixed(&self, field: &[u8], found: &str, wanted: &str) -> String {
        let text = Self {
            operand: Operand::Quoted(self.operand.written().into_owned()),
            ..self.clone()
        };
        format!(
            "column {} is {}, which {found}, and the value that it is compared with {wanted}; \
             to compare as text write the value in quotes, as in '{text}'",
            self.column,
            shown(field),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read_and_written_in_the_same_form() {
        for (text, written) in [
            ("age>=18", "age >= 18"),
            ("a != b", "a != b"),
            ("name ~ =x", "name ~ =x"),
            ("name ~ 'x", "name ~ 'x"),
            ("a =", "a = "),
            ("a = '18'", "a = \"18\""),
            ("a = 'say \"x\"'", "a = 'say \"x\"'"),
            ("a = \"it's\"", "a = \"it's\""),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), written);
            assert_eq!(written.parse::<Condition>().unwrap(), condition);
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for bad in [
            "",
            "age",
            "=3",
            " < 3",
            "a == 3",
            "a => 3",
            "a <> 3",
            "a >",
            "a ~",
            "a =< 3",
            "a > 1e999999999",
            // These once compared with a text that no field has.
            "a = 'b",
            "a != \"b'",
            "a = 'it's'",
        ] {
            assert!(bad.parse::<Condition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_meet_numbers_exactly_and_text_meets_text() {
        let met = |text: &str, field: &str| {
            let condition = text.parse::<Condition>().unwrap();
            condition.is_met_by(field.as_bytes())
        };
        for (text, field, is_met) in [
            ("a < 10", "9", true),
            ("a < 10", " 9.0 ", true),
            ("a = 1.0", "1", true),
            ("a < 9007199254740993", "9007199254740992", true),
            ("a = 9007199254740993", "9007199254740992", false),
            ("a > 1e308", "1e400", true),
            ("a != 1", "", false),
            ("a < x10", "x9", false),
            ("a = Bonn", "Bonn", true),
            ("a != Bonn", "", true),
            ("a = ", "", true),
            ("a = ", "7", false),
            ("a = '1.0'", "1", false),
            ("a > '10'", "9", true),
            ("a ~ 1", "x1", true),
            ("a ~ '1'", "2", false),
        ] {
            assert_eq!(met(text, field), Ok(is_met), "{text} of {field}");
        }
        for (text, field) in [
            ("a < 10", "x"),
            ("a >= abc", "7"),
            ("a = 5O", "50"),
            ("a = 5", "5O"),
        ] {
            let error = met(text, field).unwrap_err();
            assert!(error.contains("in quotes"), "{text} of {field}: {error}");
        }
    }
}
