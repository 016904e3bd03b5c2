//! `ebb forecast`: reads a trace; prints a table or JSON, and writes a report.

use std::fmt::Write as _;

use crate::place::Place;

/// Returns a trace of ten weeks, with a line per hour, quiet weekends, some noise, and a missing line.
pub fn trace() -> String {
    let mut text = String::from("time,load\n");
    for hour in 0..70 * 24_u64 {
        let high = if hour / 24 % 7 >= 5 { 30 } else { 60 };
        let wave = if hour % 24 < 8 { 10 } else { high };
        let noise = (hour.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 7;
        if hour != 1_000 {
            writeln!(text, "{},{}", hour * 3600, wave + noise).unwrap();
        }
    }
    text
}

#[test]
fn a_trace_is_forecast_and_the_forecasts_are_judged() {
    let place = Place::new();
    place.write("load.csv", trace());
    let line = "forecast load.csv --days 20 --json-file out.json --report out/report";
    let told = place.ebb(line).ok();
    for word in [
        "1,680 slots, 1 without",
        "last 20 days",
        "chosen",
        "naive week",
        "95%",
        "index.html",
    ] {
        assert!(told.contains(word), "{word} in {told}");
    }
    let json: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    let evaluation = &json["evaluation"];
    assert_eq!(evaluation["origins"], 20);
    assert_eq!(evaluation["slots"].as_array().unwrap().len(), 480);
    let ratio = evaluation["ratio"].as_f64().unwrap();
    assert!(ratio > 0.0 && ratio < 1.0, "{ratio}");
    let next = &json["next"];
    assert_eq!(next["start_s"], 1680.0 * 3600.0);
    assert_eq!(next["point"].as_array().unwrap().len(), 24);
    let at = |q: usize| next["quantiles"][q]["load"][12].as_f64().unwrap();
    assert!(at(0) <= at(3) && at(3) <= at(6));

    let svg = place.read("out/report/forecast.svg");
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("class=\"band\"") && !svg.contains("NaN"));
    assert!(place.read("out/report/index.html").contains("naive day"));
}

/// Regression: without `--days` the command refused traces of less than 37 days. A line that was missing in the first
/// week, as after a restart of a server, left the naive week without a forecast.
#[test]
fn the_record_of_a_server_is_forecast_from_eight_days_on() {
    let place = Place::new();
    let record = |days: u64, is_down: &dyn Fn(u64) -> bool| {
        let slots = (0..days * 288).filter(|slot| !is_down(*slot));
        let line = |slot: u64| {
            let cores = if slot % 288 < 96 { 0.25 } else { 0.75 };
            format!("{},{cores:.3}\n", 1_795_996_800 + slot * 300)
        };
        slots.map(line).collect::<String>()
    };
    let restart = |slot: u64| (300..303).contains(&slot);
    place.write("load.csv", record(9, &restart));
    let told = place.ebb("forecast load.csv").ok();
    for word in ["2,592 slots, 3 without", "last 2 days"] {
        assert!(told.contains(word), "{word} in {told}");
    }
    // Two hours without the server, in the only week before the first day.
    place.write("load.csv", record(9, &|slot| (300..324).contains(&slot)));
    let said = place.ebb("forecast load.csv").fails(2);
    assert!(said.contains("fewer days"), "{said}");
    place.write("load.csv", record(2, &restart));
    let said = place.ebb("forecast load.csv").fails(2);
    assert!(said.contains("load.csv: 576 values are too few"), "{said}");
    assert!(said.contains("the values of 8 days"), "{said}");
}

/// Regression: the printed table and the report's page had NaN and inf where they have dashes now.
#[test]
fn ratios_of_a_constant_load_are_dashes() {
    let place = Place::new();
    let lines = (0..70 * 24_u64).map(|hour| format!("{},5\n", hour * 3600));
    place.write("load.csv", lines.collect::<String>());
    let line = "forecast load.csv --days 3 --json-file out.json --report out";
    let told = place.ebb(line).ok();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let told: Vec<String> = told.lines().map(words).collect();
    assert!(told.contains(&"chosen 0.0000 -".to_string()), "{told:?}");
    assert!(
        told.contains(&"naive week 0.0000 - 3 days".to_string()),
        "{told:?}"
    );
    let page = place.read("out/index.html");
    assert!(
        page.contains("WAPE 0.0000, beside 0.0000 of the best naive method"),
        "{page}"
    );
    assert!(
        page.contains("<td>naive day</td><td>0.0000</td><td>-</td>"),
        "{page}"
    );
    let json: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert!(json["evaluation"]["ratio"].is_null(), "{json}");
    assert!(
        json["evaluation"]["methods"][0]["over_naive"].is_null(),
        "{json}"
    );
    for text in [told.join("\n"), page, place.read("out/forecast.svg")] {
        let mut words = text.split(|char: char| !char.is_ascii_alphabetic());
        let wrong = words.find(|word| ["NaN", "inf"].contains(word));
        assert_eq!(wrong, None, "{text}");
    }
    place.write("large.csv", "0,1\n3600,1e300\n");
    let said = place.ebb("forecast large.csv").fails(2);
    assert!(
        said.contains("large.csv: line 2: value 1 is 1e300"),
        "{said}"
    );
    place
        .ebb("forecast load.csv --backtest-days 18446744073709551615")
        .fails(2);
}

#[test]
fn traces_that_cannot_be_forecast_are_refused_with_file_and_line() {
    let place = Place::new();
    place.write("bad.csv", "time,load\n0,1\n3600,-1\n");
    place.write("short.csv", "0,1\n3600,1\n7200,1\n");
    let said = place.ebb("forecast bad.csv").fails(2);
    assert!(said.contains("bad.csv: line 3: value 1 is -1"), "{said}");
    let said = place.ebb("forecast short.csv").fails(2);
    assert!(said.contains("short.csv: 3 values are too few"), "{said}");
    assert!(said.contains("the values of 8 days"), "{said}");
    let said = place.ebb("forecast missing.csv").fails(1);
    assert_eq!(said, "ebb: no such file: missing.csv\n");
}
