//! The tokenizer that a file carries in its metadata: byte-level BPE (`gpt2`) or SentencePiece (`llama`).

use std::collections::{HashMap, HashSet};

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::{Prepend, Replace, Sequence};
use tokenizers::{AddedToken, NormalizerWrapper};

use super::detokenize::{Pieces, byte_of};
use super::pretokenize::pre_tokenizer;
use super::{Detokenizer, GgufError, Metadata};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";

// Types of tokens in a file.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const BYTE: i64 = 6;

/// Text that ends a turn in one of the supported families, whatever the file names as its end token.
const END_OF_TURN: [&str; 6] =
    ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "</s>"];

/// Text to tokens and back.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    pieces: Pieces,
    bos: Option<u32>,
    add_bos: bool,
    ends: HashSet<u32>,
    eos: Option<u32>,
    texts: Vec<String>,
}

impl Tokenizer {
    /// Builds it from a file's metadata.
    ///
    /// # Errors
    /// [`GgufError::Key`] for whatever is missing, of the wrong length or not supported.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, GgufError> {
        let texts = metadata.strings(TOKENS)?.to_vec();
        if texts.is_empty() {
            return Err(GgufError::key(TOKENS, "is empty"));
        }
        let types = metadata.optional_integers(TYPES)?.map(<[i64]>::to_vec).unwrap_or_else(|| vec![1; texts.len()]);
        if types.len() != texts.len() {
            return Err(GgufError::key(TYPES, format!("has {} entries for {} tokens", types.len(), texts.len())));
        }
        let model = metadata.string(MODEL)?;
        let (mut inner, pieces) = match model {
            "gpt2" => (byte_level(metadata, &texts)?, byte_level_pieces(&texts, &types)),
            "llama" => (sentence_piece(metadata, &texts, &types)?, sentence_pieces(&texts, &types)),
            other => {
                return Err(GgufError::key(MODEL, format!("`{other}` is not supported; these are: gpt2, llama")));
            }
        };
        let marked = |kind: i64| {
            let of_kind = texts.iter().zip(&types).filter(move |(text, t)| **t == kind && !text.is_empty());
            of_kind.map(move |(text, _)| AddedToken::from(text.clone(), kind == CONTROL).normalized(false))
        };
        inner.add_special_tokens(&marked(CONTROL).collect::<Vec<_>>());
        inner.add_tokens(&marked(USER_DEFINED).collect::<Vec<_>>());

        let id = |key: &str| -> Result<Option<u32>, GgufError> {
            match metadata.optional_u32(key)? {
                Some(id) if id as usize >= texts.len() => {
                    Err(GgufError::key(key, format!("token {id} is not in the vocabulary of {}", texts.len())))
                }
                id => Ok(id),
            }
        };
        let bos = id("tokenizer.ggml.bos_token_id")?;
        let eos = id("tokenizer.ggml.eos_token_id")?;
        let mut ends: HashSet<u32> = eos.into_iter().chain(id("tokenizer.ggml.eot_token_id")?).collect();
        let ending = texts
            .iter()
            .zip(&types)
            .enumerate()
            .filter(|(_, (text, kind))| **kind == CONTROL && END_OF_TURN.contains(&text.as_str()));
        ends.extend(ending.map(|(id, _)| id as u32));
        let add_bos = metadata.optional_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(model == "llama");
        Ok(Tokenizer { inner, pieces, bos, add_bos, ends, eos, texts })
    }

    /// Tokens of a whole prompt. Control tokens written out in it (`<|im_start|>`) become those tokens; the beginning
    /// token is put before it where the file asks for one and the text does not have it.
    ///
    /// # Errors
    /// When the tokenizer cannot encode the text. Its message says nothing of the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|_| EncodeError)?;
        let mut ids = encoding.get_ids().to_vec();
        if let (true, Some(bos)) = (self.add_bos, self.bos)
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// The bytes that a token adds to a text; none for a control token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.pieces.0.get(id as usize).map(AsRef::as_ref).unwrap_or_default()
    }

    /// Tokens to text, at once.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut detokenizer = Detokenizer::default();
        let mut text: String = ids.iter().map(|&id| detokenizer.push(self.bytes(id))).collect();
        text.push_str(&detokenizer.finish());
        text
    }

    /// Whether a token ends the answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    /// Tokens of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.texts.len()
    }

    /// The beginning token as the file writes it, for templates.
    pub fn bos_text(&self) -> &str {
        self.text_of(self.bos)
    }

    /// The ending token as the file writes it, for templates.
    pub fn eos_text(&self) -> &str {
        self.text_of(self.eos)
    }

    fn text_of(&self, id: Option<u32>) -> &str {
        id.and_then(|id| self.texts.get(id as usize)).map(String::as_str).unwrap_or_default()
    }
}

