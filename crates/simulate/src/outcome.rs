//! What came of a run, in the figures that strategies are compared by.

use serde::{Serialize, Serializer};

use crate::request::End;
use crate::run::{Options, Simulation};
use crate::world::Places;

/// What came of a run. Shares are percent of all requests unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How devices were picked.
    pub strategy: &'static str,
    /// Load against the trace's own.
    pub load: f64,
    /// Seed.
    pub seed: u64,
    /// Requests.
    pub requests: u64,
    /// Requests a second, over the time in which they came.
    pub requests_per_second: f64,
    /// Left the decided tier for a farther one: predicted late, full, or down.
    pub overflow_percent: f64,
    /// Past their budget's first token or total, or cut off when their time was up.
    pub late_percent: f64,
    /// The same for those that the decided tier kept: percent of these.
    pub late_kept_percent: f64,
    /// Refused: nothing could be tried.
    pub refused_percent: f64,
    /// Broken off in the middle.
    pub broken_percent: f64,
    /// Answered by a nearer tier than decided.
    pub degraded_percent: f64,
    /// Answered, by tier, nearest first.
    #[serde(serialize_with = "as_map")]
    pub share_by_tier: Vec<(String, f64)>,
    /// Requests whose body was sent there at all, by tier.
    #[serde(serialize_with = "as_map")]
    pub sent_by_tier: Vec<(String, f64)>,
    /// Answers of each device, by tier with devices.
    #[serde(skip)]
    pub answers_by_device: Vec<(String, Vec<u64>)>,
    /// Money for all answers, in units of the policy's currency.
    pub cost: f64,
    /// Time to the first token, milliseconds.
    pub first_token_ms: Percentiles,
    /// Time to the end, milliseconds.
    pub total_ms: Percentiles,
    /// Mean share of the time that devices were busy, from the first request to the last end.
    pub busy_percent: f64,
    /// First tokens from devices no later than forecast, percent of first tokens.
    pub honest_first_token_percent: f64,
    /// Ends of answers from devices no later than forecast, percent of answers.
    pub honest_total_percent: f64,
    /// Prompt tokens that prefix caches saved, percent of prompt tokens.
    pub cached_percent: f64,
    /// Requests still counted as in flight when all had ended: none.
    pub left_in_flight: usize,
}

fn as_map<S: Serializer>(shares: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(shares.iter().map(|(tier, share)| (tier, share)))
}

/// Percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 95th.
    pub p95: f64,
    /// 99th.
    pub p99: f64,
}

impl Percentiles {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |q: f64| values.get(((values.len() as f64 * q) as usize).min(values.len().saturating_sub(1)));
        let at = |q: f64| at(q).copied().unwrap_or(0.0);
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

impl Outcome {
    pub(crate) fn of(run: &Simulation<'_>, options: &Options) -> Self {
        let all = run.requests.len() as f64;
        let percent = |n: f64, of: f64| if of == 0.0 { 0.0 } else { 100.0 * n / of };
        let count = |which: &dyn Fn(usize) -> bool| (0..run.requests.len()).filter(|&i| which(i)).count() as f64;
        let late = |i: usize| is_late(run, i);
        let kept = |i: usize| !run.progress[i].overflowed && run.progress[i].end != Some(End::Refused);
        let by_tier = |which: &dyn Fn(usize, usize) -> bool| {
            let rungs = run.world.rungs.iter().enumerate();
            rungs.map(|(rung, r)| (r.tier.name.clone(), percent(count(&|i| which(rung, i)), all))).collect()
        };
        let answered_at = |rung: usize, i: usize| run.progress[i].answered_at.is_some_and(|site| site.rung == rung);
        let answered = || (0..run.requests.len()).filter(|&i| run.progress[i].end == Some(End::Answered));
        let since = |i: usize, at: u64| (at - run.requests[i].at_us) as f64 / 1000.0;
        let came_us = run.requests.last().map_or(0, |r| r.at_us).max(1);
        // Devices work on after the last request has come, and on what nobody waits for any more.
        let ran_us = run.now_us.max(came_us);
        let busy: f64 = run.machines.iter().map(|m| m.engine.busy_us()).sum();
        let prompt_tokens: f64 = run.requests.iter().map(|r| f64::from(r.arrival.prompt_tokens)).sum();
        Self {
            strategy: options.selection.name(),
            load: options.load,
            seed: options.seed,
            requests: run.requests.len() as u64,
            requests_per_second: all / (came_us as f64 / 1e6),
            overflow_percent: percent(count(&|i| run.progress[i].overflowed), all),
            late_percent: percent(count(&late), all),
            late_kept_percent: percent(count(&|i| kept(i) && late(i)), count(&kept)),
            refused_percent: percent(count(&|i| run.progress[i].end == Some(End::Refused)), all),
            broken_percent: percent(count(&|i| run.progress[i].end == Some(End::Broken)), all),
            degraded_percent: percent(count(&|i| run.progress[i].answered_degraded), all),
            share_by_tier: by_tier(&answered_at),
            sent_by_tier: by_tier(&|rung, i| run.progress[i].reached.contains(&rung)),
            answers_by_device: answers_by_device(run),
            cost: run.progress.iter().map(|p| p.cost_micros as f64).sum::<f64>() / 1e6,
            first_token_ms: Percentiles::of(
                answered().filter_map(|i| Some(since(i, run.progress[i].first_us?))).collect(),
            ),
            total_ms: Percentiles::of(answered().map(|i| since(i, run.progress[i].ended_us)).collect()),
            busy_percent: percent(busy, run.machines.len() as f64 * ran_us as f64),
            honest_first_token_percent: percent(run.honest.0 as f64, run.honest.1 as f64),
            honest_total_percent: percent(run.honest_ends.0 as f64, run.honest_ends.1 as f64),
            cached_percent: percent(run.cached_tokens as f64, prompt_tokens),
            left_in_flight: run.routers.iter().map(crate::router::Router::in_flight).sum(),
        }
    }
}

fn answers_by_device(run: &Simulation<'_>) -> Vec<(String, Vec<u64>)> {
    let mut fleets: Vec<(String, Vec<u64>)> = Vec::new();
    for (index, rung) in run.world.rungs.iter().enumerate() {
        let Places::Devices(devices) = &rung.places else { continue };
        let mut answers = vec![0; devices.len()];
        let sites = run.progress.iter().filter_map(|progress| progress.answered_at);
        for device in sites.filter(|site| site.rung == index).filter_map(|site| site.device) {
            answers[device] += 1;
        }
        fleets.push((rung.tier.name.clone(), answers));
    }
    fleets
}

/// Whether a request missed its budget.
fn is_late(run: &Simulation<'_>, i: usize) -> bool {
    let (request, progress) = (&run.requests[i], &run.progress[i]);
    let Some(budget) = run.world.budget(&request.feature) else { return progress.end == Some(End::OutOfTime) };
    match progress.end {
        Some(End::OutOfTime) => true,
        Some(End::Answered) => {
            let first = progress.first_us.unwrap_or(progress.ended_us) - request.at_us;
            first > budget.first_token_us || progress.ended_us - request.at_us > budget.total_us
        }
        _ => false,
    }
}
