//! What a program tells of itself: the end of its log, and its metrics.

use std::path::Path;

/// The end of a program's log, for a failure.
pub(super) fn tail(who: &str, log: impl AsRef<Path>) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    format!("the log of {who} ends with\n{}", lines[lines.len().saturating_sub(12)..].join("\n"))
}

/// The values of a metric, of all series whose labels hold `label` (all for an empty one).
pub(super) fn samples(text: &str, name: &str, label: &str) -> impl Iterator<Item = f64> {
    text.lines().filter_map(move |line| {
        let (series, value) = line.rsplit_once(' ')?;
        (series.split('{').next() == Some(name) && series.contains(label)).then(|| value.parse().ok()).flatten()
    })
}
