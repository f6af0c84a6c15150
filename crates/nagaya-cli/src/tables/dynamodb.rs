//! `nagaya tables --store dynamodb`.

use anyhow::Context as _;
use nagaya_design::{Design, Engine};
use nagaya_dynamodb::{ApplyEvent, DesiredTable, Dynamodb, Options, Settings, Step, TableKey, TablesPlan};

use super::{ChangeOptions, Kind, KmsKey, Subcommand, TableArgs, show};
use crate::{Outcome, confirm::confirm, output::print, progress, source};

/// The tag with the design of a table.
const DESIGN_TAG: &str = "nagaya:design";

pub(super) fn run(verb: &Subcommand) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match verb {
            Subcommand::Plan { target, options, exit_code } => plan(target, options, *exit_code).await,
            Subcommand::Apply { target, options, yes } => apply(target, options, *yes).await,
            Subcommand::Status { target } => status(target).await,
            Subcommand::Drop { target, drop, yes } => drop_tables(target, *drop, *yes).await,
        }
    })
}

/// A design and the store with its tables.
struct Tables {
    design: Design,
    base: String,
    store: Dynamodb,
    /// Where the store is, for people.
    address: String,
}

impl Tables {
    /// `None` after showing what is wrong with the design.
    async fn open(target: &TableArgs) -> anyhow::Result<Option<Tables>> {
        let Kind::Dynamodb = target.store;
        let Some(design) = source::design(&target.design, &[Engine::Dynamodb])? else { return Ok(None) };
        Tables::of_design(design, target.base.clone()).await.map(Some)
    }

    async fn of_design(design: Design, base: Option<String>) -> anyhow::Result<Tables> {
        let base = base.filter(|base| !base.is_empty()).unwrap_or_else(|| design.name.clone());
        let settings = Settings::from_env();
        let address = settings.endpoint.clone().or_else(|| settings.region.clone()).unwrap_or_else(|| "AWS".to_owned());
        let store = Dynamodb::open(&settings, Options::default()).await?;
        Ok(Tables { design, base, store, address })
    }

    /// The design's tables as they should be.
    fn wanted(&self, options: Option<&ChangeOptions>) -> Vec<DesiredTable> {
        let specs = nagaya_tenancy::table_specs(&self.design, &self.base);
        let wanted = |(spec, table): (_, &nagaya_design::Table)| {
            let mut tags: std::collections::BTreeMap<_, _> =
                options.map(|options| options.tags.iter().cloned().collect()).unwrap_or_default();
            tags.insert(DESIGN_TAG.to_owned(), self.design.name.clone());
            DesiredTable {
                index_count: options.and_then(|options| options.stage),
                stream: table.stream,
                recovery: table.point_in_time,
                encryption: table.kms.then(|| table_key(options)),
                throughput: table.throughput,
                protected: options.is_some_and(|options| options.protect),
                tags,
                ..DesiredTable::new(spec)
            }
        };
        specs.into_iter().zip(&self.design.tables).map(wanted).collect()
    }
}

/// What has to be done for the tables of a design, apart from protection, tags of the operator and a customer's key.
pub(crate) async fn plan_for(design: Design, base: Option<String>) -> anyhow::Result<TablesPlan> {
    let tables = Tables::of_design(design, base).await?;
    Ok(tables.store.plan_tables(&tables.wanted(None), false).await?)
}

/// Creates the tables of a design that do not exist, with all settings of the design. Changes no others.
pub(crate) async fn create_missing(design: Design, base: Option<String>, key: &KmsKey) -> anyhow::Result<()> {
    let tables = Tables::of_design(design, base).await?;
    let options = ChangeOptions { kms_key: key.clone(), ..ChangeOptions::default() };
    let mut plan = tables.store.plan_tables(&tables.wanted(Some(&options)), false).await?;
    plan.tables.retain(|table| matches!(table.steps.first(), Some(Step::Create { .. })));
    tables.store.apply_tables(&plan, &mut |_| {}).await?;
    Ok(())
}

/// The key of tables that the design wants encrypted.
fn table_key(options: Option<&ChangeOptions>) -> TableKey {
    let id = options.and_then(|options| options.kms_key.kms_key_id.clone()).filter(|id| !id.is_empty());
    id.map_or(TableKey::Managed, TableKey::Customer)
}

async fn plan(target: &TableArgs, options: &ChangeOptions, exit_code: bool) -> anyhow::Result<Outcome> {
    let Some(tables) = Tables::open(target).await? else { return Ok(Outcome::FoundProblem) };
    let wanted = tables.wanted(Some(options));
    let plan = tables.store.plan_tables(&wanted, options.prune).await?;
    let (json, text) = (
        show::plan_json(&plan, &wanted, options.stage),
        show::plan_text(&plan, &wanted, options.stage, &tables.address),
    );
    let pending = exit_code && plan.step_count() > 0;
    print(target.json, &json, &text, !pending && plan.conflicts().is_empty())
}

