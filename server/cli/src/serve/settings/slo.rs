//! The objective for the latency of the load.

use std::fmt;
use std::str::FromStr;

use ebb_colocate::Objective;

/// A latency objective, or `none`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slo(pub(crate) Option<Objective>);

impl FromStr for Slo {
    type Err = <Objective as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            _ => text.parse().map(|objective| Self(Some(objective))),
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(objective) => objective.fmt(f),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn an_objective_is_kept_unless_it_is_refused() {
        assert_eq!(Settings::default().slo, Slo(Some(Objective::DEFAULT)));
        let settings = Settings::parse("slo = \"none\"").unwrap();
        assert_eq!(
            (settings.slo, settings.slo.to_string()),
            (Slo(None), "none".into())
        );
    }
}
