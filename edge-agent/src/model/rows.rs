//! Which rows of a step something is wanted of, and what was computed of them as outputs.

use super::{Feed, Hidden, Output, Pooling, Rows, Wanted};

/// The rows of one step that matter past the last attention.
pub(super) struct StepRows {
    /// Rows of the batch whose hidden state is needed, in order.
    pub(super) hidden: Vec<usize>,
    /// Of those, by their place among them, the ones that become logits.
    pub(super) logits: Vec<usize>,
}

impl StepRows {
    pub(super) fn of(feeds: &[Feed<'_>]) -> StepRows {
        let mut rows = StepRows { hidden: Vec::new(), logits: Vec::new() };
        let mut end = 0;
        for feed in feeds {
            end += feed.tokens.len();
            let (hidden, logits) = counts(feed);
            rows.hidden.extend(end - hidden..end);
            let place = rows.hidden.len();
            rows.logits.extend(place - logits..place);
        }
        rows
    }

    /// `logits` and `hidden` hold the rows that [`Self::of`] named; `hidden` may be empty where nobody pools.
    pub(super) fn outputs(
        &self,
        feeds: &[Feed<'_>],
        logits: &[f32],
        vocabulary: usize,
        hidden: Vec<f32>,
    ) -> Vec<Output> {
        let width = hidden.len() / self.hidden.len().max(1);
        let (mut logits, mut place) = (logits.chunks_exact(vocabulary), 0);
        let output = |feed: &Feed<'_>| {
            let (states, rows) = counts(feed);
            let own = place * width..(place + states) * width;
            place += states;
            Output {
                logits: logits.by_ref().take(rows).map(<[f32]>::to_vec).collect(),
                hidden: feed.wanted.hidden.map(|pooling| pool(&hidden[own], width, pooling)),
            }
        };
        feeds.iter().map(output).collect()
    }
}

impl<'a> Feed<'a> {
    /// A feed whose rows are computed in two ways, as two of the same sequence. What is wanted is wanted of the second, or
    /// of one alone: then it is not parted.
    pub(super) fn parts(&self) -> impl Iterator<Item = Feed<'a>> + use<'a> {
        let len = self.tokens.len();
        let (of_all, _) = counts(self);
        let prompt = if of_all == len && len > 1 && self.prompt > 0 { len } else { self.prompt.min(len) };
        let part = |from: usize, to: usize, prompt, wanted| Feed {
            blocks: self.blocks,
            tokens: &self.tokens[from..to],
            position: self.position + from,
            prompt,
            wanted,
        };
        let first = (prompt > 0 && prompt < len).then(|| part(0, prompt, prompt, Wanted::default()));
        let last = if first.is_some() { part(prompt, len, 0, self.wanted) } else { part(0, len, prompt, self.wanted) };
        first.into_iter().chain([last])
    }
}

/// How many of a feed's last rows are needed as hidden states, and how many of those as logits.
fn counts(feed: &Feed<'_>) -> (usize, usize) {
    let all = feed.tokens.len();
    let logits = match feed.wanted.logits {
        Rows::None => 0,
        Rows::Last => all.min(1),
        Rows::All => all,
    };
    let hidden = match feed.wanted.hidden {
        None => 0,
        Some(Pooling::Last) => all.min(1),
        Some(Pooling::MeanAndLast) => all,
    };
    (hidden.max(logits), logits)
}

fn pool(states: &[f32], width: usize, pooling: Pooling) -> Hidden {
    let last = states[states.len().saturating_sub(width)..].to_vec();
    let mut sum = Vec::new();
    if pooling == Pooling::MeanAndLast {
        sum.resize(width, 0.0);
        for row in states.chunks_exact(width.max(1)) {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    }
    Hidden { sum, last }
}
