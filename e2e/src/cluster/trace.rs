//! One answer's trace, read back from Jaeger.

use anyhow::Context;
use serde_json::Value;

use super::Scene;
use crate::client::nonce;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Every hop of one request is in one trace, each below the one that called it.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    let answer = steps
        .step("an answer whose prompt carries a nonce", secs(60), async {
            let mark = nonce();
            let answer = scene.ask_one(|q| q, &format!("Write one word. {mark}")).await?;
            answer.from("edge")?;
            Ok((answer, mark))
        })
        .await?;
    let (answer, mark) = answer;
    let trace = steps
        .step("Jaeger returns router, attempt, agent, prefill and decode under one id", secs(60), async {
            let url = format!("http://10.77.0.1:16686/api/traces/{}", answer.trace()?);
            wait::until("the whole trace", secs(40), async || {
                let trace = Trace::read(&scene.machine.http(&[&url]).await?)?;
                trace.chain(&["decode", "chat ", "attempt", "chat "])?;
                trace.chain(&["prefill", "chat ", "attempt", "chat "])?;
                Ok(trace)
            })
            .await
        })
        .await?;
    steps
        .step("the trace holds the answer's tokens and its transport, and nothing of its text", secs(5), async {
            let usage = answer.usage.clone().context("the answer has no usage")?;
            let agent = trace.chain(&["chat ", "attempt", "chat "])?;
            for (tag, tokens) in [
                ("gen_ai.usage.input_tokens", usage.prompt_tokens),
                ("gen_ai.usage.output_tokens", usage.completion_tokens),
            ] {
                anyhow::ensure!(
                    agent.tag(tag).and_then(Value::as_u64) == Some(tokens.into()),
                    "{tag} is {:?}, the answer says {tokens}",
                    agent.tag(tag)
                );
            }
            let attempt = trace.chain(&["attempt", "chat "])?;
            for tag in ["terrace.tier", "terrace.device", "terrace.boundary", "server.address"] {
                anyhow::ensure!(attempt.tag(tag).is_some(), "the attempt has no {tag}: {}", attempt.0);
            }
            let all = trace.text();
            anyhow::ensure!(!all.contains(&mark) && !all.contains("Write one word"), "the prompt is in the trace");
            let file = scene.place.at("target/e2e/trace.json");
            std::fs::write(file, trace.text())?;
            Ok(())
        })
        .await
}

/// A trace as Jaeger's query API gives it.
pub(super) struct Trace(Vec<Value>);

/// One span of it.
pub(super) struct Span<'a>(&'a Value);

impl Trace {
    fn read(answer: &Value) -> anyhow::Result<Trace> {
        let spans = answer["data"][0]["spans"].as_array().context("no such trace yet")?;
        Ok(Trace(spans.clone()))
    }

    /// The first span whose name begins as the first of `names`, whose parent's name begins as the second, and so on.
    fn chain(&self, names: &[&str]) -> anyhow::Result<Span<'_>> {
        let found = self.0.iter().find(|span| self.climbs(span, names));
        found.map(Span).with_context(|| format!("no {}; spans: {}", names.join(" below "), self.names()))
    }

    fn climbs(&self, span: &Value, names: &[&str]) -> bool {
        let Some((first, rest)) = names.split_first() else { return true };
        let named = span["operationName"].as_str().is_some_and(|n| n.starts_with(first));
        let parent = || {
            let id = &span["references"].as_array()?.iter().find(|r| r["refType"] == "CHILD_OF")?["spanID"];
            self.0.iter().find(|s| s["spanID"] == *id)
        };
        named && (rest.is_empty() || parent().is_some_and(|p| self.climbs(p, rest)))
    }

    fn names(&self) -> String {
        self.0.iter().filter_map(|s| s["operationName"].as_str()).collect::<Vec<_>>().join(", ")
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default()
    }
}

impl Span<'_> {
    /// An attribute.
    fn tag(&self, key: &str) -> Option<&Value> {
        self.0["tags"].as_array()?.iter().find(|t| t["key"] == key).map(|t| &t["value"])
    }
}
