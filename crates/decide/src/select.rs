//! Which device of a tier, among those that constraints left.
//!
//! Two ways look at forecasts: finish first, and best fit. The others are the field's balancers, there to be compared
//! with: they take the next device, or the one with fewer requests, and only then ask what is forecast of it.
//!
//! - A device is *feasible* if its forecast keeps the budget by the answer's likely length, and if this prompt would not
//!   make an answer late that was sent from here and has begun.
//! - Finish first counts what everyone else there loses too: the request that is sent to a device with three others
//!   takes its prompt's time from all of them. What is least is the sum.
//! - A device that has not shown yet how fast it is gets its share of the requests, one at a time, on trial: with a
//!   forecast from the mean of the others it might never be chosen, and without a measure it might be chosen by all.
//! - Where only stale reports are left, two devices drawn at random are compared by this router's own requests in
//!   flight, since a forecast from an old report sends everyone to the same device.

use terrace_contract::policy::Strategy;

use crate::plan::Forecast;
use crate::predict::{self, Neutral, Work, feasible};
use crate::signals::Deadline;
use crate::view::{DeviceView, Freshness};

/// Prefix affinity counts only among devices within this factor of the best.
const AFFINITY: f64 = 1.2;
/// Best fit looks for spare capacity only where the answer comes within this part of the budget: what is only just in
/// time is no fit.
const COMFORT: f64 = 1.0 / 3.0;
/// A device that has not shown how fast it is may be so many times slower than the mean of the others.
const DOUBT: f64 = 4.0;
/// One in so many trials is made even if a slow device would be late.
const RISK: usize = 16;

/// A way to pick: a policy's strategies, and two that only a simulation compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// The feasible device that finishes first, what the others there lose by it counted.
    ShortestExpectedCompletion,
    /// The feasible device with the least spare capacity that keeps the budget comfortably, else the first to finish.
    BestFit,
    /// The next one in turn.
    RoundRobin,
    /// In turn, faster ones more often.
    WeightedRoundRobin,
    /// The next one in turn of those that make the budget: what round robin would be with our forecasts.
    FeasibleRoundRobin,
    /// The one with the fewest requests in flight.
    LeastRequests,
    /// The one with fewer requests in flight of two drawn at random.
    PowerOfTwo,
}

impl Selection {
    /// Every way, ours first.
    pub const ALL: [Selection; 7] = [
        Self::BestFit,
        Self::ShortestExpectedCompletion,
        Self::FeasibleRoundRobin,
        Self::PowerOfTwo,
        Self::LeastRequests,
        Self::WeightedRoundRobin,
        Self::RoundRobin,
    ];

    /// Its name, as a policy writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShortestExpectedCompletion => "ShortestExpectedCompletion",
            Self::BestFit => "BestFit",
            Self::RoundRobin => "RoundRobin",
            Self::WeightedRoundRobin => "WeightedRoundRobin",
            Self::FeasibleRoundRobin => "FeasibleRoundRobin",
            Self::LeastRequests => "LeastRequests",
            Self::PowerOfTwo => "PowerOfTwo",
        }
    }

    /// Whether it looks at no forecast when it picks.
    fn balances(self) -> bool {
        use Selection::{LeastRequests, PowerOfTwo, RoundRobin, WeightedRoundRobin};
        matches!(self, LeastRequests | PowerOfTwo | RoundRobin | WeightedRoundRobin)
    }
}

impl From<Strategy> for Selection {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::ShortestExpectedCompletion => Self::ShortestExpectedCompletion,
            Strategy::BestFit => Self::BestFit,
            Strategy::RoundRobin => Self::RoundRobin,
            Strategy::LeastRequests => Self::LeastRequests,
            Strategy::PowerOfTwo => Self::PowerOfTwo,
        }
    }
}

/// The devices of one tier for one request.
#[derive(Debug)]
pub struct Choice {
    /// At most two, in order: the second is for when the first refuses.
    pub devices: Vec<usize>,
    /// Forecast of the first.
    pub now: Forecast,
    /// The same with an answer as long as it may likely be.
    pub likely: Forecast,
    /// The best forecast if all were idle.
    pub idle: Forecast,
    /// Whether the first is feasible.
    pub feasible: bool,
}

/// What a strategy looks at beside the devices.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The strategy.
    pub selection: Selection,
    /// The budget.
    pub deadline: Option<&'a Deadline>,
    /// Requests sent to the tier so far.
    pub turn: u64,
    /// A number in `0..1`, drawn by the caller.
    pub draw: f64,
}

