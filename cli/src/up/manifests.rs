//! The manifests of a run: read, checked as the API server and the operator would, and followed to what they refer to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use kube::{Resource, ResourceExt};
use serde_json::Value;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::Backend;
use terrace_crds::shared::SecretKeyRef;
use terrace_crds::tier::Fleet;
use terrace_crds::yaml::{self, Manifest};
use terrace_crds::{LatencyBudget, RoutingPolicy, Tier, compile, inactive_fields};

use super::fleet::SecretFolders;
use super::folder::{Folder, write};
use crate::out;

type Key = (String, String);

/// Everything that the files hold.
#[derive(Debug, Default)]
pub struct Manifests {
    tiers: Vec<Tier>,
    policies: Vec<RoutingPolicy>,
    budgets: Vec<LatencyBudget>,
    secrets: BTreeMap<Key, BTreeMap<String, Vec<u8>>>,
    others: Vec<Value>,
    /// Which file each object is in, by kind, namespace and name.
    given: BTreeMap<(String, String, String), String>,
}

/// An object's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its UID here.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Files of a path: itself, or the YAML files of a folder in order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    found.retain(|p| p.is_file() && p.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json"));
    found.sort();
    if found.is_empty() {
        bail!("{} holds no YAML file", path.display());
    }
    Ok(found)
}

/// Reads every file. All that is wrong in all of them is said at once.
///
/// # Errors
/// A file cannot be read, or something in it would be refused.
pub fn read(paths: &[PathBuf]) -> Result<Manifests> {
    let (mut manifests, mut wrong) = (Manifests::default(), Vec::new());
    for path in paths {
        for file in files(path)? {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let file = file.display().to_string();
            match yaml::read(&file, &text) {
                Ok(documents) => wrong.extend(documents.into_iter().filter_map(|d| manifests.add(d, &file).err())),
                Err(problems) => wrong.push(problems.to_string()),
            }
        }
    }
    if wrong.is_empty() { Ok(manifests) } else { bail!("these manifests are refused:\n{}", wrong.join("\n")) }
}

/// What the API server gives an object when it is applied. Answers its namespace and name.
fn place<T: Resource<DynamicType = ()>>(object: &mut T) -> Key {
    let meta = object.meta_mut();
    let namespace = meta.namespace.get_or_insert_with(|| "default".into()).clone();
    let name = meta.name.clone().unwrap_or_default();
    meta.uid.get_or_insert_with(|| format!("{}-{namespace}-{name}", T::kind(&()).to_lowercase()));
    meta.generation.get_or_insert(1);
    (namespace, name)
}

