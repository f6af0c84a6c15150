use super::Outcome;
/// x
#[derive(Debug, clap::Args)]
pub(super) struct Args {}
pub(super) fn run(_: &Args) -> anyhow::Result<Outcome> { Ok(Outcome::Fine) }
