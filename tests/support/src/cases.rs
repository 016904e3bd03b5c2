//! Tables of cases, as text: an input, and the output that a test expects for it.

/// Returns the cases of a table, each with its `N` parts. `=>` separates the parts, within a line or
/// at the beginning of the next line:
///
/// ```text
///     SELECT x FROM t => Undefined column name x in table ks.t
///     SELECT * FROM t ORDER BY b
///     => ORDER BY is only supported when the partition key is restricted by an EQ or an IN.
/// ```
///
/// Lines that begin with `//` are comments. Empty lines and indentation have no meaning.
///
/// # Panics
/// If a case does not have `N` parts.
pub fn parse_cases<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let mut cases: Vec<Vec<&str>> = Vec::new();
    for line in table.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let (mut case, parts) = match line.strip_prefix("=> ") {
            Some(rest) => (cases.pop().unwrap_or_default(), rest),
            None => (Vec::new(), line),
        };
        case.extend(parts.split(" => "));
        cases.push(case);
    }
    let parts = cases
        .into_iter()
        .map(|case| match <[&str; N]>::try_from(case) {
            Ok(parts) => parts,
            Err(case) => panic!("{case:?} does not have {N} parts"),
        });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_continues_at_an_arrow() {
        let table = "
            // A comment.
            one => two => three

            four
            => five => six
        ";
        let cases = [["one", "two", "three"], ["four", "five", "six"]];
        assert_eq!(parse_cases::<3>(table), cases);
    }

    #[test]
    #[should_panic(expected = r#"["one"] does not have 2 parts"#)]
    fn a_case_without_all_parts_is_an_error() {
        parse_cases::<2>("one\ntwo => three");
    }
}
