//! The load line of an agent, on every response: ORCA's JSON form in the header `endpoint-load-metrics`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Time of an agent's step while sequences wait for their next token, milliseconds: what its loop keeps to, and what
/// `terrace simulate` takes a device to keep to.
pub const STEP_LIMIT_MS: u32 = 30;
/// A step of prompts alone may take so many times as long.
pub const STEPS_ALONE: u32 = 5;

/// What a device has to do, and how fast it does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// Sequences being decoded or prefilled.
    pub running: u32,
    /// Sequences that wait.
    pub queued: u32,
    /// Sequences that can run at once.
    pub slots: u32,
    /// Requests that can wait at most.
    pub queue_limit: u32,
    /// Prompt tokens not yet processed, of running and waiting sequences.
    pub queued_prefill_tokens: u64,
    /// Free blocks of the KV cache (16 tokens each).
    pub free_kv_blocks: u64,
    /// Blocks of the KV cache.
    pub total_kv_blocks: u64,
    /// Fitted prefill rate, tokens a second; 0: not measured yet.
    pub prefill_rate: f64,
    /// Fitted decode step, microseconds: `a + c * batch`.
    pub step_base_us: f64,
    /// See `step_base_us`.
    pub step_per_sequence_us: f64,
}

#[derive(Serialize, Deserialize)]
struct Orca {
    #[serde(default)]
    application_utilization: f64,
    #[serde(default)]
    named_metrics: BTreeMap<String, f64>,
}

impl Load {
    /// Whether one more request would be refused.
    pub fn saturated(&self) -> bool {
        self.running >= self.slots && self.queued >= self.queue_limit
    }

    /// The part of the KV cache that running sequences hold, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        if self.total_kv_blocks == 0 {
            return 0.0;
        }
        1.0 - self.free_kv_blocks.min(self.total_kv_blocks) as f64 / self.total_kv_blocks as f64
    }

    /// The header's value for whoever is no router of Terrace, by the names that vLLM has in it: in ORCA's JSON or text
    /// form.
    pub fn to_gateway_header(&self, text: bool) -> String {
        let (utilization, usage) = (self.utilization(), self.kv_usage());
        let (waiting, running) = (self.queued, self.running);
        if text {
            return format!(
                "TEXT application_utilization={utilization:?}, named_metrics.kv_cache_usage_perc={usage:?}, \
                 named_metrics.num_requests_waiting={waiting}, named_metrics.num_requests_running={running}"
            );
        }
        let named = [
            ("kv_cache_usage_perc", usage),
            ("num_requests_waiting", waiting.into()),
            ("num_requests_running", running.into()),
        ];
        orca(utilization, &named)
    }

    fn utilization(&self) -> f64 {
        f64::from(self.running + self.queued) / f64::from(self.slots.max(1))
    }

    /// The header's value: `JSON {...}`.
    pub fn to_header(&self) -> String {
        let named = [
            ("running", f64::from(self.running)),
            ("queued", f64::from(self.queued)),
            ("slots", f64::from(self.slots)),
            ("queue_limit", f64::from(self.queue_limit)),
            ("queued_prefill_tokens", self.queued_prefill_tokens as f64),
            ("free_kv_blocks", self.free_kv_blocks as f64),
            ("total_kv_blocks", self.total_kv_blocks as f64),
            ("prefill_rate", self.prefill_rate),
            ("step_base_us", self.step_base_us),
            ("step_per_sequence_us", self.step_per_sequence_us),
        ];
        orca(self.utilization(), &named)
    }

    /// Reads a header's value; none if it is not ORCA's JSON form.
    pub fn from_header(value: &str) -> Option<Load> {
        let orca: Orca = serde_json::from_str(value.trim().strip_prefix("JSON")?.trim()).ok()?;
        let named = |name: &str| orca.named_metrics.get(name).copied().filter(|v| v.is_finite() && *v >= 0.0);
        Some(Load {
            running: named("running")? as u32,
            queued: named("queued")? as u32,
            slots: named("slots")? as u32,
            queue_limit: named("queue_limit").unwrap_or(0.0) as u32,
            queued_prefill_tokens: named("queued_prefill_tokens").unwrap_or(0.0) as u64,
            free_kv_blocks: named("free_kv_blocks").unwrap_or(0.0) as u64,
            total_kv_blocks: named("total_kv_blocks").unwrap_or(0.0) as u64,
            prefill_rate: named("prefill_rate").unwrap_or(0.0),
            step_base_us: named("step_base_us").unwrap_or(0.0),
            step_per_sequence_us: named("step_per_sequence_us").unwrap_or(0.0),
        })
    }
}

fn orca(application_utilization: f64, named: &[(&str, f64)]) -> String {
    let named_metrics = named.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    format!("JSON {}", serde_json::to_string(&Orca { application_utilization, named_metrics }).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_survives_a_round_trip() {
        let load = Load { running: 2, queued: 1, slots: 4, queue_limit: 8, prefill_rate: 410.5, ..Load::default() };
        assert_eq!(Load::from_header(&load.to_header()), Some(load));
    }

    #[test]
    fn what_is_not_orca_json_is_nothing() {
        for value in ["", "TEXT cpu_utilization=0.3", "JSON", "JSON {}", "JSON {\"named_metrics\":{\"running\":-1}}"] {
            assert_eq!(Load::from_header(value), None, "{value}");
        }
    }

    #[test]
    fn a_gateway_reads_vllms_names_in_either_form() {
        let load =
            Load { running: 2, queued: 1, slots: 4, free_kv_blocks: 32, total_kv_blocks: 128, ..Load::default() };
        let json = load.to_gateway_header(false);
        let orca: serde_json::Value = serde_json::from_str(json.strip_prefix("JSON ").unwrap()).unwrap();
        let named =
            serde_json::json!({"kv_cache_usage_perc": 0.75, "num_requests_waiting": 1.0, "num_requests_running": 2.0});
        assert_eq!(orca, serde_json::json!({"application_utilization": 0.75, "named_metrics": named}));
        assert_eq!(
            load.to_gateway_header(true),
            "TEXT application_utilization=0.75, named_metrics.kv_cache_usage_perc=0.75, \
             named_metrics.num_requests_waiting=1, named_metrics.num_requests_running=2"
        );
        assert_eq!(Load::default().kv_usage(), 0.0);
    }
}
