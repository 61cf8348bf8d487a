//! A scripted tier: the same answer at once, whole or as fifty events, each written by itself.
//!
//! The request's `user` chooses: `paced` waits 2 ms before each event, as a model would; `held` says one word and the
//! rest once it is let go.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use terrace_contract::load::Load;
use terrace_contract::status::{AgentStatus, DeviceStatus, ModelStatus};
use terrace_wire::sse;
use tokio::sync::watch;

/// The name of its model.
pub const MODEL: &str = "small";
/// Pieces of an answer, and events with content of one that streams.
pub const PIECES: usize = 50;
/// The pace of a paced stream.
const PACE: Duration = Duration::from_millis(2);

/// One tier.
pub struct Tier {
    /// The UID of its pod; none: it is an endpoint and says nothing of itself.
    agent: Option<&'static str>,
    whole: Bytes,
    events: Vec<Bytes>,
    usage: Bytes,
    beside: Bytes,
    load: String,
    /// Held streams go on when it changes.
    release: watch::Sender<()>,
}

/// What of a request it looks at.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    user: String,
    #[serde(default)]
    stream_options: Value,
}

impl Tier {
    /// An agent, by the UID of its pod, or an endpoint.
    pub fn new(agent: Option<&'static str>) -> Arc<Self> {
        let head = |object: &str| json!({"id": "chatcmpl-0123456789abcdef", "object": object, "created": 1_700_000_000, "model": MODEL});
        let usage = json!({"prompt_tokens": 40, "completion_tokens": PIECES, "total_tokens": 40 + PIECES});
        let choice = |member: &str, said: Value, finish: Value| json!([{"index": 0, member: said, "logprobs": null, "finish_reason": finish}]);
        let mut whole = head("chat.completion");
        let message = json!({"role": "assistant", "content": " word".repeat(PIECES)});
        whole["choices"] = choice("message", message, "stop".into());
        whole["usage"] = usage.clone();
        let beside = json!({"load": load(), "cost": {"computeUs": 1_000}});
        if agent.is_some() {
            whole["terrace"] = beside.clone();
        }
        let event = |choices: Value| {
            let mut event = head("chat.completion.chunk");
            event["choices"] = choices;
            event
        };
        let role = choice("delta", json!({"role": "assistant", "content": ""}), Value::Null);
        let mut events = vec![sse::json_event(&event(role))];
        let piece = sse::json_event(&event(choice("delta", json!({"content": " word"}), Value::Null)));
        events.extend(std::iter::repeat_n(piece, PIECES));
        events.push(sse::json_event(&event(choice("delta", json!({}), "stop".into()))));
        let mut last = event(json!([]));
        last["usage"] = usage;
        let mut figures = event(json!([]));
        figures["terrace"] = beside;
        Arc::new(Self {
            agent,
            whole: Bytes::from(whole.to_string()),
            events,
            usage: sse::json_event(&last),
            beside: sse::json_event(&figures),
            load: load().to_header(),
            release: watch::channel(()).0,
        })
    }

    /// What it answers: completions, an agent's status, what other routers ask of a server, and a collector's path.
    pub fn routes(self: &Arc<Self>) -> Router {
        let well = || get(|| async { "{\"status\": \"ok\"}" });
        let described = || {
            get(|| async {
                axum::Json(json!({"model_path": MODEL, "served_model_name": MODEL, "is_generation": true}))
            })
        };
        Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/terrace/status", get(status))
            .route(
                "/v1/models",
                get(|| async { axum::Json(json!({"object": "list", "data": [{"id": MODEL, "object": "model"}]})) }),
            )
            .route("/health", well())
            .route("/health_generate", well())
            .route("/get_model_info", described())
            .route("/model_info", described())
            .route("/get_server_info", described())
            .route("/server_info", described())
            .route("/release", post(release))
            .route("/v1/traces", post(|_body: Bytes| async { "" }))
            .with_state(Arc::clone(self))
    }

    /// The events of one answer.
    fn stream(self: &Arc<Self>, asked: &Asked) -> Body {
        let mut events: VecDeque<Bytes> = self.events.iter().cloned().collect();
        if asked.stream_options.get("include_usage") == Some(&Value::Bool(true)) {
            events.push_back(self.usage.clone());
        }
        if self.agent.is_some() {
            events.push_back(self.beside.clone());
        }
        events.push_back(sse::done_event());
        let (paced, held) = (asked.user == "paced", asked.user == "held");
        let (all, released) = (events.len(), self.release.subscribe());
        Body::from_stream(futures::stream::unfold(events, move |mut events| {
            let mut released = released.clone();
            async move {
                let next = events.pop_front()?;
                if paced {
                    tokio::time::sleep(PACE).await;
                } else if held && events.len() + 3 == all {
                    // Nobody who could let it go is left: this program ends.
                    let _ = released.changed().await;
                } else {
                    // Written before the next one is looked at.
                    tokio::task::yield_now().await;
                }
                Some((Ok::<_, Infallible>(next), events))
            }
        }))
    }
}

fn load() -> Load {
    Load {
        slots: 4096,
        queue_limit: 4096,
        prefill_rate: 1e6,
        step_base_us: 100.0,
        step_per_sequence_us: 0.1,
        free_kv_blocks: 1 << 20,
        total_kv_blocks: 1 << 20,
        ..Load::default()
    }
}

async fn complete(State(tier): State<Arc<Tier>>, request: Request<Body>) -> Result<Response<Body>, String> {
    let body = request.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
    let asked: Asked = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
    let mut response = Response::builder();
    if tier.agent.is_some() {
        response = response.header("endpoint-load-metrics", &tier.load);
    }
    let (kind, body) = if asked.stream {
        ("text/event-stream", tier.stream(&asked))
    } else {
        ("application/json", Body::from(tier.whole.clone()))
    };
    response.header("content-type", kind).body(body).map_err(|e| e.to_string())
}

async fn release(State(tier): State<Arc<Tier>>) {
    tier.release.send_replace(());
}

async fn status(State(tier): State<Arc<Tier>>) -> axum::Json<AgentStatus> {
    axum::Json(AgentStatus {
        schema_version: 1,
        pod_uid: tier.agent.unwrap_or_default().to_owned(),
        node: "n1".into(),
        model: ModelStatus {
            name: MODEL.into(),
            digest: String::new(),
            format: String::new(),
            parameters: String::new(),
            context_tokens: 32_768,
        },
        device: DeviceStatus { kind: "cpu".into(), detail: String::new(), fallback: None },
        load: load(),
        draining: false,
    })
}
