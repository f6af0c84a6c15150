//! `nagaya lambda`: a system as functions of AWS Lambda.

#[cfg(feature = "lambda")]
mod api;
#[cfg(feature = "lambda")]
mod function;
#[cfg(feature = "lambda")]
mod stream;

use super::{
    Outcome,
    serve::{PlanArgs, StoreArgs, TokenArgs},
};

/// Run a system as a function of AWS Lambda
///
/// `SYSTEM.api` answers the requests of an API Gateway or a load balancer. `SYSTEM.stream` reads the stream of the table
/// with the events, and keeps the projections up to date. Lambda starts it without arguments and names the handler.
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
    /// The issuer of the tokens; `SYSTEM.api` needs it
    #[arg(long, value_name = "URL", env = "NAGAYA_ISSUER", requires = "audience")]
    issuer: Option<String>,
    /// The audience that tokens of that issuer must have
    #[arg(long, value_name = "NAME", env = "NAGAYA_AUDIENCE", value_delimiter = ',')]
    audience: Vec<String>,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    plans: PlanArgs,
    /// What is logged, such as `info` or `nagaya=debug`
    #[arg(long, value_name = "FILTER", default_value = "info", env = "NAGAYA_LOG")]
    log: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    #[cfg(feature = "lambda")]
    return function::run(args);
    #[cfg(not(feature = "lambda"))]
    {
        let Args { handler, store, issuer, audience, tokens, plans, log } = args;
        let _ = (store, issuer, audience, tokens, plans, log);
        anyhow::bail!("this build cannot run `{handler}` as a function; build with `--features lambda`");
    }
}
