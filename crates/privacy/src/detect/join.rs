//! A number that is split over two texts: "4111 1111" and, in the next turn, "1111 1111".
//!
//! Of each text only the digits at its ends matter, so only those are kept.

use super::digits::separates;

/// Digits from which joined ends are worth a look.
const MIN_DIGITS: usize = 9;
/// Characters kept of an end.
const KEEP: usize = 64;

/// The ends of the texts so far.
#[derive(Debug, Default)]
pub struct Joiner {
    tail: String,
    apart: bool,
}

impl Joiner {
    /// One for texts that follow each other by chance: groups of different ones must be those of a card.
    pub fn apart() -> Self {
        Self { apart: true, ..Self::default() }
    }

    /// Adds the next text; returns what the ends make together, if it could be a number.
    pub fn add(&mut self, text: &str) -> Option<String> {
        let text = text.trim();
        let between = if self.apart { '|' } else { ' ' };
        let run = |b: u8| b.is_ascii_digit() || separates(b) || b == b'+';
        let head = text.bytes().take(KEEP).take_while(|b| run(*b)).count();
        let tail = text.bytes().rev().take(KEEP).take_while(|b| run(*b)).count();
        let joined = (!self.tail.is_empty() && head > 0).then(|| format!("{}{between}{}", self.tail, &text[..head]));
        if head == text.len() && !self.tail.is_empty() {
            // The whole text is a middle piece.
            self.tail = format!("{}{between}{text}", self.tail);
            let cut = self.tail.len().saturating_sub(KEEP);
            self.tail.drain(..cut);
        } else {
            self.tail = text[text.len() - tail..].trim_start_matches(|c: char| !c.is_ascii_digit()).to_owned();
        }
        joined.filter(|j| j.bytes().filter(u8::is_ascii_digit).count() >= MIN_DIGITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_meet() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.add("my card is 4111 1111"), None);
        assert_eq!(joiner.add("1111 1111, thanks").as_deref(), Some("4111 1111 1111 1111, "));
        assert_eq!(joiner.add("1111"), None, "words stood between");
    }

    #[test]
    fn three_pieces_are_one() {
        let mut joiner = Joiner::default();
        joiner.add("it is 4111");
        joiner.add("1111 1111");
        assert_eq!(joiner.add("1111 ok").as_deref(), Some("4111 1111 1111 1111 "));
    }
}