/// The tokenizer gave up on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text cannot be split into tokens of this model")]
pub struct EncodeError;

fn byte_level(metadata: &Metadata, texts: &[String]) -> Result<tokenizers::Tokenizer, GgufError> {
    let merges = metadata.strings(MERGES)?.iter().enumerate().map(|(index, line)| {
        let pair = line.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty());
        let (left, right) = pair.ok_or_else(|| GgufError::key(MERGES, format!("entry {index} is not two pieces")))?;
        Ok((left.to_owned(), right.to_owned()))
    });
    let name = metadata.optional_string("tokenizer.ggml.pre")?.unwrap_or("default");
    let cut = pre_tokenizer(name)?;
    let model = BPE::builder()
        .vocab_and_merges(ids_of(texts), merges.collect::<Result<_, _>>()?)
        .ignore_merges(matches!(name, "llama-bpe" | "llama3" | "llama-v3"))
        .build()
        .map_err(|e| GgufError::key(MERGES, e.to_string()))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(cut));
    Ok(tokenizer)
}

/// SentencePiece merges whatever gives the best scored piece. BPE does the same when each way to make a piece is a merge
/// and better pieces come first.
fn sentence_piece(metadata: &Metadata, texts: &[String], types: &[i64]) -> Result<tokenizers::Tokenizer, GgufError> {
    let scores = metadata.optional_floats(SCORES)?.ok_or_else(|| GgufError::key(SCORES, "is missing"))?;
    if scores.len() != texts.len() {
        return Err(GgufError::key(SCORES, format!("has {} entries for {} tokens", scores.len(), texts.len())));
    }
    let ids: HashMap<&str, u32> = texts.iter().enumerate().map(|(id, text)| (text.as_str(), id as u32)).collect();
    let mut ways = Vec::new();
    for ((text, &score), _) in texts.iter().zip(scores).zip(types).filter(|(_, kind)| **kind == 1) {
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if let (Some(&l), Some(&r)) = (ids.get(left), ids.get(right)) {
                ways.push((score, l, r, left, right));
            }
        }
    }
    ways.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    let merges = ways.into_iter().map(|(_, _, _, left, right)| (left.to_owned(), right.to_owned())).collect();
    let mut builder = BPE::builder().vocab_and_merges(ids_of(texts), merges).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = types.iter().position(|&kind| kind == UNKNOWN) {
        builder = builder.unk_token(texts[unknown].clone());
    }
    let model = builder.build().map_err(|e| GgufError::key(TOKENS, e.to_string()))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    let spaces = Replace::new(" ", "▁").map_err(|e| GgufError::key(MODEL, e.to_string()))?;
    let mut steps = vec![NormalizerWrapper::Replace(spaces)];
    if metadata.optional_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true) {
        steps.insert(0, NormalizerWrapper::Prepend(Prepend::new("▁".to_owned())));
    }
    tokenizer.with_normalizer(Some(NormalizerWrapper::Sequence(Sequence::new(steps))));
    Ok(tokenizer)
}

fn ids_of(texts: &[String]) -> AHashMap<String, u32> {
    texts.iter().enumerate().map(|(id, text)| (text.clone(), id as u32)).collect()
}

fn byte_level_pieces(texts: &[String], types: &[i64]) -> Pieces {
    pieces(texts, types, |text| text.chars().map(byte_of).collect::<Option<Vec<u8>>>())
}

fn sentence_pieces(texts: &[String], types: &[i64]) -> Pieces {
    pieces(texts, types, |text| Some(text.replace('▁', " ").into_bytes()))
}

fn pieces(texts: &[String], types: &[i64], normal: impl Fn(&str) -> Option<Vec<u8>>) -> Pieces {
    let bytes = |text: &str, kind: i64| match kind {
        CONTROL | UNKNOWN => Vec::new(),
        USER_DEFINED => text.as_bytes().to_vec(),
        BYTE => {
            let hex = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
            hex.and_then(|h| u8::from_str_radix(h, 16).ok()).map(|b| vec![b]).unwrap_or_default()
        }
        _ => normal(text).unwrap_or_else(|| text.as_bytes().to_vec()),
    };
    Pieces(texts.iter().zip(types).map(|(text, &kind)| bytes(text, kind).into_boxed_slice()).collect())
}
