//! Random statements, and their effects on the model.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::model::{Fact, Life, Model, Range, Row};

pub(super) const TABLE: &str = "CREATE TABLE t (k int, c int, d int, s int STATIC, v int, w int, \
    m map<int, int>, e set<int>, PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)";

/// The partition keys of the generated statements.
pub(super) const PARTITIONS: std::ops::Range<i32> = 0..2;

/// The state while a single statement is drawn.
struct Writer<'w> {
    rng: &'w mut ChaCha8Rng,
    model: &'w mut Model,
    now_s: i64,
    timestamp: i64,
}

/// Draws a statement, or a batch of a few statements, with a timestamp in the range `timestamps`.
/// Adds the effects to the model.
pub(super) fn statement(
    rng: &mut ChaCha8Rng,
    now_s: i64,
    timestamps: std::ops::Range<i64>,
    model: &mut Model,
) -> String {
    let timestamp = rng.random_range(timestamps);
    let is_batch = rng.random_bool(0.1);
    let mut writer = Writer {
        rng,
        model,
        now_s,
        timestamp,
    };
    if !is_batch {
        return writer.one(true);
    }
    let count = writer.rng.random_range(1..4);
    let all: Vec<String> = (0..count).map(|_| writer.one(false) + "; ").collect();
    format!(
        "BEGIN BATCH USING TIMESTAMP {timestamp} {}APPLY BATCH",
        all.concat()
    )
}

