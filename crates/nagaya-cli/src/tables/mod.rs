//! `nagaya tables`: the tables of a design on a store whose tables are created explicitly.

#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "dynamodb")]
mod show;

use std::path::PathBuf;

use super::Outcome;

/// Plan, create, inspect and drop the tables of a design
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Where the tables are: DYNAMODB_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and all else \
                  that AWS tools know. For a server on this machine, DYNAMODB_ENDPOINT is enough.\n\nThe embedded store \
                  creates its tables itself."
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Show what has to be done; change nothing
    #[command(
        after_help = "Exits with 0 whether there is something to do or not, unless --exit-code is given; with 1 on a conflict."
    )]
    Plan {
        #[command(flatten)]
        target: TableArgs,
        #[command(flatten)]
        options: ChangeOptions,
        /// Exit with 1 when there is something to do
        #[arg(long)]
        exit_code: bool,
    },
    /// Show what has to be done, ask, and do it
    Apply {
        #[command(flatten)]
        target: TableArgs,
        #[command(flatten)]
        options: ChangeOptions,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show the tables and how far their indexes are
    Status {
        #[command(flatten)]
        target: TableArgs,
    },
    /// Delete the tables of the design
    Drop {
        #[command(flatten)]
        target: TableArgs,
        /// Delete tables that hold items, too
        #[arg(long)]
        drop: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct TableArgs {
    /// A design file, or a built-in system (a file of that name wins)
    design: PathBuf,
    /// The store
    #[arg(long, value_enum)]
    store: Kind,
    /// The value of `{base}` in table names; by default the design's name
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    base: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Stores whose tables are created explicitly.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// DynamoDB, DynamoDB Local or a compatible server
    Dynamodb,
}

#[derive(Debug, Default, clap::Args)]
struct ChangeOptions {
    /// Only the first N indexes of each table, to add them one deployment at a time; 0 is none
    #[arg(long, value_name = "N")]
    stage: Option<usize>,
    /// Remove indexes that the design does not have
    #[arg(long)]
    prune: bool,
    /// Protect the tables against deletion
    #[arg(long)]
    protect: bool,
    #[command(flatten)]
    kms_key: KmsKey,
    /// A tag for each table, besides that of the design (may be given several times)
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
}

/// The key of tables that a design wants encrypted.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct KmsKey {
    /// The customer-managed key for tables with `encryption = "kms"`: its id, ARN or alias. By default the AWS managed key
    /// of the account
    #[arg(long, value_name = "KEY", env = "NAGAYA_KMS_KEY_ID")]
    kms_key_id: Option<String>,
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    if key.is_empty() { Err("the key is empty".to_owned()) } else { Ok((key.to_owned(), value.to_owned())) }
}

#[cfg(feature = "dynamodb")]
pub(crate) use self::dynamodb::{create_missing as create_dynamodb_tables, plan_for as dynamodb_plan};

#[cfg(feature = "dynamodb")]
pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    dynamodb::run(&args.subcommand)
}

#[cfg(not(feature = "dynamodb"))]
pub(super) fn run(_: &Args) -> anyhow::Result<Outcome> {
    anyhow::bail!(
        "this build has no DynamoDB engine; release builds have it, and from the sources it is built with \
         `cargo install --path crates/nagaya-cli --features dynamodb`"
    )
}

/// Without the engine, opening the store has failed before.
#[cfg(not(feature = "dynamodb"))]
#[expect(clippy::unused_async, reason = "the same form as with the engine built in")]
pub(crate) async fn create_dynamodb_tables(
    _: nagaya_design::Design,
    _: Option<String>,
    _: &KmsKey,
) -> anyhow::Result<()> {
    Ok(())
}
