//! The two text formats that monitoring systems read: OpenMetrics, and Prometheus' older format, which
//! declares a counter by its full name, with `_total`.

/// The text format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
}

impl Format {
    /// Returns the format for a scraper with this `Accept` header: OpenMetrics if the header names it,
    /// otherwise Prometheus.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Returns the value of the `Content-Type` header.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a text in OpenMetrics to this format.
    pub(super) fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => classic(&text),
        }
    }
}

fn classic(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let suffix = match line.strip_prefix("# HELP ") {
            // The `# TYPE` line of the metric follows its `# HELP` line.
            Some(_) => lines.peek().copied().map_or("", suffix),
            None => suffix(line),
        };
        match line
            .strip_prefix("# ")
            .map(|comment| comment.splitn(3, ' '))
        {
            Some(words) => {
                let words: Vec<&str> = words.collect();
                if let [what @ ("HELP" | "TYPE"), name, rest] = words[..] {
                    out.extend(["# ", what, " ", name, suffix, " ", rest, "\n"]);
                }
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

/// Returns the suffix of the metric's name in `line` that the older format of Prometheus requires
/// and OpenMetrics leaves out: `_total` if `line` is the `# TYPE` line of a counter, otherwise
/// nothing.
fn suffix(line: &str) -> &'static str {
    if line.starts_with("# TYPE ") && line.ends_with(" counter") {
        "_total"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_declared_by_their_full_names() {
        let open = "# HELP a A thing.\n# TYPE a counter\na_total 1\n# HELP b # TYPE counter\n\
                    # TYPE b gauge\nb{x=\"# TYPE\"} 2\n# UNIT c s\n# EOF\n";
        let classic = "# HELP a_total A thing.\n# TYPE a_total counter\na_total 1\n\
                       # HELP b # TYPE counter\n# TYPE b gauge\nb{x=\"# TYPE\"} 2\n";
        assert_eq!(
            Format::Prometheus.of_open_metrics(open.to_string()),
            classic
        );
        assert_eq!(Format::OpenMetrics.of_open_metrics(open.to_string()), open);
    }

    #[test]
    fn the_format_follows_the_accept_header() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Prometheus);
    }
}
