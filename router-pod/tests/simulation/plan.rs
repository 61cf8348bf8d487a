//! What a seed decides beforehand: who asks for what and when, and what goes wrong.

use std::net::IpAddr;
use std::time::Duration;

use terrace_contract::policy::HedgeMode;
use terrace_contract::trust::Class;

use crate::dice::Dice;
use crate::fleet::Change;
use crate::sea::{CLIENTS, CLOUD, EDGE, NODE, OPERATOR, ROUTER};

/// When the last request comes and the last fault ends, at most.
const BUSY: Duration = Duration::from_secs(7);

/// One request of one client.
#[derive(Debug, Clone)]
pub struct Ask {
    pub at: Duration,
    pub nonce: String,
    pub stream: bool,
    pub usage: bool,
    /// The class that its caller says it has.
    pub label: Option<Class>,
    /// A card number in it, which makes it Restricted whatever its caller says.
    pub card: bool,
    pub feature: &'static str,
    pub prefer: &'static str,
    pub model: &'static str,
    /// The session that it is a call of.
    pub session: Option<&'static str>,
    /// When the client goes away.
    pub hang_up: Option<Duration>,
}

impl Ask {
    /// The class that it has.
    pub fn class(&self) -> Class {
        if self.card { Class::Restricted } else { self.label.unwrap_or(Class::Public) }
    }
}

/// Something that goes wrong, or is mended.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Crash(IpAddr),
    Bounce(IpAddr),
    Partition(IpAddr),
    /// Nothing gets there from the router.
    PartitionTo(IpAddr),
    /// Nothing comes from there to the router.
    PartitionFrom(IpAddr),
    Repair(IpAddr),
    Hold(IpAddr),
    Release(IpAddr),
    /// The link to the router takes this long, one way.
    Latency(IpAddr, Duration),
    Snapshot(Change),
    /// SIGTERM; the next router starts this long after this one has ended.
    Drain(Duration),
}

/// What a seed decides.
pub struct Plan {
    pub asks: Vec<Ask>,
    pub faults: Vec<(Duration, Fault)>,
    /// How long each link to the router takes, one way.
    pub links: Vec<(IpAddr, Duration)>,
    /// Every tier has room for everyone: a scenario is about something else.
    pub roomy: bool,
    /// Where a second attempt may go.
    pub hedge: HedgeMode,
}

impl Plan {
    /// These requests, these faults, and links that take 2 ms: a scenario of a test by name.
    pub fn scenario(asks: Vec<Ask>, faults: Vec<(Duration, Fault)>) -> Self {
        let to = [OPERATOR, CLIENTS, EDGE[0], EDGE[1], NODE, CLOUD];
        Self {
            asks,
            faults,
            links: to.map(|host| (host, Duration::from_millis(2))).to_vec(),
            roomy: true,
            hedge: HedgeMode::Disabled,
        }
    }

    pub fn of(seed: u64) -> Self {
        let links = Dice::of(seed, "links");
        let to = [OPERATOR, CLIENTS, EDGE[0], EDGE[1], NODE, CLOUD];
        let links = to.map(|host| (host, links.millis(1, if host == CLOUD { 25 } else { 6 }))).to_vec();
        let faults = faults(&Dice::of(seed, "faults"), &links);
        let hedge = Dice::of(seed, "hedge").pick(&[HedgeMode::Disabled, HedgeMode::Free, HedgeMode::Any]);
        Self { asks: asks(&Dice::of(seed, "asks")), faults, links, roomy: false, hedge }
    }
}

fn asks(dice: &Dice) -> Vec<Ask> {
    let busy = u64::try_from(BUSY.as_millis()).unwrap();
    // Above capacity: many within a moment.
    let rush = dice.percent(40).then(|| dice.below(busy));
    // Now and then enough of them for a tier's first tokens to be known.
    let most = if dice.percent(15) { 120 } else { 40 };
    (0..dice.between(10, most))
        .map(|n| {
            let at = match rush {
                Some(at) if dice.percent(60) => at + dice.below(100),
                _ => dice.below(busy),
            };
            Ask {
                // Once the router has its first snapshot, in most seeds.
                at: Duration::from_millis(100 + at),
                nonce: format!("n{n}"),
                stream: dice.percent(60),
                usage: dice.percent(50),
                label: dice.weighed(&[
                    (60, None),
                    (8, Some(Class::Public)),
                    (12, Some(Class::Internal)),
                    (10, Some(Class::Confidential)),
                    (10, Some(Class::Restricted)),
                ]),
                card: dice.percent(12),
                feature: dice.pick(&["quick", "slow", "slow", "unheard-of"]),
                prefer: dice.weighed(&[(6, ""), (1, "quality"), (1, "latency"), (1, "cost"), (1, "privacy")]),
                model: dice.weighed(&[(12, "auto"), (2, "small"), (2, "medium"), (4, "big"), (1, "no-such-model")]),
                session: dice.weighed(&[(6, None), (1, Some("s1")), (1, Some("s2")), (1, Some("s3"))]),
                hang_up: dice.percent(12).then(|| dice.millis(1, 600)),
            }
        })
        // What is sensitive would make its whole session so.
        .map(|ask| Ask { session: ask.session.filter(|_| !ask.card && ask.label.is_none()), ..ask })
        .collect()
}

fn faults(dice: &Dice, links: &[(IpAddr, Duration)]) -> Vec<(Duration, Fault)> {
    // Each host and link has one trouble at most: two of turmoil's states of one link would undo one another.
    let mut hosts = vec![EDGE[0], EDGE[1], NODE, CLOUD, OPERATOR];
    let (mut found, mut router_stays) = (Vec::new(), true);
    for _ in 0..dice.below(6) {
        let (begin, long) = (dice.millis(200, 5_000), dice.millis(50, 3_000));
        let end = begin + long;
        match dice.below(10) {
            kind @ 0..=4 if !hosts.is_empty() => {
                let host = hosts.remove(usize::try_from(dice.below(hosts.len() as u64)).unwrap());
                let usual = links.iter().find(|(to, _)| *to == host).map_or(Duration::ZERO, |(_, latency)| *latency);
                let (bad, good) = match kind {
                    0 | 1 => (Fault::Crash(host), Fault::Bounce(host)),
                    2 => {
                        let bad = [Fault::Partition(host), Fault::PartitionTo(host), Fault::PartitionFrom(host)];
                        (dice.pick(&bad), Fault::Repair(host))
                    }
                    3 => (Fault::Hold(host), Fault::Release(host)),
                    _ => (Fault::Latency(host, dice.millis(20, 400)), Fault::Latency(host, usual)),
                };
                found.extend([(begin, bad), (end, good)]);
            }
            5 | 6 => {
                let (bad, good) = dice.pick(&[
                    (Change::Narrow, Change::Widen),
                    (Change::Remove("edge"), Change::Restore),
                    (Change::Remove("node"), Change::Restore),
                    (Change::Remove("cloud"), Change::Restore),
                    (Change::Unready, Change::Ready),
                ]);
                found.extend([(begin, Fault::Snapshot(bad)), (end, Fault::Snapshot(good))]);
            }
            7 | 8 => {
                let change = dice.pick(&[Change::Forged, Change::Older, Change::OtherPolicy, Change::Garbage]);
                found.push((begin, Fault::Snapshot(change)));
            }
            _ if std::mem::take(&mut router_stays) => {
                if dice.percent(40) {
                    found.extend([(begin, Fault::Crash(ROUTER)), (end, Fault::Bounce(ROUTER))]);
                } else {
                    found.push((begin, Fault::Drain(dice.millis(50, 1_500))));
                }
            }
            _ => {}
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found
}
