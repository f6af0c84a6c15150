//! `nagaya events dlq`: dead letters.

use std::{fmt::Write as _, sync::Arc};

use anyhow::{Context as _, bail};
use nagaya_events::{DeadLetter, Processor, Projection, UnparkOutcome};
use serde_json::{Value as Json, json};

use super::{
    SystemArgs,
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
/// until a retry succeeds or the event is dropped.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya events dlq list todo\n  nagaya events dlq retry todo --all\n  nagaya events dlq drop todo \
                  01KG9S5Q60T4N2Y8ZC3M7VXR1E --yes"
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
    /// The event itself stays. A rebuild of the projection applies it again.
    Drop {
        #[command(flatten)]
        which: DeadLetterFilter,
        /// The aggregate
        id: String,
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
    | Subcommand::Drop { which, .. }) = &args.subcommand;
    let Some((opened, projections)) = Opened::with_projections(&which.at).await? else {
        return Ok(Outcome::FoundProblem);
    };
    let mut found = find_dead_letters(which, &opened, projections).await?;
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
        Subcommand::List(_) => list(which, &found),
        Subcommand::Show { .. } => show(which, &opened, &found).await,
        Subcommand::Retry { .. } => retry_or_drop(which, &found, false).await,
        Subcommand::Drop { yes, .. } => {
            if !yes {
                found.iter().for_each(|each| eprint!("{}", text(each)));
                eprintln!(
                    "the event would be dropped from the projection; it stays in the event store, and a rebuild applies it again"
                );
            }
            confirm(*yes, "drop it?")?;
            retry_or_drop(which, &found, true).await
        }
    }
}

/// All dead letters that are asked for.
async fn find_dead_letters(
    which: &DeadLetterFilter,
    opened: &Opened,
    projections: Vec<Arc<dyn Projection>>,
) -> anyhow::Result<Vec<FoundDeadLetter>> {
    let known: Vec<_> = projections.iter().map(|each| each.entity().to_owned()).collect();
    if let Some(asked) = &which.projection
        && !known.contains(asked)
    {
        bail!("{} has no projection `{asked}`, but {}", opened.name, known.join(", "));
    }
    let mut found = Vec::new();
    for projection in projections {
        if which.projection.as_deref().is_some_and(|asked| asked != projection.entity()) {
            continue;
        }
        let processor = opened.processor(&projection)?;
        for letter in processor.dead_letters().await? {
            found.push(FoundDeadLetter { projection: Arc::clone(&projection), processor: processor.clone(), letter });
        }
    }
    Ok(found)
}

fn list(which: &DeadLetterFilter, found: &[FoundDeadLetter]) -> anyhow::Result<Outcome> {
    let mut out: String = found.iter().map(text).collect();
    let _ = match found.len() {
        0 => writeln!(out, "no dead letters"),
        count => writeln!(out, "{}", counted(count as u64, "dead letter")),
    };
    let listed: Vec<_> = found.iter().map(json).collect();
    print(which.at.json, &json!({ "ok": found.is_empty(), "deadLetters": listed }), &out, found.is_empty())
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

/// Retries events, or drops them.
async fn retry_or_drop(
    which: &DeadLetterFilter,
    chosen: &[FoundDeadLetter],
    drop_events: bool,
) -> anyhow::Result<Outcome> {
    let (mut out, mut results, mut up_to_date) = (String::new(), Vec::new(), 0_usize);
    for each in chosen {
        let FoundDeadLetter { projection, processor, letter } = each;
        let done = match drop_events {
            false => processor.retry(letter).await,
            true => processor.drop_event(letter).await,
        };
        let done = done.with_context(|| format!("{} is as it was", letter.aggregate))?;
        up_to_date += usize::from(done == UnparkOutcome::UpToDate);
        let dropped =
            if drop_events { format!("version {} is dropped, and it ", letter.version) } else { String::new() };
        let became = match (done, drop_events) {
            (UnparkOutcome::UpToDate, _) => "is up to date again",
            (UnparkOutcome::ParkedAgain, false) => "is still blocked by an event that cannot be applied",
            (UnparkOutcome::ParkedAgain, true) => "is blocked by a later one that cannot be applied",
        };
        let _ = writeln!(
            out,
            "{} of {}: {dropped}{became}",
            without_control_chars(&letter.aggregate),
            without_control_chars(&letter.tenant)
        );
        results.push(json!({
            "projection": projection.entity(), "tenant": letter.tenant, "id": letter.aggregate, "version": letter.version,
            "upToDate": done == UnparkOutcome::UpToDate,
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