impl Writer<'_> {
    fn one(&mut self, has_timestamp: bool) -> String {
        let at = if has_timestamp {
            format!("TIMESTAMP {}", self.timestamp)
        } else {
            String::new()
        };
        let k = self.rng.random_range(PARTITIONS);
        match self.rng.random_range(0..10) {
            0..4 => self.insert(k, &at),
            4..7 => self.update(k, &at),
            7 => self.delete_columns(k, &at),
            8 => self.delete_row(k, &at),
            _ => self.delete_range(k, &at),
        }
    }

    fn row(&mut self) -> (i32, i32) {
        (self.rng.random_range(0..3), self.rng.random_range(0..3))
    }

    fn value(&mut self) -> i32 {
        self.rng.random_range(-3..4)
    }

    fn add_fact(&mut self, k: i32, fact: Fact) {
        self.model.add(k, self.timestamp, fact);
    }

    /// Draws a USING clause with the timestamp `at` (`TIMESTAMP` and a number, or empty) and
    /// sometimes with a TTL. Also returns the TTL with the time of expiry.
    fn using(&mut self, at: &str) -> (String, Life) {
        let ttl_s = self
            .rng
            .random_bool(0.3)
            .then(|| self.rng.random_range(1..12));
        let ttl = ttl_s.map(|ttl_s| format!("TTL {ttl_s}"));
        let parts: Vec<&str> = [Some(at), ttl.as_deref()]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        let using = if parts.is_empty() {
            String::new()
        } else {
            format!(" USING {}", parts.join(" AND "))
        };
        (using, ttl_s.map(|ttl_s| (self.now_s + ttl_s, ttl_s)))
    }

    /// Draws the value for a column that is no collection, adds it to the model with the expiry
    /// `life`, and returns it as CQL text.
    fn simple(&mut self, k: i32, row: Row, column: &'static str, life: Life) -> String {
        let value = self.rng.random_bool(0.8).then(|| self.value());
        self.add_fact(k, Fact::Cell(row, (column, None), value, life));
        value.map_or("null".to_owned(), |value| value.to_string())
    }

    /// Draws a literal with some elements of a collection, and adds them to the model.
    fn elements(&mut self, k: i32, row: Row, column: &'static str, life: Life) -> String {
        let mut keys: Vec<i32> = (0..3).filter(|_| self.rng.random_bool(0.5)).collect();
        if keys.is_empty() {
            keys.push(1);
        }
        let one = |key: i32| {
            let value = if column == "m" { self.value() } else { 0 };
            self.add_fact(k, Fact::Cell(row, (column, Some(key)), Some(value), life));
            match column {
                "m" => format!("{key}: {value}"),
                _ => key.to_string(),
            }
        };
        let all: Vec<String> = keys.into_iter().map(one).collect();
        format!("{{{}}}", all.join(", "))
    }

    /// Draws a literal or null that replaces a whole collection, and adds the effects to the model.
    fn whole(&mut self, k: i32, row: Row, column: &'static str, life: Life) -> String {
        let older = Fact::Collection(row, column);
        self.model.add(k, self.timestamp - 1, older);
        if self.rng.random_bool(0.15) {
            "null".to_owned()
        } else {
            self.elements(k, row, column, life)
        }
    }

    fn insert(&mut self, k: i32, at: &str) -> String {
        let (using, life) = self.using(at);
        let only_static = self.rng.random_bool(0.1);
        let (mut names, mut values) = (vec!["k"], vec![k.to_string()]);
        if self.rng.random_bool(0.2) || only_static {
            names.push("s");
            values.push(self.simple(k, None, "s", life));
        }
        if !only_static {
            let (c, d) = self.row();
            let row = Some((c, d));
            names.extend(["c", "d"]);
            values.extend([c.to_string(), d.to_string()]);
            self.add_fact(k, Fact::Marker((c, d), life));
            for column in ["v", "w"] {
                if self.rng.random_bool(0.5) {
                    names.push(column);
                    values.push(self.simple(k, row, column, life));
                }
            }
            for column in ["m", "e"] {
                if self.rng.random_bool(0.2) {
                    names.push(column);
                    values.push(self.whole(k, row, column, life));
                }
            }
        }
        let (names, values) = (names.join(", "), values.join(", "));
        format!("INSERT INTO ks.t ({names}) VALUES ({values}){using}")
    }

    fn update(&mut self, k: i32, at: &str) -> String {
        let (using, life) = self.using(at);
        if self.rng.random_bool(0.1) {
            let value = self.simple(k, None, "s", life);
            return format!("UPDATE ks.t{using} SET s = {value} WHERE k = {k}");
        }
        let (c, d) = self.row();
        let row = Some((c, d));
        let set = match self.rng.random_range(0..8) {
            0 => format!("v = {}", self.simple(k, row, "v", life)),
            1 => {
                let v = self.simple(k, row, "v", life);
                format!("v = {v}, w = {}", self.simple(k, row, "w", life))
            }
            2 => format!("m = {}", self.whole(k, row, "m", life)),
            3 => format!("e = {}", self.whole(k, row, "e", life)),
            4 => format!("m = m + {}", self.elements(k, row, "m", life)),
            5 => format!("e = e + {}", self.elements(k, row, "e", life)),
            6 => {
                let key = self.rng.random_range(0..3);
                let value = self.value();
                let cell = Fact::Cell(row, ("m", Some(key)), Some(value), life);
                self.add_fact(k, cell);
                format!("m[{key}] = {value}")
            }
            _ => {
                let column = if self.rng.random_bool(0.5) { "m" } else { "e" };
                let key = self.rng.random_range(0..3);
                self.add_fact(k, Fact::Cell(row, (column, Some(key)), None, None));
                format!("{column} = {column} - {{{key}}}")
            }
        };
        format!("UPDATE ks.t{using} SET {set} WHERE k = {k} AND c = {c} AND d = {d}")
    }

    fn delete_columns(&mut self, k: i32, at: &str) -> String {
        let using = using_only(at);
        if self.rng.random_bool(0.2) {
            self.add_fact(k, Fact::Cell(None, ("s", None), None, None));
            return format!("DELETE s FROM ks.t{using} WHERE k = {k}");
        }
        let (c, d) = self.row();
        let row = Some((c, d));
        let what = match self.rng.random_range(0..4) {
            0 => {
                self.add_fact(k, Fact::Cell(row, ("v", None), None, None));
                "v".to_owned()
            }
            1 => {
                self.add_fact(k, Fact::Collection(row, "m"));
                "m".to_owned()
            }
            2 => {
                self.add_fact(k, Fact::Collection(row, "e"));
                "e".to_owned()
            }
            _ => {
                let key = self.rng.random_range(0..3);
                self.add_fact(k, Fact::Cell(row, ("m", Some(key)), None, None));
                format!("m[{key}]")
            }
        };
        format!("DELETE {what} FROM ks.t{using} WHERE k = {k} AND c = {c} AND d = {d}")
    }

    fn delete_row(&mut self, k: i32, at: &str) -> String {
        let (c, d) = self.row();
        self.add_fact(k, Fact::Row((c, d)));
        let using = using_only(at);
        format!("DELETE FROM ks.t{using} WHERE k = {k} AND c = {c} AND d = {d}")
    }

    fn delete_range(&mut self, k: i32, at: &str) -> String {
        let using = using_only(at);
        let begin = format!("DELETE FROM ks.t{using} WHERE k = {k}");
        let (c, d) = self.row();
        let is_inclusive = self.rng.random_bool(0.5);
        let (greater, less) = if is_inclusive {
            (">=", "<=")
        } else {
            (">", "<")
        };
        let bound = |value: i32, second: Option<i32>| Some((value, second, is_inclusive));
        let equal = Some((c, None, true));
        let (lower, upper, end) = match self.rng.random_range(0..7) {
            0 => {
                self.add_fact(k, Fact::Partition);
                return begin;
            }
            1 => (equal, equal, format!("c = {c}")),
            2 => (bound(c, None), None, format!("c {greater} {c}")),
            3 => (None, bound(c, None), format!("c {less} {c}")),
            4 => {
                let lower = Some((c, Some(d), is_inclusive));
                (lower, equal, format!("c = {c} AND d {greater} {d}"))
            }
            5 => {
                let lower = bound(c, Some(d));
                (lower, None, format!("(c, d) {greater} ({c}, {d})"))
            }
            _ => {
                let (lower, upper) = (bound(c, Some(d)), bound(c + 1, None));
                let end = format!("(c, d) {greater} ({c}, {d}) AND (c) {less} ({})", c + 1);
                (lower, upper, end)
            }
        };
        self.add_fact(k, Fact::Range(Range { lower, upper }));
        format!("{begin} AND {end}")
    }
}

fn using_only(at: &str) -> String {
    if at.is_empty() {
        String::new()
    } else {
        format!(" USING {at}")
    }
}
