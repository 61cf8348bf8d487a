//! The operator: watches the kinds, applies children, serves snapshots, folds reports into status.

use clap::Parser;
use terrace_operator::{probe::Probe, run, settings::Settings};

fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("probe") {
        let answer = Probe::parse_from(std::env::args_os().skip(1)).run()?;
        std::io::Write::write_all(&mut std::io::stdout(), answer.as_bytes())?;
        return Ok(());
    }
    terrace_identity::install_crypto_provider();
    let settings = Settings::parse();
    terrace_telemetry::shutdown::block_on(serve(settings))?
}

async fn serve(settings: Settings) -> anyhow::Result<()> {
    let mut options = terrace_telemetry::Options::from_env("terrace-operator");
    options.otlp_endpoint = settings.site().otlp_endpoint;
    let _telemetry = terrace_telemetry::init(options)?;
    let stop = terrace_telemetry::shutdown::on_signal()?;
    run::run(settings, stop).await
}
