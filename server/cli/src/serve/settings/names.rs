//! The names of the settings, and the search for the one that a misspelt name means.

use clap::{Args as _, Command};

use super::fields::{FORMER_MEMORY, Settings};

/// The least similarity, from 0 to 1, at which the error of an unknown setting suggests a known one.
const ALIKE: f64 = 0.8;

/// The start of the names of environment variables of settings.
const VARIABLE_START: &str = "EBB_";

impl Settings {
    /// Returns the names of the settings in flags and files, in order.
    pub(super) fn names() -> Vec<String> {
        let command = Self::augment_args(Command::new("ebb"));
        let names = command.get_arguments();
        names
            .map(|arg| arg.get_id().as_str().replace('_', "-"))
            .collect()
    }

    /// Returns the settings, which passed [`check`](Self::check), by name, with their values as TOML; `None` for
    /// a setting without a value.
    pub(crate) fn named(&self) -> Vec<(String, Option<toml::Value>)> {
        let mut table = self.table().expect("the check has made a table");
        let named = Self::names().into_iter().map(|name| {
            let value = table.remove(&name);
            (name, value)
        });
        named.collect()
    }
}

/// Returns the known name that is most like an unknown one; `None` if none is like it.
pub(super) fn meant_by<'n>(unknown: &str, known: &'n [String]) -> Option<&'n String> {
    let likeness = |name: &str| strsim::jaro_winkler(unknown, name);
    let meant = known
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    meant.filter(|name| likeness(name) >= ALIKE)
}

/// Returns the environment variables that belong to no setting, but whose names are almost those of
/// settings' variables. Each comes with the name of the variable that was probably meant.
pub(in crate::serve) fn misspelt(
    variables: impl IntoIterator<Item = String>,
) -> Vec<(String, String)> {
    let known = Settings::names();
    let mut misspelt = Vec::new();
    for variable in variables {
        let Some(name) = variable.strip_prefix(VARIABLE_START) else {
            continue;
        };
        let name = name.to_lowercase().replace('_', "-");
        if known.contains(&name) || name == FORMER_MEMORY {
            continue;
        }
        if let Some(meant) = meant_by(&name, &known) {
            let meant = meant.replace('-', "_").to_uppercase();
            misspelt.push((variable, format!("{VARIABLE_START}{meant}")));
        }
    }
    misspelt
}

#[cfg(test)]
mod tests {
    use super::super::fields::FORMER_MEMORY_VARIABLE;
    use super::*;

    #[test]
    fn a_variable_that_is_misspelt_is_found_and_those_of_other_things_are_not() {
        let found = |variables: &[&str]| misspelt(variables.iter().map(ToString::to_string));
        let pair = |wrong: &str, right: &str| (wrong.to_owned(), right.to_owned());
        assert_eq!(
            found(&["EBB_DURABILTY", "EBB_AUTH", "EBB_CQL"]),
            [
                pair("EBB_DURABILTY", "EBB_DURABILITY"),
                pair("EBB_AUTH", "EBB_AUTHENTICATION"),
            ]
        );
        let others = [
            "DURABILTY",
            FORMER_MEMORY_VARIABLE,
            "EBB_CONFIG",
            "EBB_SERVER",
            "EBB_SERVER_CA",
            "EBB_CLIENT_CERT",
            "EBB_CLIENT_KEY",
            "EBB_TOKEN",
            "EBB_CATALOG_TOKEN",
            "EBB_CATALOG_ALLOW_HTTP",
            "EBB_TEST_UNPACED",
            "EBB_REOPENINGS",
            "EBB_SERVICE_HOST",
            "EBB_PORT_9042_TCP",
        ];
        assert_eq!(found(&others), Vec::<(String, String)>::new());
    }
}
