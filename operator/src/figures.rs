//! Figures as status shows them: rounded, so that what has hardly changed is not written again.

use jiff::Timestamp;
use terrace_contract::sketch::Sketch;
use terrace_crds::shared::Quantiles;

/// A latency as a duration with two significant digits: `38ms`, `1.2s`.
pub fn duration(us: u64) -> String {
    let us = significant(us);
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => trimmed(us as f64 / 1_000.0, 1, "ms"),
        1_000_000..60_000_000 => trimmed(us as f64 / 1_000_000.0, 1, "s"),
        _ => format!("{}s", us / 1_000_000),
    }
}

/// Microseconds since the Unix epoch as a time; none for 0, which means never.
pub fn time(us: u64) -> Option<Timestamp> {
    i64::try_from(us).ok().filter(|us| *us > 0).and_then(|us| Timestamp::from_microsecond(us).ok())
}

/// Quantiles of a sketch; empty strings without samples.
pub fn quantiles(sketch: &Sketch) -> Quantiles {
    let at = |q| sketch.quantile(q).map(duration).unwrap_or_default();
    Quantiles { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

/// The sum of a sketch's values, within its 1 %.
pub fn sum(sketch: &Sketch) -> u64 {
    let gamma: f64 = 1.01 / 0.99;
    let value = |index: i32| 2.0 * gamma.powi(index) / (gamma + 1.0);
    sketch.bins.iter().map(|(index, count)| value(*index) * *count as f64).sum::<f64>().round() as u64
}

/// A share in percent with one decimal.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { trimmed(part as f64 * 100.0 / whole as f64, 1, "") }
}

/// A share in whole percents.
pub fn whole_percent(part: u64, whole: u64) -> i32 {
    if whole == 0 { 0 } else { (part as f64 * 100.0 / whole as f64).round() as i32 }
}

/// Money with two digits after the point, or as many as it takes to show two that are not zero.
pub fn money(micros: u64) -> String {
    match micros {
        0 => "0".into(),
        1..10_000 => trimmed(significant(micros) as f64 / 1e6, 6, ""),
        _ => trimmed(micros as f64 / 1e6, 2, ""),
    }
}

/// A rate with two significant digits.
pub fn rate(value: f64) -> String {
    if value >= 100.0 {
        let digits = 10f64.powf(value.log10().floor() - 1.0);
        format!("{}", ((value / digits).round() * digits) as u64)
    } else if value >= 10.0 {
        format!("{value:.0}")
    } else {
        trimmed(value, if value >= 1.0 { 1 } else { 2 }, "")
    }
}

fn significant(value: u64) -> u64 {
    let mut unit = 1;
    while value / unit >= 100 {
        unit *= 10;
    }
    (value + unit / 2) / unit * unit
}

fn trimmed(value: f64, decimals: usize, unit: &str) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_within_one_percent() {
        let mut sketch = Sketch::default();
        (1..=1_000).for_each(|v| sketch.add(v * 100));
        let (got, want) = (sum(&sketch) as f64, 500.5 * 100.0 * 1_000.0);
        assert!((got - want).abs() / want < 0.01, "{got} {want}");
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [800, 1_234, 38_400, 71_900, 1_249_000, 95_000_000].map(duration),
            ["800us", "1.2ms", "38ms", "72ms", "1.2s", "95s"]
        );
        assert_eq!([0, 12, 4_321, 410_000, 298_000_000].map(money), ["0", "0.000012", "0.0043", "0.41", "298"]);
        assert_eq!([0.04, 4.12, 41.2, 412.0, 1_234.0].map(rate), ["0.04", "4.1", "41", "410", "1200"]);
        assert_eq!((percent(4, 1000), percent(9, 100), percent(1, 0)), ("0.4".into(), "9".into(), String::new()));
    }
}
