//! Explained from manifests alone: compiled as the operator compiles, sensed and decided as a router does.
//!
//! Every device and endpoint of the manifests is taken to be there and idle. How fast they are is what a Simulation
//! among the manifests says (docs/simulate.md); without one nothing is measured yet, as for a router that has just
//! started.

use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_contract::explanation::Explanation;
use terrace_contract::load::Load;
use terrace_contract::policy::Access;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::{Backend, Tier};
use terrace_decide::affinity::Prefix;
use terrace_decide::endpoint::EndpointTrack;
use terrace_decide::explain::explain as explained;
use terrace_decide::output::Lengths;
use terrace_decide::track::Track;
use terrace_decide::{DeviceFacts, FleetView, Hop, OverflowWindow, Rates, Serving, TierView, decide};
use terrace_privacy::Rules;
use terrace_router::sense::{self, Known};
use terrace_router::server::admit::Caller;
use terrace_router::server::{ask, explain};
use terrace_simulate::world::{Places, World};

use super::Explain;
use crate::simulate::read;
use crate::up::fleet::agents_of;
use crate::up::manifests::{self, Manifests};

/// The domain that router and devices are taken to share.
const DOMAIN: &str = "here";
/// Now, on a clock that nothing else is measured by.
const NOW_US: u64 = 1_000_000;

/// Explains a request.
///
/// # Errors
/// A manifest is refused, there is no such policy or key, or the request would be refused before a decision.
pub fn explain(options: &Explain, body: &[u8]) -> Result<Explanation> {
    let manifests = manifests::read(&options.files)?;
    manifests.check()?;
    let snapshot = manifests.compile(manifests.policy(options.policy.as_deref())?, "explain", 0)?;
    let rules = Rules::compile(&snapshot.policy.sensitivity)?;
    let caller = caller(&snapshot, options.key.as_deref())?;
    let refused = |refusal: terrace_router::refusal::Refusal| {
        let (status, code) = (refusal.code.status(), refusal.code.as_str());
        anyhow::anyhow!("a router would answer {status}: {} ({code})", refusal.message)
    };
    let asked =
        ask::parsed(body).and_then(|tree| explain::asked(tree, options.api.map(Into::into))).map_err(refused)?;
    ask::model(&snapshot, &caller, &asked).map_err(refused)?;
    let known = Known {
        session: None,
        length: &|_, prompt_tokens, most| Lengths::next(None, prompt_tokens, most),
        hop: &|budget| options.caller.session.as_ref().and_then(|_| Hop::first(budget)),
        elapsed_us: 0,
    };
    let (_, signals, _) =
        sense::look(&snapshot, &rules, &options.caller.labels()?, &asked, &caller, &known).map_err(refused)?;
    let view = view(&manifests, &snapshot)?;
    let plan = decide(&signals, &view, &snapshot.policy, 0.0);
    let explained = explained(&signals, &view, &snapshot.policy, &plan);
    Ok(Explanation { revision: snapshot.revision.clone(), ..explained })
}

fn caller(snapshot: &Snapshot, key: Option<&str>) -> Result<Caller> {
    let rules = match &snapshot.policy.access {
        Access::ApiKeys { keys } => keys.as_slice(),
        Access::Anonymous => &[],
    };
    let rule = key.map(|key| {
        let known: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        let say = || match known.as_slice() {
            [] => format!("--key {key}: the policy names no key in access.apiKeys.keys: leave it out"),
            known => format!("--key {key}: the policy has no rule for it; there are: {}", known.join(", ")),
        };
        rules.iter().find(|rule| rule.name == key).cloned().with_context(say)
    });
    Ok(Caller { name: key.unwrap_or_default().to_owned(), rule: rule.transpose()? })
}

/// The fleet of the manifests, all of it there and idle.
fn view(manifests: &Manifests, snapshot: &Snapshot) -> Result<FleetView> {
    let speeds = read::speeds(manifests, snapshot)?;
    let tiers = snapshot.tiers.iter().map(|tier| TierView {
        tier: Arc::new(tier.clone()),
        turn: 0,
        serving: match places(speeds.as_ref(), tier) {
            Some(Places::Devices(known)) => {
                let measured = known.iter().map(|known| {
                    let mut track = Track::default();
                    track.round_trip(known.rtt_us);
                    track.reported(load(known), NOW_US);
                    device(&track, &known.node)
                });
                Serving::Devices(measured.collect())
            }
            Some(Places::Endpoint(known)) => {
                let rates =
                    Rates { prefill_rate: known.prefill_rate, step_base_us: known.step_us, step_per_sequence_us: 0.0 };
                Serving::Endpoint(terrace_decide::EndpointView {
                    rtt_us: Some(known.rtt_us),
                    queue_us: known.queue_us,
                    rates: Some(rates),
                    ..endpoint(tier)
                })
            }
            None => match &tier.backend {
                Backend::Endpoint(_) => Serving::Endpoint(endpoint(tier)),
                Backend::Fleet(_) => {
                    let spec = manifests.fleets().find(|(placed, _)| placed.uid == tier.uid);
                    let count = spec.map_or(0, |(_, spec)| agents_of(spec));
                    let cold = (0..count).map(|index| device(&Track::default(), &format!("{}-{index}", tier.name)));
                    Serving::Devices(cold.collect())
                }
            },
        },
    });
    Ok(FleetView {
        tiers: tiers.collect(),
        now_us: NOW_US,
        snapshot_age_us: 0,
        domain: DOMAIN.to_owned(),
        overflow: OverflowWindow::default(),
        spend_left_micros: snapshot.policy.limits.spend_per_day_micros,
    })
}

fn places<'a>(speeds: Option<&'a World>, tier: &Tier) -> Option<&'a Places> {
    speeds?.rungs.iter().find(|rung| rung.tier.uid == tier.uid).map(|rung| &rung.places)
}

fn device(track: &Track, node: &str) -> terrace_decide::DeviceView {
    let facts = DeviceFacts { pod_uid: node.into(), node: node.into(), domain: DOMAIN.into() };
    track.view(Arc::new(facts), true, &Prefix::default(), NOW_US)
}

fn load(known: &terrace_simulate::world::Device) -> Load {
    Load {
        slots: known.slots,
        queue_limit: known.queue_limit,
        prefill_rate: known.prefill_rate,
        step_base_us: known.step_base_us,
        step_per_sequence_us: known.step_per_sequence_us,
        ..Load::default()
    }
}

fn endpoint(tier: &Tier) -> terrace_decide::EndpointView {
    let limits = match &tier.backend {
        Backend::Endpoint(endpoint) => endpoint.limits,
        Backend::Fleet(_) => terrace_contract::tier::EndpointLimits::default(),
    };
    EndpointTrack::default().view(&limits, 1, true, NOW_US)
}
