//! `nagaya events tail`.

use std::{io::Write as _, time::Duration};

use anyhow::{Context as _, bail};
use nagaya_events::{Inspector, RecordedEvent};
use nagaya_store::StartPosition;
use nagaya_tenancy::ChangeSource;

use super::{
    SystemArgs, check_reason,
    opened::Opened,
    print::{self, without_control_chars},
};
use crate::{
    Outcome,
    serve::{self, StoreKind},
};

/// Print events as they happen, one line each, until stopped
///
/// With --json, one line of JSON each.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya events tail todo --tenant demo --store dynamodb\n  nagaya events tail todo --tenant demo \
                  --from-start\n  nagaya events tail todo --all-tenants --reason 'ticket 4711' --store dynamodb\n\n--from-start \
                  begins with what the store still has as changes: 7 days in a directory, 24 hours on DynamoDB. Events \
                  themselves are kept for ever; `nagaya events show` has them.\n\nIn a directory nothing happens while this \
                  has it open, so there it needs --from-start, and ends. While a server runs, `GET /events` tells what happens."
)]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    /// The tenant whose events are printed
    #[arg(long, value_name = "TENANT", required_unless_present = "all_tenants", conflicts_with = "all_tenants")]
    tenant: Option<String>,
    /// The events of all tenants; audited, with the reason
    #[arg(long, requires = "reason")]
    all_tenants: bool,
    /// The reason, for the audit
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Begin with the oldest retained event
    #[arg(long)]
    from_start: bool,
}

/// Changes that are read at once.
const BATCH_SIZE: usize = 1_000;
/// How long to wait when nothing has happened.
const IDLE_PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    if args.at.store.kind == StoreKind::Embedded && !args.from_start {
        bail!(
            "a directory has one process at a time, so no event is written meanwhile: give --from-start, or listen to \
             `GET /events` of the server"
        );
    }
    args.reason.as_deref().map_or(Ok(()), check_reason)?;
    let Some(opened) = Opened::open(&args.at).await? else { return Ok(Outcome::FoundProblem) };
    if let Some(tenant) = &args.tenant {
        // An impossible name would have no events for ever.
        opened.tenant("nagaya events tail", tenant)?;
    }
    let reason = match (&args.reason, &args.tenant) {
        (Some(reason), _) => reason.clone(),
        (None, tenant) => format!("nagaya events tail --tenant {}", tenant.as_deref().unwrap_or_default()),
    };
    let operator = opened.operator(&reason);
    let mut heard = Vec::new();
    for aggregate in opened.aggregates() {
        let inspector = opened.inspector(aggregate)?;
        let follower = operator.change_source(inspector.entity()).await?;
        let from = if args.from_start { StartPosition::Oldest } else { StartPosition::Latest };
        heard.push(TailedAggregate { inspector, follower, from });
    }
    tokio::select! {
        ended = listen(args, &opened, &reason, &mut heard) => ended?,
        () = serve::stop_signal() => {}
    }
    Ok(Outcome::Fine)
}

/// The events of one type of aggregate, and the position in them.
struct TailedAggregate {
    inspector: Inspector,
    follower: ChangeSource,
    from: StartPosition,
}

async fn listen(args: &Args, opened: &Opened, reason: &str, heard: &mut [TailedAggregate]) -> anyhow::Result<()> {
    let alone = args.at.store.kind == StoreKind::Embedded;
    let mut told = Vec::new();
    loop {
        let mut read = 0;
        for each in heard.iter_mut() {
            let gone = "changes since then are no longer retained; start again";
            let followed = each.follower.changes(each.from.clone(), BATCH_SIZE).await.context(gone)?;
            let wanted = |tenant: &str| args.tenant.as_deref().is_none_or(|one| one == tenant);
            for change in followed.changes.iter().filter(|change| wanted(&change.tenant)) {
                let (None, Some(new)) = (&change.old, &change.new) else { continue };
                let tenant = opened.tenant(reason, &change.tenant)?;
                let event = each.inspector.read_event(&change.tenant, new)?;
                for event in each.inspector.decrypt(&tenant, vec![event]).await? {
                    told.push(match args.at.json {
                        true => print::event_json(&event).to_string(),
                        false => format_line(&event, args.all_tenants),
                    });
                }
            }
            let mut out = std::io::stdout().lock();
            for line in told.drain(..) {
                writeln!(out, "{line}")?;
            }
            out.flush()?;
            read += followed.read;
            each.from = StartPosition::After(followed.next);
        }
        if read == 0 {
            if alone {
                return Ok(());
            }
            tokio::time::sleep(IDLE_PAUSE).await;
        }
    }
}

fn format_line(event: &RecordedEvent, with_tenant: bool) -> String {
    let tenant = if with_tenant { format!("{}  ", without_control_chars(&event.tenant)) } else { String::new() };
    format!(
        "{}  {tenant}{} v{}  {}  {}  by {}",
        event.metadata_text("timestamp").unwrap_or("-"),
        event.aggregate,
        event.version,
        without_control_chars(&event.raw.event_type),
        print::data_text(event),
        without_control_chars(event.metadata_text("actor.userId").unwrap_or("?")),
    )
}
