//! `ebb what-if`: the effect that another job would have on a running server.

use std::time::Duration;

use anyhow::Result;
use ebb_jobs::history::now_unix_ms;
use ebb_server::live::WhatIfAnswer;
use serde_json::{Value, json};

use super::attached::Attached;
use super::print::{json_or_text, table};
use super::request_file;
use super::time;

const EXAMPLES: &str = "\
Examples:
  ebb what-if --maps 200 --map-time 500ms --goal 10m
  ebb what-if --like last --goal 5m
  ebb what-if --request job.json --json
  EBB_TOKEN=... ebb what-if --server http://10.0.0.5:9043 --like 1795293012345

No job is started. The server simulates its policy with and without the job, and prints when
the job would be done, and which other jobs would meet their goals without it and miss them
with it.";

/// Predict when a hypothetical job would be done, and which jobs it would make late.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["maps", "like", "request"]))]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Number of map tasks of the job.
    #[arg(long, value_name = "N", requires = "map_time",
          value_parser = clap::value_parser!(u32).range(1..))]
    maps: Option<u32>,
    /// CPU time of a map task, such as 500ms.
    #[arg(long, value_name = "TIME", value_parser = time::to_come, requires = "maps")]
    map_time: Option<Duration>,
    /// Number of reduce tasks of the job.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "maps")]
    reduces: u32,
    /// CPU time of a reduce task [default: that of a map task].
    #[arg(long, value_name = "TIME", value_parser = time::to_come, requires = "maps")]
    reduce_time: Option<Duration>,
    /// Predict for the same tasks as those of the job with this id; `last` is the latest job.
    #[arg(long, value_name = "ID")]
    like: Option<String>,
    /// File with a job request in JSON, as for POST /v1/jobs; `-` is standard input. The goal is in it.
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    request: Option<std::path::PathBuf>,
    /// Completion time goal, counted from now: 30s, 5m.
    #[arg(long, value_name = "TIME", value_parser = time::to_come)]
    goal: Option<Duration>,
    /// Print the answer as a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let job = request(&args)?;
    let answer = args.attached.client()?.what_if(&job)?;
    json_or_text(args.json, &answer, |printer| {
        printer.lines(lines(&answer, now_unix_ms()))
    })
}

/// Returns the body of the request to the server, which describes the hypothetical job.
fn request(args: &Args) -> Result<Value> {
    let goal_s = args.goal.map(|goal| goal.as_secs_f64());
    if let Some(path) = &args.request {
        return request_file::read(path);
    }
    if let Some(like) = &args.like {
        return Ok(json!({"like": like, "goal_s": goal_s}));
    }
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    Ok(json!({
        "maps": args.maps,
        "map_s": seconds(args.map_time),
        "reduces": args.reduces,
        "reduce_s": seconds(args.reduce_time),
        "goal_s": goal_s,
    }))
}

/// Returns the answer as text, with times relative to the time of the answer. An answer of an older server
/// lacks its time; then the client's time, `client_unix_ms`, takes its place.
fn lines(answer: &WhatIfAnswer, client_unix_ms: u64) -> Vec<String> {
    let now_unix_ms = answer.now_unix_ms.unwrap_or(client_unix_ms);
    let in_time = |at: Option<u64>| match at {
        Some(at) => format!("{:.1} s", at.saturating_sub(now_unix_ms) as f64 / 1e3),
        None => "more than a week".to_string(),
    };
    let mut lines = vec![match answer.finish_unix_ms {
        Some(_) => format!(
            "done in {} ({} to {} in 9 of 10 cases)",
            in_time(answer.finish_unix_ms),
            in_time(answer.low_unix_ms),
            in_time(answer.high_unix_ms)
        ),
        None => "not done within a week".to_string(),
    }];
    match answer.meets_goal {
        Some(true) => lines.push("meets its goal".to_string()),
        Some(false) => lines.push("misses its goal".to_string()),
        None => {}
    }
    if answer.victims.is_empty() {
        lines.push("makes no other job late".to_string());
        return lines;
    }
    lines.push("would make late:".to_string());
    let head = ["id", "application", "goal in", "done without", "done with"];
    let row = |victim: &ebb_server::live::Victim| {
        vec![
            victim.job_id.clone(),
            victim.name.clone(),
            in_time(Some(victim.goal_unix_ms)),
            in_time(Some(victim.finish_without_unix_ms)),
            in_time(victim.finish_with_unix_ms),
        ]
    };
    let rows: Vec<_> = answer.victims.iter().map(row).collect();
    lines.extend(table(
        &head,
        &["goal in", "done without", "done with"],
        &rows,
    ));
    lines
}

#[cfg(test)]
mod tests {
    use ebb_server::live::Victim;

    use super::*;

    #[test]
    fn the_answer_has_the_end_of_the_job_and_its_victims() {
        let mut answer = WhatIfAnswer {
            now_unix_ms: None,
            finish_unix_ms: Some(13_000),
            low_unix_ms: Some(11_500),
            high_unix_ms: Some(15_000),
            meets_goal: Some(true),
            victims: Vec::new(),
            answered_in_ms: 1.0,
        };
        let told = lines(&answer, 1000);
        assert_eq!(
            told,
            [
                "done in 12.0 s (10.5 s to 14.0 s in 9 of 10 cases)",
                "meets its goal",
                "makes no other job late"
            ]
        );
        answer.victims.push(Victim {
            job_id: "7".to_string(),
            name: "grep".to_string(),
            goal_unix_ms: 21_000,
            finish_without_unix_ms: 20_000,
            finish_with_unix_ms: None,
        });
        (answer.finish_unix_ms, answer.meets_goal) = (None, Some(false));
        let told = lines(&answer, 1000).join("\n");
        assert!(
            told.starts_with("not done within a week\nmisses its goal\n"),
            "{told}"
        );
        assert!(
            told.contains("20.0 s") && told.contains("more than a week"),
            "{told}"
        );
    }

    /// Regression: a client whose clock was ahead of the server's subtracted its own time, and printed 0.0 s.
    #[test]
    fn times_are_relative_to_the_clock_of_the_server() {
        let mut answer = WhatIfAnswer {
            now_unix_ms: Some(1000),
            finish_unix_ms: Some(13_000),
            low_unix_ms: Some(13_000),
            high_unix_ms: Some(13_000),
            meets_goal: None,
            victims: Vec::new(),
            answered_in_ms: 1.0,
        };
        let done_in_12_s = "done in 12.0 s (12.0 s to 12.0 s in 9 of 10 cases)";
        assert_eq!(lines(&answer, 3_601_000)[0], done_in_12_s);
        // An earlier build of the server sends no time.
        answer.now_unix_ms = None;
        assert_eq!(lines(&answer, 1000)[0], done_in_12_s);
    }
}
