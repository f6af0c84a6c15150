//! `nagaya events verify`.

use nagaya_events::ChainReport;
use serde_json::{Value as Json, json};

use super::{SystemArgs, opened::Opened, print::without_control_chars};
use crate::{
    Outcome,
    output::{counted, print},
    progress,
};

/// Verify that no event is missing, changed or out of order
///
/// Each event's hash includes the one before, and the aggregate's head holds the end of the chain.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nagaya events verify todo\n  nagaya events verify todo --tenant demo \
                  01KG9S5Q60T4N2Y8ZC3M7VXR1E\n  nagaya events verify todo --tenant demo 01KG9S5Q60T4N2Y8ZC3M7VXR1E --expect \
                  9f86d081…\n\nSomebody who can write to the store can make a new chain. Keep the end that is printed elsewhere, \
                  and compare with --expect.\n\nExit codes: 0 fine, 1 a chain is broken, 2 the command could not run.")]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    /// The aggregate; by default all
    #[arg(requires = "tenant")]
    id: Option<String>,
    /// The tenant of the aggregate
    #[arg(long, value_name = "TENANT", requires = "id")]
    tenant: Option<String>,
    /// The type of aggregate, if the design has several
    #[arg(long, value_name = "NAME")]
    aggregate: Option<String>,
    /// The end of its chain, as recorded elsewhere
    #[arg(long, value_name = "HASH", requires = "id")]
    expect: Option<String>,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(opened) = Opened::open(&args.at).await? else { return Ok(Outcome::FoundProblem) };
    match (&args.id, &args.tenant) {
        (Some(id), Some(tenant)) => verify_aggregate(args, &opened, tenant, id).await,
        _ => verify_all(args, &opened).await,
    }
}

async fn verify_aggregate(args: &Args, opened: &Opened, owner: &str, id: &str) -> anyhow::Result<Outcome> {
    let aggregate = opened.aggregate(args.aggregate.as_deref())?;
    let tenant = opened.tenant("nagaya events verify", owner)?;
    let (events, found) = opened.inspector(aggregate)?.verify(&tenant, id).await?;
    let end = found.as_ref().ok().filter(|_| events > 0).cloned();
    let found = match (found, &args.expect) {
        (Ok(_), _) if events == 0 => Err(format!("{owner} has no {aggregate} {id}")),
        (Ok(end), Some(expected)) if !end.eq_ignore_ascii_case(expected.trim()) => {
            Err(format!("its chain ends in {end}, and not in what was expected"))
        }
        (found, _) => found,
    };
    let told = json!({
        "ok": found.is_ok(), "aggregate": aggregate, "tenant": owner, "id": id, "events": events,
        "chainEnd": end, "problem": found.as_ref().err(),
    });
    let text = match &found {
        Ok(end) => format!("{}: nothing is missing or changed; the chain ends in\n{end}\n", counted(events, "event")),
        Err(why) => format!("{}: {why}\n", without_control_chars(id)),
    };
    print(args.at.json, &told, &text, found.is_ok())
}

async fn verify_all(args: &Args, opened: &Opened) -> anyhow::Result<Outcome> {
    let operator = opened.operator("nagaya events verify");
    let wanted: Vec<&str> = match &args.aggregate {
        Some(name) => vec![opened.aggregate(Some(name))?],
        None => opened.aggregates().collect(),
    };
    let (mut kinds, mut text, mut whole) = (Vec::new(), String::new(), true);
    for aggregate in wanted {
        let inspector = opened.inspector(aggregate)?;
        let heads = operator.change_source(inspector.head_entity()).await?;
        let events = operator.change_source(inspector.entity()).await?;
        let bar = progress::of_events(&format!("{aggregate}s"));
        let mut chains = inspector.verify_all(&events, &|count| bar.set_position(count)).await?;
        bar.set_message("looking for heads without events");
        let hollow = inspector.find_heads_without_events(&heads).await?;
        chains.aggregates += hollow.len() as u64;
        chains.broken.extend(hollow);
        bar.finish_and_clear();
        whole &= chains.broken.is_empty();
        text.push_str(&chains_text(aggregate, &chains));
        kinds.push(chains_json(aggregate, &chains));
    }
    print(args.at.json, &json!({ "ok": whole, "aggregates": kinds }), &text, whole)
}

fn chains_text(aggregate: &str, chains: &ChainReport) -> String {
    let mut text: String = chains
        .broken
        .iter()
        .map(|each| {
            format!(
                "{} of {}: {}\n",
                without_control_chars(&each.aggregate),
                without_control_chars(&each.tenant),
                without_control_chars(&each.why)
            )
        })
        .collect();
    let looked = format!("{} of {}", counted(chains.events, "event"), counted(chains.aggregates, aggregate));
    text.push_str(&match chains.broken.len() {
        0 => format!("{looked}: nothing is missing or changed\n"),
        broken => format!("{looked}: {broken} broken\n"),
    });
    text
}

fn chains_json(aggregate: &str, chains: &ChainReport) -> Json {
    let broken: Vec<_> = chains
        .broken
        .iter()
        .map(|each| json!({ "tenant": each.tenant, "id": each.aggregate, "reason": each.why }))
        .collect();
    json!({ "aggregate": aggregate, "aggregateCount": chains.aggregates, "events": chains.events, "broken": broken })
}