async fn apply(target: &TableArgs, options: &ChangeOptions, yes: bool) -> anyhow::Result<Outcome> {
    let Some(tables) = Tables::open(target).await? else { return Ok(Outcome::FoundProblem) };
    let wanted = tables.wanted(Some(options));
    let plan = tables.store.plan_tables(&wanted, options.prune).await?;
    let conflicts = plan.conflicts();
    if plan.step_count() == 0 || !conflicts.is_empty() || !yes {
        eprint!("{}", show::plan_text(&plan, &wanted, options.stage, &tables.address));
    }
    if !conflicts.is_empty() {
        eprintln!("nagaya: nothing was done: what differs cannot be changed without making the table anew");
        return Ok(Outcome::FoundProblem);
    }
    if plan.step_count() > 0 && !yes {
        confirm(false, "do this?")?;
    }
    let skipped = carry_out(&tables.store, &plan).await?;
    let (json, text) = (show::applied_json(&plan, &skipped), show::applied_text(&plan, &skipped));
    print(target.json, &json, &text, true)
}

/// Applies a plan and shows its progress. Returns the kinds of steps that the server does not support.
async fn carry_out(store: &Dynamodb, plan: &TablesPlan) -> anyhow::Result<Vec<(String, &'static str)>> {
    let bar = progress::bar("{spinner} {pos}/{len} {prefix} {msg} {elapsed}", Some(plan.step_count() as u64));
    let mut tell = |event: ApplyEvent<'_>| match event {
        // A log has one line for each step.
        ApplyEvent::Started { table, step } if bar.is_hidden() => eprintln!("{table}: {step}"),
        ApplyEvent::Started { table, step } => {
            bar.set_prefix(table.to_owned());
            bar.set_message(step.to_string());
        }
        ApplyEvent::Waiting { table, what } => {
            bar.set_prefix(table.to_owned());
            bar.set_message(what);
        }
        ApplyEvent::Finished { .. } | ApplyEvent::Skipped { .. } => bar.inc(1),
    };
    let done = store.apply_tables(plan, &mut tell).await;
    bar.finish_and_clear();
    let skipped = done.context("what was done stays done; `nagaya tables plan` shows the rest")?;
    Ok(skipped.into_iter().map(|(table, step)| (table.to_owned(), step.code())).collect())
}

async fn status(target: &TableArgs) -> anyhow::Result<Outcome> {
    let Some(tables) = Tables::open(target).await? else { return Ok(Outcome::FoundProblem) };
    let looks = tables.store.table_states(&tables.wanted(None)).await?;
    let (json, text) = (show::status_json(&looks), show::status_text(&looks));
    print(target.json, &json, &text, true)
}

async fn drop_tables(target: &TableArgs, with_items: bool, yes: bool) -> anyhow::Result<Outcome> {
    let Some(tables) = Tables::open(target).await? else { return Ok(Outcome::FoundProblem) };
    let mut there = Vec::new();
    let mut filled = Vec::new();
    for wanted in tables.wanted(None) {
        let table = wanted.spec.name;
        let Some(has_items) = tables.store.has_items(&table).await? else { continue };
        if has_items {
            filled.push(table.clone());
        }
        there.push(table);
    }
    if !filled.is_empty() && !with_items {
        eprintln!("nagaya: nothing was deleted: {} items; --drop deletes them with their tables", holds(&filled));
        return Ok(Outcome::FoundProblem);
    }
    if !there.is_empty() && !yes {
        there.iter().for_each(|table| {
            let items = if filled.contains(table) { " and its items" } else { ", which is empty" };
            eprintln!("delete {table}{items}");
        });
        confirm(false, "delete for good?")?;
    }
    for (at, table) in there.iter().enumerate() {
        let stopped = || format!("stopped at `{table}` after {at} of {} tables", there.len());
        tables.store.drop_table(table).await.with_context(stopped)?;
    }
    let text = match there.as_slice() {
        [] => "none of the tables is there\n".to_owned(),
        tables => tables.iter().map(|table| format!("deleted {table}\n")).collect(),
    };
    print(target.json, &serde_json::json!({ "dropped": there }), &text, true)
}

fn holds(tables: &[String]) -> String {
    match tables {
        [table] => format!("{table} holds"),
        tables => format!("{} hold", tables.join(", ")),
    }
}
