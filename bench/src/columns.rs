//! Columns of text for a terminal.

/// Returns the lines of a table: columns as wide as their widest cell, with two blanks between
/// them. Columns for which `is_right` returns true are flush right. Each row must be as long as
/// `head`.
pub fn columns(
    head: &[impl AsRef<str>],
    rows: &[Vec<String>],
    is_right: impl Fn(usize) -> bool,
) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|cell| cell.as_ref().to_string()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| {
            if is_right(column) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_string()
    };
    all().map(line).collect()
}

/// Returns a row of a table: a name, and the cells beside it.
pub fn row(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.into()).chain(cells).collect()
}
