//! Which watches there are, and what each change sets off.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret};
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Client, ResourceExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::apply::{ChildKind, Live, MANAGED_BY, MANAGER};
use crate::kinds::{Kind, Objects};
use crate::triggers::Triggers;
use crate::watch::{Change, Health, start};
use crate::world::World;

/// Wakes whatever hangs on a change.
#[derive(Clone)]
struct Bell {
    /// Set once all watches have begun.
    world: Arc<OnceLock<Arc<World>>>,
    triggers: Triggers,
    changed: Arc<Notify>,
}

impl Bell {
    /// Something that snapshots are made of changed.
    fn ring(&self, what: impl FnOnce(&World, &Triggers)) {
        // Before all watches have begun nothing is missed: everything is looked at once they have.
        if let Some(world) = self.world.get() {
            what(world, &self.triggers);
            self.changed.notify_one();
        }
    }
}

/// Starts all watches.
pub fn watch_all(
    client: &Client,
    health: &Health,
    triggers: &Triggers,
    changed: &Arc<Notify>,
    stop: &CancellationToken,
) -> Arc<World> {
    let bell = Bell { world: Arc::default(), triggers: triggers.clone(), changed: changed.clone() };
    let world = Arc::new(World {
        tiers: Objects::new(Kind::Tier, kind(client, Kind::Tier, health, &bell, stop)),
        policies: Objects::new(Kind::RoutingPolicy, kind(client, Kind::RoutingPolicy, health, &bell, stop)),
        budgets: Objects::new(Kind::LatencyBudget, kind(client, Kind::LatencyBudget, health, &bell, stop)),
        live: Live::new(ChildKind::ALL.map(|child| (child, children(client, child, health, &bell, stop))).to_vec()),
        pods: {
            let bell = bell.clone();
            start(Api::<Pod>::all(client.clone()), (), ours(), health, stop, move |change| {
                bell.ring(|world, triggers| match change {
                    Change::Applied(pod) | Change::Deleted(pod) => triggers.pod(pod),
                    Change::Relisted => triggers.everything(world),
                });
            })
        },
        nodes: {
            let bell = bell.clone();
            // A node says something every few minutes; only snapshots care, through its labels.
            start(Api::<Node>::all(client.clone()), (), Config::default(), health, stop, move |_| bell.ring(|_, _| {}))
        },
        namespaces: {
            let bell = bell.clone();
            let api = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
            start(api, (), Config::default(), health, stop, move |_| {
                bell.ring(|world, triggers| triggers.everything(world))
            })
        },
        secrets: {
            let bell = bell.clone();
            let api = Api::<PartialObjectMeta<Secret>>::all(client.clone());
            start(api, (), Config::default(), health, stop, move |change| {
                bell.ring(|world, triggers| match change {
                    Change::Applied(secret) | Change::Deleted(secret) => {
                        triggers.secret(world, &secret.namespace().unwrap_or_default(), &secret.name_any());
                    }
                    Change::Relisted => triggers.everything(world),
                });
            })
        },
    });
    // The first value stays; there is no second.
    let _ = bell.world.set(world.clone());
    bell.ring(|world, triggers| triggers.everything(world));
    world
}

/// Only what bears our label.
fn ours() -> Config {
    Config::default().labels(&format!("{MANAGED_BY}={MANAGER}"))
}

fn kind(
    client: &Client,
    kind: Kind,
    health: &Health,
    bell: &Bell,
    stop: &CancellationToken,
) -> kube::runtime::reflector::Store<DynamicObject> {
    let resource = kind.resource();
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let bell = bell.clone();
    start(api, resource, Config::default(), health, stop, move |change| {
        bell.ring(|world, triggers| match change {
            Change::Applied(object) | Change::Deleted(object) => {
                let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                match kind {
                    Kind::Tier => triggers.tier(world, &namespace, &name),
                    Kind::RoutingPolicy => triggers.policy(world, &namespace, &name),
                    Kind::LatencyBudget => match change {
                        // A budget that is gone no longer says whose it was.
                        Change::Deleted(_) => triggers.everything(world),
                        _ => triggers.budget(world, &namespace, &name),
                    },
                }
            }
            Change::Relisted => triggers.everything(world),
        });
    })
}

fn children(
    client: &Client,
    child: ChildKind,
    health: &Health,
    bell: &Bell,
    stop: &CancellationToken,
) -> kube::runtime::reflector::Store<DynamicObject> {
    let resource = child.resource();
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let bell = bell.clone();
    start(api, resource, ours(), health, stop, move |change| {
        bell.ring(|world, triggers| match change {
            Change::Applied(object) | Change::Deleted(object) => triggers.child(object),
            Change::Relisted => triggers.everything(world),
        });
    })
}
