//! Hex and base64 in pieces: the pairs of a dump, the lines of a mail, blanks that somebody put between. What a decoder
//! skips, a detector has to skip too.
//!
//! Where such a text begins and ends cannot be told from the words around it, so what is decoded is cut where it is no text.

use std::ops::RangeInclusive;

use super::decode::{self, MIN_HEX, MIN_PART};
use super::digits::next_digit;

/// Bytes between two pieces of base64, at most: a line's end and the next one's indentation.
const MAX_GAP: usize = 8;
/// Characters of the shortest text that is handed on: chance makes shorter ones of bytes that are none.
const MIN_TEXT: usize = MIN_HEX / 2;

/// Hands every text of hexadecimal in pieces to `look`.
pub(super) fn hex(text: &str, look: &mut dyn FnMut(&str)) {
    for run in runs(text.as_bytes()) {
        let (mut even, mut all) = (Dump::default(), Dump::default());
        let (mut odd, mut pieces) = (false, 0);
        for piece in run.split(|b| !b.is_ascii_hexdigit() && !matches!(b, b'x' | b'X')).filter(|p| !p.is_empty()) {
            let digits = piece.strip_prefix(b"0x").or_else(|| piece.strip_prefix(b"0X")).unwrap_or(piece);
            let known = digits.iter().all(u8::is_ascii_hexdigit);
            if known {
                all.push(digits);
            } else {
                all.read(0..=1, look);
            }
            // Pieces of whole bytes say where a byte begins, whatever stands before them.
            if known && digits.len().is_multiple_of(2) {
                even.push(digits);
            } else {
                even.read(0..=0, look);
            }
            odd |= !digits.len().is_multiple_of(2);
            pieces += 1;
        }
        if pieces > 1 {
            even.read(0..=0, look);
            if odd {
                all.read(0..=1, look);
            }
        }
    }
}

/// Runs of hexadecimal and of what parts its pieces that are long enough. Only where decimal digits are dense: every
/// character of a text has one in its first half, and prose has few.
fn runs(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    const TOGETHER: usize = 64;
    // The shortest run has nine; where a border parts it, four are on one side, also with two bytes between digits.
    const DENSE: u8 = 4;
    let own = |b: &&u8| HEX[usize::from(**b)];
    let digits = |chunk: &[u8; TOGETHER]| chunk.iter().fold(0, |n, b| n + u8::from(b.wrapping_sub(b'0') < 10));
    // What is left at the end is looked at in any case.
    let dense = move |at: usize| bytes[at..].first_chunk().is_none_or(|chunk| digits(chunk) >= DENSE);
    // What is asked next, and where the last run ended.
    let (mut at, mut done) = (0, 0);
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let end = bytes.len().min(at / TOGETHER * TOGETHER + TOGETHER);
            if at.is_multiple_of(TOGETHER) && !dense(at) {
                at = end;
                continue;
            }
            let Some(digit) = next_digit(&bytes[..end], at) else {
                at = end;
                continue;
            };
            let start = digit - bytes[done..digit].iter().rev().take_while(own).count();
            done = digit + bytes[digit..].iter().take_while(own).count();
            at = done;
            // Two pieces at least, and so something between.
            if done - start > MIN_HEX {
                return Some(&bytes[start..done]);
            }
        }
        None
    })
}

/// Bytes of hexadecimal, and of what parts its pieces.
const HEX: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0u8);
    while byte < 128 {
        table[byte as usize] =
            byte.is_ascii_hexdigit() || matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b':' | b',' | b'-' | b'x' | b'X');
        byte += 1;
    }
    table
};

/// Digits of hexadecimal so far.
#[derive(Default)]
struct Dump {
    digits: Vec<u8>,
    /// Pieces they came in.
    pieces: usize,
}

impl Dump {
    fn push(&mut self, digits: &[u8]) {
        self.digits.extend_from_slice(digits);
        self.pieces += 1;
    }

    /// Hands on what they are as text if the first byte begins at one of some digits, and forgets them.
    fn read(&mut self, begins: RangeInclusive<usize>, look: &mut dyn FnMut(&str)) {
        // In one piece it has been looked at.
        if self.pieces > 1 && self.digits.len() >= MIN_HEX {
            let read = begins.filter_map(|from| decode::bytes_of_hex(&self.digits[from..]));
            read.for_each(|bytes| texts(&bytes, look));
        }
        *self = Dump::default();
    }
}

