//! Can this tier do it? A floor of quality that the request's complexity asks for, lowered to the best that the
//! permitted tiers have: a sensitive request is answered as well as it may be, not refused for being hard.

use terrace_contract::tier::Tier;

use crate::complexity::Verdict;
use crate::view::FleetView;

/// Quality of a tier at the request's task, 0-100.
pub fn quality(tier: &Tier, verdict: &Verdict) -> u8 {
    let task = verdict.task.as_deref();
    let measured = tier.capability.tasks.iter().find(|t| Some(t.task.as_str()) == task);
    measured.map_or(tier.capability.quality, |t| t.score)
}

/// The quality from which a permitted tier counts as able.
pub fn floor(verdict: &Verdict, view: &FleetView, permitted: &[usize]) -> u8 {
    let best = permitted.iter().map(|&t| quality(&view.tiers[t].tier, verdict)).max().unwrap_or(0);
    verdict.floor.min(best)
}
