//! The tokenizer that a file carries in its metadata: byte-level BPE (`gpt2`) or SentencePiece (`llama`).

use std::collections::HashSet;
use std::sync::Arc;

use super::byte_pairs::byte_pairs;
use super::control::Controls;
use super::detokenize::Pieces;
use super::finder::{Finder, Part};
use super::pretokenize::Cutter;
use super::sentence::SentencePieces;
use super::vocabulary::Vocabulary;
use super::{Detokenizer, GgufError, Metadata, Prompt};

const MODEL: &str = "tokenizer.ggml.model";

/// Text to tokens and back.
#[derive(Debug)]
pub struct Tokenizer {
    cuts: Cuts,
    user_defined: Finder,
    pieces: Pieces,
    controls: Arc<Controls>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    ends: HashSet<u32>,
    bos_text: String,
    eos_text: String,
    /// Bytes of the longest token's text.
    longest: usize,
}

/// How words are cut.
#[derive(Debug)]
enum Cuts {
    BytePairs(Box<tokenizers::Tokenizer>),
    SentencePieces(SentencePieces),
}

impl Tokenizer {
    /// Builds it from a file's metadata.
    ///
    /// # Errors
    /// [`GgufError::Key`] for whatever is missing, of the wrong length or not supported.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, GgufError> {
        let vocabulary = Vocabulary::from_metadata(metadata)?;
        let (cuts, pieces, adds_bos) = match metadata.string(MODEL)? {
            "gpt2" => {
                let cutter = Cutter::from_metadata(metadata)?;
                let cuts = Cuts::BytePairs(byte_pairs(metadata, &vocabulary, &cutter)?.into());
                (cuts, Pieces::byte_level(&vocabulary), cutter.adds_bos)
            }
            "llama" => {
                let pieces = Pieces::sentence(&vocabulary);
                (Cuts::SentencePieces(SentencePieces::new(metadata, &vocabulary, &pieces)?), pieces, true)
            }
            other => {
                return Err(GgufError::key(MODEL, format!("`{other}` is not supported; these are: gpt2, llama")));
            }
        };
        let (bos, eos) = (vocabulary.named("bos")?, vocabulary.named("eos")?);
        let named = [eos, vocabulary.named("eot")?, vocabulary.named("eom")?];
        let text_of = |id: Option<u32>| id.map(|id| vocabulary.texts[id as usize].clone()).unwrap_or_default();
        Ok(Tokenizer {
            cuts,
            user_defined: Finder::user_defined(&vocabulary)?,
            pieces,
            controls: Arc::new(Controls::new(&vocabulary)?),
            bos,
            eos,
            add_bos: metadata.optional_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(adds_bos),
            add_eos: metadata.optional_bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false),
            ends: named.into_iter().flatten().chain(vocabulary.end_of_turn()).collect(),
            bos_text: text_of(bos),
            eos_text: text_of(eos),
            longest: vocabulary.texts.iter().map(String::len).max().unwrap_or(0).max(1),
        })
    }

    /// How many tokens a text of so many bytes has at least: each stands for no more than the longest does.
    pub fn tokens_at_least(&self, bytes: usize) -> usize {
        bytes / self.longest
    }

    /// Tokens of a prompt that one author wrote whole, as `/v1/completions` takes it. Control tokens written out in it
    /// (`<|im_start|>`) become those tokens; the beginning token is put before it where the file asks for one and the
    /// text does not have it.
    ///
    /// # Errors
    /// When the tokenizer cannot encode the text. Its message says nothing of the text; so below.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        self.encode_prompt(&Prompt { text: text.to_owned(), mark: None })
    }

    /// Tokens of a conversation. Control tokens are those that the template wrote; the same texts in the messages are
    /// cut into pieces as any words are.
    ///
    /// # Errors
    /// See [`Self::encode`].
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, EncodeError> {
        let mut ids = Vec::new();
        for part in self.controls.finder.split(&prompt.text) {
            match part {
                Part::Token(id) => ids.push(id),
                Part::Words(words) => self.push_words(&prompt.words(words), &mut ids)?,
            }
        }
        self.begin(&mut ids);
        Ok(ids)
    }

    /// Tokens of a text to embed: no control tokens but the beginning and end that the file asks for.
    ///
    /// # Errors
    /// See [`Self::encode`].
    pub fn encode_document(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let mut ids = Vec::new();
        self.push_words(text, &mut ids)?;
        self.begin(&mut ids);
        ids.extend(self.eos.filter(|_| self.add_eos));
        Ok(ids)
    }

    fn begin(&self, ids: &mut Vec<u32>) {
        if let (true, Some(bos)) = (self.add_bos, self.bos)
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
    }

    fn push_words(&self, words: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let first = ids.len();
        for part in self.user_defined.split(words) {
            match (part, &self.cuts) {
                (Part::Token(id), _) => ids.push(id),
                (Part::Words(words), Cuts::SentencePieces(cuts)) => cuts.push(&self.pieces, words, ids),
                (Part::Words(words), Cuts::BytePairs(cuts)) => {
                    ids.extend_from_slice(cuts.encode_fast(words, false).map_err(|_| EncodeError)?.get_ids());
                }
            }
        }
        // No file's merges should lead to a control token; one whose merges do is not obeyed.
        if ids[first..].iter().any(|id| self.controls.finder.contains(*id)) { Err(EncodeError) } else { Ok(()) }
    }

    /// The bytes that a token adds to a text; none for a control token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// Control tokens with their texts.
    pub fn controls(&self) -> impl Iterator<Item = (u32, &str)> {
        self.controls.each()
    }

    /// The control token of this text.
    pub fn control(&self, text: &str) -> Option<u32> {
        self.controls().find(|(_, other)| *other == text).map(|(id, _)| id)
    }

    /// The text of a control token.
    pub fn control_text(&self, id: u32) -> Option<&str> {
        self.controls().find(|(other, _)| *other == id).map(|(_, text)| text)
    }

    /// Tokens that end an answer.
    pub fn ends(&self) -> impl Iterator<Item = u32> {
        self.ends.iter().copied()
    }

    /// Tokens to text, at once.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut detokenizer = Detokenizer::default();
        ids.iter().map(|&id| detokenizer.push(self.bytes(id))).collect()
    }

    /// Whether a token ends the answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    /// Tokens of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.pieces.len()
    }

    /// The beginning token as the file writes it, for templates.
    pub fn bos_text(&self) -> &str {
        &self.bos_text
    }

    /// The ending token as the file writes it, for templates.
    pub fn eos_text(&self) -> &str {
        &self.eos_text
    }

    pub(super) fn shared_controls(&self) -> &Arc<Controls> {
        &self.controls
    }
}

/// The tokenizer gave up on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text cannot be split into tokens of this model")]
pub struct EncodeError;
