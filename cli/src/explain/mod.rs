//! `terrace explain`: what is decided of a request and why: by a running router, or from manifests alone; or what was
//! decided of one that was sent.

mod offline;
mod remote;
mod text;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use http::{HeaderMap, HeaderName, HeaderValue};
use terrace_contract::headers;

use crate::out;

/// Options of `terrace explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    /// The request, as it would be sent to /v1/chat/completions or /v1/completions: a file, or `-` for the standard input.
    /// It is not sent to a model.
    pub request: Option<PathBuf>,
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
    /// Base URL of the router, with or without /v1 [default: the running `terrace up`, the latest of several]
    #[arg(long, env = "TERRACE_URL")]
    pub url: Option<String>,
    /// API key, if the policy wants one.
    #[arg(long, env = "TERRACE_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Feature, which selects a LatencyBudget.
    #[arg(long)]
    pub feature: Option<String>,
    /// Class: Public, Internal, Confidential or Restricted.
    #[arg(long)]
    pub class: Option<String>,
    /// Preference: privacy, latency, cost or quality.
    #[arg(long)]
    pub prefer: Option<String>,
    /// Session that the request belongs to.
    #[arg(long)]
    pub session: Option<String>,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
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

/// The headers that the options stand for.
fn given(explain: &Explain) -> Result<HeaderMap> {
    let mut given = HeaderMap::new();
    let options = [
        ("--feature", headers::FEATURE, &explain.feature),
        ("--class", headers::CLASS, &explain.class),
        ("--prefer", headers::PREFER, &explain.prefer),
        ("--session", headers::SESSION, &explain.session),
    ];
    for (option, name, value) in options {
        if let Some(value) = value {
            let value =
                HeaderValue::from_str(value).with_context(|| format!("{option}: write visible ASCII characters"))?;
            given.insert(HeaderName::from_static(name), value);
        }
    }
    Ok(given)
}
