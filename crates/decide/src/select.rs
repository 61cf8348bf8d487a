//! Which device of a tier, among those that constraints left.
//!
//! Two ways look at forecasts: finish first, and best fit. The others are the field's balancers, there to be compared
//! with: they take the next device, or the one with fewer requests, and only then ask what is forecast of it. Where
//! only stale reports are left, two devices drawn at random are compared by this router's own requests in flight,
//! since a forecast from an old report sends everyone to the same device.

use terrace_contract::policy::Strategy;

use crate::plan::Forecast;
use crate::predict::{self, Neutral, Work, feasible};
use crate::signals::Deadline;
use crate::view::{DeviceView, Freshness};

/// Prefix affinity counts only among devices within this factor of the best.
const AFFINITY: f64 = 1.2;

/// A way to pick: a policy's strategies, and two that only a simulation compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// The feasible device that finishes first.
    ShortestExpectedCompletion,
    /// The feasible device with the least spare capacity.
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
    /// The best forecast if all were idle.
    pub idle: Forecast,
    /// Whether the first makes the budget.
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
            than.is_none_or(|old| {
                new.0.total_cmp(&old.0).then(new.1.total_cmp(&old.1)).then(new.2.cmp(&old.2)).is_lt()
            })
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

    fn key(&self) -> Option<f64> {
        self.0[0].map(|best| best.0)
    }
}

/// Picks among `up`, indices into `devices`; none if there are none.
pub fn choose(context: Context<'_>, work: Work, devices: &[DeviceView], up: &[usize]) -> Option<Choice> {
    let mut neutral = None;
    let mut forecast = |index: usize| {
        let device = &devices[index];
        predict::device(work, device, || *neutral.get_or_insert_with(|| Neutral::of(devices)))
    };
    // Equal devices: start anywhere, so that replicas and repeats do not all take the first.
    let start = place(context.draw, up.len());
    let mut seen = Seen::default();
    let mut idle: Option<Forecast> = None;
    for (at, &index) in up.iter().enumerate() {
        let device = forecast(index);
        if idle.is_none_or(|best| device.idle.finish_us < best.finish_us) {
            idle = Some(device.idle);
        }
        let rank = (at + up.len() - start) % up.len();
        seen.add(&context, index, rank, &device, &devices[index]);
    }
    let order = seen.order(&context);
    let first = *order.first()?;
    let now = forecast(first).now;
    Some(Choice { devices: order, now, idle: idle?, feasible: feasible(now, context.deadline) })
}

/// What one pass over the devices leaves to choose from.
#[derive(Default)]
struct Seen {
    /// Fresh, in time, by the strategy's own measure.
    in_time: Least,
    /// Fresh, late, by finish; in a balancer's own measure.
    late: Least,
    /// In time, with a part of the prompt in the cache: what is not cached, and the finish.
    warm: Vec<(u32, f64, usize, usize)>,
    /// Fresh ones in order, for those that take turns; with the weight of each.
    turns: Vec<(usize, f64)>,
    /// Stale ones with this router's own requests in flight.
    stale: Vec<(usize, f64)>,
    /// Fresh ones with their requests in flight, for those that draw.
    drawn: Vec<(usize, f64)>,
}

impl Seen {
    fn add(
        &mut self,
        context: &Context<'_>,
        index: usize,
        rank: usize,
        device: &predict::Device,
        view: &DeviceView,
    ) {
        if view.freshness() == Freshness::Stale {
            return self.stale.push((index, device.in_flight));
        }
        let finish = device.now.finish_us;
        let in_time = feasible(device.now, context.deadline);
        match context.selection {
            Selection::RoundRobin => self.turns.push((index, 1.0)),
            Selection::WeightedRoundRobin => self.turns.push((index, device.capacity)),
            Selection::FeasibleRoundRobin if in_time => self.turns.push((index, 1.0)),
            Selection::PowerOfTwo => self.drawn.push((index, device.in_flight)),
            Selection::LeastRequests => self.late.offer((device.in_flight, 0.0), rank, index),
            // Capacity is worth keeping only as long as the budget is made.
            _ if !in_time => self.late.offer((finish, 0.0), rank, index),
            Selection::BestFit => self.in_time.offer((device.spare, finish), rank, index),
            Selection::ShortestExpectedCompletion | Selection::FeasibleRoundRobin => {
                self.in_time.offer((finish, 0.0), rank, index);
                if view.cached_tokens > 0 {
                    self.warm.push((view.cached_tokens, finish, rank, index));
                }
            }
        }
    }

    /// The first and, if there is one, the second.
    fn order(&self, context: &Context<'_>) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::with_capacity(2);
        let mut add = |device: Option<usize>| {
            if let Some(device) = device.filter(|device| order.len() < 2 && !order.contains(device)) {
                order.push(device);
            }
        };
        let (first, second) = match context.selection {
            Selection::PowerOfTwo => two_choices(context.draw, &self.drawn),
            _ => in_turn(context.turn, &self.turns),
        };
        add(first);
        add(second);
        add(self.warmest());
        self.in_time.devices().chain(self.late.devices()).for_each(|device| add(Some(device)));
        let (first, second) = two_choices(context.draw, &self.stale);
        add(first);
        add(second);
        order
    }

    /// Of those that finish nearly as soon as the best, the one that holds most of the prompt.
    fn warmest(&self) -> Option<usize> {
        let limit = AFFINITY * self.in_time.key()?;
        let mut warmest = Least::default();
        for &(cached, finish, rank, device) in self.warm.iter().filter(|(_, finish, ..)| *finish <= limit) {
            warmest.offer((-f64::from(cached), finish), rank, device);
        }
        warmest.devices().next()
    }
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
