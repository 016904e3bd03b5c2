//! A table for a terminal, and for Markdown.

use crate::columns::columns;

/// The cells, with a header above and a note below.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
    /// A note below the table; may be empty.
    pub note: String,
}

impl Table {
    /// Formats the table for a terminal: columns as wide as their widest cell, the first flush left
    /// and the others flush right.
    pub fn plain(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for line in columns(&self.header, &self.rows, |column| column > 0) {
            text += &format!("  {line}\n");
        }
        if !self.note.is_empty() {
            text = text + "  " + &self.note + "\n";
        }
        text
    }

    pub fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("### {}\n\n{}", self.title, row(&self.header));
        text += "| --- |";
        text += &" ---: |".repeat(self.header.len().saturating_sub(1));
        text.push('\n');
        self.rows.iter().for_each(|cells| text += &row(cells));
        text.push('\n');
        if !self.note.is_empty() {
            text = text + &self.note + "\n\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_a_page_has_bars() {
        let line = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let table = Table {
            title: "Reads".into(),
            header: line(["workload", "us"]),
            rows: vec![line(["A", "10.5"]), line(["B", "7"])],
            note: "On two cores.".into(),
        };
        let expected = [
            "Reads",
            "  workload    us",
            "  A         10.5",
            "  B            7",
            "  On two cores.",
        ];
        assert_eq!(table.plain().lines().collect::<Vec<_>>(), expected);
        let expected = [
            "### Reads",
            "",
            "| workload | us |",
            "| --- | ---: |",
            "| A | 10.5 |",
            "| B | 7 |",
            "",
            "On two cores.",
            "",
        ];
        assert_eq!(table.markdown().lines().collect::<Vec<_>>(), expected);
    }
}
