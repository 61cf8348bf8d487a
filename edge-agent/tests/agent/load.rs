//! The program under more than it can do: told to end, and stuck.

use std::process::Stdio;

use futures::future::join_all;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{Agent, Answer, LIMIT, chat, until, with};

/// Three run, four wait, more come: each gets an answer, none half of one.
#[tokio::test]
async fn sigterm_under_load_finishes_what_was_taken_and_answers_the_rest() {
    let flags = ["--max-sequences", "3", "--queue-limit", "4", "--drain-timeout", "240"];
    let Some(mut agent) = Agent::start(&flags).await else { return };
    let load = async |agent: &Agent| agent.get(agent.plain, "/terrace/status").await.json()["load"].clone();
    let body = |n: u32, stream: bool| {
        let more = json!({"stream": stream, "temperature": 1.0, "seed": n});
        with(chat(&format!("Write a story about {n} ships."), 60), more)
    };
    let (early, late) = (0..7u32, 7..20u32);
    let ask = async |n: u32| {
        Answer::read(agent.send(agent.json("/v1/chat/completions", &body(n, n.is_multiple_of(2)))).await).await
    };
    let full = async {
        let mut now = load(&agent).await;
        while (now["running"].as_u64(), now["queued"].as_u64()) != (Some(3), Some(4)) {
            now = load(&agent).await;
        }
        agent.terminate();
        // Over connections that are there and over new ones.
        join_all(late.map(ask)).await
    };
    let all = async { tokio::join!(join_all(early.map(ask)), full) };
    let (taken, refused) = tokio::time::timeout(LIMIT, all).await.expect("someone got no answer");
    for (n, answer) in taken.into_iter().enumerate() {
        assert_eq!(answer.status, 200, "{n}: {}", answer.text());
        if n % 2 == 0 {
            assert_eq!(answer.events().last().unwrap(), "[DONE]", "{n}");
        } else {
            assert!(answer.json()["choices"][0]["finish_reason"].is_string(), "{n}");
        }
    }
    for answer in refused {
        // Until the signal is seen the queue is full, or a place in it has just become free.
        if answer.status == 200 {
            assert!(answer.text().contains("finish_reason"), "{}", answer.text());
        } else {
            let (status, code) = (answer.status, answer.code());
            assert!([(503, "draining"), (429, "rate_limited")].contains(&(status, &code)), "{status} {code}");
        }
    }
    assert_eq!(agent.ended().await.code(), Some(0), "{}", agent.log());
}

/// The HTTP server answers, and yet the program is not alive: what liveness is for.
#[tokio::test]
async fn an_engine_that_hangs_fails_liveness_and_nothing_else() {
    let Some(agent) = Agent::start(&[]).await else { return };
    assert_eq!(agent.get(agent.admin, "/livez").await.status, 200);
    let mut stuck = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/stuck.py"))
        .args([agent.child.id().unwrap().to_string(), "engine".into()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(stuck.stdout.take().unwrap()).read_line(&mut said).await.unwrap();
    if said != "stopped\n" {
        let why = stuck.wait_with_output().await.unwrap();
        panic!("a thread could not be stopped (kernel.yama.ptrace_scope?): {}", String::from_utf8_lossy(&why.stderr));
    }
    let livez = async |status: u16| {
        let looking = async {
            loop {
                let answer = agent.get(agent.admin, "/livez").await;
                if answer.status == status {
                    return answer.text();
                }
            }
        };
        tokio::time::timeout(LIMIT, looking).await.unwrap_or_else(|_| panic!("/livez never says {status}"))
    };
    assert!(livez(503).await.starts_with("engine: no step for "));
    let ready = agent.get(agent.admin, "/readyz").await;
    assert_eq!(ready.status, 503, "nothing new is sent where nothing is done");
    assert!(ready.text().starts_with("engine: no step for "));
    assert_eq!(agent.get(agent.plain, "/terrace/status").await.status, 200);

    // It was only slow: it goes on, and so does its work.
    drop(stuck.stdin.take());
    until("end of the stop", || stuck.try_wait().unwrap()).await;
    livez(200).await;
    assert_eq!(agent.post("/v1/chat/completions", &chat("Hi", 1)).await.status, 200);
}
