//! Who asks, which router, and as what: the same options for every command that sends a request.

use anyhow::{Context, Result};
use clap::Args;
use http::request::Builder;
use http::{HeaderMap, HeaderName, HeaderValue};
use terrace_contract::headers;

use crate::http as client;
use crate::up::state::State;

/// The options of a caller.
#[derive(Debug, Clone, Default, Args)]
pub struct Caller {
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
}

impl Caller {
    /// The router's base URL.
    ///
    /// # Errors
    /// None is given and no `terrace up` runs.
    pub fn base(&self, running: Option<&State>) -> Result<String> {
        client::base(self.url.as_deref(), running)
    }

    /// The headers that the options stand for.
    ///
    /// # Errors
    /// Names the option whose value no header can carry.
    pub fn labels(&self) -> Result<HeaderMap> {
        let mut given = HeaderMap::new();
        let options = [
            ("--feature", headers::FEATURE, &self.feature),
            ("--class", headers::CLASS, &self.class),
            ("--prefer", headers::PREFER, &self.prefer),
            ("--session", headers::SESSION, &self.session),
        ];
        for (option, name, value) in options {
            if let Some(value) = value {
                let value = HeaderValue::from_str(value)
                    .with_context(|| format!("{option}: write visible ASCII characters"))?;
                given.insert(HeaderName::from_static(name), value);
            }
        }
        Ok(given)
    }

    /// A request with these labels and the key.
    pub fn sends(&self, mut request: Builder, labels: &HeaderMap) -> Builder {
        for (name, value) in labels {
            request = request.header(name, value);
        }
        match &self.api_key {
            Some(key) => request.header("authorization", format!("Bearer {key}")),
            None => request,
        }
    }
}
