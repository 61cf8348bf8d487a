//! Where one text ends and the next begins: what is split over two parts, turns, elements of a list or descriptions of
//! tools is in neither of them.
//!
//! Only some characters on both sides of a border are looked at, and of what is found there only kinds that neither side
//! has alone. Numbers that stand across a border prove little, so they are left to [`Joiner`].

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher};

use foldhash::quality::RandomState;

use crate::detect::join::Joiner;
use crate::detect::{self, Kind, decode};
use crate::segments::{Author, Segment, Step};

/// Bytes of each side of a border that are looked at.
const KEEP: usize = 96;

/// The ends of the texts so far.
#[derive(Debug, Default)]
pub(crate) struct Borders {
    /// Of what the user says, and of what all say.
    said: [String; 2],
    /// Digits of the same, and of every text of the turns.
    digits: [Joiner; 3],
    /// Of texts beside the turns' own, by what place they have but for positions.
    places: HashMap<u64, (String, Joiner), RandomState>,
}

/// What a border makes of two texts.
#[derive(Debug, Default)]
pub(crate) struct Across {
    /// Both sides of each border, apart.
    pub sides: Vec<(String, String)>,
    /// What numbers at the borders could be.
    pub digits: Vec<String>,
}

impl Borders {
    /// Adds the next normalised text; returns what there is across its border.
    pub fn add(&mut self, text: &str, segment: &Segment<'_>) -> Across {
        let mut across = Across::default();
        // What stands beside the text of a turn does not part it from the next one.
        let (said, turns) = match (segment.author, segment.is_said()) {
            (Author::None, _) => (2..2, 3..3),
            (Author::User, true) => (0..2, 0..3),
            (Author::Other, true) => (1..2, 1..3),
            (_, false) => (2..2, 2..3),
        };
        let beside = said.is_empty();
        let text = text.trim();
        for tail in &mut self.said[said] {
            meet(tail, text, &mut across.sides);
        }
        across.digits.extend(self.digits[turns].iter_mut().filter_map(|joiner| joiner.add(text)));
        if beside {
            let place = self.places.hasher().build_hasher();
            let (tail, joiner) = self.places.entry(alike(segment, place)).or_insert_with(apart);
            meet(tail, text, &mut across.sides);
            across.digits.extend(joiner.add(text));
        }
        across
    }
}

fn apart() -> (String, Joiner) {
    (String::new(), Joiner::apart())
}

/// The same for all places that differ in positions only.
fn alike(segment: &Segment<'_>, mut hasher: impl Hasher) -> u64 {
    hasher.write_u8(u8::from(segment.is_name));
    for step in segment.path {
        match step {
            Step::Field(name) => hasher.write(name.as_bytes()),
            Step::Key(_) | Step::Index(_) => hasher.write_u8(1),
            Step::Parsed => hasher.write_u8(2),
        }
    }
    hasher.finish()
}

fn meet(tail: &mut String, text: &str, sides: &mut Vec<(String, String)>) {
    let head = &text[..text.floor_char_boundary(KEEP)];
    if !tail.is_empty() && !head.is_empty() && !sides.iter().any(|(before, _)| before == tail) {
        sides.push((tail.clone(), head.to_owned()));
    }
    let from = text.ceil_char_boundary(text.len().saturating_sub(KEEP));
    if from > 0 {
        tail.clear();
    }
    // A short text is a piece in the middle.
    tail.push_str(&text[from..]);
    tail.drain(..tail.ceil_char_boundary(tail.len().saturating_sub(KEEP)));
}

/// Hands what two sides make only together to `report`.
pub(crate) fn scan(before: &str, after: &str, report: &mut detect::Report<'_>) {
    let joined = format!("{before}{after}");
    // Whatever is looked for has one of these.
    let sign = |b: u8| b.is_ascii_digit() || matches!(b, b'@' | b'[' | b'(' | b':' | b'=');
    if !joined.bytes().any(sign) && !joined.contains("---") {
        return;
    }
    let mut found: Vec<(Kind, String)> = Vec::new();
    detect::plain(&joined, &mut |kind, value| {
        let number = matches!(kind, Kind::Card | Kind::Ssn | Kind::ResidentId | Kind::Phone | Kind::Ip);
        // A name at the end and the next sentence's first word are no password.
        let word = kind == Kind::Password && !value.bytes().any(|b| b.is_ascii_digit());
        if !number && !word {
            found.push((kind, value.to_owned()));
        }
    });
    decode::decoded(&joined, &mut |inner| {
        detect::plain(inner, &mut |kind, value| {
            if !matches!(kind, Kind::Phone | Kind::Ip) {
                found.push((kind, value.to_owned()));
            }
        });
    });
    if found.is_empty() {
        return;
    }
    for side in [before, after] {
        detect::scan(side, &mut |alone, _| found.retain(|(kind, _)| *kind != alone));
    }
    found.iter().for_each(|(kind, value)| report(*kind, value));
}
