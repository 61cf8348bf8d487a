//! A file on disk becomes something the engine can run.

use std::collections::HashMap;
use std::path::Path;

use burn::backend::Flex;

use super::config::Config;
use super::decoder::Decoder;
use super::family::Family;
use super::tensors::Tensors;
use super::{ModelInfo, Network, Pooled, QuantBackend};
use crate::device::Target;
use crate::gguf::{ChatTemplate, GgmlType, Gguf, GgufError, Tokenizer};

/// All of a model: network, words, and what it says of itself.
pub struct LoadedModel {
    /// The network with its KV cache.
    pub network: Box<dyn Network>,
    /// Facts.
    pub info: ModelInfo,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Messages to a prompt, if the file has a template.
    pub template: Option<ChatTemplate>,
}

/// What a model may take of the machine.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Prompt and answer together; none: what the model was trained for.
    pub context_tokens: Option<u32>,
    /// Sequences that run at once; only used where `kv_cache_bytes` is not given.
    pub max_sequences: u32,
    /// Bytes of the KV cache at most: the context is shortened to fit. None: what so many contexts need.
    pub kv_cache_bytes: Option<u64>,
    /// Threads of the kernels; none: the cores that the container was granted.
    pub threads: Option<usize>,
    /// What the network runs on.
    pub target: Target,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions { context_tokens: None, max_sequences: 1, kv_cache_bytes: None, threads: None, target: Target::Cpu }
    }
}

/// Why a model cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file.
    #[error(transparent)]
    File(#[from] GgufError),
    /// An architecture without code here.
    #[error("architecture `{found}` is not supported; these are: {}", Family::list())]
    Architecture {
        /// `general.architecture` of the file.
        found: String,
    },
    /// A KV cache that this process can have no memory for.
    #[error(
        "a KV cache of {need} bytes does not fit the {have} bytes that this process may use: lower --kv-cache, \
         --max-sequences or --context-tokens, or give the container more memory"
    )]
    Memory {
        /// Bytes of keys and values.
        need: u64,
        /// What the machine has left, or the container's limit.
        have: u64,
    },
    /// No room for a useful context.
    #[error("a KV cache of {limit} bytes has no room for a useful context: give it at least {need}")]
    KvCache {
        /// The limit.
        limit: u64,
        /// What a short context needs.
        need: u64,
    },
}

impl LoadedModel {
    /// Reads a file; its weights are copied into the kernels' order and the map let go.
    ///
    /// # Errors
    /// [`LoadError`], naming what cannot be used.
    pub fn open(path: &Path, options: &LoadOptions) -> Result<LoadedModel, LoadError> {
        LoadedModel::from_file(&Gguf::open(path)?, options)
    }

    /// Likewise, from an open file.
    ///
    /// # Errors
    /// [`LoadError`], naming what cannot be used.
    pub fn from_file(file: &Gguf, options: &LoadOptions) -> Result<LoadedModel, LoadError> {
        let architecture = file.metadata().string("general.architecture")?;
        let Some(family) = Family::named(architecture) else {
            return Err(LoadError::Architecture { found: architecture.to_owned() });
        };
        let tokenizer = Tokenizer::from_metadata(file.metadata())?;
        let template = ChatTemplate::from_metadata(file.metadata(), &tokenizer)?;
        let tensors = Tensors::new(file);
        let config = Config::read(file, &tensors, family, options)?;
        if let Some(threads) = options.threads {
            crate::kernels::set_threads(threads.max(1));
        }
        let info = ModelInfo {
            name: file.metadata().optional_string("general.name")?.unwrap_or(architecture).to_owned(),
            architecture: architecture.to_owned(),
            format: format!("GGUF {}", format(file)),
            parameters: parameters(file),
            context_tokens: config.context as u32,
            vocabulary: config.vocabulary,
            width: config.width,
            pooled: Pooled::of_file(file.metadata(), family)?,
        };
        let network = match options.target {
            Target::Cpu => network::<Flex>(&tensors, config, &Default::default())?,
            #[cfg(feature = "cuda")]
            Target::Cuda => warmed(network::<burn_cuda::Cuda>(&tensors, config, &Default::default())?),
            #[cfg(feature = "vulkan")]
            Target::Vulkan(adapter) => warmed(network::<burn_wgpu::Vulkan>(&tensors, config, &adapter.device())?),
        };
        tensors.nothing_left(architecture)?;
        Ok(LoadedModel { network, info, tokenizer, template })
    }
}

/// The network on one kind of device.
fn network<B: QuantBackend>(
    tensors: &Tensors<'_>,
    config: Config,
    device: &B::Device,
) -> Result<Box<dyn Network>, GgufError> {
    Ok(Box::new(Decoder::<B>::load(tensors, config, device)?))
}

/// A GPU's kernels are compiled when they are first used, each for a count of rows: better now than while somebody waits.
/// What the steps leave in the cache's first block is written over before anyone reads it.
#[cfg(feature = "gpu")]
fn warmed(mut network: Box<dyn Network>) -> Box<dyn Network> {
    use super::{Feed, Rows, Wanted};
    for rows in [8, 4, 2, 1] {
        let wanted = Wanted { logits: Rows::All, hidden: None };
        network.step(&[Feed { blocks: &[0], tokens: &[0; 8][..rows], position: 0, prompt: rows, wanted }]);
    }
    network
}

/// What the file is called by who made it, which is how people know it, or else what most of its weights are. A mixture such
/// as Q4_K_M may keep most of a small model's numbers, its vocabulary's, in another type.
fn format(file: &Gguf) -> String {
    // It is only a name: one that cannot be read is as good as none.
    let number = file.metadata().optional_u32("general.file_type").ok().flatten();
    number.and_then(file_type).map_or_else(|| most_common(file).to_string(), str::to_owned)
}

/// llama.cpp's name for a kind of file (`llama_ftype`); none for one that nothing here could hold.
fn file_type(number: u32) -> Option<&'static str> {
    /// Set where who made the file had to guess.
    const GUESSED: u32 = 1024;
    Some(match number & !GUESSED {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        21 => "Q2_K_S",
        32 => "BF16",
        _ => return None,
    })
}

/// The type that most of the weights have.
fn most_common(file: &Gguf) -> GgmlType {
    let mut numbers: HashMap<GgmlType, usize> = HashMap::new();
    for tensor in file.tensors() {
        *numbers.entry(tensor.kind).or_default() += tensor.shape.iter().product::<usize>();
    }
    numbers.into_iter().max_by_key(|(_, n)| *n).map_or(GgmlType::F32, |(kind, _)| kind)
}

/// `135M`, `1.2B`.
fn parameters(file: &Gguf) -> String {
    let count: usize = file.tensors().map(|t| t.shape.iter().product::<usize>()).sum();
    match count {
        0..1_000_000 => format!("{}K", count.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{}M", (count as f64 / 1e6).round()),
        _ => format!("{:.1}B", count as f64 / 1e9),
    }
}
