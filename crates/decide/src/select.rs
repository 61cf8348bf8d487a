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
use terrace_contract::reason::Reason;

use crate::constrain::Up;
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
struct Least([Option<((f64, f64), usize)>; 2]);

impl Least {
    /// Offers a device by key. Of equal ones any may win, by the draw: replicas and repeats do not all take the first.
    #[inline]
    fn offer(&mut self, key: (f64, f64), device: usize, draw: f64) {
        if self.is_before(key) {
            return;
        }
        let less = |than: &Option<((f64, f64), usize)>| {
            than.is_none_or(|(old, other)| {
                let order = key.0.total_cmp(&old.0).then(key.1.total_cmp(&old.1));
                order.then_with(|| rank(device, draw).cmp(&rank(other, draw))).is_lt()
            })
        };
        if less(&self.0[0]) {
            self.0 = [Some((key, device)), self.0[0]];
        } else if less(&self.0[1]) {
            self.0[1] = Some((key, device));
        }
    }

    /// Whether a device with this key would be offered in vain.
    #[inline]
    fn is_before(&self, key: (f64, f64)) -> bool {
        self.0[1].is_some_and(|(second, _)| second.0 < key.0 || (second.0 == key.0 && second.1 < key.1))
    }

    fn devices(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flatten().map(|best| best.1)
    }
}

/// Picks among those of these devices that `check` leaves; how many those are, and nothing if there are none. The others
/// are told to `out`. One pass: of thousands of devices it is memory that a decision waits for.
pub fn choose(
    context: Context<'_>,
    work: Work,
    devices: &[DeviceView],
    check: impl Fn(&DeviceView) -> Result<Up, Reason>,
    mut out: impl FnMut(usize, Reason),
) -> (usize, Option<Choice>) {
    let mut mean = None;
    let mut neutral = || *mean.get_or_insert_with(|| Neutral::of(devices));
    let mut seen = Seen { first_finish_us: f64::INFINITY, ..Seen::default() };
    let mut idle = Forecast { first_token_us: f64::INFINITY, finish_us: f64::INFINITY };
    for (index, view) in devices.iter().enumerate() {
        let up = match check(view) {
            Ok(up) => up,
            Err(reason) => {
                out(index, reason);
                continue;
            }
        };
        let device = predict::device(work, view, up.in_flight, &mut neutral);
        let alone = device.idle();
        if alone.finish_us < idle.finish_us {
            idle = alone;
        }
        seen.add(&context, index, up.freshness, &device, view.cached_tokens);
    }
    let trial = seen.on_trial(context.draw);
    let order = seen.order(&context, trial);
    let first = order.first().and_then(|&first| Some((&devices[first], check(&devices[first]).ok()?)));
    let choice = first.map(|(view, up)| {
        let first = predict::device(work, view, up.in_flight, &mut neutral);
        let feasible = trial.is_some() || is_feasible(&context, &first);
        Choice { devices: order, now: first.now(), likely: first.likely(), idle, feasible }
    });
    (seen.count, choice)
}

/// Whether a device keeps the budget, and lets others keep theirs. The balancers have no trials: they send to a device
/// that is not measured as if it were like the others, else it never would be.
#[inline]
fn is_feasible(context: &Context<'_>, device: &predict::Device<'_>) -> bool {
    if context.deadline.is_none() {
        return true;
    }
    let doubt = if device.measured || context.selection.balances() { 1.0 } else { DOUBT };
    let Forecast { first_token_us, finish_us } = device.likely();
    let likely = Forecast { first_token_us: doubt * first_token_us, finish_us: doubt * finish_us };
    feasible(likely, context.deadline) && !device.harms()
}

/// What one pass over the devices leaves to choose from.
#[derive(Default)]
struct Seen {
    /// Fresh and feasible, by the strategy's own measure.
    feasible: Least,
    /// Fresh, not feasible, by finish; in a balancer's own measure.
    late: Least,
    /// Feasible, with a part of the prompt in the cache: how much, and the finish.
    warm: Vec<(u32, f64, usize)>,
    /// When the first of the feasible ones finishes; infinite: there is none.
    first_finish_us: f64,
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
    #[inline]
    fn add(
        &mut self,
        context: &Context<'_>,
        index: usize,
        freshness: Freshness,
        device: &predict::Device<'_>,
        cached: u32,
    ) {
        self.count += 1;
        if freshness == Freshness::Stale {
            return self.stale.push((index, device.in_flight));
        }
        let finish = device.now().finish_us;
        match context.selection {
            Selection::RoundRobin => return self.turns.push((index, 1.0)),
            Selection::WeightedRoundRobin => return self.turns.push((index, device.capacity())),
            Selection::PowerOfTwo => return self.drawn.push((index, device.in_flight)),
            Selection::LeastRequests => return self.late.offer((device.in_flight, 0.0), index, context.draw),
            Selection::FeasibleRoundRobin | Selection::BestFit | Selection::ShortestExpectedCompletion => {}
        }
        let best_fit = context.selection == Selection::BestFit;
        let mut key = match device.spare() {
            // One whose speed is a guess is not filled up on the strength of it.
            spare if best_fit && device.measured && spare > 0.0 => (0.0, spare),
            _ if best_fit => (1.0, finish),
            _ => (finish + device.others_us(), 0.0),
        };
        // Of many devices most are no better than two that are feasible already: nothing more need be known of them.
        if device.measured && cached == 0 && self.feasible.is_before(key) && self.first_finish_us <= finish {
            return;
        }
        // Capacity is worth keeping only as long as the budget is kept.
        if !is_feasible(context, device) {
            if device.untried() {
                self.risky.push(index);
            }
            return self.late.offer((finish, 0.0), index, context.draw);
        }
        if device.untried() {
            self.untried.push(index);
        }
        self.first_finish_us = self.first_finish_us.min(finish);
        if context.selection == Selection::FeasibleRoundRobin {
            return self.turns.push((index, 1.0));
        }
        if key.0 == 0.0 && best_fit && !is_comfortable(device, context.deadline) {
            key = (1.0, finish);
        }
        self.feasible.offer(key, index, context.draw);
        if cached > 0 {
            self.warm.push((cached, finish, index));
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
        add(self.warmest(context.draw));
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
    fn warmest(&self, draw: f64) -> Option<usize> {
        let limit = AFFINITY * self.first_finish_us;
        let mut warmest = Least::default();
        for &(cached, finish, device) in self.warm.iter().filter(|(_, finish, _)| *finish <= limit) {
            warmest.offer((-f64::from(cached), finish), device, draw);
        }
        warmest.devices().next()
    }
}

/// Whether an answer comes well within its budget.
fn is_comfortable(device: &predict::Device<'_>, deadline: Option<&Deadline>) -> bool {
    deadline.is_none_or(|deadline| device.likely().finish_us <= COMFORT * deadline.total_us as f64)
}

/// A device's place in an order of its own for each draw, so that whichever of them are equal, each is first as often
/// (the last step of splitmix64: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
fn rank(device: usize, draw: f64) -> u64 {
    let mut mixed = (device as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ draw.to_bits();
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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
