//! `nagaya lambda`: a system as functions of AWS Lambda.

#[cfg(feature = "lambda")]
mod api;
#[cfg(feature = "lambda")]
mod function;
#[cfg(feature = "lambda")]
mod stream;

use super::{
    Outcome,
    serve::{ApiArgs, Limits, LogArgs, PlanArgs, StoreArgs},
};

/// Run a system as a function of AWS Lambda
///
/// `SYSTEM.api` answers the requests of an API Gateway or a load balancer. `SYSTEM.stream` gets the changes of a table from its
/// stream, and keeps projections, counts and search indexes up to date. Lambda starts it without arguments and names the
/// handler. The settings are those of `nagaya serve`, as variables.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya lambda todo.api --store dynamodb      with AWS_LAMBDA_RUNTIME_API, as Lambda sets it\n\n\
                  A function whose program is called `bootstrap` runs this command by itself."
)]
pub(super) struct Args {
    /// The system and the function of it: `todo.api`, `todo.stream`
    #[arg(value_name = "SYSTEM.FUNCTION", env = "_HANDLER")]
    handler: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    plans: PlanArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    #[cfg(feature = "lambda")]
    return function::run(args);
    #[cfg(not(feature = "lambda"))]
    {
        let Args { handler, store, api, limits, logs, plans } = args;
        let _ = (store, api, limits, logs, plans);
        anyhow::bail!("this build cannot run `{handler}` as a function; build with `--features lambda`");
    }
}
