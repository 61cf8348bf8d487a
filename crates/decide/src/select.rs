//! Which device of a tier: five strategies over the devices that constraints left.
//!
//! Fresh reports count as forecasts; where only stale ones are left, two devices drawn at random are compared by this
//! router's own requests in flight, since a forecast from an old report sends everyone to the same device.

use terrace_contract::policy::Strategy;

use crate::plan::Forecast;
use crate::predict::{self, Neutral, Work, feasible};
use crate::signals::Deadline;
use crate::view::{DeviceView, Freshness};

/// Prefix affinity counts only among devices within this factor of the best.
const AFFINITY: f64 = 1.2;

/// The devices of one tier for one request.
#[derive(Debug)]
pub struct Choice {
    /// At most two, in order: the second is for when the first refuses.
    pub devices: Vec<usize>,
    /// Forecast of the first.
    pub now: Forecast,
    /// The best forecast if all were idle.
    pub idle: Forecast,
    /// Whether the first makes the budget.
    pub feasible: bool,
}

/// What a strategy looks at beside the devices.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The strategy.
    pub strategy: Strategy,
    /// The budget.
    pub deadline: Option<&'a Deadline>,
    /// Requests sent to the tier so far.
    pub turn: u64,
    /// A number in `0..1`, drawn by the caller.
    pub draw: f64,
}

struct Candidate {
    index: usize,
    forecast: predict::Device,
    feasible: bool,
    stale: bool,
    cached: u32,
}

/// Picks among `up`, indices into `devices`; none if there are none.
pub fn choose(context: Context<'_>, work: Work, devices: &[DeviceView], up: &[usize]) -> Option<Choice> {
    let neutral = Neutral::of(devices);
    let mut all: Vec<Candidate> = up
        .iter()
        .map(|&index| {
            let forecast = predict::device(work, &devices[index], &neutral);
            Candidate {
                index,
                feasible: feasible(forecast.now, context.deadline),
                stale: devices[index].freshness() == Freshness::Stale,
                cached: devices[index].cached_tokens,
                forecast,
            }
        })
        .collect();
    let idle = all.iter().map(|c| c.forecast.idle).min_by(|a, b| a.finish_us.total_cmp(&b.finish_us))?;
    let first = all.remove(pick(&context, &all)?);
    let second = pick(&context, &all).map(|at| all[at].index);
    Some(Choice {
        devices: std::iter::once(first.index).chain(second).collect(),
        now: first.forecast.now,
        idle,
        feasible: first.feasible,
    })
}

/// Position in `all` of the device that the strategy takes.
fn pick(context: &Context<'_>, all: &[Candidate]) -> Option<usize> {
    let where_ = |keep: &dyn Fn(&Candidate) -> bool| (0..all.len()).filter(|&i| keep(&all[i])).collect::<Vec<_>>();
    let mut pool = where_(&|c| !c.stale && c.feasible);
    let in_time = !pool.is_empty();
    if !in_time {
        pool = where_(&|c| !c.stale);
    }
    if pool.is_empty() {
        return two_choices(context.draw, &where_(&|_| true), all);
    }
    if context.strategy == Strategy::PowerOfTwo {
        return two_choices(context.draw, &pool, all);
    }
    // Equal devices: start anywhere, so that replicas and repeats do not all take the first.
    let start = (context.draw * pool.len() as f64) as usize % pool.len();
    pool.rotate_left(start);

    let finish = |i: usize| all[i].forecast.now.finish_us;
    match context.strategy {
        Strategy::ShortestExpectedCompletion => soonest(&pool, all),
        // Capacity is worth keeping only as long as the budget is made.
        Strategy::BestFit if !in_time => soonest(&pool, all),
        Strategy::BestFit => least(&pool, |i| (all[i].forecast.spare, finish(i))),
        Strategy::RoundRobin => {
            pool.sort_unstable_by_key(|&i| all[i].index);
            pool.get((context.turn % pool.len() as u64) as usize).copied()
        }
        Strategy::LeastRequests | Strategy::PowerOfTwo => least(&pool, |i| (all[i].forecast.in_flight, 0.0)),
    }
}

/// The one that finishes first; among those nearly as soon, the one that holds most of the prompt.
fn soonest(pool: &[usize], all: &[Candidate]) -> Option<usize> {
    let finish = |i: usize| all[i].forecast.now.finish_us;
    let best = least(pool, |i| (finish(i), 0.0))?;
    let near = pool.iter().copied().filter(|&i| all[i].cached > 0 && finish(i) <= AFFINITY * finish(best));
    let warm: Vec<usize> = near.collect();
    Some(least(&warm, |i| (-f64::from(all[i].cached), finish(i))).unwrap_or(best))
}

/// The one with fewer requests of two drawn at random.
fn two_choices(draw: f64, pool: &[usize], all: &[Candidate]) -> Option<usize> {
    let n = pool.len();
    if n < 2 {
        return pool.first().copied();
    }
    // One draw gives both: its place among n, and what is left over its place among the other n - 1.
    let scaled = draw.clamp(0.0, 1.0) * n as f64;
    let first = (scaled as usize).min(n - 1);
    let other = ((scaled.fract() * (n - 1) as f64) as usize).min(n - 2);
    let second = if other >= first { other + 1 } else { other };
    least(&[pool[first], pool[second]], |i| (all[i].forecast.in_flight, 0.0))
}

fn least(pool: &[usize], key: impl Fn(usize) -> (f64, f64)) -> Option<usize> {
    pool.iter().copied().min_by(|&a, &b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}
