//! Prompts of a given number of tokens that say how long their answer is to be: what a trace tells, and no text.
//!
//! A prompt is twelve letters and as many times ` the` as it takes: in the vocabulary of the small model that is one token,
//! and a router takes four bytes for one too. The letters are three numbers of four digits each: which prompt it is (so
//! that no two begin alike and none is found in a prefix cache), its words, and the tokens of its answer.

/// Digits: letters of which the vocabulary merges no two.
const DIGITS: &[u8; 16] = b"abcdfgijkmnopqrs";
/// Letters of a number.
const PLACES: usize = 4;
/// Letters before the words.
pub const LETTERS: usize = 3 * PLACES;
/// A word: one token, four bytes.
const WORD: &str = " the";
/// Tokens that the template puts around the content.
const TEMPLATE: u32 = 2;
/// Tokens of a prompt that are no words.
pub const FIXED: u32 = LETTERS as u32 + TEMPLATE;

/// What a prompt says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// Tokens of the whole prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer, its end included.
    pub answer_tokens: u32,
}

/// The content of a message whose prompt has so many tokens ([`FIXED`] at least) and asks for an answer of so many.
#[allow(dead_code, reason = "for who asks")]
pub fn content(number: usize, prompt_tokens: u32, answer_tokens: u32) -> String {
    let words = prompt_tokens.saturating_sub(FIXED);
    let digits = |value: u32| (0..PLACES).rev().map(move |place| DIGITS[(value >> (4 * place)) as usize & 15] as char);
    let letters = [(number & 0xffff) as u32, words, answer_tokens.max(1)].into_iter().flat_map(digits);
    letters.chain(WORD.repeat(words as usize).chars()).collect()
}

/// What the letters of a content say; none: they are none.
pub fn read(letters: &[u8]) -> Option<Said> {
    let number = |at: usize| {
        let digit = |sum: u32, letter: &u8| Some(sum * 16 + DIGITS.iter().position(|d| d == letter)? as u32);
        letters.get(at * PLACES..(at + 1) * PLACES)?.iter().try_fold(0, digit)
    };
    number(0)?;
    Some(Said { prompt_tokens: number(1)? + FIXED, answer_tokens: number(2)? })
}