/// Hands every text of base64 in pieces to `look`.
///
/// A piece is known by a capital inside of it, which words rarely have; its neighbours by the same, or by their length.
pub(super) fn base64(text: &str, look: &mut dyn FnMut(&str)) {
    let bytes = text.as_bytes();
    let (mut done, mut from) = (0, 1);
    while let Some(at) = turn(bytes, from) {
        let own = Piece::around(bytes, done, at);
        let width = own.end - own.start;
        let belongs = |piece: &Piece| piece.end - piece.start == width || piece.is_odd(bytes);
        // The outermost may be words, or pieces that look like words.
        let mut run = vec![own];
        while let Some(before) = run.last().and_then(|first| first.before(bytes, done)) {
            let more = belongs(&before);
            run.push(before);
            if !more {
                break;
            }
        }
        run.reverse();
        while let Some(next) = run.last().and_then(|last| last.next(bytes)) {
            let more = belongs(&next);
            run.push(next);
            if !more {
                break;
            }
        }
        done = run.last().map_or(at, |last| last.end);
        from = done.max(at + 1);
        let joined: Vec<u8> = run.iter().flat_map(|piece| &bytes[piece.start..piece.end]).copied().collect();
        if run.len() > 1 && joined.len() >= MIN_PART {
            from_base64(&joined, look);
        }
    }
}

/// Where the first [`capital`] from `from` on stands. Most of a text has no capital inside of a word, so that much is asked of
/// many bytes at once.
fn turn(bytes: &[u8], from: usize) -> Option<usize> {
    const TOGETHER: usize = 32;
    let after = |i: usize| bytes.get(i + 1).copied().unwrap_or(b' ');
    let first = |from: usize, to: usize| (from..to).find(|&i| capital(bytes[i - 1], bytes[i], after(i)));
    let mut at = from;
    while let Some(some) = bytes.get(at - 1..).and_then(|rest| rest.first_chunk::<{ TOGETHER + 1 }>()) {
        let inside = |i: usize| (some[i] >= b'0') & (some[i + 1].wrapping_sub(b'A') < 26);
        if (0..TOGETHER).fold(false, |any, i| any | inside(i))
            && let Some(found) = first(at, at + TOGETHER)
        {
            return Some(found);
        }
        at += TOGETHER;
    }
    first(at, bytes.len())
}

/// Whether a letter is a capital inside of a word: behind a small letter or a digit, or between a capital and a small one.
fn capital(before: u8, own: u8, after: u8) -> bool {
    let behind = before.is_ascii_lowercase() | before.is_ascii_digit();
    own.is_ascii_uppercase() & (behind | (before.is_ascii_uppercase() & after.is_ascii_lowercase()))
}

/// Bytes of base64 that nothing parts.
struct Piece {
    start: usize,
    end: usize,
}

impl Piece {
    /// The one that has a place, from `least` on.
    fn around(bytes: &[u8], least: usize, at: usize) -> Self {
        let own = |b: &&u8| decode::BASE64[usize::from(**b)];
        let start = at - bytes[least..at].iter().rev().take_while(own).count();
        let end = at + bytes[at..].iter().take_while(own).count();
        // The letter of an escape is none of its own.
        let escaped = start > least && bytes[start - 1] == b'\\' && matches!(bytes[start], b'n' | b'r' | b't');
        Piece { start: start + usize::from(escaped && start < at), end }
    }

    /// The one before, with nothing but a gap between.
    fn before(&self, bytes: &[u8], least: usize) -> Option<Self> {
        let mut at = self.start;
        while self.start - at < MAX_GAP {
            at -= match &bytes[least..at] {
                [.., b' ' | b'\t' | b'\n' | b'\r'] => 1,
                [.., b'\\', b'n' | b'r' | b't'] => 2,
                _ => break,
            };
        }
        let last = at.checked_sub(1).filter(|last| *last >= least && at < self.start)?;
        decode::BASE64[usize::from(bytes[last])].then(|| Piece::around(bytes, least, last))
    }

    /// The one behind.
    fn next(&self, bytes: &[u8]) -> Option<Self> {
        let mut at = self.end;
        while at - self.end < MAX_GAP {
            at += match &bytes[at..] {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => 1,
                [b'\\', b'n' | b'r' | b't', ..] => 2,
                _ => break,
            };
        }
        let there = at > self.end && bytes.get(at).is_some_and(|b| decode::BASE64[usize::from(*b)]);
        there.then(|| Piece::around(bytes, at, at))
    }

    /// Whether it is written as no word is.
    fn is_odd(&self, bytes: &[u8]) -> bool {
        let own = &bytes[self.start..self.end];
        own.windows(3).any(|three| capital(three[0], three[1], three[2]))
            || matches!(own, [.., before, last] if capital(*before, *last, b' '))
    }
}

