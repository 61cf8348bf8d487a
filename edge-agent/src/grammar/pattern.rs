//! What patterns say that a grammar cannot follow. The rest is regular expressions as everywhere.

/// Patterns that libraries write with look-ahead, each with one without that takes nothing else: zod's duration, host name and
/// earlier email, pydantic's decimal.
const WITHOUT: &[(&str, &str)] = &[
    (
        r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$",
        concat!(
            r"^P(?:\d+W|(?:\d+Y(?:\d+M)?(?:\d+D)?|\d+M(?:\d+D)?|\d+D)?(?:T(?:\d+H(?:\d+M)?(?:\d+(?:[.,]\d+)?S)?",
            r"|\d+M(?:\d+(?:[.,]\d+)?S)?|\d+(?:[.,]\d+)?S))|(?:\d+Y(?:\d+M)?(?:\d+D)?|\d+M(?:\d+D)?|\d+D))$"
        ),
    ),
    (
        concat!(
            r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?",
            r"(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$"
        ),
        // Three labels of 63 characters are 191 of the 253 that a name may have.
        concat!(
            r"^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?",
            r"(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?){0,2}\.?$"
        ),
    ),
    (
        r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
        r"^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_'+\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
    ),
    (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", r"^[+-]?(?:\d+\.?\d*|\.\d+)$"),
];

/// A pattern without look-ahead in place of one that a library writes; none if there is none.
pub(super) fn without(pattern: &str) -> Option<&'static str> {
    WITHOUT.iter().find(|(with, _)| *with == pattern).map(|(_, without)| *without)
}

/// Beside this format, what keeps the sixtieth second out: it is there at the end of some days only, and `llguidance` takes
/// it at any minute.
pub(super) fn no_leap_second(format: &str) -> Option<&'static str> {
    match format {
        "time" => Some("^.{6}[0-5]"),
        "date-time" => Some("^.{17}[0-5]"),
        _ => None,
    }
}

/// What to do about the first such thing; none if there is none that can be seen.
pub(super) fn beyond(pattern: &str) -> Option<&'static str> {
    if without(pattern).is_some() {
        return None;
    }
    let (mut characters, mut class) = (pattern.char_indices(), false);
    while let Some((at, character)) = characters.next() {
        let rest = &pattern[at..];
        match character {
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('b' | 'B') if !class => {
                    return Some(
                        "\\b and \\B cannot be followed in a pattern: spell out what may stand on either side",
                    );
                }
                Some('1'..='9' | 'k') if !class => {
                    return Some("a pattern cannot refer back to what a group took: spell the alternatives out");
                }
                Some('c') => {
                    return Some("\\c cannot be followed in a pattern: write the character as \\x and two digits");
                }
                _ => {}
            },
            '[' => class = true,
            ']' => class = false,
            '(' if !class && ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|ahead| rest.starts_with(ahead)) => {
                return Some("a pattern cannot look ahead or behind: say what the whole text may be instead");
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_followed_is_told_from_what_only_looks_like_it() {
        for pattern in [r"\bfoo", r"a\B", r"(a)\1", r"(?<x>a)\k<x>", "(?=a)", "(?!a)", "x(?<=a)", "(?<!a)", r"\cA"] {
            assert!(beyond(pattern).is_some(), "{pattern}");
        }
        for pattern in [r"\\b", r"[\b]", "[(?=]", r"\(?=", "(?:a)", "(?<year>[0-9]{4})", r"^\d{3}-\w+$", ""] {
            assert!(beyond(pattern).is_none(), "{pattern}");
        }
    }
}
