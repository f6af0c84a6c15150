//! `nagaya events dlq`: dead letters, and the events that were dropped.

mod skipped;

use std::{fmt::Write as _, sync::Arc};

use anyhow::{Context as _, bail};
use nagaya_events::{DeadLetter, ErrorKind, Processor, Projection, UnparkOutcome};
use nagaya_tenancy::Operator;
use serde_json::{Value as Json, json};

use super::{
    SystemArgs, check_reason,
    opened::Opened,
    print::{self, without_control_chars},
};
use crate::{
    Outcome,
    confirm::confirm,
    output::{counted, instant, print},
};

/// Inspect and retry dead letters
///
/// An event that a projection cannot apply, even after retries, blocks its own aggregate and no other. The later events wait
/// until a retry succeeds or the event is dropped. A dropped event is on the skip list of the projection.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya events dlq list todo\n  nagaya events dlq retry todo --all\n  nagaya events dlq drop todo \
                  01KG9S5Q60T4N2Y8ZC3M7VXR1E --reason 'ticket 4711: the import was wrong'\n  nagaya events dlq skipped todo"
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// List the blocked aggregates; exits with 1 when there are any
    List(DeadLetterFilter),
    /// Show one: the event, why it fails, and how many events wait
    Show {
        #[command(flatten)]
        which: DeadLetterFilter,
        /// The aggregate
        id: String,
    },
    /// Retry the event and the later ones; exits with 1 when it fails again
    #[command(
        after_help = "Examples:\n  nagaya events dlq retry todo 01KG9S5Q60T4N2Y8ZC3M7VXR1E\n  nagaya events dlq retry todo --all"
    )]
    Retry {
        #[command(flatten)]
        which: DeadLetterFilter,
        /// The aggregate
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All blocked aggregates
        #[arg(long)]
        all: bool,
    },
    /// Drop the event from the projection, and apply the later ones
    ///
    /// The event itself stays stored. It is on the skip list of the projection, with who dropped it, when and why: processors,
    /// rebuilds, repairs and verifications leave it out.
    Drop {
        #[command(flatten)]
        which: DeadLetterFilter,
        /// The aggregate
        id: String,
        /// Why; at least 10 characters, for the skip list and the operator log. Do not write personal data here
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// List the events that were dropped: who dropped them, when and why
    Skipped(DeadLetterFilter),
    /// Take dropped events off the skip list, and apply them again
    ///
    /// In all generations, the aggregate's item becomes what its events give with them. If one cannot be applied, the item goes
    /// back to the state before it, and the aggregate is a dead letter again; the command then exits with 1.
    Unskip {
        #[command(flatten)]
        which: DeadLetterFilter,
        /// The aggregate
        id: String,
        /// Only the event of this version; by default all of the aggregate that were dropped
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
        /// Why; at least 10 characters, for the operator log
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Which dead letters.
#[derive(Debug, clap::Args)]
struct DeadLetterFilter {
    #[command(flatten)]
    at: SystemArgs,
    /// The projection; by default all
    #[arg(long, value_name = "NAME")]
    projection: Option<String>,
}

/// A dead letter, and the processor that can retry it.
struct FoundDeadLetter {
    projection: Arc<dyn Projection>,
    processor: Processor,
    letter: DeadLetter,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (Subcommand::List(which)
    | Subcommand::Show { which, .. }
    | Subcommand::Retry { which, .. }
    | Subcommand::Drop { which, .. }
    | Subcommand::Skipped(which)
    | Subcommand::Unskip { which, .. }) = &args.subcommand;
    if let Subcommand::Drop { reason, .. } | Subcommand::Unskip { reason, .. } = &args.subcommand {
        check_reason(reason)?;
    }
    let opened = match &args.subcommand {
        // It also lists what a function could not read, of any system.
        Subcommand::List(_) => Opened::with_consumers(&which.at).await?,
        _ => Opened::with_projections(&which.at).await?.map(|(opened, _)| opened),
    };
    let Some(opened) = opened else { return Ok(Outcome::FoundProblem) };
    let processors = processors(which, &opened, opened.projections.clone())?;
    match &args.subcommand {
        Subcommand::Skipped(_) => return skipped::list(which.at.json, &processors).await,
        Subcommand::Unskip { id, version, reason, yes, .. } => {
            let chosen = skipped::Chosen { id, version: *version };
            return skipped::take_back(which.at.json, &processors, &chosen, &opened.operator(reason), *yes).await;
        }
        _ => {}
    }
    let mut found = find_dead_letters(processors).await?;
    if let Subcommand::Show { id, .. } | Subcommand::Retry { id: Some(id), .. } | Subcommand::Drop { id, .. } =
        &args.subcommand
    {
        // One for each projection that cannot apply the event.
        found.retain(|each| each.letter.aggregate == *id);
        if found.is_empty() {
            eprintln!(
                "nagaya: {} is not a dead letter; `nagaya events dlq list` shows those there are",
                without_control_chars(id)
            );
            return Ok(Outcome::FoundProblem);
        }
    }
    match &args.subcommand {
        Subcommand::List(_) => list(which, &opened, &found).await,
        Subcommand::Show { .. } => show(which, &opened, &found).await,
        Subcommand::Drop { yes, reason, .. } => {
            if !yes {
                found.iter().for_each(|each| eprint!("{}", text(each)));
                eprintln!(
                    "the event would be dropped from the projection, in all generations and rebuilds; it stays in the event store, and \
                     `nagaya events dlq unskip` takes it back"
                );
            }
            confirm(*yes, "drop it?")?;
            retry_or_drop(which, &found, Some(&opened.operator(reason))).await
        }
        _ => retry_or_drop(which, &found, None).await,
    }
}

/// The projections that are asked for, with their processors.
fn processors(
    which: &DeadLetterFilter,
    opened: &Opened,
    projections: Vec<Arc<dyn Projection>>,
) -> anyhow::Result<Vec<(Arc<dyn Projection>, Processor)>> {
    let known: Vec<_> = projections.iter().map(|each| each.entity().to_owned()).collect();
    if let Some(asked) = &which.projection
        && !known.contains(asked)
    {
        bail!("{} has no projection `{asked}`, but {}", opened.name, known.join(", "));
    }
    let asked = projections
        .into_iter()
        .filter(|projection| which.projection.as_deref().is_none_or(|asked| asked == projection.entity()));
    asked.map(|projection| opened.processor(&projection).map(|processor| (projection, processor))).collect()
}

/// All dead letters that are asked for.
async fn find_dead_letters(processors: Vec<(Arc<dyn Projection>, Processor)>) -> anyhow::Result<Vec<FoundDeadLetter>> {
    let mut found = Vec::new();
    for (projection, processor) in processors {
        for letter in processor.dead_letters().await? {
            found.push(FoundDeadLetter { projection: Arc::clone(&projection), processor: processor.clone(), letter });
        }
    }
    Ok(found)
}

async fn list(which: &DeadLetterFilter, opened: &Opened, found: &[FoundDeadLetter]) -> anyhow::Result<Outcome> {
    let mut out: String = found.iter().map(text).collect();
    let unreadable = opened.unreadable_changes().await?;
    for (id, (_, change)) in &unreadable {
        let (id, error) = (without_control_chars(id), without_control_chars(&change.error));
        let _ = writeln!(out, "record {id} of a stream cannot be read\n  {error}\n  noted {}", instant(change.at));
    }
    if !unreadable.is_empty() {
        let _ = writeln!(out, "`nagaya events catch-up {}` reads what they were about from the store", which.at.system);
    }
    let _ = match found.len() {
        0 => writeln!(out, "no dead letters"),
        count => writeln!(out, "{}", counted(count as u64, "dead letter")),
    };
    let listed: Vec<_> = found.iter().map(json).collect();
    let records = unreadable
        .values()
        .map(|(_, change)| json!({ "id": change.id, "error": change.error, "notedAt": instant(change.at) }));
    let records: Vec<_> = records.collect();
    let fine = found.is_empty() && records.is_empty();
    print(which.at.json, &json!({ "ok": fine, "deadLetters": listed, "unreadable": records }), &out, fine)
}

async fn show(which: &DeadLetterFilter, opened: &Opened, chosen: &[FoundDeadLetter]) -> anyhow::Result<Outcome> {
    let (mut out, mut shown) = (String::new(), Vec::new());
    for each in chosen {
        let FoundDeadLetter { projection, letter, .. } = each;
        let tenant = opened.tenant("nagaya events dlq show", &letter.tenant)?;
        let events = opened.inspector(projection.aggregate_name())?.events(&tenant, &letter.aggregate).await?;
        let event = events.iter().find(|event| event.id == letter.event);
        let waiting = events.iter().filter(|event| event.version > letter.version).count();
        out.push_str(&text(each));
        if let Some(event) = event {
            let _ = writeln!(out, "  {}", print::data_text(event));
            let about = |path: &str| without_control_chars(event.metadata_text(path).unwrap_or("-"));
            let _ = writeln!(
                out,
                "  by {} at {}, part of {}",
                about("actor.userId"),
                about("timestamp"),
                about("correlationId")
            );
        }
        let _ = writeln!(out, "  later events that wait: {waiting}");
        let mut all = json(each);
        all["event"] = event.map_or(Json::Null, print::event_json);
        all["waitingEvents"] = waiting.into();
        shown.push(all);
    }
    print(which.at.json, &json!({ "deadLetters": shown }), &out, true)
}

/// Retries events, or drops them as an operator.
async fn retry_or_drop(
    which: &DeadLetterFilter,
    chosen: &[FoundDeadLetter],
    dropped_by: Option<&Operator>,
) -> anyhow::Result<Outcome> {
    let (mut out, mut results, mut up_to_date) = (String::new(), Vec::new(), 0_usize);
    for each in chosen {
        let FoundDeadLetter { projection, processor, letter } = each;
        let done = match dropped_by {
            None => match processor.retry(letter).await {
                Err(error) if matches!(error.kind(), ErrorKind::Busy(_)) => None,
                done => Some(done),
            },
            Some(operator) => Some(processor.drop_event(letter, operator).await),
        };
        let done = done.transpose().with_context(|| format!("{} is as it was", letter.aggregate))?;
        up_to_date += usize::from(done == Some(UnparkOutcome::UpToDate));
        let dropped = dropped_by.map(|_| format!("version {} is dropped, and it ", letter.version)).unwrap_or_default();
        let became = match (done, dropped_by) {
            (Some(UnparkOutcome::UpToDate), _) => "is up to date again",
            (Some(UnparkOutcome::ParkedAgain), None) => "is still blocked by an event that cannot be applied",
            (Some(UnparkOutcome::ParkedAgain), Some(_)) => "is blocked by a later one that cannot be applied",
            (None, _) => "has been tried by another process meanwhile; look again",
        };
        let _ = writeln!(
            out,
            "{} of {}: {dropped}{became}",
            without_control_chars(&letter.aggregate),
            without_control_chars(&letter.tenant)
        );
        results.push(json!({
            "projection": projection.entity(), "tenant": letter.tenant, "id": letter.aggregate, "version": letter.version,
            "upToDate": done == Some(UnparkOutcome::UpToDate),
        }));
    }
    if chosen.is_empty() {
        out.push_str("no dead letters\n");
    }
    let fine = up_to_date == chosen.len();
    print(which.at.json, &json!({ "ok": fine, "results": results }), &out, fine)
}

fn text(found: &FoundDeadLetter) -> String {
    let FoundDeadLetter { projection, letter, .. } = found;
    format!(
        "{} of {}: `{}` is blocked at version {}, {} ({})\n  {}\n  parked {} after {}{}\n",
        without_control_chars(&letter.aggregate),
        without_control_chars(&letter.tenant),
        projection.entity(),
        letter.version,
        without_control_chars(&letter.event_type),
        without_control_chars(&letter.event),
        without_control_chars(&letter.error),
        instant(letter.parked_at),
        counted(letter.attempts, "attempt"),
        letter.next_attempt.map(|next| format!(", the next at {}", instant(next))).unwrap_or_default(),
    )
}

fn json(found: &FoundDeadLetter) -> Json {
    let FoundDeadLetter { projection, letter, .. } = found;
    json!({
        "projection": projection.entity(),
        "tenant": letter.tenant,
        "id": letter.aggregate,
        "version": letter.version,
        "eventId": letter.event,
        "eventType": letter.event_type,
        "error": letter.error,
        "attempts": letter.attempts,
        "parkedAt": instant(letter.parked_at),
        "nextAttemptAt": letter.next_attempt.map(instant),
    })
}
