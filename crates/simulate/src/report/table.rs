//! Outcomes as a table: a line a strategy, a block a load.

use crate::outcome::Outcome;

/// Writes the table. Shares are percent of all requests, times milliseconds; a column with a tier's name is the share
/// that it answered.
pub fn table(outcomes: &[Outcome]) -> String {
    let tiers: Vec<&String> =
        outcomes.first().map(|o| o.share_by_tier.iter().map(|(name, _)| name).collect()).unwrap_or_default();
    let mut head: Vec<String> = ["LOAD", "RPS", "STRATEGY", "OVERFLOW%", "LATE%", "REFUSED%"].map(str::to_owned).into();
    head.extend(tiers.iter().map(|name| format!("{}%", name.to_uppercase())));
    head.extend(["COST", "TTFT-P50", "TTFT-P95", "TOTAL-P50", "TOTAL-P95", "BUSY%"].map(str::to_owned));
    let mut rows = vec![head];
    let mut load = None;
    for outcome in outcomes {
        if load.replace(outcome.load).is_some_and(|before| before != outcome.load) {
            rows.push(Vec::new());
        }
        let mut row = vec![
            format!("{:.2}", outcome.load),
            format!("{:.2}", outcome.requests_per_second),
            outcome.strategy.to_owned(),
            format!("{:.2}", outcome.overflow_percent),
            format!("{:.2}", outcome.late_percent),
            format!("{:.2}", outcome.refused_percent),
        ];
        row.extend(outcome.share_by_tier.iter().map(|(_, share)| format!("{share:.1}")));
        row.push(format!("{:.4}", outcome.cost));
        let (first, total) = (outcome.first_token_ms, outcome.total_ms);
        row.extend([first.p50, first.p95, total.p50, total.p95].map(|ms| format!("{ms:.0}")));
        row.push(format!("{:.1}", outcome.busy_percent));
        rows.push(row);
    }
    align(&rows)
}

/// Columns as wide as their widest cell; numbers to the right, the strategy to the left.
fn align(rows: &[Vec<String>]) -> String {
    const STRATEGY: usize = 2;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == STRATEGY { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
