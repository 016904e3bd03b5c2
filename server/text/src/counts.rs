//! Numbers with their nouns, for messages.

use std::fmt::Display;

/// Returns a number with its noun: "1 field", "2 fields".
#[must_use]
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, thing: &str) -> String {
    let plural = if count == N::from(1_u8) { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Returns the error message for a record whose number of fields differs from the number of columns.
/// `what` names the record, as the subject of the sentence.
#[must_use]
pub fn uneven(what: &str, fields: usize, columns: usize) -> String {
    let are = if columns == 1 { "is" } else { "are" };
    let (fields, columns) = (counted(fields, "field"), counted(columns, "column"));
    format!("{what} has {fields}, and there {are} {columns}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_others_are_plural() {
        assert_eq!(
            uneven("it", 1, 2),
            "it has 1 field, and there are 2 columns"
        );
        assert_eq!(
            uneven("its key", 0, 1),
            "its key has 0 fields, and there is 1 column"
        );
    }
}
