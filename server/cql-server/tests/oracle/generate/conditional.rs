//! Random writes with IF, on one partition.

use rand::RngExt as _;

use super::{Generator, KEYS};
use crate::conditional::{Compare, If};
use crate::restriction::{Restriction, Test, Where};
use crate::step::{At, Form, Request};
use crate::value::Type;
use crate::write::{What, Write};

impl Generator {
    /// Draws a request with at least one condition. The server assigns the timestamp.
    pub(super) fn conditional(&mut self) -> Request {
        let is_batch = self.rng.random_bool(0.3);
        let count = if is_batch {
            self.rng.random_range(1..4)
        } else {
            1
        };
        let key = self.key();
        let mut writes: Vec<Write> = Vec::new();
        for at in 0..count {
            let is_bare = at > 0 && self.rng.random_bool(0.4);
            let write = self.conditional_write(&key, is_bare);
            let contradicts = |other: &Write| match (&other.condition, &write.condition) {
                (Some(If::Columns(_)), Some(If::Columns(_))) => false,
                // On one row only one kind of condition is permitted.
                (one, two) => one.is_some() && two.is_some(),
            };
            if !writes.iter().any(contradicts) {
                writes.push(write);
            }
        }
        let form = if is_batch {
            self.pick(&[Form::Text, Form::Frame])
        } else {
            Form::Single
        };
        Request {
            writes,
            form,
            at: At::Server,
            binds: self.rng.random_bool(0.4),
        }
    }

    fn conditional_write(&mut self, key: &[i32], is_bare: bool) -> Write {
        let ttl_s = self.rng.random_bool(0.2);
        // TTL 0 means no expiry, even if the table has a default TTL.
        let ttl_s = ttl_s.then(|| self.rng.random_range(0..12));
        let (mut what, takes_ttl) = match self.rng.random_range(0..10) {
            0..3 => (self.insert(), true),
            3..7 => (self.update(), true),
            7 => (self.delete_parts(), false),
            _ => {
                let at = Where::partition(key);
                let parts = Vec::new();
                (What::Delete { at, parts }, false)
            }
        };
        let row: Vec<Restriction> = (0..self.schema.clustering.len())
            .map(|at| Restriction {
                at,
                test: Test::Values(vec![self.rng.random_range(0..KEYS)]),
            })
            .collect();
        let names_row = match &mut what {
            What::Insert {
                partition,
                clustering,
                ..
            } => {
                *partition = key.to_vec();
                clustering.is_some()
            }
            What::Update { at, .. } => {
                let names_row = !at.clustering.is_empty();
                at.partitions = Where::partition(key).partitions;
                at.clustering = if names_row { row } else { Vec::new() };
                names_row
            }
            What::Delete { at, parts } => {
                let names_row = parts.is_empty() || !at.clustering.is_empty();
                at.partitions = Where::partition(key).partitions;
                at.clustering = if names_row { row } else { Vec::new() };
                names_row
            }
        };
        let names_row = names_row || self.schema.clustering.is_empty();
        let condition = match &what {
            _ if is_bare => None,
            What::Insert { .. } => Some(If::NotExists),
            _ => Some(self.condition(names_row)),
        };
        Write {
            what,
            timestamp_us: None,
            ttl_s: ttl_s.filter(|_| takes_ttl),
            condition,
        }
    }

    fn condition(&mut self, names_row: bool) -> If {
        let columns = self.schema.columns.iter();
        let asked = columns.filter(|one| one.ty == Type::Int && (names_row || one.is_static));
        let asked: Vec<_> = asked.map(|one| one.id).collect();
        if asked.is_empty() || self.rng.random_bool(0.3) {
            return If::Exists;
        }
        let one = |generator: &mut Self| {
            let compare = generator.pick(&[
                Compare::Equal,
                Compare::NotEqual,
                Compare::Less,
                Compare::GreaterOrEqual,
                Compare::InWithZero,
            ]);
            let value = generator.int();
            let value = if compare.takes_null() {
                generator.or_null(value)
            } else {
                Some(value)
            };
            (generator.pick(&asked), compare, value)
        };
        let count = self.rng.random_range(1..3);
        If::Columns((0..count).map(|_| one(self)).collect())
    }
}
