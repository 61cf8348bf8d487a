//! A fleet's engine settings as the agent's flags: the same in a pod and under `terrace up`.

use crate::tier::{EngineDevice, Fleet, Gpu};

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
