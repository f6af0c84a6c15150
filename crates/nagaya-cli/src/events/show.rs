//! `nagaya events show`.

use std::fmt::Write as _;

use nagaya_events::RecordedEvent;
use serde_json::json;

use super::{
    SystemArgs,
    cause_tree::CauseTree,
    opened::Opened,
    print::{self, without_control_chars},
};
use crate::{
    Outcome,
    output::{counted, print},
};

/// Show the history of an aggregate: who did what, when, and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nagaya events show todo --tenant demo 01KG9S5Q60T4N2Y8ZC3M7VXR1E\n\nThe causes \
                  come from the correlation and causation id of each event: a request, something outside of the aggregate, \
                  or an earlier event.\n\nExit codes: 0 fine, 1 there is no such aggregate, or its events were changed, 2 the command could not run.")]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    /// The aggregate
    id: String,
    /// The tenant
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// The type of the aggregate, if the design has several
    #[arg(long, value_name = "NAME")]
    aggregate: Option<String>,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(opened) = Opened::open(&args.at).await? else { return Ok(Outcome::FoundProblem) };
    let aggregate = opened.aggregate(args.aggregate.as_deref())?;
    let inspector = opened.inspector(aggregate)?;
    let tenant = opened.tenant("nagaya events show", &args.tenant)?;
    let (_, chain) = inspector.verify(&tenant, &args.id).await?;
    let events = match (inspector.events(&tenant, &args.id).await, &chain) {
        (Ok(events), _) => events,
        // Unreadable events are a finding, too.
        (Err(_), Err(why)) => {
            eprintln!("nagaya: {} cannot be shown: {}", without_control_chars(&args.id), without_control_chars(why));
            return Ok(Outcome::FoundProblem);
        }
        (Err(error), Ok(_)) => return Err(error.into()),
    };
    if events.is_empty() && chain.is_ok() {
        eprintln!("nagaya: {} has no {aggregate} {}", args.tenant, args.id);
        return Ok(Outcome::FoundProblem);
    }
    let causes = CauseTree::from_events(&events);
    let told = json!({
        "system": opened.name,
        "aggregate": aggregate,
        "tenant": args.tenant,
        "id": args.id,
        "ok": chain.is_ok(),
        "chainEnd": chain.as_ref().ok(),
        "problem": chain.as_ref().err(),
        "events": events.iter().map(print::event_json).collect::<Vec<_>>(),
        "causes": causes.json(),
    });
    let mut text = format!("{aggregate} {} of {}: {}\n\n", args.id, args.tenant, counted(events.len() as u64, "event"));
    text.push_str(&table(&events));
    // Writing to a text does not fail.
    let _ = writeln!(text, "\ncauses\n{}", causes.text());
    let _ = match &chain {
        Ok(end) => writeln!(text, "nothing is missing or changed; the chain ends in\n{end}"),
        Err(why) => writeln!(text, "broken: {why}"),
    };
    print(args.at.json, &told, &text, chain.is_ok())
}

fn table(events: &[RecordedEvent]) -> String {
    let rows: Vec<[String; 5]> = events
        .iter()
        .map(|event| {
            let schema_version =
                if event.raw.version > 1 { format!(" (schema version {})", event.raw.version) } else { String::new() };
            [
                event.version.to_string(),
                without_control_chars(event.metadata_text("timestamp").unwrap_or("-")),
                without_control_chars(event.metadata_text("actor.userId").unwrap_or("-")),
                format!("{}{schema_version}", without_control_chars(&event.raw.event_type)),
                print::data_text(event),
            ]
        })
        .collect();
    let heads = ["version", "when", "who", "what", "data"].map(str::to_owned);
    let wide = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(heads[at].len());
    let wide: [usize; 5] = std::array::from_fn(wide);
    let mut out = String::new();
    for row in std::iter::once(&heads).chain(&rows) {
        let [version, when, who, what, data] = row;
        let line =
            format!("  {version:>0$}  {when:1$}  {who:2$}  {what:3$}  {data}", wide[0], wide[1], wide[2], wide[3]);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}
