//! SentencePiece's way to cut text: from single characters, the neighbours that make the best scored piece are joined
//! until none do. What has no piece is spelled in bytes.
//!
//! The `tokenizers` crate could do this with half a million merges made of the scores. For a vocabulary of 262,144
//! pieces that takes 1.4 s and 110 MB, a table over the pieces themselves 40 ms and 4 MB.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use ahash::RandomState;
use hashbrown::HashTable;

use super::detokenize::Pieces;
use super::vocabulary::{Kind, Vocabulary};
use super::{GgufError, Metadata};

const SCORES: &str = "tokenizer.ggml.scores";

/// The pieces that text is cut into. Their bytes are in [`Pieces`]; a space there is a space here.
#[derive(Debug)]
pub(super) struct SentencePieces {
    table: HashTable<u32>,
    hasher: RandomState,
    scores: Vec<f32>,
    /// The token of each byte.
    bytes: [Option<u32>; 256],
    unknown: Option<u32>,
    /// Whether a text begins with a space that nobody wrote.
    prefix: bool,
}

/// A run of the text that is one piece so far.
struct Symbol {
    start: usize,
    /// Empty when it was joined to the one before.
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Two neighbours that make a piece. The best comes first, of equals the leftmost.
#[derive(PartialEq)]
struct Pair {
    score: f32,
    left: Reverse<usize>,
    right: usize,
    /// Where the piece ends: the pair is out of date once either of the two has grown.
    end: usize,
}

impl Eq for Pair {}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.left.cmp(&other.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SentencePieces {
    /// # Errors
    /// When there is not one score for each token.
    pub(super) fn new(metadata: &Metadata, vocabulary: &Vocabulary<'_>, pieces: &Pieces) -> Result<Self, GgufError> {
        let scores = metadata.optional_floats(SCORES)?.ok_or_else(|| GgufError::key(SCORES, "is missing"))?;
        if scores.len() != pieces.len() {
            return Err(GgufError::key(SCORES, format!("has {} entries for {} tokens", scores.len(), pieces.len())));
        }
        let hasher = RandomState::new();
        let mut table = HashTable::with_capacity(pieces.len());
        for (id, _) in vocabulary.of(Kind::Normal) {
            let bytes = pieces.get(id);
            let hash = |id: &u32| hasher.hash_one(pieces.get(*id));
            table.entry(hasher.hash_one(bytes), |other| pieces.get(*other) == bytes, hash).or_insert(id);
        }
        let mut bytes = [None; 256];
        for (id, _) in vocabulary.of(Kind::Byte) {
            if let [byte] = pieces.get(id) {
                bytes[usize::from(*byte)] = Some(id);
            }
        }
        let unknown = vocabulary.named("unknown")?.or_else(|| vocabulary.of(Kind::Unknown).map(|(id, _)| id).next());
        Ok(SentencePieces {
            table,
            hasher,
            scores: scores.iter().map(|score| *score as f32).collect(),
            bytes,
            unknown,
            prefix: metadata.optional_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
        })
    }

    fn find(&self, pieces: &Pieces, bytes: &[u8]) -> Option<u32> {
        self.table.find(self.hasher.hash_one(bytes), |id| pieces.get(*id) == bytes).copied()
    }

    /// Adds the tokens of a text to `ids`.
    pub(super) fn push(&self, pieces: &Pieces, words: &str, ids: &mut Vec<u32>) {
        // SentencePiece writes spaces as U+2581, so that character in a text is one too.
        let text = format!("{}{}", if self.prefix && !words.is_empty() { " " } else { "" }, words.replace('▁', " "));
        let text = text.as_bytes();
        let mut symbols = symbols(text);
        let mut pairs = BinaryHeap::new();
        let pair = |symbols: &[Symbol], left: usize, right: usize| {
            let end = symbols[right].end;
            let id = self.find(pieces, &text[symbols[left].start..end])?;
            Some(Pair { score: self.scores[id as usize], left: Reverse(left), right, end })
        };
        for right in 1..symbols.len() {
            pairs.extend(pair(&symbols, right - 1, right));
        }
        while let Some(Pair { left: Reverse(left), right, end, .. }) = pairs.pop() {
            let whole = |symbol: &Symbol| symbol.start < symbol.end;
            let (l, r) = (&symbols[left], &symbols[right]);
            if !whole(l) || !whole(r) || l.end != r.start || r.end != end {
                continue;
            }
            let next = r.next;
            symbols[left].end = end;
            symbols[left].next = next;
            symbols[right].end = symbols[right].start;
            if let Some(next) = next {
                symbols[next].previous = Some(left);
                pairs.extend(pair(&symbols, left, next));
            }
            if let Some(previous) = symbols[left].previous {
                pairs.extend(pair(&symbols, previous, left));
            }
        }
        for symbol in symbols.iter().filter(|symbol| symbol.start < symbol.end) {
            self.push_piece(pieces, &text[symbol.start..symbol.end], ids);
        }
    }

    /// One piece, or a character in bytes, or at last the unknown token, once for a run of such characters.
    fn push_piece(&self, pieces: &Pieces, bytes: &[u8], ids: &mut Vec<u32>) {
        if let Some(id) = self.find(pieces, bytes) {
            return ids.push(id);
        }
        let spelled: Option<Vec<u32>> = bytes.iter().map(|byte| self.bytes[usize::from(*byte)]).collect();
        match spelled {
            Some(spelled) => ids.extend(spelled),
            None if ids.last() == self.unknown.as_ref() => {}
            None => ids.extend(self.unknown),
        }
    }
}

/// One for each character.
fn symbols(text: &[u8]) -> Vec<Symbol> {
    let continues = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let starts: Vec<usize> = (0..text.len()).filter(|at| !continues(*at)).collect();
    let symbol = |(index, start): (usize, &usize)| Symbol {
        start: *start,
        end: starts.get(index + 1).copied().unwrap_or(text.len()),
        previous: index.checked_sub(1),
        next: Some(index + 1).filter(|next| *next < starts.len()),
    };
    starts.iter().enumerate().map(symbol).collect()
}
