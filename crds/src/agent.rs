//! A fleet's engine settings as the agent's flags: the same in a pod and under `terrace up`.

use crate::text::Bytes;
use crate::tier::{Cache, EngineDevice, Fleet, Gpu, HttpSource};

/// Flags of `terrace-agent` for the engine, one string a flag (`--name=value`).
pub fn engine_flags(fleet: &Fleet) -> Vec<String> {
    let engine = &fleet.engine;
    let mut flags = vec![
        format!("--context-tokens={}", engine.context_tokens),
        format!("--max-sequences={}", engine.max_sequences),
        format!("--device={}", device(fleet)),
    ];
    flags.extend(engine.kv_cache.as_ref().map(|size| format!("--kv-cache={size}")));
    flags
}

/// Flags for how hard the model's download may be on the network.
pub fn pull_flags(http: &HttpSource) -> Vec<String> {
    let rate = http.pull.as_ref().and_then(|pull| pull.bytes_per_second.as_ref()).and_then(Bytes::bytes);
    rate.map(|rate| format!("--pull-bytes-per-second={rate}")).into_iter().collect()
}

/// Flags for how much of its cache the models may fill: a volume that overflows costs the pod its place on the node.
pub fn cache_flags(cache: &Cache) -> Vec<String> {
    let size = match (&cache.claim, &cache.empty_dir) {
        (Some(claim), _) => Some(&claim.size),
        (None, Some(empty_dir)) => empty_dir.size_limit.as_ref(),
        (None, None) => None,
    };
    size.and_then(Bytes::bytes).map(|size| format!("--cache-limit={size}")).into_iter().collect()
}

/// Flags for what a download leaves free on the disk.
pub fn reserve_flags(cache: &Cache) -> Vec<String> {
    cache.disk_reserve.iter().map(|part| format!("--disk-reserve={part}")).collect()
}

/// What `--device` says. With a GPU given, `Auto` means that GPU and nothing less: an agent that fell back to the CPU would
/// look ready.
pub fn device(fleet: &Fleet) -> &'static str {
    let nvidia = |gpu: &Gpu| gpu.resource.as_ref().is_none_or(|r| r.as_str().starts_with("nvidia.com/"));
    match (fleet.engine.device, &fleet.gpu) {
        (EngineDevice::Cpu, _) => "cpu",
        (EngineDevice::Cuda, _) => "cuda",
        (EngineDevice::Vulkan, _) => "vulkan",
        (EngineDevice::Auto, None) => "auto",
        (EngineDevice::Auto, Some(gpu)) if nvidia(gpu) => "cuda",
        (EngineDevice::Auto, Some(_)) => "vulkan",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn a_download_is_as_hard_on_the_network_as_the_manifest_says() {
        let flags = |pull: Value| {
            pull_flags(&from_value::<HttpSource>(json!({"url": "https://m.example/m.gguf", "pull": pull})).unwrap())
        };
        assert_eq!(flags(json!({"bytesPerSecond": "1.5Mi"})), ["--pull-bytes-per-second=1572864"]);
        assert_eq!(flags(json!({"maxParallelNodes": 5})), [""; 0]);
        assert_eq!(flags(Value::Null), [""; 0]);
    }

    #[test]
    fn models_fill_no_more_of_a_cache_than_it_has() {
        let flags = |cache: Value| cache_flags(&from_value::<Cache>(cache).unwrap());
        assert_eq!(flags(json!({"emptyDir": {"sizeLimit": "4Gi"}})), ["--cache-limit=4294967296"]);
        assert_eq!(flags(json!({"claim": {"size": "20M"}})), ["--cache-limit=20000000"]);
        assert_eq!(flags(json!({"emptyDir": {}})), [""; 0]);
        let reserve =
            |part: Value| reserve_flags(&from_value::<Cache>(json!({"emptyDir": {}, "diskReserve": part})).unwrap());
        assert_eq!(reserve(json!("15%")), ["--disk-reserve=15%"]);
        assert_eq!(reserve(Value::Null), [""; 0]);
    }
}
