//! One watch: it fills a store and says what changed. Each has its own task and its own backoff, so that one that
//! fails (a missing permission, a kind that is not installed) stalls no other.

mod health;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use futures::StreamExt;
use kube::Resource;
use kube::api::Api;
use kube::runtime::reflector::{Lookup, Store, store::Writer};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub use health::{Health, Trouble};

/// Seconds that one request to watch lasts before it is made anew where it ended. One that stays silent for longer than
/// this is given up, and so is noticed to be dead.
const LASTS: u32 = 60;

/// What happened to one object, or to all of a kind at once.
#[derive(Debug)]
pub enum Change<'a, K> {
    /// It appeared or changed.
    Applied(&'a K),
    /// It is gone.
    Deleted(&'a K),
    /// The store was filled anew: anything may have changed.
    Relisted,
}

/// Starts a watch and returns its store. `on` is called after the store knows the change.
pub fn start<K>(
    api: Api<K>,
    kind: <K as Resource>::DynamicType,
    config: watcher::Config,
    health: &Health,
    stop: &CancellationToken,
    mut on: impl FnMut(Change<'_, K>) + Send + 'static,
) -> Store<K>
where
    K: Resource
        + Lookup<DynamicType = <K as Resource>::DynamicType>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone + Send + Sync + Unpin,
{
    let resource = <K as Resource>::plural(&kind).into_owned();
    let group = <K as Resource>::group(&kind).into_owned();
    let mut writer = Writer::<K>::new(kind);
    let store = writer.as_reader();
    let mut gauge = health.watch(&resource, &group);
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut events = watcher(api, config.timeout(LASTS)).backoff(Retry::default()).boxed();
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                None => return,
                Some(Err(error)) => gauge.failed(&error),
                Some(Ok(event)) => {
                    let event = event.modify(slim);
                    writer.apply_watcher_event(&event);
                    match &event {
                        watcher::Event::Apply(object) => on(Change::Applied(object)),
                        watcher::Event::Delete(object) => on(Change::Deleted(object)),
                        watcher::Event::Init | watcher::Event::InitApply(_) => continue,
                        watcher::Event::InitDone => on(Change::Relisted),
                    }
                    gauge.works();
                }
            }
        }
    });
    store
}

/// How long a failed watch waits: from a fifth of a second, doubling, at most 5 s. A kind that is installed late or an
/// API server that comes back is noticed within that.
#[derive(Debug, Default)]
struct Retry(u32);

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis((200 << self.0.min(5)).min(5_000));
        self.0 = self.0.saturating_add(1);
        Some(pause)
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

/// Field managers' records are often larger than the object and nothing here reads them.
fn slim<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}
