//! `ebb config running`: the settings of a server that runs.

use anyhow::Result;
use ebb_server::http::{Configuration, SettingSource, SettingView};
use serde_json::Value;

use crate::attached::Attached;
use crate::print::Printer;

const EXAMPLES: &str = "\
Examples:
  ebb config running
  ebb config running --json | jq '.settings[] | select(.source != \"default\")'
  EBB_TOKEN=... ebb config running --server https://10.0.0.5:9043

A comment names the origin of each value that is not the default: flag, environment or file. A
server at --server URL needs a token of scope admin, the server that has the directory open none.";

/// Print the settings in force in a server that runs, with their origins.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Print a JSON object: version, settings, each with name, value and source.
    #[arg(long)]
    json: bool,
}

pub(super) fn print(args: &Args, printer: &mut Printer) -> Result<()> {
    let configuration = args.attached.client()?.configuration()?;
    if args.json {
        return printer.json(&configuration);
    }
    printer.lines(lines(&configuration))
}

/// Returns the settings as lines of TOML. Their values are JSON: texts, numbers, truth values and lists of
/// texts have the same form in TOML.
fn lines(configuration: &Configuration) -> Vec<String> {
    let line = |setting: &SettingView| {
        let SettingView {
            name,
            value,
            source,
        } = setting;
        match (value, source) {
            (Value::Null, _) => format!("# {name} is not set"),
            (value, SettingSource::Default) => format!("{name} = {value}"),
            (value, source) => format!("{name} = {value} # {}", source.name()),
        }
    };
    let settings = configuration.settings.iter().map(line);
    let version = format!("# ebb {}", configuration.version);
    std::iter::once(version).chain(settings).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_settings_of_a_server_are_toml_with_the_origins_as_comments() {
        let setting = |name: &str, value, source| SettingView {
            name: name.to_owned(),
            value,
            source,
        };
        let configuration = Configuration {
            version: "1.2.3".to_owned(),
            settings: vec![
                setting("data", json!("/a \"b\""), SettingSource::Environment),
                setting("http-hosts", json!(["a", "b"]), SettingSource::File),
                setting("analytics-floor", json!(0.05), SettingSource::Default),
                setting("insecure", json!(true), SettingSource::Flag),
                setting("http", Value::Null, SettingSource::Default),
            ],
        };
        let lines = lines(&configuration);
        let expected = [
            "# ebb 1.2.3",
            r#"data = "/a \"b\"" # environment"#,
            r#"http-hosts = ["a","b"] # file"#,
            "analytics-floor = 0.05",
            "insecure = true # flag",
            "# http is not set",
        ];
        assert_eq!(lines, expected);
        let table: toml::Table = lines.join("\n").parse().unwrap();
        assert_eq!(table["data"].as_str(), Some("/a \"b\""));
    }
}
