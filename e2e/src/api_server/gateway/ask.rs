//! Questions over plain HTTP: what came, and which agent it came from.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::envoy::SERVED_BY;
use super::fleet::MODEL;

/// An answer that takes longer is none.
const LIMIT: Duration = Duration::from_secs(60);

/// Keeps connections, as SDKs do.
#[derive(Clone)]
pub(super) struct Client(Connections<HttpConnector, Full<Bytes>>);

/// An answer.
pub(super) struct Said {
    pub status: u16,
    /// The address of the agent, as Envoy says.
    pub by: String,
    body: Bytes,
}

impl Said {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", self.text()))
    }

    /// The answer itself; an error unless it is a whole one of an agent.
    pub(super) fn answer(&self) -> anyhow::Result<Value> {
        ensure!(self.status == 200, "{} by {:?}: {}", self.status, self.by, self.text());
        let answer = self.json()?;
        let ended = matches!(answer["choices"][0]["finish_reason"].as_str(), Some("stop" | "length"));
        ensure!(ended && !self.by.is_empty(), "by {:?}: {answer}", self.by);
        Ok(answer)
    }
}

impl Client {
    pub(super) fn new() -> Client {
        Client(Connections::builder(TokioExecutor::new()).build_http())
    }

    pub(super) async fn get(&self, address: &str, path: &str) -> anyhow::Result<Said> {
        self.read(Request::get(format!("http://{address}{path}")).body(Full::default())?).await
    }

    /// A short answer to this prompt.
    pub(super) async fn chat(&self, address: &str, prompt: &str) -> anyhow::Result<Said> {
        self.read(question(address, &body(prompt, 4))?).await
    }

    /// The same as a stream: its events.
    pub(super) async fn stream(&self, address: &str, prompt: &str) -> anyhow::Result<(String, Vec<String>)> {
        let mut body = body(prompt, 8);
        body["stream"] = true.into();
        let said = self.read(question(address, &body)?).await?;
        ensure!(said.status == 200, "{} {}", said.status, said.text());
        let events = said.text().lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect();
        Ok((said.by, events))
    }

    /// So many long answers at once, read for as long as the set lives: clients that are gone when it goes.
    pub(super) async fn hold(&self, address: &str, count: u32) -> anyhow::Result<JoinSet<()>> {
        let mut held = JoinSet::new();
        for seed in 0..count {
            let mut body = body(&format!("{seed} Write a long novel."), 3000);
            // Hot enough that it finds no end.
            for (field, value) in [("stream", json!(true)), ("temperature", json!(1.5)), ("seed", json!(seed))] {
                body[field] = value;
            }
            let (client, request) = (self.0.clone(), question(address, &body)?);
            held.spawn(async move {
                let Ok(mut answer) = client.request(request).await else { return };
                while let Some(Ok(_)) = answer.body_mut().frame().await {}
            });
        }
        Ok(held)
    }

    async fn read(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Said> {
        let line = format!("{} {}", request.method(), request.uri());
        let whole = async {
            let (head, body) = Response::<Incoming>::into_parts(self.0.request(request).await?);
            let by = head.headers.get(SERVED_BY).and_then(|by| by.to_str().ok()).unwrap_or_default().to_owned();
            anyhow::Ok(Said { status: head.status.as_u16(), by, body: body.collect().await?.to_bytes() })
        };
        let whole = tokio::time::timeout(LIMIT, whole).await;
        whole.with_context(|| format!("{line}: no answer within {LIMIT:?}"))?.with_context(|| line.clone())
    }
}

fn body(prompt: &str, tokens: u32) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0})
}

fn question(address: &str, body: &Value) -> anyhow::Result<Request<Full<Bytes>>> {
    let request = Request::post(format!("http://{address}/v1/chat/completions"));
    Ok(request.header("content-type", "application/json").body(Full::from(body.to_string()))?)
}
