//! Where an agent's model comes from, as flags, volumes and mounts. Pure.

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, EphemeralVolumeSource, HostPathVolumeSource, ImageVolumeSource, KeyToPath,
    LocalObjectReference, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource,
    SecretVolumeSource, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::validate::{Fleet, Source};
use crate::children::pod::{SECRET_MODE, mount};

const CACHE: &str = "/var/cache/terrace";
const MODELS: &str = "/models";
const TOKEN: &str = "/etc/terrace/model-token";

/// What a pod needs for its model.
#[derive(Default)]
pub(super) struct Model {
    pub(super) args: Vec<String>,
    pub(super) volumes: Vec<Volume>,
    pub(super) mounts: Vec<VolumeMount>,
    pub(super) pull_secrets: Option<Vec<LocalObjectReference>>,
}

pub(super) fn of(fleet: &Fleet) -> Model {
    let mut model = Model::default();
    match &fleet.source {
        Source::Http { http, sha256 } => {
            model.args.push(format!("--model-url={}", http.url));
            model.args.push(format!("--model-sha256={sha256}"));
            model.args.push(format!("--cache-dir={CACHE}"));
            model.args.extend(terrace_crds::agent::pull_flags(http));
            model.args.extend(fleet.spec.cache.iter().flat_map(terrace_crds::agent::cache_flags));
            model.args.extend(fleet.spec.cache.iter().flat_map(terrace_crds::agent::reserve_flags));
            model.volume("model-cache", CACHE, false, cache(fleet));
            if let Some(secret) = &http.secret_ref {
                model.args.push(format!("--model-token-file={TOKEN}/token"));
                let source = SecretVolumeSource {
                    secret_name: Some(secret.name.to_string()),
                    default_mode: Some(SECRET_MODE),
                    items: Some(vec![KeyToPath {
                        key: secret.key.to_string(),
                        path: "token".into(),
                        ..KeyToPath::default()
                    }]),
                    // Absence is the agent's to report, not the kubelet's to wait for.
                    optional: Some(true),
                    ..SecretVolumeSource::default()
                };
                model.volume("model-token", TOKEN, true, Volume { secret: Some(source), ..Volume::default() });
            }
        }
        Source::Image(image) => {
            model.file(image.path.as_str(), fleet);
            let source = ImageVolumeSource {
                reference: Some(image.reference.to_string()),
                pull_policy: Some("IfNotPresent".into()),
            };
            model.volume("model", MODELS, true, Volume { image: Some(source), ..Volume::default() });
            model.pull_secrets = (!image.pull_secrets.is_empty()).then(|| {
                image.pull_secrets.iter().map(|s| LocalObjectReference { name: s.name.to_string() }).collect()
            });
        }
        Source::Claim(claim) => {
            model.file(claim.path.as_str(), fleet);
            let source =
                PersistentVolumeClaimVolumeSource { claim_name: claim.name.to_string(), read_only: Some(true) };
            let volume = Volume { persistent_volume_claim: Some(source), ..Volume::default() };
            model.volume("model", MODELS, true, volume);
        }
        Source::HostPath(host) => {
            let file = host.path.as_str().rsplit('/').next().unwrap_or_default();
            model.file(&format!("/{file}"), fleet);
            let source = HostPathVolumeSource { path: host.path.to_string(), type_: Some("File".into()) };
            let volume = Volume { host_path: Some(source), ..Volume::default() };
            model.volume("model", &format!("{MODELS}/{file}"), true, volume);
        }
    }
    model
}

impl Model {
    fn file(&mut self, path: &str, fleet: &Fleet) {
        self.args.push(format!("--model={MODELS}{path}"));
        if let Some(sha256) = &fleet.spec.model.sha256 {
            self.args.push(format!("--model-sha256={sha256}"));
        }
    }

    fn volume(&mut self, name: &str, path: &str, read_only: bool, volume: Volume) {
        self.volumes.push(Volume { name: name.into(), ..volume });
        self.mounts.push(mount(name, path, read_only));
    }
}

fn cache(fleet: &Fleet) -> Volume {
    let cache = fleet.spec.cache.as_ref();
    if let Some(claim) = cache.and_then(|c| c.claim.as_ref()) {
        let spec = PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            storage_class_name: claim.storage_class_name.as_ref().map(ToString::to_string),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), Quantity(claim.size.to_string()))].into()),
                limits: None,
            }),
            ..PersistentVolumeClaimSpec::default()
        };
        let template = PersistentVolumeClaimTemplate { metadata: None, spec };
        let source = EphemeralVolumeSource { volume_claim_template: Some(template) };
        return Volume { ephemeral: Some(source), ..Volume::default() };
    }
    let limit = cache.and_then(|c| c.empty_dir.as_ref()).and_then(|e| e.size_limit.as_ref());
    let source =
        EmptyDirVolumeSource { size_limit: limit.map(|l| Quantity(l.to_string())), ..EmptyDirVolumeSource::default() };
    Volume { empty_dir: Some(source), ..Volume::default() }
}
