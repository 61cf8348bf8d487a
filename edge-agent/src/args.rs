//! The command line, read once into typed values.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Parser, ValueEnum};
use terrace_contract::{names, units};

use crate::device::Cpu;
use crate::pull::Spare;

/// Where the kubelet looks for the reason of a container's end.
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// The engine on each device: a small quantized model behind the OpenAI wire.
#[derive(Debug, Parser)]
#[command(name = "terrace-agent", version)]
#[command(group(ArgGroup::new("source").required(true).args(["model", "model_url"])))]
pub struct Args {
    /// A GGUF file on this machine
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,

    /// Where to download the GGUF file; needs --model-sha256 and --cache-dir
    #[arg(long, value_name = "URL", requires = "model_sha256", requires = "cache_dir")]
    pub model_url: Option<String>,

    /// SHA-256 of the file, checked before it is loaded
    #[arg(long, value_name = "HEX", value_parser = digest)]
    pub model_sha256: Option<String>,

    /// The node's folder of models, one file a digest
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// A file with a bearer token for --model-url
    #[arg(long, value_name = "FILE", requires = "model_url")]
    pub model_token_file: Option<PathBuf>,

    /// Certificates to trust for --model-url, beside the public ones
    #[arg(long, value_name = "FILE", requires = "model_url")]
    pub model_ca: Option<PathBuf>,

    /// Bytes that the models of --cache-dir may take together, for example 4Gi: those used least recently make room
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "model_url")]
    pub cache_limit: Option<Size>,

    /// What a download leaves free on the disk of --cache-dir: a part of the disk or a size, for example 15% or 2Gi. By default
    /// 10%, and 10Gi at most: with less than 10% free a kubelet evicts pods
    #[arg(long, value_name = "PART", requires = "model_url")]
    pub disk_reserve: Option<Spare>,

    /// Bytes a second that a download from --model-url reads at most, for example 20Mi
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "model_url")]
    pub pull_bytes_per_second: Option<Size>,

    /// How long --model-url may be unreachable, bring less than 1 KiB a second, or bring only what came before, until this
    /// program ends with the reason Unreachable
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub pull_patience: Duration,

    /// The name clients use; the file's own name by default
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,

    /// Address for routers (mutual TLS) [default: 0.0.0.0:8443, unless only --plain-listen or --gateway-listen is given]
    #[arg(long, value_name = "ADDRESS", env = "TERRACE_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// Address for SDKs on this machine, without TLS: loopback only. Headers that begin with x-terrace- count for nothing there
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub plain_listen: Option<SocketAddr>,

    /// Address for an inference gateway (Gateway API InferencePool), without TLS and without keys: let nothing but the
    /// gateway reach it. It also shows /metrics and /health
    #[arg(long, value_name = "ADDRESS", env = "TERRACE_GATEWAY_LISTEN")]
    pub gateway_listen: Option<SocketAddr>,

    /// Address of /livez, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS", env = "TERRACE_ADMIN_LISTEN", default_value_t = SocketAddr::from(([0, 0, 0, 0], names::ADMIN_PORT)))]
    pub admin_listen: SocketAddr,

    /// Folder of tls.crt, tls.key and ca.crt
    #[arg(long, value_name = "DIR", env = "TERRACE_IDENTITY_DIR", default_value = names::IDENTITY_DIR)]
    pub identity_dir: PathBuf,

    /// Prompt and answer together, in tokens; less where the model or --kv-cache has no room for it
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(16..))]
    pub context_tokens: u32,

    /// Sequences that run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub max_sequences: u32,

    /// Requests that wait at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub queue_limit: u32,

    /// Memory of the KV cache at most, for example 512Mi or 1.5Gi; by default what --max-sequences of --context-tokens need
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub kv_cache: Option<Size>,

    /// What to run on. auto: a GPU that this build and this machine can use, else the CPU, and says why. cuda and vulkan
    /// end with the reason DriverUnusable where something is missing
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    pub device: Device,

    /// Instructions of the processor to use at most: portable, avx2, avx-vnni, avx512, avx512-vnni, amx, neon or neon-dot; the widest it has by default
    #[arg(long, value_name = "NAME", env = "TERRACE_CPU")]
    pub cpu: Option<Cpu>,

    /// Threads of the engine; the cores that this process is granted by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// How long running requests may go on after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub drain_timeout: Duration,

    /// Where the reason goes when this program cannot serve
    #[arg(long, value_name = "FILE", default_value = TERMINATION_LOG)]
    pub termination_log: PathBuf,

    /// A file that gets the bound addresses as JSON, once this program serves
    #[arg(long, value_name = "FILE")]
    pub port_file: Option<PathBuf>,

    /// End when the parent process ends
    #[arg(long)]
    pub end_with_parent: bool,
}

