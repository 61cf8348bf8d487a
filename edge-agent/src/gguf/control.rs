//! Control tokens in text: where a template wrote them they are structure, where a caller wrote them they are words.
//!
//! A template joins both into one string, so the caller's part is marked before: a character that no Unicode text has
//! goes behind the first character of each control token written out in it, and at its ends where it could become part
//! of one. The mark keeps them from being found, and is taken out before the rest is cut into tokens.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::GgufError;
use super::finder::Finder;
use super::vocabulary::{Kind, Vocabulary};

/// The 32 code points of U+FDD0 and on are no characters, and never will be.
const MARKS: Range<u32> = 0xfdd0..0xfdf0;

/// The control tokens of a vocabulary.
#[derive(Debug)]
pub(super) struct Controls {
    pub(super) finder: Finder,
    /// All texts, a zero byte after each.
    texts: String,
    longest: usize,
    /// What one of them can begin and end with.
    beginnings: HashSet<Box<str>>,
    endings: HashSet<Box<str>>,
}

impl Controls {
    /// # Errors
    /// When there are too many to search for.
    pub(super) fn new(vocabulary: &Vocabulary<'_>) -> Result<Self, GgufError> {
        // One of a single character could not be told apart by a mark, so it is left to be a word.
        let several = || vocabulary.of(Kind::Control).filter(|(_, text)| text.chars().nth(1).is_some());
        let list: Vec<&str> = several().map(|(_, text)| text).collect();
        let inner = |text: &str| text.char_indices().skip(1).map(|(at, _)| at).collect::<Vec<_>>();
        let (mut beginnings, mut endings) = (HashSet::new(), HashSet::new());
        for text in &list {
            for at in inner(text) {
                beginnings.insert(Box::from(&text[..at]));
                endings.insert(Box::from(&text[at..]));
            }
        }
        let longest = list.iter().map(|text| text.len()).max().unwrap_or(0);
        let texts = list.iter().flat_map(|text| [text, "\0"]).collect();
        Ok(Controls { finder: Finder::new(several())?, texts, longest, beginnings, endings })
    }

    /// Each with its text, in order of their ids.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &str)> {
        self.finder.ids().iter().copied().zip(self.texts.split_terminator('\0'))
    }

    /// A caller's text in which no control token is found, whatever a template writes around it.
    fn marked(&self, text: &str, mark: char) -> String {
        let mut out = String::with_capacity(text.len() + 8);
        let (mut written, mut from) = (0, 0);
        while let Some(start) = self.finder.next(text, from) {
            // One that begins inside this one is found as well.
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&text[written..from]);
            out.push(mark);
            written = from;
        }
        out.push_str(&text[written..]);
        if self.could_join(out.trim()) {
            // Inside the white space, which templates strip.
            let start = out.len() - out.trim_start().len();
            out.insert(start, mark);
            out.insert(out.trim_end().len(), mark);
        }
        out
    }

    /// Whether text before and after could make it part of a control token. Words and names are left as they are, so
    /// that templates can compare them: none writes `<|` and `|>` around a caller's word.
    fn could_join(&self, text: &str) -> bool {
        let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if text.chars().all(word) {
            return false;
        }
        let cuts = |range: Range<usize>| range.filter(|at| text.is_char_boundary(*at));
        let near = self.longest.min(text.len() + 1);
        cuts(1..near).any(|at| self.endings.contains(&text[..at]))
            || cuts(text.len() + 1 - near..text.len()).any(|at| self.beginnings.contains(&text[at..]))
            || text.len() < self.longest && self.texts.contains(text)
    }

    /// A mark that none of the caller's values and not the template has; none if all are taken.
    pub(super) fn mark_for(values: &[&Value], template: &str) -> Option<char> {
        let mut free: Vec<char> = MARKS.filter_map(char::from_u32).collect();
        let mut strike = |text: &str| free.retain(|mark| !text.contains(*mark));
        strike(template);
        values.iter().for_each(|value| each_text(value, &mut strike));
        free.first().copied()
    }

    /// A caller's value with every text in it marked, names of members included.
    pub(super) fn mark_all(&self, value: &Value, mark: char) -> Value {
        match value {
            Value::String(text) => Value::String(self.marked(text, mark)),
            Value::Array(list) => list.iter().map(|v| self.mark_all(v, mark)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, v)| (self.marked(name, mark), self.mark_all(v, mark))).collect()
            }
            other => other.clone(),
        }
    }
}

fn each_text(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(list) => list.iter().for_each(|v| each_text(v, see)),
        Value::Object(members) => members.iter().for_each(|(name, v)| {
            see(name);
            each_text(v, see);
        }),
        _ => {}
    }
}
