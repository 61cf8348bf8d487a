//! Tokens to text, one at a time: a token may end in the middle of a character, and text is only ever given out whole.

use super::vocabulary::{Kind, Vocabulary};

/// The bytes of each token of a vocabulary, one after the other.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Pieces {
    /// Of a byte-level vocabulary.
    pub(super) fn byte_level(vocabulary: &Vocabulary<'_>) -> Self {
        Pieces::new(vocabulary, |text, bytes| {
            let whole: Option<Vec<u8>> = text.chars().map(byte_of).collect();
            bytes.extend(whole.unwrap_or_else(|| text.as_bytes().to_vec()));
        })
    }

    /// Of SentencePiece's.
    pub(super) fn sentence(vocabulary: &Vocabulary<'_>) -> Self {
        Pieces::new(vocabulary, |text, bytes| bytes.extend(text.replace('▁', " ").into_bytes()))
    }

    fn new(vocabulary: &Vocabulary<'_>, normal: impl Fn(&str, &mut Vec<u8>)) -> Self {
        let mut pieces = Pieces { bytes: Vec::new(), ends: Vec::with_capacity(vocabulary.texts.len()) };
        for (text, kind) in vocabulary.texts.iter().zip(&vocabulary.kinds) {
            match kind {
                Kind::Control | Kind::Unknown => {}
                Kind::UserDefined => pieces.bytes.extend_from_slice(text.as_bytes()),
                Kind::Byte => {
                    let hex = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
                    pieces.bytes.extend(hex.and_then(|h| u8::from_str_radix(h, 16).ok()));
                }
                Kind::Normal | Kind::Unused => normal(text, &mut pieces.bytes),
            }
            pieces.ends.push(pieces.bytes.len());
        }
        pieces
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a token; none of one that there is not.
    pub(super) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 { Some(&0) } else { self.ends.get(id - 1) };
        start.zip(self.ends.get(id)).map(|(start, end)| &self.bytes[*start..*end]).unwrap_or_default()
    }
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces").field("tokens", &self.len()).finish_non_exhaustive()
    }
}

/// The bytes that a byte-level vocabulary's characters stand for: printable Latin-1 for itself, the other 68 bytes from
/// U+0100 on, in order.
fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Text of one answer so far that is not yet whole. What is not when the tokens end is no text: it goes with this.
#[derive(Debug, Default)]
pub struct Detokenizer {
    pending: Vec<u8>,
}

impl Detokenizer {
    /// Adds a token's bytes; the text that is now whole. Bytes that can never become a character turn into U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (whole, tail) = rest.split_at(error.valid_up_to());
                    // Checked a line above, so nothing is lost here.
                    text.push_str(&String::from_utf8_lossy(whole));
                    match error.error_len() {
                        Some(bad) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = &tail[bad..];
                        }
                        None => {
                            rest = tail;
                            break;
                        }
                    }
                }
            }
        }
        self.pending = rest.to_vec();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let bytes: Vec<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        let mut sorted = bytes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!((bytes.len(), sorted.len()), (256, 256));
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
    }

    #[test]
    fn a_character_cut_in_four_comes_out_whole() {
        let mut d = Detokenizer::default();
        let crab = "a🦀b".as_bytes();
        let texts: Vec<String> = crab.iter().map(|b| d.push(&[*b])).collect();
        assert_eq!(texts, ["a", "", "", "", "🦀", "b"]);
    }

    #[test]
    fn bytes_that_are_no_character_are_marked_and_never_stall() {
        let mut d = Detokenizer::default();
        assert_eq!(d.push(&[0xff, b'x', 0xe2, 0x82]), "\u{fffd}x");
        assert_eq!(d.push(b"y"), "\u{fffd}y");
        assert_eq!(d.push(&[0xf0, 0x9f]), "");
    }
}
