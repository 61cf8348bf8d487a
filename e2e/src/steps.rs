//! Named steps with deadlines, printed and counted as cargo prints and counts tests.

use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The steps of one suite.
pub struct Steps {
    suite: &'static str,
    passed: u32,
    failed: Vec<String>,
    skipped: u32,
    until: Option<String>,
    stopped: bool,
}

impl Steps {
    /// No step yet. With `until`, steps after the one whose name holds that text are skipped.
    pub fn new(suite: &'static str, until: Option<String>) -> Steps {
        Steps { suite, passed: 0, failed: Vec::new(), skipped: 0, until, stopped: false }
    }

    /// One step. Its value, or none if it failed: its error is printed at once.
    pub async fn step<T>(
        &mut self,
        name: &str,
        limit: Duration,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> Option<T> {
        if self.stopped {
            self.skip(name, "after --until");
            return None;
        }
        let start = Instant::now();
        let result = match tokio::time::timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("not done within {limit:?}")),
        };
        let took = start.elapsed().as_secs_f64();
        self.stopped = self.until.as_ref().is_some_and(|until| name.contains(until.as_str()));
        match result {
            Ok(value) => {
                self.passed += 1;
                say(&format!("test {}: {name} ... ok ({took:.1} s)", self.suite));
                Some(value)
            }
            Err(error) => {
                self.failed.push(name.to_owned());
                say(&format!("test {}: {name} ... FAILED ({took:.1} s)\n{error:#}\n", self.suite));
                None
            }
        }
    }

    /// A step that cannot run here, and why.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.skipped += 1;
        say(&format!("test {}: {name} ... ignored, {why}", self.suite));
    }

    /// A figure that was measured, beside the steps.
    pub fn note(&self, text: &str) {
        say(&format!("note {}: {text}", self.suite));
    }

    /// Steps that failed so far.
    pub fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Prints the sum. The exit code says whether all passed.
    pub fn end(self) -> ExitCode {
        for name in &self.failed {
            say(&format!("failed: {}: {name}", self.suite));
        }
        let word = if self.failed.is_empty() { "ok" } else { "FAILED" };
        say(&format!(
            "test result: {word}. {} passed; {} failed; {} ignored",
            self.passed,
            self.failed.len(),
            self.skipped
        ));
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[expect(clippy::print_stdout, reason = "a test runner's output is its purpose")]
fn say(text: &str) {
    println!("{text}");
}
