//! The reference of the settings: names, environment variables, defaults and help texts, from the
//! flags themselves.

use std::fmt::Write as _;

use clap::{Arg, Args as _, Command};

use crate::serve::settings::Settings;

/// A setting of a server.
pub(super) struct Setting {
    /// The name in a file of settings, such as `cql`. The flag has two dashes before it.
    pub(super) name: String,
    /// The kind of value, as in `ADDR:PORT`.
    value: String,
    /// The name of the environment variable that sets it, such as `EBB_CQL`.
    variable: String,
    /// The default value; `None` if the setting has none.
    default: Option<String>,
    /// The help text, in one line.
    pub(super) help: String,
}

impl Setting {
    /// Returns all settings, in the order of `ebb serve --help`.
    pub(super) fn all() -> Vec<Self> {
        let command = Settings::augment_args(Command::new("ebb"));
        command.get_arguments().map(Self::of).collect()
    }

    fn of(arg: &Arg) -> Self {
        let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
        let help = text(arg.get_long_help()).or_else(|| text(arg.get_help()));
        let variable = arg
            .get_env()
            .map(|name| name.to_string_lossy().into_owned());
        let defaults = arg.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        Self {
            name: arg.get_id().as_str().replace('_', "-"),
            value: arg.get_value_names().unwrap_or_default().join(" "),
            variable: variable.unwrap_or_default(),
            default: (!defaults.is_empty()).then(|| defaults.join(",")),
            help: sentence(&help.unwrap_or_default()),
        }
    }
}

/// Returns a help text in one line, with the full stop that clap removes.
fn sentence(help: &str) -> String {
    let help = help.replace('\n', " ");
    let stop = if help.ends_with(['.', ']']) { "" } else { "." };
    format!("{help}{stop}")
}

pub(super) fn markdown(settings: &[Setting]) -> String {
    let mut text = String::new();
    for setting in settings {
        let Setting {
            name,
            value,
            variable,
            default,
            help,
        } = setting;
        let default = match default {
            Some(default) => format!(", default `{default}`"),
            None => String::new(),
        };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "### {name}\n\n`--{name} {value}`, `{variable}`{default}. {help}\n\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of the book about the settings: an introduction, and then the output of
    /// [`markdown`].
    const PAGE: &str = include_str!("../../../../docs/src/guide/configuration.md");

    #[test]
    fn the_book_has_the_settings_that_there_are() {
        let (_, listed) = PAGE.split_once("## Settings\n\n").expect("a heading");
        assert!(
            listed.trim_end() == markdown(&Setting::all()).trim_end(),
            "write the output of `ebb config reference` below `## Settings` in \
             docs/src/guide/configuration.md"
        );
    }

    #[test]
    fn each_setting_has_a_variable_a_kind_of_value_and_a_help_text() {
        for setting in Setting::all() {
            let variable = format!("EBB_{}", setting.name.replace('-', "_").to_uppercase());
            assert_eq!(setting.variable, variable);
            assert!(setting.help.len() > 10, "{}", setting.name);
            assert!(!setting.value.is_empty(), "{}", setting.name);
        }
    }
}
