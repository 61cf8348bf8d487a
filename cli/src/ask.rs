//! `terrace ask`: one question through a router; then the tier, the device, the reasons, the cost and the hops.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use terrace_contract::headers;
use terrace_wire::sse::{DONE, Decoder};

use crate::caller::Caller;
use crate::up::state::State;
use crate::{http as client, out, trace};

/// Options of `terrace ask`.
#[derive(Debug, Clone, Args)]
pub struct Ask {
    /// The question.
    pub prompt: String,
    /// Who asks, and which router.
    #[command(flatten)]
    pub caller: Caller,
    /// Model name; `auto` leaves the choice to the policy.
    #[arg(long, default_value = "auto")]
    pub model: String,
    /// Output tokens at most.
    #[arg(long, default_value_t = 128)]
    pub max_tokens: u32,
    /// 0 always takes the likeliest token; a small model needs it.
    #[arg(long, default_value_t = 0.0)]
    pub temperature: f32,
    /// Where traces can be read: a Jaeger query URL [default: the files of the running `terrace up`]
    #[arg(long, env = "TERRACE_JAEGER")]
    pub jaeger: Option<String>,
}

impl Ask {
    /// This question, all else as by default.
    pub fn plain(prompt: &str, url: &str) -> Ask {
        Ask {
            prompt: prompt.to_owned(),
            caller: Caller { url: Some(url.to_owned()), ..Caller::default() },
            model: terrace_contract::names::AUTO_MODEL.to_owned(),
            max_tokens: 128,
            temperature: 0.0,
            jaeger: None,
        }
    }
}

/// Asks, and prints what came back. Ends with an error if no answer was given.
///
/// # Errors
/// Nothing answers, the router refuses (its message and code are shown), or the answer breaks off.
pub async fn run(ask: Ask) -> Result<()> {
    let running = State::read();
    let base = ask.caller.base(running.as_ref())?;
    let begin = Instant::now();
    let response = client::send(request(&ask, &base)?).await?;
    let (status, heads) = (response.status(), response.headers().clone());
    if status != 200 {
        let bytes = client::body(response, 1 << 20).await?;
        let error: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text =
            |name: &str| error.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or("?").to_owned();
        facts(&heads)?;
        bail!("{status}: {} ({})", text("message"), text("code"));
    }
    let answer = stream(response, begin).await?;
    out::text("\n\n")?;
    facts(&heads)?;
    if let Some(micros) =
        answer.cost_micros.or_else(|| header(&heads, headers::COST_MICROS).and_then(|v| v.parse().ok()))
    {
        out::line(format_args!("cost      {:.6}", micros as f64 / 1e6))?;
    }
    let first = answer.first_token.unwrap_or_default();
    let (first, whole) = (first.as_millis(), begin.elapsed().as_millis());
    out::line(format_args!("time      first token {first} ms, whole answer {whole} ms"))?;
    if let Some(id) = header(&heads, "traceparent").and_then(|v| v.split('-').nth(1).map(str::to_owned)) {
        out::line(format_args!("trace     {id}"))?;
        out::text(&hops(&ask, running.map(|s| s.traces).filter(|t| !t.as_os_str().is_empty()), &id).await)?;
    }
    match answer.error {
        Some(message) => bail!("the answer broke off: {message}"),
        None => Ok(()),
    }
}

fn request(ask: &Ask, base: &str) -> Result<Request<Full<Bytes>>> {
    let body = json!({
        "model": ask.model, "stream": true, "stream_options": {"include_usage": true}, "max_tokens": ask.max_tokens, "temperature": ask.temperature,
        "messages": [{"role": "user", "content": ask.prompt}],
    });
    let request = Request::post(format!("{base}/v1/chat/completions")).header("content-type", "application/json");
    let request = ask.caller.sends(request, &ask.caller.labels()?);
    request.body(Full::from(body.to_string())).with_context(|| format!("{base} is not a URL"))
}

#[derive(Default)]
struct Answer {
    first_token: Option<Duration>,
    cost_micros: Option<u64>,
    error: Option<String>,
}

async fn stream(response: http::Response<hyper::body::Incoming>, begin: Instant) -> Result<Answer> {
    let (mut answer, mut decoder, mut ended) = (Answer::default(), Decoder::new(), false);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.context("the answer broke off: the router closed the connection")?;
        for event in frame.data_ref().map(|d| decoder.push(d)).transpose()?.unwrap_or_default() {
            if event.data == DONE {
                ended = true;
                continue;
            }
            let chunk: Value = serde_json::from_str(&event.data).context("an event of the answer is not JSON")?;
            if let Some(message) = chunk.pointer("/error/message").and_then(Value::as_str) {
                answer.error = Some(message.to_owned());
            }
            if let Some(cost) = chunk.pointer("/terrace/costMicros").and_then(Value::as_u64) {
                answer.cost_micros = Some(cost);
            }
            if let Some(text) =
                chunk.pointer("/choices/0/delta/content").and_then(Value::as_str).filter(|t| !t.is_empty())
            {
                answer.first_token.get_or_insert_with(|| begin.elapsed());
                out::text(text)?;
            }
        }
    }
    if !ended && answer.error.is_none() {
        answer.error = Some("the stream ended without [DONE]".into());
    }
    Ok(answer)
}

fn header(heads: &HeaderMap, name: &str) -> Option<String> {
    heads.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned)
}

fn facts(heads: &HeaderMap) -> Result<()> {
    let lines = [
        ("tier", headers::TIER),
        ("device", headers::DEVICE),
        ("boundary", headers::BOUNDARY),
        ("reasons", headers::REASON),
        ("quality", headers::QUALITY),
        ("request", headers::REQUEST_ID),
    ];
    for (label, name) in lines {
        if let Some(value) = header(heads, name) {
            out::line(format_args!("{label:<9} {value}"))?;
        }
    }
    Ok(())
}

/// The hops of the trace. Spans arrive a moment after the answer, so it waits until the router's own has come.
async fn hops(ask: &Ask, folder: Option<PathBuf>, id: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let spans = match (&ask.jaeger, &folder) {
            (Some(base), _) => match trace::from_jaeger(base, id).await {
                Ok(spans) => spans,
                Err(error) => return format!("  no hops: --jaeger {base}: {error:#}\n"),
            },
            (None, Some(folder)) => trace::from_files(folder, id),
            (None, None) => return "  (give --jaeger http://host:16686 to see the hops)\n".into(),
        };
        let known = |parent: &str| spans.iter().any(|s| s.id == parent);
        let whole = spans.iter().any(|s| s.service == "terrace-router" && !known(&s.parent))
            && spans.iter().any(|s| s.name == "decode" || s.name == "attempt")
            && spans.iter().filter(|s| !known(&s.parent)).count() == 1;
        if whole || Instant::now() > deadline {
            return trace::render(&spans);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_jaeger_that_cannot_be_reached_is_said_in_a_line() {
        // A port that nobody listens on any more.
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (jaeger, expected) in [
            (format!("http://{gone}"), format!("{gone} cannot be reached")),
            ("https://x".into(), "only http://".into()),
        ] {
            let said = hops(&Ask { jaeger: Some(jaeger), ..Ask::plain("hi", "http://x") }, None, "1").await;
            assert!(said.contains(&expected) && said.ends_with('\n') && said.lines().count() == 1, "{said:?}");
        }
    }

    #[test]
    fn that_no_span_has_arrived_is_a_line() {
        assert!(trace::render(&[]).ends_with('\n'));
    }
}
