//! Running a command to its end, with a deadline, and saying all of it when it fails.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// What a command left.
pub struct Output {
    /// Its exit code; 255 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `command` with `input`; a command that fails is no error here.
pub async fn output(mut command: Command, input: Option<&str>, limit: Duration) -> anyhow::Result<Output> {
    let line = line(&command);
    command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot start {line}"))?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes()).await.with_context(|| format!("{line} does not read its input"))?;
    }
    let done = tokio::time::timeout(limit, child.wait_with_output())
        .await
        .with_context(|| format!("{line} did not end within {limit:?}"))??;
    Ok(Output {
        code: done.status.code().unwrap_or(255),
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    })
}

/// Runs `command`; anything but exit code 0 is an error with what it printed.
pub async fn run(command: Command, input: Option<&str>, limit: Duration) -> anyhow::Result<String> {
    let line = line(&command);
    let done = output(command, input, limit).await?;
    anyhow::ensure!(done.code == 0, "{line} ended with {}:\n{}{}", done.code, done.stdout, done.stderr);
    Ok(done.stdout)
}

/// Ends a program as Kubernetes does, by SIGTERM, and waits until it has finished what it had; anything but exit code 0 is
/// an error.
pub async fn terminate(who: &str, mut child: Child, limit: Duration) -> anyhow::Result<()> {
    let pid = child.id().with_context(|| format!("{who} has ended by itself"))?.to_string();
    let mut kill = Command::new("kill");
    kill.args(["-TERM", &pid]);
    run(kill, None, Duration::from_secs(5)).await?;
    let status = tokio::time::timeout(limit, child.wait()).await;
    let status = status.with_context(|| format!("{who} did not end within {limit:?} of SIGTERM"))??;
    anyhow::ensure!(status.success(), "{who} ended with {status}");
    Ok(())
}

fn line(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
