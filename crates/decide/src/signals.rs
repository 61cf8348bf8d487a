//! What is known of a request when it is decided: numbers and labels, never its text.

use serde::{Deserialize, Serialize};
use terrace_contract::policy::{Budget, OnMiss, Priority, Weights};
use terrace_contract::reason::Reason;
use terrace_contract::tier::Feature;
use terrace_contract::trust::Class;

use crate::chain::Hop;
use crate::complexity::Verdict;

/// A request as [`crate::decide`] sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signals {
    /// Tokens of the prompt, counted or estimated.
    pub prompt_tokens: u32,
    /// Tokens of the longest of several inputs that are read each for itself: what one context must hold; none: the
    /// prompt is one.
    #[serde(default)]
    pub longest_input_tokens: Option<u32>,
    /// Tokens that the answer is expected to have ([`crate::output::Lengths`]).
    pub expected_output_tokens: u32,
    /// Tokens that it will most likely not exceed: a budget is kept only if it is kept by these.
    pub likely_output_tokens: u32,
    /// Tokens of the answer that the client asked for, which the context must hold; none: it set no limit, and the
    /// expected ones count.
    pub max_output_tokens: Option<u32>,
    /// How sensitive it is.
    pub class: Class,
    /// Why the class is what it is.
    pub class_reasons: Vec<Reason>,
    /// Abilities without which it cannot be answered.
    pub needs: Vec<Feature>,
    /// The model that the client named, or `auto`.
    pub model: ModelChoice,
    /// The caller's context.
    pub feature: String,
    /// What it may take; none: no budget covers the feature.
    pub deadline: Option<Deadline>,
    /// Where it stands in its chain; none: it is a call of its own.
    #[serde(default)]
    pub hop: Option<Hop>,
    /// The caller's own preference, within the policy.
    pub prefer: Option<Prefer>,
    /// How hard it is.
    pub complexity: Verdict,
    /// The rung, counted from the nearest, below which an earlier answer was not good enough: escalation never asks
    /// the same tier again.
    pub escalate_from: Option<usize>,
}

impl Signals {
    /// Prompt tokens that one context must hold.
    pub fn context_tokens(&self) -> u32 {
        self.longest_input_tokens.unwrap_or(self.prompt_tokens)
    }

    /// Whether it is a short structured call of a chain.
    pub fn is_step(&self) -> bool {
        self.hop.is_some_and(|hop| hop.is_step(self.likely_output_tokens))
    }

    /// The same request this much later: what it waited is gone from what it may take.
    #[must_use]
    pub fn later(&self, us: u64) -> Self {
        let deadline = self.deadline.map(|deadline| deadline.later(us));
        Self { deadline, hop: self.hop.map(|hop| hop.later(us)), ..self.clone() }
    }
}

/// The model that the client named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModelChoice {
    /// The policy chooses.
    Auto,
    /// Only tiers that serve this model.
    Named(String),
}

impl ModelChoice {
    /// Reads the `model` field of a request.
    pub fn parse(model: &str) -> Self {
        if model == terrace_contract::names::AUTO_MODEL { Self::Auto } else { Self::Named(model.to_owned()) }
    }
}

/// What a request may still take, from the moment of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deadline {
    /// Time to the first token that remains, microseconds.
    pub first_token_us: u64,
    /// Time to the end of the answer that remains, microseconds.
    pub total_us: u64,
    /// What happens when the decided tier cannot make it.
    pub on_miss: OnMiss,
    /// Interactive goes before Batch under load.
    pub priority: Priority,
}

impl Deadline {
    /// What remains of a budget after `elapsed_us`.
    pub fn after(budget: &Budget, elapsed_us: u64) -> Self {
        Self {
            first_token_us: budget.first_token_us.saturating_sub(elapsed_us),
            total_us: budget.total_us.saturating_sub(elapsed_us),
            on_miss: budget.on_miss,
            priority: budget.priority,
        }
    }

    /// No later than so much from now: what a chain has left.
    #[must_use]
    pub fn within(self, left_us: u64) -> Self {
        Self { first_token_us: self.first_token_us.min(left_us), total_us: self.total_us.min(left_us), ..self }
    }

    /// What remains of it this much later.
    #[must_use]
    pub fn later(self, us: u64) -> Self {
        let (first_token_us, total_us) = (self.first_token_us.saturating_sub(us), self.total_us.saturating_sub(us));
        Self { first_token_us, total_us, ..self }
    }
}

/// The caller's own preference: `x-terrace-prefer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Prefer {
    /// The nearest.
    Privacy,
    /// The soonest.
    Latency,
    /// The cheapest.
    Cost,
    /// The most able.
    Quality,
}

impl Prefer {
    /// Reads the header's value, in any case.
    pub fn parse(value: &str) -> Option<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "privacy" => Some(Self::Privacy),
            "latency" => Some(Self::Latency),
            "cost" => Some(Self::Cost),
            "quality" => Some(Self::Quality),
            _ => None,
        }
    }

    /// The weights that it stands for.
    pub fn weights(self) -> Weights {
        match self {
            Self::Privacy => Weights::PRIVACY_FIRST,
            Self::Latency => Weights::LATENCY_FIRST,
            Self::Cost => Weights::COST_FIRST,
            Self::Quality => Weights::QUALITY_FIRST,
        }
    }
}