/// The two least of what was offered.
#[derive(Default)]
struct Least([Option<(f64, f64, usize, usize)>; 2]);

impl Least {
    /// Offers a device by key; of equal keys the lower rank wins.
    fn offer(&mut self, key: (f64, f64), rank: usize, device: usize) {
        let new = (key.0, key.1, rank, device);
        let less = |than: &Option<(f64, f64, usize, usize)>| {
            than.is_none_or(|old| new.0.total_cmp(&old.0).then(new.1.total_cmp(&old.1)).then(new.2.cmp(&old.2)).is_lt())
        };
        if less(&self.0[0]) {
            self.0 = [Some(new), self.0[0]];
        } else if less(&self.0[1]) {
            self.0[1] = Some(new);
        }
    }

    fn devices(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flatten().map(|best| best.3)
    }
}

/// Picks among `up`, indices into `devices`; none if there are none.
pub fn choose(context: Context<'_>, work: Work, devices: &[DeviceView], up: &[usize]) -> Option<Choice> {
    let mut neutral = None;
    let mut forecast =
        |index: usize| predict::device(work, &devices[index], || *neutral.get_or_insert_with(|| Neutral::of(devices)));
    // Equal devices: start anywhere, so that replicas and repeats do not all take the first.
    let start = place(context.draw, up.len());
    let mut seen = Seen::default();
    let mut idle: Option<Forecast> = None;
    for (at, &index) in up.iter().enumerate() {
        let device = forecast(index);
        if idle.is_none_or(|best| device.idle.finish_us < best.finish_us) {
            idle = Some(device.idle);
        }
        let rank = if at < start { at + up.len() - start } else { at - start };
        seen.add(&context, index, rank, &device, &devices[index]);
    }
    let trial = seen.on_trial(context.draw);
    let order = seen.order(&context, trial);
    let first = forecast(*order.first()?);
    let feasible = trial.is_some() || is_feasible(&context, &first);
    Some(Choice { devices: order, now: first.now, likely: first.likely, idle: idle?, feasible })
}

/// Whether a device keeps the budget, and lets others keep theirs. The balancers have no trials: they send to a device
/// that is not measured as if it were like the others, else it never would be.
fn is_feasible(context: &Context<'_>, device: &predict::Device) -> bool {
    let doubt = if device.measured || context.selection.balances() { 1.0 } else { DOUBT };
    let Forecast { first_token_us, finish_us } = device.likely;
    let likely = Forecast { first_token_us: doubt * first_token_us, finish_us: doubt * finish_us };
    feasible(likely, context.deadline) && !(device.harms && context.deadline.is_some())
}

/// What one pass over the devices leaves to choose from.
#[derive(Default)]
struct Seen {
    /// Fresh and feasible, by the strategy's own measure.
    feasible: Least,
    /// Fresh, not feasible, by finish; in a balancer's own measure.
    late: Least,
    /// Feasible, with a part of the prompt in the cache: how much, and the finish.
    warm: Vec<(u32, f64, usize, usize)>,
    /// When the first of the feasible ones finishes.
    first_finish_us: Option<f64>,
    /// Not measured yet and idle, and quick enough even if it is a slow one.
    untried: Vec<usize>,
    /// The same, but not quick enough if it is a slow one.
    risky: Vec<usize>,
    /// Fresh ones in order, for those that take turns; with the weight of each.
    turns: Vec<(usize, f64)>,
    /// Stale ones with this router's own requests in flight.
    stale: Vec<(usize, f64)>,
    /// Fresh ones with their requests in flight, for those that draw.
    drawn: Vec<(usize, f64)>,
    /// All of them.
    count: usize,
}

impl Seen {
    fn add(&mut self, context: &Context<'_>, index: usize, rank: usize, device: &predict::Device, view: &DeviceView) {
        self.count += 1;
        if view.freshness() == Freshness::Stale {
            return self.stale.push((index, device.in_flight));
        }
        let finish = device.now.finish_us;
        match context.selection {
            Selection::RoundRobin => return self.turns.push((index, 1.0)),
            Selection::WeightedRoundRobin => return self.turns.push((index, device.capacity)),
            Selection::PowerOfTwo => return self.drawn.push((index, device.in_flight)),
            Selection::LeastRequests => return self.late.offer((device.in_flight, 0.0), rank, index),
            Selection::BestFit | Selection::ShortestExpectedCompletion | Selection::FeasibleRoundRobin => {}
        }
        // Capacity is worth keeping only as long as the budget is kept.
        if !is_feasible(context, device) {
            if device.untried {
                self.risky.push(index);
            }
            return self.late.offer((finish, 0.0), rank, index);
        }
        if device.untried {
            self.untried.push(index);
        }
        match context.selection {
            Selection::FeasibleRoundRobin => self.turns.push((index, 1.0)),
            // One whose speed is a guess is not filled up on the strength of it.
            Selection::BestFit if device.measured && device.spare > 0.0 && is_comfortable(device, context.deadline) => {
                self.feasible.offer((0.0, device.spare), rank, index);
            }
            Selection::BestFit => self.feasible.offer((1.0, finish), rank, index),
            _ => self.feasible.offer((finish + device.others_us, 0.0), rank, index),
        }
        self.first_finish_us = Some(self.first_finish_us.map_or(finish, |first| first.min(finish)));
        if view.cached_tokens > 0 && context.selection != Selection::FeasibleRoundRobin {
            self.warm.push((view.cached_tokens, finish, rank, index));
        }
    }

