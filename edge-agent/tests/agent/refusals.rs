//! What a bad request gets, and what a program gets that cannot start.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use terrace_contract::load::Load;

use crate::embeddings::file;
use crate::support::{Agent, Answer, LIMIT, MODEL, SHA256, chat, log, model, program, with};
use crate::tiny;

#[tokio::test]
async fn each_fault_has_its_status_its_code_and_its_place() {
    let Some(agent) = Agent::start(&["--context-tokens", "256"]).await else { return };
    let ok = chat("Hi", 1);
    let word = "word ".repeat(2000);
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]);
    let cases = [
        (
            with(ok.clone(), json!({"messages": [{"role": "wizard", "content": "x"}]})),
            400,
            "invalid_request",
            "/messages/0/role",
        ),
        (with(ok.clone(), json!({"temperature": 9})), 400, "invalid_request", "/temperature"),
        (with(ok.clone(), json!({"model": "gpt-9"})), 404, "model_not_found", "/model"),
        (with(ok.clone(), json!({"tools": [{"type": "function"}]})), 400, "invalid_request", "/tools/0/function"),
        (
            with(
                ok.clone(),
                json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "integer"}}}]}),
            ),
            400,
            "invalid_request",
            "/tools/0/function/parameters/type",
        ),
        (with(ok.clone(), json!({"messages": image})), 422, "unsupported_feature", "/messages/0/content/0/type"),
        (
            with(ok.clone(), json!({"response_format": {"type": "yaml"}})),
            422,
            "unsupported_feature",
            "/response_format/type",
        ),
        (with(ok.clone(), json!({"n": 100})), 400, "invalid_request", "/n"),
        (with(ok.clone(), json!({"unheard_of": 1})), 400, "invalid_request", "/[4]"),
        (chat(&word, 1), 422, "context_too_long", "/messages"),
        // Refused by its length: cut into tokens it would take seconds and a hundred times its size.
        (chat(&"<|im_end|>".repeat(350_000), 1), 422, "context_too_long", "/messages"),
        // By its tokens.
        (chat(&"a b ".repeat(130), 1), 422, "context_too_long", "/messages"),
    ];
    for (body, status, code, place) in cases {
        let answer = agent.post("/v1/chat/completions", &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"].as_str().unwrap_or(""), place);
        assert!(Load::from_header(answer.headers["endpoint-load-metrics"].to_str().unwrap()).is_some());
    }
    let long = agent.post("/v1/chat/completions", &chat(&word, 1)).await.text();
    assert!(long.contains("256"), "{long}");

    // Likewise a text without a template, and one to embed.
    let words = "<|im_end|>".repeat(350_000);
    for (path, body, place) in [
        ("/v1/completions", json!({"model": "auto", "prompt": [words]}), "/prompt/0"),
        ("/v1/completions", json!({"model": "auto", "prompt": words}), "/prompt"),
        ("/v1/embeddings", json!({"model": "auto", "input": [words]}), "/input/0"),
    ] {
        let answer = agent.post(path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "context_too_long"), "{path}: {}", answer.text());
        assert!(answer.text().contains("more than"), "{path} cut the text up first: {}", answer.text());
        assert_eq!(answer.json()["error"]["param"], place);
    }
    for (prompt, place) in [(json!(vec![5; 300]), "/prompt"), (json!([vec![5; 3], vec![5; 300]]), "/prompt/1")] {
        let answer = agent.post("/v1/completions", &json!({"model": "auto", "prompt": prompt})).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "context_too_long"), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], place);
    }

    let raw = async |method: &str, path: &str, body: &[u8]| {
        let uri = format!("http://{}{path}", agent.plain);
        let request =
            Request::builder().method(method).uri(uri).body(Full::from(Bytes::copy_from_slice(body))).unwrap();
        let answer = Answer::read(agent.send(request).await).await;
        (answer.status, answer.code())
    };
    assert_eq!(raw("POST", "/v1/chat/completions", br#"{"model": "#).await, (400, "invalid_request".into()));
    assert_eq!(raw("POST", "/v1/chat/completions", &vec![b' '; 10 << 20]).await, (413, "request_too_large".into()));
    for (body, said) in
        [(&b"GARBAGE"[..], "line 1 column 1: a value"), (b"", "empty"), (b"[1]", "must be a JSON object")]
    {
        let uri = format!("http://{}/v1/chat/completions", agent.plain);
        let request = Request::post(uri).body(Full::from(Bytes::copy_from_slice(body))).unwrap();
        let answer = Answer::read(agent.send(request).await).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"));
        assert_eq!(answer.json()["error"]["param"], "/");
        assert!(answer.text().contains(said) && answer.text().contains("JSON object"), "{}", answer.text());
    }
    assert_eq!(raw("GET", "/v1/chat/completions", b"").await, (405, "method_not_allowed".into()));
    assert_eq!(raw("GET", "/v2", b"").await, (404, "not_found".into()));
    // The control, after all of it.
    assert_eq!(agent.post("/v1/chat/completions", &ok).await.status, 200);
}

/// Such values were taken as if nothing were wrong, or said not to be supported.
#[tokio::test]
async fn what_openai_refuses_of_a_conversation_is_refused_with_its_place() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let ok = chat("Hi", 1);
    let user = json!({"role": "user", "content": "Hi"});
    let orphan = json!({"role": "tool", "tool_call_id": "call_9", "content": "7"});
    for (body, place) in [
        (with(ok.clone(), json!({"messages": [{"role": "user", "content": null}]})), "/messages/0/content"),
        (with(ok.clone(), json!({"messages": [{"role": "user"}]})), "/messages/0/content"),
        (with(ok.clone(), json!({"messages": [{"role": "assistant", "content": null}, user]})), "/messages/0/content"),
        (with(ok.clone(), json!({"messages": [user, orphan]})), "/messages/1/tool_call_id"),
        (with(ok.clone(), json!({"store": "yes"})), "/store"),
        (with(ok.clone(), json!({"verbosity": 3})), "/verbosity"),
        (with(ok.clone(), json!({"modalities": "text"})), "/modalities"),
    ] {
        let answer = agent.post("/v1/chat/completions", &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], place);
    }
    assert_eq!(agent.post("/v1/chat/completions", &with(ok, json!({"store": false}))).await.status, 200);
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let Some(agent) = Agent::start(&["--queue-limit", "0"]).await else { return };
    let long = agent
        .send(agent.json("/v1/chat/completions", &with(chat("Count to a million.", 2000), json!({"stream": true}))))
        .await;
    assert_eq!(long.status(), 200);
    let refused = agent.post("/v1/chat/completions", &chat("Hi", 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"), "{}", refused.text());
    assert!(refused.headers["retry-after-ms"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    drop(long);
}

/// Runs the program to its end and returns its termination message.
pub async fn ends(flags: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut child = program(folder.path(), flags);
    let status = tokio::time::timeout(LIMIT, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(1), "{}", log(folder.path()));
    let left: Value = serde_json::from_slice(&std::fs::read(folder.path().join("termination")).unwrap()).unwrap();
    let sentence = left["message"].as_str().unwrap();
    assert!(log(folder.path()).contains(&sentence.replace('"', "\\\"")), "{sentence} / {}", log(folder.path()));
    left
}

#[tokio::test]
async fn a_program_that_cannot_serve_says_why_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let rubbish = folder.path().join("rubbish.gguf");
    std::fs::write(&rubbish, b"GGUX rubbish").unwrap();
    let rubbish = rubbish.display().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().to_string();
    let nobody = folder.path().display().to_string();
    let plain = ["--plain-listen", "127.0.0.1:0"];
    let url = format!("http://{}/m.gguf", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let pull = ["--model-url", &url, "--model-sha256", SHA256, "--cache-dir", &nobody, "--pull-patience", "0"];
    for (flags, reason, word) in [
        (vec!["--model", "/nowhere/m.gguf"], "NotFound", "/nowhere/m.gguf"),
        (vec!["--model", &rubbish], "InvalidModel", "not a GGUF"),
        (vec!["--model", &rubbish, "--model-sha256", SHA256], "DigestMismatch", SHA256),
        (vec!["--model", &rubbish, "--device", "cuda"], "DriverUnusable", "--device cpu"),
        (pull.to_vec(), "Unreachable", &url),
    ] {
        let left = ends(&[&flags[..], &plain].concat()).await;
        assert_eq!(left["reason"], reason, "{left}");
        assert!(left["message"].as_str().unwrap().contains(word), "{left}");
    }
    let left = ends(&["--model", &rubbish, "--plain-listen", &busy]).await;
    assert!(left["message"].as_str().unwrap().contains(&busy), "{left}");
    let left = ends(&["--model", &rubbish, "--listen", "127.0.0.1:0", "--identity-dir", &nobody]).await;
    assert!(left["message"].as_str().unwrap().contains("tls.crt"), "{left}");
}

/// Such an agent was Ready, and refused everyone.
#[tokio::test]
async fn a_context_without_room_for_an_answer_is_refused_at_load() {
    for (length, word) in [(5, "context_length"), (17, "of 16 tokens")] {
        let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
        writer.without_key("llama.context_length").u32("llama.context_length", length);
        let (_folder, path) = file(&writer);
        let left = ends(&["--model", &path.display().to_string(), "--plain-listen", "127.0.0.1:0"]).await;
        assert_eq!(left["reason"], "InvalidModel", "{left}");
        let said = left["message"].as_str().unwrap();
        assert!(said.contains(word) && said.contains("too short to answer"), "{left}");
    }
}

/// Such an agent was Ready, and every chat failed.
#[tokio::test]
async fn a_chat_template_that_always_fails_is_refused_at_load() {
    for (template, word) in
        [("{{ raise_exception('not today') }}", "not today"), ("{% for %}", "line 1"), ("{{ nothing() }}", "line 1")]
    {
        let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
        writer.without_key("tokenizer.chat_template").string("tokenizer.chat_template", template);
        let (_folder, path) = file(&writer);
        let left = ends(&["--model", &path.display().to_string(), "--plain-listen", "127.0.0.1:0"]).await;
        assert_eq!(left["reason"], "InvalidModel", "{left}");
        let said = left["message"].as_str().unwrap();
        assert!(said.contains(word) && said.contains("tokenizer.chat_template"), "{left}");
    }
}

/// Some refuse a shape on purpose: then that is the caller's affair, and the agent serves.
#[tokio::test]
async fn what_a_chat_template_refuses_has_its_place() {
    let picky = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system message') }}{% endif %}\
                 {{ m.content }}{% endfor %}";
    let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
    writer.without_key("tokenizer.chat_template").string("tokenizer.chat_template", picky);
    let (_folder, path) = file(&writer);
    let agent = Agent::serving(&path, &[]).await;
    let system = json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]);
    let refused =
        agent.post("/v1/chat/completions", &json!({"model": "auto", "messages": system, "max_tokens": 1})).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"), "{}", refused.text());
    assert_eq!(refused.json()["error"]["param"], "/messages");
    assert!(refused.text().contains("no system message"), "{}", refused.text());
    let user = json!([{"role": "user", "content": "Hi"}]);
    let taken = agent.post("/v1/chat/completions", &json!({"model": "auto", "messages": user, "max_tokens": 1})).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
}

#[tokio::test]
async fn an_unknown_architecture_is_named() {
    let Some(path) = model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    // The value of general.architecture is "llama"; a name of the same length is another architecture.
    let key = b"general.architecture";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap() + key.len() + 4 + 8;
    assert_eq!(&bytes[at..at + 5], b"llama");
    bytes[at..at + 5].copy_from_slice(b"lemur");
    let file = folder.path().join("m.gguf");
    std::fs::write(&file, bytes).unwrap();
    let left = ends(&["--model", &file.display().to_string(), "--plain-listen", "127.0.0.1:0"]).await;
    assert_eq!(left["reason"], "InvalidModel");
    assert!(left["message"].as_str().unwrap().contains("lemur"), "{left} {MODEL}");
}