fn placed<T: Resource>(object: &T) -> Placed {
    Placed {
        uid: object.uid().unwrap_or_default(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

impl Manifests {
    /// Takes an object in.
    ///
    /// # Errors
    /// It is there already: the sentence names both files.
    fn add(&mut self, manifest: Manifest, file: &str) -> Result<(), String> {
        match manifest {
            Manifest::Tier(mut tier) => {
                let place = place(tier.as_mut());
                self.once("Tier", place, file)?;
                self.tiers.push(*tier);
            }
            Manifest::RoutingPolicy(mut policy) => {
                let place = place(policy.as_mut());
                self.once("RoutingPolicy", place, file)?;
                self.policies.push(*policy);
            }
            Manifest::LatencyBudget(mut budget) => {
                let place = place(budget.as_mut());
                self.once("LatencyBudget", place, file)?;
                self.budgets.push(*budget);
            }
            Manifest::Other(value) => {
                let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                if let (Some(kind), Some(name)) = (text("/kind"), text("/metadata/name")) {
                    let namespace = text("/metadata/namespace").unwrap_or_else(|| "default".into());
                    self.once(&kind, (namespace, name), file)?;
                }
                self.secret(&value);
                self.others.push(value);
            }
        }
        Ok(())
    }

    fn once(&mut self, kind: &str, (namespace, name): Key, file: &str) -> Result<(), String> {
        let said = format!("{kind} {namespace}/{name}");
        match self.given.insert((kind.to_owned(), namespace, name), file.to_owned()) {
            None => Ok(()),
            Some(other) if other == file => Err(format!("{file}: {said} is there twice: leave one of them")),
            Some(other) => Err(format!("{file}: {said} is also in {other}: leave it in one of them")),
        }
    }

    /// Keeps a Secret; other kinds of Kubernetes (a Namespace) mean nothing without a cluster.
    fn secret(&mut self, value: &Value) {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        if text("/kind") != Some("Secret") {
            return;
        }
        let namespace = text("/metadata/namespace").unwrap_or("default").to_owned();
        let entries = |field: &str| value.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        let decoded = entries("data").into_iter().filter_map(|(key, value)| {
            let packed: String = value.as_str()?.split_whitespace().collect();
            Some((key, base64::engine::general_purpose::STANDARD.decode(packed).ok()?))
        });
        let plain = entries("stringData").into_iter().filter_map(|(k, v)| Some((k, v.as_str()?.as_bytes().to_vec())));
        let key = (namespace, text("/metadata/name").unwrap_or_default().to_owned());
        self.secrets.entry(key).or_default().extend(decoded.chain(plain));
    }

    /// What applies to all of them together: at least one policy; what is accepted but does nothing yet, in sentences.
    ///
    /// # Errors
    /// There is no policy, a policy does not fit its tiers and budgets, or a budget is for a policy that is not there.
    pub fn check(&self) -> Result<Vec<String>> {
        if self.policies.is_empty() {
            bail!("the manifests hold no RoutingPolicy: add one that names the tiers, as examples/quickstart does");
        }
        if self.tiers.is_empty() {
            bail!("the manifests hold no Tier: add those that the policy names, as examples/quickstart does");
        }
        self.part()
    }

    /// As [`Manifests::check`], of what may be a part of a fleet: what refers to a kind that is not there at all is told
    /// instead of refused.
    ///
    /// # Errors
    /// A policy does not fit its tiers and budgets, or something refers to what is not there beside others of its kind.
    pub fn part(&self) -> Result<Vec<String>> {
        let mut told = Vec::new();
        for policy in &self.policies {
            if self.tiers.is_empty() {
                told.push(format!(
                    "RoutingPolicy {}: no Tier is here that its ladder could be held to",
                    policy.name_any()
                ));
            } else {
                self.compile(policy, "check", 0)?;
            }
        }
        for budget in &self.budgets {
            if self.policies.is_empty() {
                let policy = &budget.spec.policy_ref.name;
                told.push(format!(
                    "LatencyBudget {}: no RoutingPolicy is here, so neither is {policy}",
                    budget.name_any()
                ));
            } else {
                self.budget(budget)?;
            }
        }
        Ok([told, self.quiet()].concat())
    }

    /// A budget's policy is there.
    fn budget(&self, budget: &LatencyBudget) -> Result<()> {
        let (own, name) = (budget.namespace().unwrap_or_default(), budget.spec.policy_ref.name.as_str());
        let mine = |p: &RoutingPolicy| p.name_any() == name && p.namespace().as_deref() == Some(own.as_str());
        if !self.policies.iter().any(mine) {
            let known: Vec<String> = self.policies.iter().map(|p| placed(p).to_string()).collect();
            bail!(
                "LatencyBudget {}: policy {own}/{name} is not in the manifests; there are: {}: name one of its own namespace in spec.policyRef",
                budget.name_any(),
                known.join(", ")
            );
        }
        Ok(())
    }

    /// What is accepted but does nothing yet.
    fn quiet(&self) -> Vec<String> {
        let mut quiet = Vec::new();
        let mut tell = |object: String, paths: Vec<String>| {
            quiet.extend(paths.into_iter().map(|path| format!("{object}: {path} is accepted but does nothing yet")));
        };
        self.tiers.iter().for_each(|t| tell(format!("Tier {}", t.name_any()), inactive_fields(t)));
        self.policies.iter().for_each(|p| tell(format!("RoutingPolicy {}", p.name_any()), inactive_fields(p)));
        self.budgets.iter().for_each(|b| tell(format!("LatencyBudget {}", b.name_any()), inactive_fields(b)));
        quiet
    }

    /// Documents of kinds that are not ours.
    pub fn others(&self) -> &[Value] {
        &self.others
    }

    /// The policies.
    pub fn policies(&self) -> impl Iterator<Item = (Placed, &RoutingPolicy)> {
        self.policies.iter().map(|p| (placed(p), p))
    }

    /// The policy of this name; without one, the only policy.
    ///
    /// # Errors
    /// There are several and none is chosen, or there is none of this name: those that there are are named.
    pub fn policy(&self, name: Option<&str>) -> Result<&RoutingPolicy> {
        let wanted = |policy: &&RoutingPolicy| name.is_none_or(|name| policy.name_any() == name);
        let found: Vec<&RoutingPolicy> = self.policies.iter().filter(wanted).collect();
        let [policy] = found.as_slice() else {
            let names: Vec<String> = self.policies.iter().map(ResourceExt::name_any).collect();
            bail!("choose one policy with --policy: there are {}", names.join(", "));
        };
        Ok(policy)
    }

    /// The fleet tiers that some policy names.
    pub fn fleets(&self) -> impl Iterator<Item = (Placed, &Fleet)> {
        let named = |tier: &Tier| {
            self.policies.iter().any(|p| self.ladder(p).is_ok_and(|l| l.iter().any(|t| t.uid() == tier.uid())))
        };
        self.tiers.iter().filter(move |t| named(t)).filter_map(|t| Some((placed(t), t.spec.backend.fleet.as_ref()?)))
    }

    fn ladder(&self, policy: &RoutingPolicy) -> Result<Vec<&Tier>> {
        let own = policy.namespace().unwrap_or_default();
        let find = |reference: &terrace_crds::shared::ObjectRef| {
            let (namespace, name) = (reference.namespace_or(&own), reference.name.as_str());
            let tier = self.tiers.iter().find(|t| t.name_any() == name && t.namespace().as_deref() == Some(namespace));
            let tier = tier.with_context(|| {
                let known: Vec<String> = self.tiers.iter().map(ResourceExt::name_any).collect();
                format!(
                    "RoutingPolicy {}: tier {namespace}/{name} is not in the manifests; there are: {}",
                    policy.name_any(),
                    known.join(", ")
                )
            })?;
            if tier.allows(&own) == Some(false) {
                bail!(
                    "RoutingPolicy {}: tier {namespace}/{name} does not allow policies of namespace {own}: set its allowedPolicies",
                    policy.name_any()
                );
            }
            Ok(tier)
        };
        policy.spec.tiers.iter().map(find).collect()
    }

    /// The snapshot of one policy, without devices and signature.
    ///
    /// # Errors
    /// It does not fit its tiers and budgets: the sentence says what to change.
    pub fn compile(&self, policy: &RoutingPolicy, cluster: &str, now_us: u64) -> Result<Snapshot> {
        let (name, own) = (policy.name_any(), policy.namespace().unwrap_or_default());
        let mine = |b: &&LatencyBudget| {
            b.spec.policy_ref.name.as_str() == name && b.namespace().as_deref() == Some(own.as_str())
        };
        let budgets: Vec<&LatencyBudget> = self.budgets.iter().filter(mine).collect();
        let mut claimed: BTreeMap<&str, String> = BTreeMap::new();
        for budget in &budgets {
            let features: Vec<&str> = budget.spec.features.iter().map(|f| f.as_str()).collect();
            let features = if features.is_empty() { vec![""] } else { features };
            for feature in features {
                if let Some(other) = claimed.insert(feature, budget.name_any()) {
                    let what = if feature.is_empty() {
                        "the default (no features)".to_owned()
                    } else {
                        format!("feature {feature}")
                    };
                    bail!(
                        "LatencyBudget {} and {other} both claim {what} of policy {name}: leave it in one",
                        budget.name_any()
                    );
                }
            }
        }
        let mut snapshot = compile::compile(policy, &self.ladder(policy)?, &budgets, cluster, 1)
            .map_err(|refused| anyhow::anyhow!("RoutingPolicy {name}: {refused}"))?;
        snapshot.issued_at_us = now_us;
        Ok(snapshot)
    }

    /// Writes the Secrets that a router of this policy mounts.
    ///
    /// # Errors
    /// The folder cannot be written, or the policy's keys are in no Secret of the manifests.
    pub fn write_secrets(&self, policy: &RoutingPolicy, snapshot: &Snapshot, folder: &Folder) -> Result<SecretFolders> {
        let folders = SecretFolders::new(folder, &policy.name_any())?;
        if let Some(keys) = &policy.spec.access.api_keys {
            let key = (policy.namespace().unwrap_or_default(), keys.secret_ref.name.to_string());
            let entries = self.secrets.get(&key).with_context(|| {
                format!("RoutingPolicy {}: Secret {}/{} with its API keys is not in the manifests: add it, one entry a caller", policy.name_any(), key.0, key.1)
            })?;
            for (caller, value) in entries {
                write(&folders.api_keys.join(caller), value)?;
            }
        }
        for tier in self.ladder(policy)? {
            let Some(endpoint) = &tier.spec.backend.endpoint else { continue };
            let Some(Backend::Endpoint(compiled)) =
                snapshot.tiers.iter().find(|t| Some(&t.uid) == tier.uid().as_ref()).map(|t| &t.backend)
            else {
                continue;
            };
            let wanted =
                [(&endpoint.credentials, &compiled.credential), (&endpoint.ca_certificate, &compiled.ca_certificate)];
            for (source, file) in wanted {
                let (Some(source), Some(file)) = (source, file) else { continue };
                let Some(value) = self.value(tier, &source.secret_ref) else {
                    let SecretKeyRef { name, key } = &source.secret_ref;
                    out::note(format_args!(
                        "tier {}: entry {key} of Secret {name} is not in the manifests; the tier is not used without it",
                        tier.name_any()
                    ));
                    continue;
                };
                let at = folders.credentials.join(tier.uid().unwrap_or_default());
                std::fs::create_dir_all(&at).with_context(|| format!("cannot make {}", at.display()))?;
                write(&at.join(file), value)?;
            }
        }
        Ok(folders)
    }

    /// Writes the certificate that a router of this policy shows its clients; none: the policy has no `listener.tls`.
    ///
    /// # Errors
    /// The folder cannot be written, or the certificate or its key is in no Secret of the manifests.
    pub fn write_tls(&self, policy: &RoutingPolicy, folder: &Folder) -> Result<Option<PathBuf>> {
        let Some(listener) = &policy.spec.listener else { return Ok(None) };
        let key = (policy.namespace().unwrap_or_default(), listener.tls.secret_ref.name.to_string());
        let at = folder.inner(&format!("tls-{}", policy.name_any()))?;
        for file in ["tls.crt", "tls.key"] {
            let value = self.secrets.get(&key).and_then(|secret| secret.get(file)).with_context(|| {
                format!(
                    "RoutingPolicy {}: entry {file} of Secret {}/{} (spec.listener.tls) is not in the manifests: add it, \
                     or leave listener out to have plain HTTP here",
                    policy.name_any(),
                    key.0,
                    key.1
                )
            })?;
            write(&at.join(file), value)?;
        }
        Ok(Some(at))
    }

    fn value(&self, tier: &Tier, reference: &SecretKeyRef) -> Option<&Vec<u8>> {
        let key = (tier.namespace().unwrap_or_default(), reference.name.to_string());
        self.secrets.get(&key)?.get(reference.key.as_str())
    }
}

#[cfg(test)]
#[path = "manifests_tests.rs"]
mod tests;
