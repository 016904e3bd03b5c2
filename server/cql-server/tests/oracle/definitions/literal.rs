//! Values of any type, as literals.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::names::quoted;
use super::types::{Type, Types};

/// The approximate limit on the values in a literal. Further collections are empty, further
/// elements of tuples null, and further fields left out.
const VALUES_MAX: usize = 40;

/// A CQL literal of a value that is not null.
pub struct Literal {
    pub text: String,
    /// The parts of the only element of a collection: the element of a list or set, or the key and
    /// the value of a map. Empty for other types.
    pub parts: Vec<String>,
}

impl Literal {
    /// Draws a value of a type whose user-defined types are in `types`.
    pub fn draw(ty: &Type, types: &Types, rng: &mut ChaCha8Rng) -> Self {
        let mut writer = Writer {
            types,
            rng,
            left: VALUES_MAX,
        };
        let parts: Vec<String> = match ty.thawed() {
            Type::List(element) | Type::Set(element) => vec![writer.value(element)],
            Type::Map(key, value) => vec![writer.value(key), writer.value(value)],
            other => {
                let text = writer.value(other);
                let parts = Vec::new();
                return Self { text, parts };
            }
        };
        let all = parts.join(": ");
        let text = if let Type::List(_) = ty.thawed() {
            format!("[{all}]")
        } else {
            format!("{{{all}}}")
        };
        Self { text, parts }
    }
}

struct Writer<'a> {
    types: &'a Types,
    rng: &'a mut ChaCha8Rng,
    /// The number of values (elements and fields) that may still be added to the literal.
    left: usize,
}

impl Writer<'_> {
    fn value(&mut self, ty: &Type) -> String {
        let is_full = self.left == 0;
        self.left = self.left.saturating_sub(1);
        match ty {
            Type::Native(name) => self.native(name),
            Type::Frozen(ty) => self.value(ty),
            Type::List(_) if is_full => "[]".to_owned(),
            Type::Set(_) | Type::Map(..) if is_full => "{}".to_owned(),
            Type::List(element) => format!("[{}]", self.value(element)),
            Type::Set(element) => format!("{{{}}}", self.value(element)),
            Type::Map(key, value) => {
                let key = self.value(key);
                format!("{{{key}: {}}}", self.value(value))
            }
            Type::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.or_null(part)).collect();
                format!("({})", parts.join(", "))
            }
            Type::User(name) => {
                let types = self.types;
                let fields = types.get(name).into_iter().flatten().enumerate();
                // The first field is always written, since `{}` is a collection.
                let fields = fields.filter_map(|(at, (field, ty))| {
                    let is_shown = at == 0 || self.left > 0;
                    is_shown.then(|| format!("{}: {}", quoted(field), self.value(ty)))
                });
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn or_null(&mut self, ty: &Type) -> String {
        if self.left == 0 {
            return "null".to_owned();
        }
        self.value(ty)
    }

    fn native(&mut self, name: &str) -> String {
        let n = self.rng.random_range(0..3);
        match name {
            "ascii" | "text" => format!("'{n}'"),
            "blob" => format!("0x0{n}"),
            "boolean" => (n > 0).to_string(),
            "date" => format!("'2020-01-1{n}'"),
            "decimal" | "double" | "float" => format!("{n}.5"),
            "duration" => format!("{}h", n + 1),
            "inet" => format!("'127.0.0.{n}'"),
            "time" => format!("'08:00:0{n}'"),
            // A uuid of version 1, as timeuuid requires.
            "timeuuid" | "uuid" => format!("50554d6e-29bb-11e5-b345-feff819cdc9{n}"),
            _ => n.to_string(),
        }
    }
}