    /// The first and, if there is one, the second.
    fn order(&self, context: &Context<'_>, trial: Option<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::with_capacity(2);
        let mut add = |device: Option<usize>| {
            if let Some(device) = device.filter(|device| order.len() < 2 && !order.contains(device)) {
                order.push(device);
            }
        };
        add(trial);
        let (first, second) = match context.selection {
            Selection::PowerOfTwo => two_choices(context.draw, &self.drawn),
            _ => in_turn(context.turn, &self.turns),
        };
        add(first);
        add(second);
        add(self.warmest());
        self.feasible.devices().chain(self.late.devices()).for_each(|device| add(Some(device)));
        let (first, second) = two_choices(context.draw, &self.stale);
        add(first);
        add(second);
        order
    }

    /// One that is not measured yet, in as many cases of all as there are such devices among all; where it would be late
    /// if it is a slow one, in a few of these: with tight budgets it would else never show what it can do.
    fn on_trial(&self, draw: f64) -> Option<usize> {
        // The upper end of the draw, whose lower end breaks ties.
        let draw = 1.0 - draw.clamp(0.0, 1.0);
        let of = |devices: &[usize], count: usize| devices.get(place(draw, count)).copied();
        of(&self.untried, self.count).or_else(|| of(&self.risky, RISK * self.count))
    }

    /// Of those that finish nearly as soon as the best, the one that holds most of the prompt.
    fn warmest(&self) -> Option<usize> {
        let limit = AFFINITY * self.first_finish_us?;
        let mut warmest = Least::default();
        for &(cached, finish, rank, device) in self.warm.iter().filter(|(_, finish, ..)| *finish <= limit) {
            warmest.offer((-f64::from(cached), finish), rank, device);
        }
        warmest.devices().next()
    }
}

/// Whether an answer comes well within its budget.
fn is_comfortable(device: &predict::Device, deadline: Option<&Deadline>) -> bool {
    deadline.is_none_or(|deadline| device.likely.finish_us <= COMFORT * deadline.total_us as f64)
}

/// A place among `n` by a draw.
fn place(draw: f64, n: usize) -> usize {
    ((draw.clamp(0.0, 1.0) * n as f64) as usize).min(n.saturating_sub(1))
}

/// Whose turn it is, and who is next. Turns of unequal weights are spread by the golden ratio, so that no device gets
/// its turns in a row.
fn in_turn(turn: u64, devices: &[(usize, f64)]) -> (Option<usize>, Option<usize>) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let equal = devices.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let of = |turn: u64| {
        if equal {
            let n = devices.len() as u64;
            return devices.get(turn.checked_rem(n)? as usize).map(|d| d.0);
        }
        let all: f64 = devices.iter().map(|d| d.1).sum();
        let mut at = (turn as f64 * GOLDEN).fract() * all;
        devices.iter().find_map(|(device, weight)| {
            at -= weight;
            (at < 0.0).then_some(*device)
        })
    };
    (of(turn), of(turn + 1))
}

/// Two devices drawn at random, the one with fewer requests first.
fn two_choices(draw: f64, devices: &[(usize, f64)]) -> (Option<usize>, Option<usize>) {
    let n = devices.len();
    if n < 2 {
        return (devices.first().map(|d| d.0), None);
    }
    // One draw gives both: its place among n, and what is left over its place among the other n - 1.
    let first = place(draw, n);
    let other = place((draw.clamp(0.0, 1.0) * n as f64).fract(), n - 1);
    let (a, b) = (devices[first], devices[if other >= first { other + 1 } else { other }]);
    if b.1 < a.1 { (Some(b.0), Some(a.0)) } else { (Some(a.0), Some(b.0)) }
}
