//! `terrace explain`: what is decided of a request and why: by a running router, or from manifests alone; or what was
//! decided of one that was sent.

mod offline;
mod remote;
mod text;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::caller::Caller;
use crate::out;

/// Options of `terrace explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    /// The request, as it would be sent to /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses or
    /// /v1/messages: a file, or `-` for the standard input. It is not sent to a model.
    pub request: Option<PathBuf>,
    /// Which of these it is; by default what its members look like.
    #[arg(long, value_enum, conflicts_with = "request_id")]
    pub api: Option<Api>,
    /// Decide from these manifests, without a router: a file, or a folder of YAML files. May be given more than once.
    #[arg(short = 'f', long = "filename", conflicts_with_all = ["url", "request_id"])]
    pub files: Vec<PathBuf>,
    /// The policy, if the manifests hold more than one.
    #[arg(long, requires = "files")]
    pub policy: Option<String>,
    /// Name of the caller's key, whose rule counts.
    #[arg(long, requires = "files")]
    pub key: Option<String>,
    /// What was decided of the request with this id (`x-terrace-request-id`), which the same key made.
    #[arg(long, conflicts_with = "request")]
    pub request_id: Option<String>,
    /// Who asks, and which router.
    #[command(flatten)]
    pub caller: Caller,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// An API that clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Api {
    /// OpenAI's /v1/chat/completions
    Chat,
    /// OpenAI's /v1/completions
    Completions,
    /// OpenAI's /v1/embeddings
    Embeddings,
    /// OpenAI's /v1/responses
    Responses,
    /// Anthropic's /v1/messages
    Messages,
}

impl From<Api> for terrace_router::server::language::Api {
    fn from(api: Api) -> Self {
        match api {
            Api::Chat => Self::Chat,
            Api::Completions => Self::Completion,
            Api::Embeddings => Self::Embedding,
            Api::Responses => Self::Responses,
            Api::Messages => Self::Messages,
        }
    }
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// Everything, for programs.
    Json,
}

/// Explains, and prints.
///
/// # Errors
/// The request cannot be read or would be refused before a decision, no router answers, or it knows no such id: each
/// says what to do.
pub async fn run(explain: Explain) -> Result<()> {
    let explanation = match (&explain.request_id, explain.files.is_empty()) {
        (Some(id), _) => remote::find(&explain, id).await?,
        (None, true) => remote::ask(&explain, body(explain.request.as_deref())?).await?,
        (None, false) => offline::explain(&explain, &body(explain.request.as_deref())?)?,
    };
    match explain.output {
        Output::Text => out::text(&text::render(&explanation)),
        Output::Json => out::line(serde_json::to_string_pretty(&explanation)?),
    }
}

fn body(file: Option<&Path>) -> Result<Vec<u8>> {
    match file {
        Some(file) if file != Path::new("-") => {
            std::fs::read(file).with_context(|| format!("cannot read the request {}", file.display()))
        }
        None if std::io::stdin().is_terminal() => {
            bail!("no request: give a file with the JSON that would be sent, or - and the JSON on the standard input")
        }
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("cannot read the request from the standard input")?;
            Ok(bytes)
        }
    }
}