/// What to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// An NVIDIA GPU, a GPU through Vulkan, the CPU: the first that can be used
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// A GPU through Vulkan.
    Vulkan,
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl Args {
    /// The address for routers; none when only SDKs on this machine, or a gateway, are served.
    pub fn router_listen(&self) -> Option<SocketAddr> {
        match (self.listen, self.plain_listen.or(self.gateway_listen)) {
            (None, Some(_)) => None,
            (listen, _) => Some(listen.unwrap_or(SocketAddr::from(([0, 0, 0, 0], names::AGENT_PORT)))),
        }
    }
}

fn digest(text: &str) -> Result<String, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    if crate::pull::is_digest(&hex) { Ok(hex) } else { Err("a SHA-256 has 64 hexadecimal digits".into()) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|_| "give whole seconds, for example 30".into())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "give an address and a port, for example 127.0.0.1:8000")?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("without TLS only this machine is served: use a loopback address such as 127.0.0.1, \
             or --listen with an identity"
            .into())
    }
}

fn size(text: &str) -> Result<Size, String> {
    units::bytes(text).map(Size).ok_or_else(|| "give a size such as 512Mi or 1.5Gi".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        Args::try_parse_from([&["terrace-agent"], flags].concat()).map_err(|e| e.to_string())
    }

    #[test]
    fn combinations_that_cannot_work_are_refused_with_the_flag() {
        for (flags, word) in [
            (&[][..], "--model"),
            (&["--model", "a", "--model-url", "http://x/y"], "--model-url"),
            (&["--model-url", "http://x/y"], "--model-sha256"),
            (&["--model", "a", "--model-sha256", "abc"], "64"),
            (&["--model", "a", "--plain-listen", "0.0.0.0:80"], "loopback"),
            (&["--model", "a", "--kv-cache", "12Q"], "512Mi"),
            (&["--model-url", "http://x/y", "--disk-reserve", "all"], "10%"),
            (&["--model", "a", "--max-sequences", "0"], "--max-sequences"),
            (&["--model", "a", "--device", "tpu"], "cuda"),
            (&["--model", "a", "--cpu", "sse9"], "avx2"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(word), "{flags:?}: {error}");
        }
    }

    #[test]
    fn mutual_tls_is_off_only_where_loopback_or_a_gateway_is_served() {
        let listen = |flags: &[&str]| parse(flags).unwrap().router_listen().map(|a| a.port());
        assert_eq!(listen(&["--model", "a"]), Some(8443));
        assert_eq!(listen(&["--model", "a", "--plain-listen", "127.0.0.1:0"]), None);
        assert_eq!(listen(&["--model", "a", "--plain-listen", "[::1]:0", "--listen", "0.0.0.0:1"]), Some(1));
        assert_eq!(listen(&["--model", "a", "--gateway-listen", "0.0.0.0:8000"]), None);
        assert_eq!(parse(&["--model", "a", "--kv-cache", "3Gi"]).unwrap().kv_cache, Some(Size(3 << 30)));
        assert_eq!(parse(&["--model", "a", "--kv-cache=1.5Gi"]).unwrap().kv_cache, Some(Size(3 << 29)));
        assert_eq!(parse(&["--model", "a"]).unwrap().kv_cache, None);
    }
}
