//! The small model as a device of a given speed runs it: real steps, each of which takes the time that the device would.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use terrace_agent::gguf::Gguf;
use terrace_agent::model::{Feed, LoadOptions, LoadedModel, Network, Output, Rows};

use crate::tiny;
use crate::words::{self, Said};

/// Tokens of the small vocabulary that are no bytes: those that begin and end a turn are its last.
const END: usize = tiny::VOCABULARY - 1;
/// Log-odds of what is never said.
const NEVER: f32 = -1e9;
/// Between two steps of one batch the loop takes less than this; after more the device had nothing to do.
const BETWEEN: Duration = Duration::from_millis(2);
/// What a busy machine took from one step is given back in the next ones, but no more than this.
const GIVEN_BACK: Duration = Duration::from_millis(100);

/// How fast a device is: `prompt tokens / prefill rate`, and `base + each * sequences` if any sequence decodes.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    /// Prompt tokens a second while nothing is decoded.
    pub prefill_rate: f64,
    /// A decode step without what grows with the batch, seconds.
    pub step_base: f64,
    /// What each sequence adds to it.
    pub step_per_sequence: f64,
}

impl Speed {
    fn step(&self, prompt: usize, decoding: usize) -> Duration {
        let decode = if decoding > 0 { self.step_base + self.step_per_sequence * decoding as f64 } else { 0.0 };
        Duration::from_secs_f64(prompt as f64 / self.prefill_rate + decode)
    }
}

/// The small model on such a device, with a context and sequences of this size.
///
/// # Errors
/// The model cannot be loaded.
pub fn model(speed: Speed, context_tokens: u32, max_sequences: u32) -> anyhow::Result<LoadedModel> {
    let file = Gguf::from_bytes(file(context_tokens))?;
    let options = LoadOptions { max_sequences, threads: Some(1), ..LoadOptions::default() };
    let model = LoadedModel::from_file(&file, &options)?;
    let now = Instant::now();
    let network =
        Box::new(Slowed { network: model.network, speed, due: now, returned: now, heads: HashMap::default() });
    Ok(LoadedModel { network, ..model })
}

/// The tests' small model with a long context, a vocabulary in which ` the` is one token, and a template that adds two.
fn file(context_tokens: u32) -> Vec<u8> {
    let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
    let mut tokens: Vec<String> = (0..=255u8).map(|byte| tiny::byte_character(byte).to_string()).collect();
    let space = tiny::byte_character(b' ');
    tokens.extend([format!("{space}t"), "he".into(), format!("{space}the")]);
    tokens.extend(["<|im_start|>", "<|im_end|>"].map(String::from));
    let merges = [format!("{space} t"), "h e".into(), format!("{space}t he")];
    let template = "{% for m in messages %}{{ '<|im_start|>' + m['content'] }}{% endfor %}{{ '<|im_end|>' }}";
    for key in ["llama.context_length", "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.chat_template"] {
        writer.without_key(key);
    }
    writer.u32("llama.context_length", context_tokens);
    writer.strings("tokenizer.ggml.tokens", &tokens).strings("tokenizer.ggml.merges", &merges);
    writer.string("tokenizer.chat_template", template);
    writer.finish()
}

/// A network whose steps take a device's time, and whose answers are as long as their prompts say.
struct Slowed {
    network: Box<dyn Network>,
    speed: Speed,
    /// When the last step was due.
    due: Instant,
    /// When it was given back.
    returned: Instant,
    /// By the first block of a sequence, how its prompt begins.
    heads: HashMap<u32, Vec<u8>>,
}

impl Slowed {
    /// Keeps how prompts begin: a slow device reads them a few tokens at a time.
    fn listen(&mut self, feed: &Feed<'_>) {
        let Some(&block) = feed.blocks.first() else { return };
        // The template's own token comes first.
        let most = words::LETTERS + 1;
        let head = self.heads.entry(block).or_default();
        if feed.position == 0 {
            head.clear();
        }
        if head.len() == feed.position && head.len() < most {
            let letters = feed.tokens.iter().map(|&token| u8::try_from(token).unwrap_or_default());
            head.extend(letters.take(most - feed.position));
        }
    }

    fn said(&self, feed: &Feed<'_>) -> Option<Said> {
        words::read(self.heads.get(feed.blocks.first()?)?.get(1..)?)
    }

    /// Makes the next token a letter, or the end once the answer is as long as it is to be.
    fn steer(&self, feed: &Feed<'_>, output: &mut Output) {
        let Some(said) = self.said(feed) else { return };
        let made = (feed.position + feed.tokens.len()).saturating_sub(said.prompt_tokens as usize) as u32;
        let ends = made + 1 >= said.answer_tokens;
        for row in &mut output.logits {
            for (id, value) in row.iter_mut().enumerate() {
                let may = if ends { id == END } else { (usize::from(b'a')..=usize::from(b'z')).contains(&id) };
                if !may {
                    *value = NEVER;
                }
            }
        }
    }
}

impl Network for Slowed {
    fn step(&mut self, feeds: &[Feed<'_>]) -> Vec<Output> {
        let began = Instant::now();
        let goes_on = began.duration_since(self.returned) < BETWEEN;
        let from = if goes_on { self.due.max(began.checked_sub(GIVEN_BACK).unwrap_or(began)) } else { began };
        feeds.iter().for_each(|feed| self.listen(feed));
        let mut outputs = self.network.step(feeds);
        for (feed, output) in feeds.iter().zip(&mut outputs) {
            self.steer(feed, output);
        }
        let decoding = feeds.iter().filter(|feed| self.decodes(feed)).count();
        let tokens: usize = feeds.iter().map(|feed| feed.tokens.len()).sum();
        self.due = from + self.speed.step(tokens - decoding, decoding);
        std::thread::sleep(self.due.saturating_duration_since(Instant::now()));
        self.returned = Instant::now();
        outputs
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        self.network.copy_block(from, to);
    }

    fn blocks(&self) -> usize {
        self.network.blocks()
    }
}

impl Slowed {
    /// Whether a feed is an answer's next token. One of a prompt that nothing is known of is taken by its size.
    fn decodes(&self, feed: &Feed<'_>) -> bool {
        let one = feed.tokens.len() == 1 && feed.wanted.logits == Rows::Last;
        one && self.said(feed).is_none_or(|said| feed.position >= said.prompt_tokens as usize)
    }
}
