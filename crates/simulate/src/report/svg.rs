//! Outcomes as a picture: overflow and lateness over load, a line a strategy. Plain SVG, no script, readable on light
//! and dark pages.

use std::fmt::Write as _;

use crate::outcome::Outcome;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// Room for the axis labels to the left and below.
const LEFT: f64 = 52.0;
const BELOW: f64 = 44.0;
const ABOVE: f64 = 34.0;
const LEGEND: f64 = 230.0;
/// Colours that people with a colour vision deficiency can tell apart (Okabe and Ito, 2008), and one grey.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#b8a000"];

/// Draws outcomes of several loads.
pub fn draw(outcomes: &[Outcome]) -> String {
    let mut strategies: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !strategies.contains(&outcome.strategy) {
            strategies.push(outcome.strategy);
        }
    }
    let panels: [(&str, fn(&Outcome) -> f64); 2] =
        [("Overflow, % of requests", |o| o.overflow_percent), ("Late, % of requests", |o| o.late_percent)];
    let (all_width, all_height) = (2.0 * (WIDTH + LEFT) + LEGEND, HEIGHT + ABOVE + BELOW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Overflow and lateness over load, by strategy</title>\n\
         <rect width=\"{all_width}\" height=\"{all_height}\" fill=\"#fff\"/>\n"
    );
    for (index, (title, value)) in panels.into_iter().enumerate() {
        let origin = LEFT + index as f64 * (WIDTH + LEFT);
        panel(&mut svg, origin, title, outcomes, &strategies, value);
    }
    for (index, strategy) in strategies.iter().enumerate() {
        let (x, y) = (2.0 * (WIDTH + LEFT) + 16.0, ABOVE + 10.0 + 20.0 * index as f64);
        let colour = COLOURS[index % COLOURS.len()];
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"3\"/><text x=\"{}\" y=\"{}\">{strategy}</text>",
            x + 22.0,
            x + 28.0,
            y + 4.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    svg: &mut String,
    origin: f64,
    title: &str,
    outcomes: &[Outcome],
    strategies: &[&str],
    value: fn(&Outcome) -> f64,
) {
    let loads = || outcomes.iter().map(|o| o.load);
    let (least, most) = (loads().fold(f64::MAX, f64::min), loads().fold(0.0, f64::max));
    let span = if most > least { most - least } else { 1.0 };
    let top = nice(outcomes.iter().map(value).fold(0.0, f64::max));
    let inner = WIDTH - 20.0;
    let x = |load: f64| origin + if most > least { (load - least) / span * inner } else { inner / 2.0 };
    let y = |v: f64| ABOVE + HEIGHT - v / top * HEIGHT;
    let _ = writeln!(svg, "<text x=\"{origin}\" y=\"18\" font-weight=\"bold\">{title}</text>");
    for tick in 0..=4 {
        let v = top * f64::from(tick) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{origin}\" y1=\"{0:.1}\" x2=\"{1:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/><text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{v}</text>",
            y(v),
            origin + inner,
            origin - 6.0,
            y(v) + 4.0
        );
    }
    let mut named: Vec<f64> = loads().collect();
    named.sort_by(f64::total_cmp);
    named.dedup();
    let every = named.len().div_ceil(8).max(1);
    for load in named.iter().step_by(every) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{load}</text>",
            x(*load),
            ABOVE + HEIGHT + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">load, times the trace's own rate</text>",
        origin + inner / 2.0,
        ABOVE + HEIGHT + 36.0
    );
    // Ours come first and are drawn last, on top.
    for (index, strategy) in strategies.iter().enumerate().rev() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<(f64, f64)> =
            outcomes.iter().filter(|o| o.strategy == *strategy).map(|o| (x(o.load), y(value(o)))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }
}

/// The next number of the form 1, 2, 4, 6, 8 times a power of ten: quarters of it are short to write.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 6.0, 8.0, 10.0].into_iter().map(|m| m * power).find(|top| *top >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, top) in [(0.0, 1.0), (0.3, 0.4), (7.0, 8.0), (43.5, 60.0), (99.0, 100.0), (100.0, 100.0)] {
            assert!((nice(value) - top).abs() < 1e-9, "{value}: {}", nice(value));
        }
    }
}
