//! What goes to a router beside an answer, and to nobody else: hidden states, confidence, cost.

use serde_json::{Value, json};
use terrace_agent::gguf::{Gguf, Tokenizer};
use terrace_identity::{Caller, Identity};
use terrace_wire::answer::Terrace;

use crate::embeddings::{file, small};
use crate::reference::Reference;
use crate::support::{Agent, Answer, MODEL, call, with};
use crate::tiny::{self, Family, Kind, WIDTH};

const PATH: &str = "/v1/completions";

fn body(prompt: &str) -> Value {
    json!({"model": MODEL, "prompt": prompt, "max_tokens": 6, "temperature": 0})
}

async fn asked(router: &Caller, headers: &[(&str, &str)], body: &Value) -> Answer {
    let answer = call(router, PATH, headers, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// The `terrace` member of a whole answer.
fn beside(answer: &Answer) -> Terrace {
    serde_json::from_value(answer.json()["terrace"].clone()).unwrap()
}

fn off(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).powi(2)).sum();
    (difference / expected.iter().map(|e| e * e).sum::<f64>()).sqrt()
}

#[tokio::test]
async fn hidden_states_of_the_prompt_come_as_asked_whole_and_streamed() {
    for family in Family::ALL {
        let (_folder, path) = file(&tiny::writer(family, Kind::F32));
        let agent = Agent::serving(&path, &[]).await;
        let router = agent.caller(&Identity::policy("c-1", "shop", "chat"));
        let prompt = "What a router may learn from: 48 bytes, and more";
        let gguf = Gguf::open(&path).unwrap();
        let tokens = Tokenizer::from_metadata(gguf.metadata()).unwrap().encode(prompt).unwrap();
        let reference = Reference::of(&gguf, family);
        let states: Vec<Vec<f64>> = (1..=tokens.len()).map(|n| reference.hidden(&tokens[..n])).collect();
        let mean: Vec<f64> =
            (0..WIDTH).map(|i| states.iter().map(|s| s[i]).sum::<f64>() / tokens.len() as f64).collect();
        let last = &states[tokens.len() - 1];

        let domain = ("x-terrace-cache-domain", "a");
        let both = [("x-terrace-hidden", "mean,last"), domain];
        let first = beside(&asked(&router, &both, &body(prompt)).await);
        let hidden = first.hidden.clone().unwrap();
        assert!(off(&hidden.mean().unwrap(), &mean) < 2e-3, "{family:?}");
        assert!(off(&hidden.last().unwrap(), last) < 2e-3, "{family:?}");
        // Confidence was not asked for; cost and load come with whatever was.
        assert!(first.confidence.is_none() && first.load.is_some());
        assert_eq!(first.cost.unwrap().cached_tokens, 0);

        // The prompt is in the cache by now: the mean takes nothing from it, the last token's state does not mind.
        let again = beside(&asked(&router, &both, &body(prompt)).await);
        assert_eq!((again.cost.unwrap().cached_tokens, again.hidden), (0, Some(hidden.clone())), "{family:?}");
        let only_last = beside(&asked(&router, &[("x-terrace-hidden", "last"), domain], &body(prompt)).await);
        assert!(only_last.cost.unwrap().cached_tokens >= 16, "{only_last:?}");
        let alone = only_last.hidden.unwrap();
        assert_eq!((&alone.last, &alone.mean), (&hidden.last, &None), "{family:?}");

        let streaming = with(body(prompt), json!({"stream": true}));
        let headers = [("x-terrace-hidden", "mean"), ("x-terrace-confidence", "1")];
        let events = asked(&router, &headers, &streaming).await.events();
        let event = |at: usize| serde_json::from_str::<Value>(&events[events.len() - at]).unwrap();
        let told: Terrace = serde_json::from_value(event(2)["terrace"].clone()).unwrap();
        let streamed = told.hidden.unwrap();
        assert_eq!((&streamed.mean, &streamed.last), (&hidden.mean, &None), "{family:?}");
        assert!(told.confidence.is_some() && event(2)["choices"] == json!([]));
        assert!(event(3).get("terrace").is_none());
    }
}

#[tokio::test]
async fn nobody_but_a_router_gets_anything_beside_an_answer() {
    let agent = small(&[]).await;
    let router = agent.caller(&Identity::policy("c-1", "shop", "chat"));
    for value in ["", "first", "mean;last"] {
        let refused = call(&router, PATH, &[("x-terrace-hidden", value)], &body("Hello")).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"), "{value}");
        assert!(refused.text().contains("x-terrace-hidden"), "{}", refused.text());
    }
    assert!(asked(&router, &[], &body("Hello")).await.json().get("terrace").is_none());
    for stream in [false, true] {
        let mut local = agent.json(PATH, &with(body("Hello"), json!({ "stream": stream })));
        for (name, value) in [("x-terrace-hidden", "mean,last"), ("x-terrace-confidence", "1")] {
            local.headers_mut().insert(name, value.parse().unwrap());
        }
        let answer = Answer::read(agent.send(local).await).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains("terrace") && !answer.text().contains("mean"), "{}", answer.text());
    }
}

/// Shares of the device's time add up; times that pass are at least one's own share of them.
#[tokio::test]
async fn an_answer_says_what_it_took() {
    let agent = small(&["--max-sequences", "4"]).await;
    let router = agent.caller(&Identity::policy("c-1", "shop", "chat"));
    let headers = [("x-terrace-confidence", "1"), ("x-terrace-cache-domain", "a")];
    let long = json!({"model": MODEL, "prompt": "y".repeat(90), "max_tokens": 40, "temperature": 1.5, "seed": 5});
    let alone = asked(&router, &headers, &long).await;
    let tokens = alone.json()["usage"]["completion_tokens"].as_u64().unwrap();
    let told = beside(&alone);
    let cost = told.cost.unwrap();
    assert_eq!((u64::from(cost.steps), cost.batch, cost.cached_tokens), (tokens - 1, 1.0, 0), "{cost:?}");
    assert!(cost.compute_us > 0 && cost.prefill_us > 0 && cost.decode_us > 0, "{cost:?}");
    // Alone, all of the device's work was its own, and nothing else took time but the loop around it.
    assert!(cost.compute_us <= cost.prefill_us + cost.decode_us, "{cost:?}");
    assert_eq!(u64::from(told.confidence.unwrap().tokens), tokens);
    assert!(told.hidden.is_none());
    assert!(beside(&asked(&router, &headers, &long).await).cost.unwrap().cached_tokens >= 80);

    // Four at once share their steps.
    let several = (0..4).map(|seed| {
        let (router, body) = (&router, with(long.clone(), json!({"seed": seed, "max_tokens": 100})));
        async move { beside(&asked(router, &headers, &body).await).cost.unwrap() }
    });
    let costs = futures::future::join_all(several).await;
    assert!(costs.iter().any(|cost| cost.batch > 1.5), "{costs:?}");
    for cost in costs {
        assert!(cost.batch <= 4.0 && cost.compute_us <= cost.prefill_us + cost.decode_us, "{cost:?}");
    }
}
