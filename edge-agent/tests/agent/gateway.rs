//! The door for stock inference gateways: the wire, metrics by vLLM's names, ORCA's load line, and nothing of Terrace's.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, LIMIT, MODEL, chat, with};

/// Prometheus text as an endpoint picker parses it: each sample by its name and labels, each family's type by its name.
fn parse(text: &str) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
    let (mut samples, mut types) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} has two types");
        } else if !line.starts_with('#') {
            let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            let value = value.parse().unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {sample}");
        }
    }
    (samples, types)
}

async fn metrics(agent: &Agent) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
    let answer = agent.get(agent.gateway.unwrap(), "/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    parse(&answer.text())
}

fn named(line: &str) -> Value {
    serde_json::from_str::<Value>(line.strip_prefix("JSON ").unwrap()).unwrap()["named_metrics"].take()
}

#[tokio::test]
async fn a_gateway_finds_what_the_model_server_protocol_says() {
    let Some(agent) = Agent::start(&["--gateway-listen", "127.0.0.1:0", "--max-sequences", "2"]).await else { return };
    let gateway = agent.gateway.unwrap();
    let series = |name: &str| format!("{name}{{model_name=\"{MODEL}\",engine=\"0\"}}");
    let (before, types) = metrics(&agent).await;
    // docs/proposals/003-model-server-protocol of kubernetes-sigs/gateway-api-inference-extension, and the specs that
    // llm-d's endpoint picker has for vLLM.
    for name in ["vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"] {
        assert_eq!(
            (types.get(name).map(String::as_str), before.get(&series(name))),
            (Some("gauge"), Some(&0.0)),
            "{name}"
        );
    }
    let info: Vec<&String> = before.keys().filter(|name| name.starts_with("vllm:cache_config_info{")).collect();
    let [info] = info[..] else { panic!("one cache: {info:?}") };
    let label = |name: &str| -> u64 {
        let value = info.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
        value.parse().unwrap()
    };
    assert_eq!((before[info], label("block_size")), (1.0, 16));
    let lora: Vec<&String> = before.keys().filter(|name| name.starts_with("vllm:lora_requests_info{")).collect();
    let [lora] = lora[..] else { panic!("one statement on adapters: {lora:?}") };
    for none in ["max_lora=\"0\"", "running_lora_adapters=\"\"", "waiting_lora_adapters=\"\""] {
        assert!(lora.contains(none), "{none} is not in {lora}");
    }
    let status = agent.get(agent.plain, "/terrace/status").await.json();
    assert_eq!(label("num_gpu_blocks"), status["load"]["totalKvBlocks"].as_u64().unwrap());

    // One answer counts under both names.
    let ask = |body: &Value, headers: &[(&str, &str)]| {
        let mut request = Request::post(format!("http://{gateway}/v1/chat/completions"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::from(body.to_string());
        let request = request.header("content-type", "application/json").body(body).unwrap();
        let agent = &agent;
        async move { Answer::read(agent.send(request).await).await }
    };
    let answer = ask(&chat("Say hello.", 8), &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let usage = &answer.json()["usage"];
    let line = named(answer.headers["endpoint-load-metrics"].to_str().unwrap());
    for name in ["kv_cache_usage_perc", "num_requests_waiting", "num_requests_running"] {
        assert!(line[name].is_number(), "{line}");
    }
    let (after, types) = metrics(&agent).await;
    for (name, want) in [
        ("vllm:prompt_tokens_total", usage["prompt_tokens"].as_f64().unwrap()),
        ("vllm:generation_tokens_total", usage["completion_tokens"].as_f64().unwrap()),
        ("vllm:time_to_first_token_seconds_count", 1.0),
        ("vllm:e2e_request_latency_seconds_count", 1.0),
        ("vllm:request_queue_time_seconds_count", 1.0),
        ("vllm:request_prefill_time_seconds_count", 1.0),
        ("vllm:request_decode_time_seconds_count", 1.0),
    ] {
        assert_eq!(after.get(&series(name)), Some(&want), "{name}");
    }
    assert_eq!(types["vllm:prompt_tokens_total"], "counter");
    assert!(after[&series("vllm:inter_token_latency_seconds_count")] >= 1.0);
    assert_eq!(after["terrace_output_tokens_total"], usage["completion_tokens"].as_f64().unwrap());

    // Text for who asks for it; a header that only routers may send is nothing here; the rest of the API is closed.
    let answer = ask(&chat("Hi", 1), &[("endpoint-load-metrics-format", "TEXT"), ("x-terrace-deadline-ms", "0")]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let line = answer.headers["endpoint-load-metrics"].to_str().unwrap();
    assert!(line.starts_with("TEXT application_utilization=") && line.contains("named_metrics.kv_cache_usage_perc="));
    assert_eq!(agent.get(gateway, "/terrace/status").await.status, 404);
    assert_eq!(agent.get(gateway, "/health").await.status, 200);
    assert_eq!(agent.get(gateway, "/v1/models").await.json()["data"][0]["id"], MODEL);
    // Elsewhere the names are shown as well, and the load line is Terrace's.
    assert!(agent.get(agent.admin, "/metrics").await.text().contains("vllm:num_requests_running{"));
    let local = agent.get(agent.plain, "/v1/models").await;
    assert!(named(local.headers["endpoint-load-metrics"].to_str().unwrap())["slots"].is_number());
}

/// Regression: the gauges were up to a second old, and a picker that asks twenty times a second sent a burst to one agent.
#[tokio::test]
async fn the_first_look_shows_the_load_of_this_moment() {
    let Some(agent) = Agent::start(&["--gateway-listen", "127.0.0.1:0"]).await else { return };
    let body = with(chat("Write a long novel.", 3000), json!({"stream": true, "temperature": 1.5, "seed": 3}));
    let mut running = agent.send(agent.json("/v1/chat/completions", &body)).await;
    assert!(running.body_mut().frame().await.unwrap().unwrap().is_data());
    let (samples, _) = metrics(&agent).await;
    assert_eq!(samples[&format!("vllm:num_requests_running{{model_name=\"{MODEL}\",engine=\"0\"}}")], 1.0);
    assert!(samples[&format!("vllm:kv_cache_usage_perc{{model_name=\"{MODEL}\",engine=\"0\"}}")] > 0.0);
}

#[tokio::test]
async fn running_and_waiting_are_seen_while_they_run_and_wait() {
    let Some(agent) = Agent::start(&["--gateway-listen", "127.0.0.1:0"]).await else { return };
    let body = with(chat("Write a long novel.", 3000), json!({"stream": true, "temperature": 1.5, "seed": 3}));
    let mut first = agent.send(agent.json("/v1/chat/completions", &body)).await;
    assert!(first.body_mut().frame().await.unwrap().unwrap().is_data());
    let waiting = agent.json("/v1/chat/completions", &body);
    let mut second = Box::pin(agent.send(waiting));
    let seen = async {
        loop {
            let (samples, _) = metrics(&agent).await;
            let of = |name: &str| samples[&format!("{name}{{model_name=\"{MODEL}\",engine=\"0\"}}")];
            if (of("vllm:num_requests_running"), of("vllm:num_requests_waiting")) == (1.0, 1.0) {
                assert!((0.0..=1.0).contains(&of("vllm:kv_cache_usage_perc")) && of("vllm:kv_cache_usage_perc") > 0.0);
                return;
            }
        }
    };
    tokio::select! {
        seen = tokio::time::timeout(LIMIT, seen) => seen.expect("one runs and one waits"),
        _ = &mut second => panic!("the second began while the first ran"),
    }
    drop((first, second));
    let aborted = async {
        loop {
            let (samples, _) = metrics(&agent).await;
            let mut ended = samples.iter().filter(|(name, _)| name.starts_with("vllm:request_success_total{"));
            if ended.any(|(name, n)| name.contains("finished_reason=\"abort\"") && *n == 2.0) {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, aborted).await.expect("both were given up");
}

/// An InferencePool's `appProtocol` is `http` or `kubernetes.io/h2c`: HTTP/1.1, and HTTP/2 without TLS or an upgrade.
#[tokio::test]
async fn both_application_protocols_of_a_pool_are_spoken() {
    let Some(agent) = Agent::start(&["--gateway-listen", "127.0.0.1:0"]).await else { return };
    for (http2, version) in [(false, Version::HTTP_11), (true, Version::HTTP_2)] {
        let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http::<Full<Bytes>>();
        let uri = format!("http://{}/v1/chat/completions", agent.gateway.unwrap());
        let request = Request::post(uri)
            .header("content-type", "application/json")
            // What a gateway adds means nothing to an agent.
            .header("x-gateway-destination-endpoint", "10.0.0.9:8000")
            .header("x-gateway-model-name", "other")
            .body(Full::from(with(chat("Hi", 2), json!({"stream": true})).to_string()))
            .unwrap();
        let answer = client.request(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
        assert_eq!(Answer::read(answer).await.events().last().unwrap(), "[DONE]");
    }
}
