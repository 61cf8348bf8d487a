//! Classes of characters in patterns. What ECMA-262 means by them is not all that regular expressions elsewhere do; and
//! `derivre`, which carries a pattern into a JSON string, takes `\"` and `\\` for characters of every class that has all
//! control characters, whether the class has those two or not.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

/// ECMA-262's white space, inside of a class.
const SPACE: &str = r"\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

/// The pattern in words that mean the same to `llguidance`. One that it cannot read stays as wrong as it is.
pub(super) fn exact(pattern: &str) -> String {
    let pattern = reworded(pattern);
    let Ok(parsed) = regex_syntax::parse(&llguidance::regex_to_lark(&pattern, "dw")) else { return pattern };
    let mut narrowed = false;
    let new = narrow(parsed, &mut narrowed);
    if narrowed { new.to_string() } else { pattern }
}

/// What is written otherwise elsewhere: white space, NUL, backspace, and characters that are operators in a class.
fn reworded(pattern: &str) -> String {
    let (mut text, mut characters, mut class) = (String::new(), pattern.chars(), false);
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('s') if class => text.push_str(SPACE),
                Some('s') => text.extend(["[", SPACE, "]"]),
                Some('S') => text.extend(["[^", SPACE, "]"]),
                Some('0') => text.push_str(r"\x00"),
                Some('b') if class => text.push_str(r"\x08"),
                escaped => text.extend(Some(character).into_iter().chain(escaped)),
            },
            '[' | '&' | '~' if class => text.extend(['\\', character]),
            _ => {
                class = character == '[' || class && character != ']';
                text.push(character);
            }
        }
    }
    text
}

/// Without NUL where a class has all control characters, but not both `"` and `\`: then it is carried over character by
/// character. Nobody misses NUL.
fn narrow(hir: Hir, narrowed: &mut bool) -> Hir {
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(mut class)) => {
            let has = |from: char, to: char| class.iter().any(|range| range.start() <= from && to <= range.end());
            let control = has('\0', '\t') && has('\x0B', '\x1F');
            if control && !(has('"', '"') && has('\\', '\\')) {
                class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\0')]));
                *narrowed = true;
            }
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(class) => Hir::class(class),
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(mut repetition) => {
            *repetition.sub = narrow(*repetition.sub, narrowed);
            Hir::repetition(repetition)
        }
        HirKind::Capture(mut capture) => {
            *capture.sub = narrow(*capture.sub, narrowed);
            Hir::capture(capture)
        }
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(|part| narrow(part, narrowed)).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(|part| narrow(part, narrowed)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::testing::{self, grammars};
    use serde_json::{Value, json};

    /// Whether a pattern takes these texts and none of those, as JSON strings with every escape that they may have: as a
    /// text's and as that of a member's name.
    fn keeps(pattern: &str, yes: &[&str], no: &[&str]) {
        let grammars = grammars();
        let text = json!({"type": "string", "pattern": pattern});
        let name = json!({"type": "object", "patternProperties": {pattern: {"type": "null"}}, "additionalProperties": false,
            "required": []});
        let written: [fn(&&str) -> String; 2] =
            [|text| Value::from(*text).to_string(), |text| format!("{{{}: null}}", Value::from(*text))];
        for (schema, written) in [text, name].iter().zip(written) {
            let [yes, no] = [yes, no].map(|texts| texts.iter().map(written).collect::<Vec<_>>());
            let [yes, no] = [&yes, &no].map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
            testing::keeps(&grammars, schema, &yes, &no);
        }
    }

    #[test]
    fn a_class_without_a_quote_or_a_backslash_takes_neither() {
        keeps(r"^[A-Z]:\\[^\\]{1,3}$", &[r"C:\abc", "C:\\\"é\n"], &[r"C:\\ab", r"C:\", "C:abc"]);
        keeps("^\"[^\"]{1,3}\"$", &["\"a\"", r#""\\""#, "\"\té\""], &["\"\"\"", "\"a\"b\""]);
        keeps(r"^\\\\[^\\]{1,4}\\[^\\]{1,4}$", &[r"\\ab\cd"], &[r"\\ab\\d", r"\\\b\cd"]);
        keeps(r"^[\x00-\x1f]$", &["\u{1}", "\n", "\u{1f}"], &["\\", "\"", " "]);
        keeps(r"^[\x00-\x20]{2}$", &["\u{2} ", "\n\t"], &["\\ ", "\" "]);
        keeps("^[^\n\"]$", &["\\", "a", "\t"], &["\"", "\n"]);
        keeps(r"^[^\n\\]*$", &["a\"b", ""], &["\\", "\n"]);
        keeps(r"^.$", &["\\", "\"", "a"], &["\n"]);
        keeps(r"^([^\\]|\\\\)+$", &[r"a\\b"], &[r"a\b"]);
    }

    #[test]
    fn white_space_is_ecmas() {
        keeps(r"^\s{2}$", &[" \t", "\u{a0}\u{feff}", "\u{2028}\u{3000}"], &["\u{85} ", "a ", "\u{180e} "]);
        keeps(r"^[\s,]+$", &[", \u{feff}"], &["a", "\u{85}"]);
        keeps(r"^\S+$", &["a\u{85}"], &["a b", "\u{feff}"]);
        keeps(r"^[\S]$", &["a", "\u{85}"], &[" "]);
    }

    #[test]
    fn what_is_an_operator_elsewhere_is_a_character() {
        keeps(r"^[[a]$", &["[", "a"], &["b"]);
        keeps(r"^[a&&b]$", &["a", "&", "b"], &["~"]);
        keeps(r"^[~~]$", &["~"], &["a"]);
        keeps(r"^[\b]$", &["\u{8}"], &["b"]);
    }

    #[test]
    fn what_needs_no_other_words_stays_as_it_is() {
        for pattern in [r"^\d{3}-\w+$", "a|b", "^[a-z]+$", "^[^a]$", "(", r"^\p{L}+$", "^.*$"] {
            assert_eq!(exact(pattern), pattern);
        }
    }
}
