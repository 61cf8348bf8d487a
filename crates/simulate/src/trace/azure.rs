//! Azure's LLM inference traces as they are published: `TIMESTAMP,ContextTokens,GeneratedTokens`, a request a line.

use super::{Arrival, TraceError};

/// Whether a line is the header of this form.
pub fn is_header(line: &str) -> bool {
    let mut names = line.split(',').map(str::trim);
    let expected = ["timestamp", "contexttokens", "generatedtokens"];
    expected.iter().all(|name| names.next().is_some_and(|found| found.eq_ignore_ascii_case(name)))
}

/// Reads it.
///
/// # Errors
/// The first line that is wrong.
pub fn read(text: &str) -> Result<Vec<Arrival>, TraceError> {
    let lines = text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            arrival(line).ok_or_else(|| TraceError::Line {
                line: index + 1,
                problem: "not `YYYY-MM-DD hh:mm:ss.fraction,prompt tokens,answer tokens`".to_owned(),
            })
        })
        .collect()
}

fn arrival(line: &str) -> Option<Arrival> {
    let mut cells = line.split(',').map(str::trim);
    let at_us = instant(cells.next()?)?;
    let prompt_tokens = cells.next()?.parse().ok()?;
    let output_tokens = cells.next()?.parse().ok()?;
    Some(Arrival { at_us, prompt_tokens, output_tokens, blocks: Vec::new() })
}

/// Microseconds since 0000-03-01 of `YYYY-MM-DD hh:mm:ss.fraction`; a zone, if there is one, is the same on all lines.
fn instant(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let time = time.split(['+', 'Z']).next()?;
    let mut time = time.split(':');
    let (hour, minute) = (time.next()?.parse::<u64>().ok()?, time.next()?.parse::<u64>().ok()?);
    let second: f64 = time.next()?.parse().ok()?;
    let sane = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
    if !sane || !(0.0..61.0).contains(&second) {
        return None;
    }
    // Days since 0000-03-01: years begin in March, so that a leap day is the last of its year.
    let (year, month) = if month < 3 { (year.checked_sub(1)?, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60_000_000 + (second * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_count_over_months_and_leap_days() {
        let day = 86_400_000_000;
        let between = |a: &str, b: &str| instant(b).unwrap() - instant(a).unwrap();
        assert_eq!(between("2024-02-28 00:00:00", "2024-03-01 00:00:00"), 2 * day);
        assert_eq!(between("2023-02-28 00:00:00", "2023-03-01 00:00:00"), day);
        assert_eq!(between("2023-12-31 23:59:59.5", "2024-01-01 00:00:00.25"), 750_000);
        assert_eq!(between("2024-05-10 00:00:00.009930+00:00", "2024-05-10T00:00:01.009930Z"), 1_000_000);
    }
}
