//! The text of a statement, with values as literals or bound to markers.

use super::value::{Type, Value};

/// The text of a statement that is being composed, with its bound values.
#[derive(Debug, Clone)]
pub struct Text {
    pub text: String,
    /// The bound values in order; `None` is null.
    pub bound: Vec<Option<Vec<u8>>>,
    binds: bool,
}

impl Text {
    /// Creates an empty text. If `binds`, values become `?` markers, and otherwise literals.
    pub fn new(binds: bool) -> Self {
        Self {
            text: String::new(),
            bound: Vec::new(),
            binds,
        }
    }

    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn int(&mut self, value: i32) {
        self.value(Type::Int, Some(&Value::Int(value)));
    }

    pub fn value(&mut self, ty: Type, value: Option<&Value>) {
        match (self.binds, value) {
            (true, value) => {
                self.bound.push(value.map(Value::bytes));
                self.push("?");
            }
            (false, Some(value)) => self.push(&value.literal(ty)),
            (false, None) => self.push("null"),
        }
    }

    /// Appends a list, separated by commas. `one` appends an element.
    pub fn list<T>(&mut self, all: &[T], mut one: impl FnMut(&mut Self, &T)) {
        for (at, item) in all.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            one(self, item);
        }
    }
}
