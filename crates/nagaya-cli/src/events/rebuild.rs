//! `nagaya events rebuild`.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use indicatif::ProgressBar;
use nagaya_events::{Generations, ItemsDigest, Processor, Progress, VerificationReport};
use serde_json::{Value as Json, json};

use super::{SystemArgs, opened::Opened, print::without_control_chars};
use crate::{
    Outcome,
    confirm::confirm,
    output::{counted, print},
    progress,
    serve::StoreKind,
};

/// Rebuild a projection from the events, without downtime
///
/// A new generation is built beside the one that is read, and verified against the events: the number of items and a hash of
/// all of them. It is read from then on only if both match. The one before is kept up to date, for --rollback.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya events rebuild todo todo                              rebuild, verify, switch\n  nagaya \
                  events rebuild todo todo --verify-only                check what is read\n  nagaya events rebuild todo todo \
                  --tenant demo --yes          repair one tenant's items in place\n  nagaya events rebuild todo todo --rollback \
                  --yes             read the generation before again\n\nIt can be killed at any time: started again it goes on \
                  with the generation that it has begun, and --abandon gives that up.\n\n--verify-only compares both ways: \
                  items with their events, and events with their items. Where events are not applied yet, it waits for the processor \
                  for at most 10 s. Of what it does, only the operator log has entries.\n\nExit codes: 0 fine, 1 items differ \
                  from what their events give (some of them are named), or are behind, 2 the command could not run."
)]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    /// The projection: the entity of its items
    projection: String,
    /// Only verify the generation that is read; writes nothing
    #[arg(long, conflicts_with_all = ["rollback", "abandon", "yes"])]
    verify_only: bool,
    /// Repair the items of this tenant in place; with --verify-only, verify only these
    #[arg(long, value_name = "TENANT", conflicts_with_all = ["rollback", "abandon"])]
    tenant: Option<String>,
    /// Read the previous generation again
    #[arg(long, conflicts_with = "abandon")]
    rollback: bool,
    /// Abandon the generation that is being built
    #[arg(long)]
    abandon: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// How long the processor is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some((opened, projections)) = Opened::with_projections(&args.at).await? else {
        return Ok(Outcome::FoundProblem);
    };
    let known: Vec<_> = projections.iter().map(|each| each.entity()).collect();
    let found = projections.iter().find(|each| each.entity() == args.projection);
    let unknown = || format!("{} has no projection `{}`, but {}", opened.name, args.projection, known.join(", "));
    let projection = found.with_context(unknown)?;
    let processor = opened.processor(projection)?;
    let work = Work { args, opened: &opened, processor: &processor, aggregate: projection.aggregate_name() };
    match &args.tenant {
        _ if args.rollback => work.roll_back().await,
        _ if args.abandon => work.abandon().await,
        _ if args.verify_only => work.verify().await,
        Some(tenant) => work.repair(tenant).await,
        None => work.rebuild().await,
    }
}

struct Work<'w> {
    args: &'w Args,
    opened: &'w Opened,
    processor: &'w Processor,
    aggregate: &'w str,
}

