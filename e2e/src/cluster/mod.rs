//! Layer 4: charts, images, kinds, answers and failures on a real two-node cluster. The order below is the order of a fleet's life.

mod answers;
mod changes;
mod fault;
mod install;
mod machine;
mod outage;
mod privacy;
mod rbac;
mod removal;
pub mod soak;
mod trace;

use std::process::ExitCode;

use crate::client::{self, Answer, Question};
use crate::steps::Steps;
use crate::wait::secs;
use crate::{Place, shell};
use machine::Machine;

/// The namespace of the quick start.
const SHOP: &str = "shop";
/// The operator's.
const SYSTEM: &str = "terrace-system";
/// Of what stands outside Terrace: the model's file server and the cloud.
const OUTSIDE: &str = "outside";
/// The caller whose labels are trusted.
const KEY: &str = "sk-e2e-trusted";

/// What the steps share.
struct Scene<'a> {
    place: &'a Place,
    machine: Machine,
    tag: String,
}

impl Scene<'_> {
    /// A question to the policy's Service, asked on n1.
    async fn ask(&self, question: impl FnOnce(Question) -> Question, prompt: &str) -> anyhow::Result<Vec<Answer>> {
        let address = self.machine.address(SHOP, "assistant").await?;
        let question = question(Question::new(&format!("http://{address}/v1"), prompt).with("--key", KEY));
        let words = question.words(&self.place.arg("e2e/clients/ask.py"));
        let python = self.place.python()?;
        let words: Vec<&str> = std::iter::once(python.as_str()).chain(words.iter().map(String::as_str)).collect();
        client::answers(&self.machine.on("n1", &words, secs(240)).await?)
    }

    /// The same, for one answer.
    async fn ask_one(&self, question: impl FnOnce(Question) -> Question, prompt: &str) -> anyhow::Result<Answer> {
        self.ask(question, prompt).await?.pop().ok_or_else(|| anyhow::anyhow!("ask.py printed nothing"))
    }
}

/// Runs the suite. With `keep` the cluster stays.
pub async fn run(place: &Place, keep: bool, until: Option<String>) -> anyhow::Result<ExitCode> {
    let mut steps = Steps::new("cluster", until);
    let Some(machine) = steps.step("two nodes are Ready and DNS answers", secs(460), Machine::up(place, keep)).await
    else {
        return Ok(steps.end());
    };
    let tag = shell::run(git(place), None, secs(10)).await?.trim().to_owned();
    let scene = Scene { place, machine, tag };
    // Each part ends at its first failure, since what follows in it builds on it; parts with the same needs go on.
    if install::steps(&scene, &mut steps).await.is_some() {
        let _ = answers::steps(&scene, &mut steps).await;
        let _ = trace::steps(&scene, &mut steps).await;
        let _ = privacy::steps(&scene, &mut steps).await;
        let _ = outage::steps(&scene, &mut steps).await;
        let _ = changes::steps(&scene, &mut steps).await;
        let _ = rbac::missing(&scene, &mut steps).await;
        let _ = removal::steps(&scene, &mut steps).await;
        let _ = rbac::needless(&scene, &mut steps).await;
    }
    if steps.failures() > 0 {
        let evidence = scene.machine.evidence().await;
        let file = place.at("target/e2e/cluster-evidence.txt");
        std::fs::write(&file, &evidence)?;
        print(&format!(
            "{evidence}\nThe same is in {}; logs of every program in target/e2e/cluster/log.",
            file.display()
        ));
    }
    scene.machine.down().await?;
    Ok(steps.end())
}

fn git(place: &Place) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("git");
    command.arg("-C").arg(place.at("")).args(["rev-parse", "--short=12", "HEAD"]);
    command
}

#[expect(clippy::print_stdout, reason = "a test runner's output is its purpose")]
fn print(text: &str) {
    println!("{text}");
}
