//! Checks the JSON that `ebb demo --json-file FILE` wrote, with `--compare` too:
//! everything that has to hold however slow the machine is. `check-demo FILE`

#![forbid(unsafe_code)]

use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: check-demo FILE")?;
    let result: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let runs = match result["runs"].as_array() {
        Some(compared) => compared.clone(),
        None => vec![result],
    };
    if runs.is_empty() {
        return Err("no runs".into());
    }
    for run in &runs {
        check(run)?;
    }
    Ok(())
}

/// One day.
fn check(result: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let policy = result["policy"].as_str().ok_or("no policy")?;
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };

    let jobs = result["jobs"].as_array().ok_or("no jobs")?;
    expect(jobs.len() == 4, format!("4 jobs, not {}", jobs.len()));
    for job in jobs {
        let name = &job["name"];
        expect(
            job["failure"].is_null(),
            format!("{name} failed: {}", job["failure"]),
        );
        expect(
            job["finished_s"].as_f64().is_some_and(|t| t > 0.0),
            format!("{name} has not finished"),
        );
        expect(
            job["tasks"].as_u64().is_some_and(|n| n > 0),
            format!("{name} has no tasks"),
        );
        let has_goal = !job["goal_s"].is_null();
        expect(
            job["met"].is_boolean() == has_goal,
            format!("{name}: met is {}", job["met"]),
        );
        if let (Some(goal_s), Some(finished_s)) =
            (job["goal_s"].as_f64(), job["finished_s"].as_f64())
        {
            expect(
                job["met"] == (finished_s <= goal_s),
                format!("{name}: met does not follow from its times"),
            );
        }
    }
    for run in ["alone", "with_analytics"] {
        let latency = &result["transactional"][run];
        let [p50, p99, p999] =
            ["p50_us", "p99_us", "p999_us"].map(|field| latency[field].as_f64().unwrap_or(-1.0));
        expect(
            0.0 < p50 && p50 <= p99 && p99 <= p999,
            format!("{run}: percentiles {p50} {p99} {p999}"),
        );
        expect(
            latency["ops_per_s"].as_f64().is_some_and(|ops| ops > 0.0),
            format!("{run}: no operations"),
        );
    }
    let check = &result["word_count_check"];
    expect(
        check["differences"] == 0,
        format!("word counts differ: {check}"),
    );
    expect(
        check["words"].as_u64().is_some_and(|words| words > 100),
        format!("hardly any words: {check}"),
    );

    for what in &wrong {
        eprintln!("check-demo: {policy}: {what}");
    }
    if !wrong.is_empty() {
        return Err(format!("{} checks failed", wrong.len()).into());
    }
    println!(
        "check-demo: {policy}: {} jobs, {} words: as they should be",
        jobs.len(),
        check["words"]
    );
    Ok(())
}