impl Work<'_> {
    async fn rebuild(&self) -> anyhow::Result<Outcome> {
        let before = self.processor.generations().await?;
        match before.building {
            Some(building) => {
                eprintln!("continues generation {building}; generation {} is read meanwhile", before.current);
            }
            None => eprintln!("builds a new generation; generation {} is read meanwhile", before.current),
        }
        let bar = self.bar("builds").await?;
        let verified = self.processor.rebuild(&progress_callback(&bar)).await?;
        bar.finish_and_clear();
        let after = self.processor.generations().await?;
        let switched = after.current == verified.generation;
        let mut text = self.verified_text(&verified);
        let _ = match (switched, verified.parked) {
            (true, _) => writeln!(
                text,
                "they match: generation {} is read from now on, and generation {} is kept up to date for --rollback",
                after.current, before.current
            ),
            (false, 0) => writeln!(text, "generation {} is still read", after.current),
            (false, _) => writeln!(
                text,
                "generation {} is still read: drop the events (`nagaya events dlq`) and rebuild again, or fix what cannot apply them, \
                 --abandon this generation and rebuild",
                after.current
            ),
        };
        self.print_result(&verified, &after, &text)
    }

    async fn verify(&self) -> anyhow::Result<Outcome> {
        let bar = self.bar("checks").await?;
        let verified = self.verified(self.args.tenant.as_deref(), &bar).await?;
        bar.finish_and_clear();
        let mut text = self.verified_text(&verified);
        if verified.is_consistent() {
            text.push_str("they match\n");
        }
        self.print_result(&verified, &self.processor.generations().await?, &text)
    }

    /// Verifies what is read, and writes nothing. Says so when it waits for the processor.
    async fn verified(&self, tenant: Option<&str>, bar: &ProgressBar) -> anyhow::Result<VerificationReport> {
        let patience = if self.is_alone() { Duration::ZERO } else { PATIENCE };
        let tell = |progress: Progress| {
            bar.set_position(progress.events);
            if progress.waiting > 0 {
                let behind = counted(progress.waiting as u64, self.aggregate);
                let seconds = PATIENCE.as_secs();
                bar.suspend(|| eprintln!("{behind} behind; waits for the processor, for {seconds} s at most"));
            }
        };
        Ok(self.processor.verify_patiently(tenant, patience, &tell).await?)
    }

    /// Whether this process has the directory for itself: then no processor runs beside it.
    fn is_alone(&self) -> bool {
        self.args.at.store.opened.is_own()
    }

    async fn repair(&self, tenant: &str) -> anyhow::Result<Outcome> {
        // An impossible name is an error, not a tenant without items.
        self.opened.tenant("nagaya events rebuild", tenant)?;
        if !self.args.yes {
            let found = self.verified(Some(tenant), &ProgressBar::hidden()).await?;
            let text = self.verified_text(&found);
            if found.is_consistent() {
                let text = format!("{text}they match: there is nothing to repair\n");
                return self.print_result(&found, &self.processor.generations().await?, &text);
            }
            eprint!("{text}");
            confirm(false, &format!("overwrite the items of {tenant} with what its events give?"))?;
        }
        let bar = self.bar("mends").await?;
        let repaired = self.processor.repair(tenant, &progress_callback(&bar)).await?;
        bar.finish_and_clear();
        let verified = self.verified(Some(tenant), &bar).await?;
        let mut text = format!("{} repaired\n", counted(repaired, "item"));
        text.push_str(&self.verified_text(&verified));
        if verified.is_consistent() {
            text.push_str("they match\n");
        }
        let mut told = verified_json(&verified, &self.processor.generations().await?);
        told["repaired"] = repaired.into();
        print(self.args.at.json, &told, &text, verified.is_consistent())
    }

    async fn roll_back(&self) -> anyhow::Result<Outcome> {
        let name = &self.args.projection;
        let now = self.processor.generations().await?;
        if let (Some(previous), false) = (now.previous, self.args.yes) {
            eprintln!("generation {previous} of `{name}` would be read again instead of generation {}", now.current);
            confirm(false, "read it?")?;
        }
        let read = self.processor.roll_back().await?;
        let text = format!(
            "generation {read} of `{name}` is read from now on; --rollback goes back to generation {}\n",
            now.current
        );
        self.print_generations(&text).await
    }

    async fn abandon(&self) -> anyhow::Result<Outcome> {
        let name = &self.args.projection;
        let now = self.processor.generations().await?;
        if let (Some(building), false) = (now.building, self.args.yes) {
            eprintln!(
                "generation {building} of `{name}` would be abandoned; generation {} stays the one that is read",
                now.current
            );
            confirm(false, "abandon it?")?;
        }
        let text = match self.processor.abandon().await? {
            Some(gone) => format!("generation {gone} of `{name}` is abandoned; generation {} is read\n", now.current),
            None => format!("no generation of `{name}` is being built\n"),
        };
        self.print_generations(&text).await
    }

    async fn print_generations(&self, text: &str) -> anyhow::Result<Outcome> {
        print(self.args.at.json, &generations_json(&self.processor.generations().await?), text, true)
    }

    /// A bar with the number of events, where counting them is cheap.
    async fn bar(&self, what: &str) -> anyhow::Result<ProgressBar> {
        let bar = progress::of_events(what);
        if bar.is_hidden() || self.args.at.store.kind != StoreKind::Embedded {
            return Ok(bar);
        }
        let inspector = self.opened.inspector(self.aggregate)?;
        let follower = self.opened.operator("nagaya events rebuild").change_source(inspector.entity()).await?;
        let (mut count, mut after) = (0, None);
        loop {
            let page = follower.scan((0, 1), after, Some(10_000)).await?;
            count += page.records.len() as u64;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        progress::restart(&bar, what, count);
        Ok(bar)
    }

    fn print_result(
        &self,
        verified: &VerificationReport,
        generations: &Generations,
        text: &str,
    ) -> anyhow::Result<Outcome> {
        print(self.args.at.json, &verified_json(verified, generations), text, verified.is_consistent())
    }

    fn verified_text(&self, verified: &VerificationReport) -> String {
        let mut out = format!(
            "generation {} of `{}`: {} of {}\n",
            verified.generation,
            self.args.projection,
            counted(verified.events, "event"),
            counted(verified.aggregates, self.aggregate)
        );
        let line = |content: &ItemsDigest| format!("{}, {}", counted(content.items, "item"), content.hash());
        // Writing to a text does not fail.
        let _ = writeln!(out, "  events give  {}", line(&verified.expected));
        let _ = writeln!(out, "  found        {}", line(&verified.found));
        for wrong in &verified.mismatches {
            let _ = writeln!(
                out,
                "  {} of {} {}",
                without_control_chars(&wrong.aggregate),
                without_control_chars(&wrong.tenant),
                wrong.why
            );
        }
        let more = verified.mismatch_count.saturating_sub(verified.mismatches.len() as u64);
        if more > 0 {
            let _ = writeln!(out, "  and {more} more");
        }
        if verified.behind > 0 {
            let what_to_do = match self.is_alone() {
                true => "serve the directory, and verify again beside the server",
                false => "see that a processor runs, and verify again",
            };
            let _ = writeln!(
                out,
                "  {} behind: {what_to_do}. What stays behind then, --tenant repairs",
                counted(verified.behind, self.aggregate)
            );
        }
        if verified.parked > 0 {
            let _ = writeln!(
                out,
                "  {} at an event that cannot be applied",
                count_waiting(verified.parked, self.aggregate)
            );
        }
        out
    }
}

