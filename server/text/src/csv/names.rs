//! The column names in a header.

use std::collections::HashSet;

/// Returns an error message if two columns have the same name, because the name would be ambiguous;
/// otherwise `None`. One column may have an empty name, because it can be referred to by its number.
pub fn problem_of_names(names: &[String]) -> Option<String> {
    let mut seen = HashSet::new();
    let double = names.iter().find(|name| !seen.insert(*name))?;
    let called = if double.is_empty() {
        "two columns have no name".to_string()
    } else {
        format!("two columns are called {double:?}")
    };
    Some(format!(
        "{called}: give each a name of its own, or use --no-header and the numbers of the columns"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_at_most_one_is_empty() {
        let problem = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            problem_of_names(&names)
        };
        assert_eq!(problem(&["a", "b", "A"]), None);
        assert_eq!(problem(&["", "b"]), None);
        let double = problem(&["a", "b", "a"]).unwrap();
        assert!(
            double.starts_with("two columns are called \"a\": "),
            "{double}"
        );
        let double = problem(&["", "b", ""]).unwrap();
        assert!(double.starts_with("two columns have no name: "), "{double}");
    }
}
