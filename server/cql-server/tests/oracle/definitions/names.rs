//! Names of keyspaces, tables, types, columns and so on. There are few of each, so that statements
//! affect the same objects.

/// The longest name of a keyspace or table: 48 characters.
const LONGEST: &str = "n12345678901234567890123456789012345678901234567";
/// A name that is one character longer than a keyspace or table may have.
const TOO_LONG: &str = "n123456789012345678901234567890123456789012345678";
/// A name for types, fields and columns, whose length has no limit.
const LONG: &str = "a name of a type, a field or a column may be longer than the name of a table, \
                    and may have any characters in it";

/// Names to draw from: usual ones, and odd ones of which some are invalid.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    pub usual: &'static [&'static str],
    pub odd: &'static [&'static str],
}

pub const KEYSPACES: Names = Names {
    usual: &["ks", "Ks", "select"],
    odd: &[
        LONGEST,
        TOO_LONG,
        "a\"b",
        "a__at__b",
        "ks@s",
        "system",
        "ebb_system",
    ],
};

pub const TABLES: Names = Names {
    usual: &["t", "u", "T", "table", LONGEST],
    odd: &[TOO_LONG, "a b", "é"],
};

/// The names of user-defined types. Some of them are also names of native types, and need quotes.
pub const TYPES: Names = Names {
    usual: &["p", "q", "P", "int", "list", "frozen", "select"],
    odd: &[
        "text", "varchar", "INT", "set", "map", "tuple", "counter", "byte", "a\"b", "a<b>", "a.b",
        "é", LONG,
    ],
};

pub const COLUMNS: Names = Names {
    usual: &["a", "b", "c", "d", "e", "A", "select", "int", "a\"b"],
    odd: &["a b", "é", "true", "keys(a)", LONG],
};

pub const INDEXES: Names = Names {
    usual: &["i", "j", "I", "select"],
    odd: &["a b", "é", LONGEST, TOO_LONG],
};

pub const SNAPSHOTS: Names = Names {
    usual: &["s", "r", "S", "select"],
    odd: &["s-1", "a b", "a@b"],
};

/// Returns a name as statements contain it, in quotes if it may need them. The shortest names are
/// never quoted, so that both forms are parsed.
pub fn quoted(name: &str) -> String {
    if name.len() <= 2 && name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the name in a text of `system_schema`, which may be quoted.
pub fn unquoted(text: &str) -> String {
    let inner = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| text.to_owned(), |inner| inner.replace("\"\"", "\""))
}
