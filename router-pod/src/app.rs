//! What every request shares: one value, made at start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use terrace_contract::tier::Tier;
use terrace_decide::output::{Length, Lengths};
use terrace_decide::retry::RetryBudget;
use terrace_decide::score;
use terrace_telemetry::Spans;

use crate::clock::Clock;
use crate::decisions::Decisions;
use crate::dispatch::connect::Connector;
use crate::dispatch::credentials::Credentials;
use crate::egress::Egress;
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::ledger::spend::Spend;
use crate::metrics::RouterMetrics;
use crate::random::Random;
use crate::sense::Ongoing;
use crate::sense::chain::Chains;
use crate::sense::session::Sessions;
use crate::sense::token::Tokens;
use crate::server::keys::Keys;
use crate::server::rate::{Arrivals, Concurrency, Rates};

/// Features whose answers' length is remembered; the rest counts as unknown.
const FEATURES_MOST: usize = 1024;

/// What every request shares.
pub struct App {
    /// Time.
    pub clock: Clock,
    /// Randomness.
    pub random: Arc<Random>,
    /// What is out there.
    pub fleet: Arc<Fleet>,
    /// Ways there.
    pub connector: Arc<Connector>,
    /// Credentials of endpoints.
    pub credentials: Arc<Credentials>,
    /// Callers.
    pub keys: Arc<ArcSwap<Keys>>,
    /// Requests a minute by caller.
    pub rates: Rates,
    /// Requests in flight.
    pub concurrency: Concurrency,
    /// Bodies on their way.
    pub arrivals: Arrivals,
    /// Where spans go; none: nowhere.
    pub spans: Option<Spans>,
    /// What became of requests.
    pub ledger: Arc<Ledger>,
    /// The same for Prometheus.
    pub metrics: Arc<RouterMetrics>,
    /// What was spent today, and may still be.
    pub spend: Spend,
    /// Where crossings are recorded.
    pub egress: Egress,
    /// Classes of conversations.
    pub sessions: Sessions,
    /// Chains of calls.
    pub chains: Chains,
    /// What travels of both.
    pub tokens: Tokens,
    /// Retries that may still be spent.
    pub retries: Mutex<RetryBudget>,
    /// Lengths of answers by feature.
    pub outputs: Mutex<HashMap<String, Lengths>>,
    /// What was decided of the last requests.
    pub decisions: Decisions,
    /// Keys the names of prompts' blocks ([`crate::sense::prefix`]); made at start, never leaves the process.
    pub prefix_secret: RandomState,
}

impl App {
    /// How long an answer of this feature to a prompt of this length is expected to be.
    pub fn next_length(&self, feature: &str, prompt_tokens: u32, most: u32) -> Length {
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        Lengths::next(outputs.get(feature), prompt_tokens, most)
    }

    /// An answer of this feature to a prompt of this length was this long.
    pub fn learn_output(&self, feature: &str, prompt_tokens: u32, tokens: u64) {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        if let Some(lengths) = outputs.get_mut(feature) {
            lengths.learn(prompt_tokens, tokens);
        } else if outputs.len() < FEATURES_MOST {
            outputs.entry(feature.to_owned()).or_default().learn(prompt_tokens, tokens);
        }
    }

    /// What the client of a session is told to present next; none: its id is too long.
    pub fn token(&self, session: &Ongoing) -> Option<String> {
        let known = session.chain.as_ref().and_then(|key| self.chains.known(key));
        let presented = session.presented.clone();
        let presented = known.map_or_else(|| presented.clone(), |known| presented.clone().with(known));
        self.tokens.write(&session.caller, &presented)
    }

    /// A new request came: it earns a part of a retry.
    pub fn earn_retry(&self) {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner).request();
    }

    /// Takes a retry, if there is one.
    pub fn take_retry(&self) -> bool {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Price of an answer, micro-units: tokens, energy, and the time of the device that made it.
    pub fn price(&self, tier: &Tier, input: u64, output: u64, compute_us: u64) -> u64 {
        let tokens = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        score::cost_micros(tier, tokens(input), tokens(output)).saturating_add(score::device_micros(tier, compute_us))
    }
}