fn count_waiting(count: u64, aggregate: &str) -> String {
    format!("{} {}", counted(count, aggregate), if count == 1 { "waits" } else { "wait" })
}

/// Shows building, and then checking with the number that building has found.
fn progress_callback(bar: &ProgressBar) -> impl Fn(Progress) + Send + Sync {
    let checking = AtomicBool::new(false);
    move |progress: Progress| {
        if progress.checking && !checking.swap(true, Ordering::Relaxed) {
            progress::restart(bar, "checks", bar.position());
        }
        bar.set_position(progress.events);
    }
}

fn content_json(content: &ItemsDigest) -> Json {
    json!({ "items": content.items, "hash": content.hash() })
}

fn generations_json(generations: &Generations) -> Json {
    json!({ "current": generations.current, "previous": generations.previous, "building": generations.building })
}

fn verified_json(verified: &VerificationReport, generations: &Generations) -> Json {
    let mismatches: Vec<_> = verified
        .mismatches
        .iter()
        .map(|each| json!({ "tenant": each.tenant, "id": each.aggregate, "reason": each.why }))
        .collect();
    json!({
        "ok": verified.is_consistent(),
        "generation": verified.generation,
        "events": verified.events,
        "aggregates": verified.aggregates,
        "expected": content_json(&verified.expected),
        "found": content_json(&verified.found),
        "mismatches": mismatches,
        "mismatchCount": verified.mismatch_count,
        "parkedAggregates": verified.parked,
        "aggregatesBehind": verified.behind,
        "generations": generations_json(generations),
    })
}
