//! The report of an evaluation as one HTML page.

use std::fmt::Write as _;

use ebb_bench::chart::escape;
use ebb_bench::number::fixed;
use ebb_scheduler::forecast::Evaluation;

use super::picture::STYLE;
use super::{COVERAGE_HEAD, coverage_rows};

pub(super) fn html(trace: &str, evaluation: &Evaluation, svg: &str) -> String {
    let trace = escape(trace);
    let origins = evaluation.origins;
    let [wape, naive_wape] = [evaluation.wape, evaluation.naive_wape].map(|wape| fixed(wape, 4));
    let than_naive = match evaluation.ratio {
        Some(ratio) => format!(
            "{} of the best naive method's {naive_wape}",
            fixed(ratio, 3)
        ),
        None => format!("beside {naive_wape} of the best naive method"),
    };
    let methods = evaluation.methods.iter().map(|score| {
        vec![
            score.name.clone(),
            fixed(score.wape, 4),
            fixed(score.over_naive, 3),
            score.chosen.to_string(),
        ]
    });
    let methods: Vec<_> = methods.collect();
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Forecast of {trace}</title>\
         <style>body{{font:15px system-ui,sans-serif;max-width:1060px;margin:2rem auto;padding:0 1rem}}\
         table{{border-collapse:collapse}}td,th{{padding:.2rem .8rem;text-align:right}}\
         td:first-child,th:first-child{{text-align:left}}{STYLE}</style>\
         <h1>Forecast of {trace}</h1>\
         <p>The last {origins} days, each forecast from what was before it. WAPE {wape}, \
         {than_naive}.</p>{svg}"
    );
    let _ = write!(
        page,
        "<h2>Intervals</h2>{}",
        table(&COVERAGE_HEAD, &coverage_rows(evaluation))
    );
    let head = ["method", "WAPE", "/ naive", "days combined"];
    let _ = writeln!(
        page,
        "<h2>Methods, in hindsight</h2>{}</html>",
        table(&head, &methods)
    );
    page
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = String::from("<table><tr>");
    for cell in head {
        let _ = write!(table, "<th>{cell}</th>");
    }
    table += "</tr>";
    for row in rows {
        let cells = row.iter().map(|cell| format!("<td>{}</td>", escape(cell)));
        let _ = write!(table, "<tr>{}</tr>", cells.collect::<String>());
    }
    table + "</table>"
}
