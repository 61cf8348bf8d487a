//! `GET /v1/models`: `auto`, and the model of each tier by name.

use terrace_contract::names::AUTO_MODEL;
use terrace_contract::policy::KeyRule;
use terrace_contract::snapshot::Snapshot;
use terrace_wire::models::{Model, ModelList};

/// The models that a caller may ask for.
pub fn list(snapshot: &Snapshot, rule: Option<&KeyRule>) -> ModelList {
    let model = |id: &str, context_length: Option<u32>| Model {
        id: id.to_owned(),
        object: "model".into(),
        created: snapshot.issued_at_us / 1_000_000,
        owned_by: "terrace".into(),
        context_length,
        digest: None,
    };
    let mut models = vec![model(AUTO_MODEL, None)];
    for tier in &snapshot.tiers {
        let name = tier.backend.model();
        if !models.iter().any(|m| m.id == name) {
            models.push(model(name, Some(tier.capability.context_tokens).filter(|n| *n > 0)));
        }
    }
    models.retain(|m| allowed(rule, &m.id));
    ModelList::of(models)
}

/// Whether a caller may ask for a model: `auto`, or a tier's.
pub fn knows(snapshot: &Snapshot, rule: Option<&KeyRule>, model: &str) -> bool {
    let is_there = model == AUTO_MODEL || snapshot.tiers.iter().any(|tier| tier.backend.model() == model);
    is_there && allowed(rule, model)
}

/// Whether a key may ask for a model.
pub fn allowed(rule: Option<&KeyRule>, model: &str) -> bool {
    rule.is_none_or(|rule| rule.models.is_empty() || rule.models.iter().any(|m| m == model))
}