/// What base64 is as text, wherever its first group begins.
fn from_base64(joined: &[u8], look: &mut dyn FnMut(&str)) {
    for start in 0..4 {
        // One character over is no byte.
        let length = joined.len() - start;
        let group = &joined[start..joined.len() - usize::from(length % 4 == 1)];
        if let Some(bytes) = decode::bytes_of_base64(group) {
            texts(&bytes, look);
        }
    }
}

/// Hands on the parts of some bytes that are text.
fn texts(bytes: &[u8], look: &mut dyn FnMut(&str)) {
    let text = String::from_utf8_lossy(bytes);
    // Text of two bytes a character has zeros.
    let long = |part: &&str| part.bytes().filter(|b| *b != 0).count() >= MIN_TEXT;
    text.split(decode::foreign).filter(long).for_each(look);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::base64::Engine as _;

    const CARD: &str = "4111 1111 1111 1111";

    fn found(text: &str, read: fn(&str, &mut dyn FnMut(&str))) -> Vec<String> {
        let mut found = Vec::new();
        read(text, &mut |inner| found.push(inner.to_owned()));
        found
    }

    fn has_card(text: &str, read: fn(&str, &mut dyn FnMut(&str))) -> bool {
        found(text, read).iter().any(|found| found.contains(CARD))
    }

    fn encoded(text: &str) -> String {
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    /// A text cut after every so many bytes.
    fn cut(text: &str, width: usize, gap: &str) -> String {
        let pieces: Vec<&str> =
            (0..text.len()).step_by(width).map(|at| &text[at..text.len().min(at + width)]).collect();
        pieces.join(gap)
    }

    #[test]
    fn hex_is_read_however_its_digits_stand() {
        let hex: String = CARD.bytes().map(|b| format!("{b:02x}")).collect();
        for width in [1, 2, 3, 4, 5, 7, 8, 16] {
            for gap in [" ", "\n", "  ", " \t", ":", "-", ", "] {
                let text = cut(&hex, width, gap);
                for around in [["", ""], ["a card, ", " added"], ["see 12: ", ""], ["bad ", ". 7"]] {
                    let text = format!("{}{text}{}", around[0], around[1]);
                    assert!(has_card(&text, super::hex), "{text}");
                }
            }
        }
        assert!(has_card(&format!("[0x{}]", cut(&hex, 2, ", 0x")), super::hex));
        assert!(has_card(&cut(&hex.to_uppercase(), 2, " "), super::hex));
    }

    #[test]
    fn base64_is_read_over_lines_and_blanks() {
        let prose = "The payment of last week went through, and the next one is due in May. ".repeat(3);
        for text in [CARD.to_owned(), format!("{prose}{CARD}{prose}"), format!("card: {CARD}")] {
            for width in [4, 5, 8, 11, 13, 16, 19, 64, 76] {
                for gap in ["\n", " ", "\r\n", "\n    ", "\\n", "\\r\\n"] {
                    let text = cut(&encoded(&text), width, gap);
                    for around in [["", ""], ["see ", " please"], ["The word of the day: ", "."], ["{\"x\":\"", "\"}"]]
                    {
                        let text = format!("{}{text}{}", around[0], around[1]);
                        assert!(text.len() < 30 || width > 24 || has_card(&text, super::base64), "{text}");
                    }
                }
            }
        }
        // One blank, anywhere.
        let text = encoded(&format!("card {CARD}."));
        for at in 3..text.len() - 4 {
            let text = format!("see {} {} there", &text[..at], &text[at..]);
            assert!(has_card(&text, super::base64), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_next_turn_is_the_first_one(text in "[a-c ]{0,40}[A-C]?[a-c0-2]{0,40}[A-C]?", from in 1..90usize) {
            let bytes = text.as_bytes();
            let is = |i: &usize| capital(bytes[i - 1], bytes[*i], bytes.get(i + 1).copied().unwrap_or(b' '));
            proptest::prop_assert_eq!(turn(bytes, from), (from..bytes.len()).find(is));
        }
    }

    #[test]
    fn numbers_and_hashes_are_none() {
        let numbers = "10 20 30 40 50 60 70 80 90 100 200 300 400 500, 2024-01-02 10:30:00, 12:34:56:78:9a:bc";
        assert_eq!(found(numbers, super::hex), [""; 0]);
        let hash = "9f86d081 884c7d65 9a2feaa0 c55ad015 a3bf4f1b 2b0b822c d15d6c15 b0f00a08";
        assert_eq!(found(hash, super::hex), [""; 0]);
    }
}
