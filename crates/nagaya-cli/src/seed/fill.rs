//! Writing the items: entity after entity, many at once.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;
use jiff::{Timestamp, tz::TimeZone};
use nagaya_design::{Engine, Entity, Wall};
use nagaya_seed::{DAY_MILLIS, MAX_ATTEMPTS as STORE_ATTEMPTS, RETRY_PAUSE, SeedContext, Seeder, stamp};
use nagaya_server::System;
use nagaya_tenancy::{Error, ErrorKind, Nagaya, Operator, Principal, Settings, Tenant};
use serde_json::Value as Json;

use super::{
    Args, DEFAULT_ITEMS_PER_ENTITY,
    item::{Draft, SeedState, is_set_by_tenancy},
    plan::{Skipped, Task, plan},
    report::{EntityReport, Report},
    seeders, tenants,
};
use crate::{progress, serve::KeyFiles};

/// How many items are written at the same time: a directory commits in groups, so many cost little more than one.
const CONCURRENT_WRITES: usize = 64;
const CONCURRENT_CLOUD_WRITES: usize = 16;
/// How many items are prepared at a time.
const CHUNK_SIZE: usize = 4_096;
/// How many items come first, for others of the same entity to refer to.
const REFERENCE_TARGET_COUNT: usize = 8;
/// How often other values are tried for an item whose values are taken.
const MAX_ATTEMPTS: usize = 12;
/// After how many failed items in a row no more are tried.
const MAX_FAILURES_IN_A_ROW: usize = 3;
/// How many days back the last day of an earlier run may be.
const MAX_LOOK_BACK_DAYS: i64 = 366;

/// Fills a system: with plain items, and with what its seeders write.
pub(super) async fn fill(args: &Args, system: &System) -> anyhow::Result<Report> {
    let design = &system.design;
    let (mut tasks, mut skipped) = plan(design);
    let is_seeded = |entity: &str| system.seeders.iter().any(|seeder| seeder.entities().contains(&entity));
    tasks.retain(|task| !is_seeded(&task.entity.name));
    skipped.retain(|each| !is_seeded(&each.entity));
    for entity in system.seeders.iter().flat_map(|seeder| seeder.derived_entities()) {
        tasks.retain(|task| task.entity.name != *entity);
        skipped.push(Skipped { entity: (*entity).to_owned(), why: "is derived from other items".to_owned() });
    }
    let names = tenants::names(design, args.tenants as usize);
    if names.len() < args.tenants as usize {
        bail!("the design takes only {} names of tenants that can be made up", names.len());
    }
    let store = args.store.open().await?;
    let settings = args.store.audited_settings(&system.name, KeyFiles::created_with_store(args.store.kind)).await?;
    let settings = Settings { clock: stamp::stamped_clock(), ids: stamp::stamped_ids(), ..settings };
    let nagaya = Nagaya::open_with(design.clone(), store, settings);
    nagaya.ensure_tables().await.with_context(|| format!("the tables of {} cannot be created", system.name))?;

    let handles = Handles::new(&nagaya, &names)?;
    let today = midnight(Timestamp::now());
    let mut state = SeedState { design, seed: args.seed, until: today, today, tenants: names, made: HashMap::new() };
    state.until = match args.until {
        Some(day) => day.to_zoned(TimeZone::UTC)?.timestamp().as_millisecond(),
        None => find_earlier_run(&mut state, &tasks, &system.seeders, &handles).await?.unwrap_or(today),
    };
    let items = args.items.map_or(DEFAULT_ITEMS_PER_ENTITY, |items| items as usize);
    let wanted: usize = tasks.iter().map(|task| owners(task, &state).len() * item_count(task, items)).sum();
    let bar = progress::bar("{bar:30} {pos}/{len} {per_sec}, {msg}", Some(wanted as u64));
    let at_once = match args.store.kind.engine() {
        Engine::Embedded => CONCURRENT_WRITES,
        Engine::Dynamodb | Engine::Cosmos => CONCURRENT_CLOUD_WRITES,
    };
    let mut filled = Vec::with_capacity(tasks.len());
    for task in &tasks {
        bar.set_message(task.entity.name.clone());
        let needed = tasks.iter().any(|other| other.links.values().any(|link| link.entity == task.entity.name));
        filled.push(EntityFiller { task, handles: &handles, items, at_once, needed, bar: &bar }.run(&mut state).await?);
    }
    for seeder in &system.seeders {
        bar.set_message(seeder.entities().first().copied().unwrap_or_default());
        let context = state.context(args.items.map_or(default_item_count(seeder.as_ref()), |items| items as usize));
        filled.extend(seeders::run(seeder.as_ref(), &handles.tenants, context, (at_once, &bar)).await?);
    }
    for nothing in filled.extract_if(.., |each| each.created + each.existing == 0 && each.error.is_none()) {
        skipped.push(Skipped { entity: nothing.entity, why: "refers to something that is not there".to_owned() });
    }
    let parked = seeders::build(&nagaya, system).await.context("the projections cannot be built")?;
    if let (Some(last), 1..) = (filled.last_mut(), parked) {
        last.error = Some(format!("{parked} events could not be applied to projections"));
    }
    bar.finish_and_clear();
    let until = Timestamp::from_millisecond(state.until)?.to_zoned(TimeZone::UTC).date().to_string();
    let (system, seed, tenants) = (system.name.clone(), args.seed, state.tenants);
    Ok(Report { system, seed, until, tenants, filled, skipped })
}

/// The handles that write items.
struct Handles {
    tenants: Vec<Tenant>,
    operator: Operator,
}

impl Handles {
    fn new(nagaya: &Nagaya, names: &[String]) -> anyhow::Result<Self> {
        let principal = |name: &String| Principal::new(name.as_str(), "seed");
        let tenants = names
            .iter()
            .map(|name| nagaya.tenant(&principal(name)).with_context(|| format!("`{name}` is not a valid tenant id")));
        let tenants = tenants.collect::<anyhow::Result<Vec<_>>>()?;
        let system = nagaya.design().tenant.system.clone().unwrap_or_default();
        Ok(Handles { tenants, operator: nagaya.operator("nagaya seed", &principal(&system)) })
    }

    async fn create(&self, entity: &Entity, owner: Option<usize>, draft: &Draft) -> Result<(), Error> {
        let mut fields = draft.fields.clone();
        let set = match owner.and_then(|owner| self.tenants.get(owner)) {
            None => self.operator.change_set().create(&entity.name, fields),
            Some(tenant) => {
                let before = fields.len();
                fields.retain(|name, _| !entity.field(name).is_some_and(|field| is_set_by_tenancy(entity, field)));
                let moments = entity.fields.iter().any(|field| field.since.is_some());
                // An item that expires lives from now on, whatever time it tells.
                let stamped = (fields.len() < before || moments) && entity.ttl_after.is_none();
                let stamp = stamped.then_some((draft.moment, draft.bits));
                stamp::with_stamp(stamp, || tenant.change_set().create(&entity.name, fields))
            }
        };
        set.commit().await.map(drop)
    }
}

/// The entity that is being filled.
struct EntityFiller<'w> {
    task: &'w Task<'w>,
    handles: &'w Handles,
    /// How many items each tenant gets.
    items: usize,
    /// How many items are written at the same time.
    at_once: usize,
    /// Whether other entities refer to this one.
    needed: bool,
    bar: &'w ProgressBar,
}

/// An item to be written.
struct Candidate {
    owner: Option<usize>,
    n: usize,
    attempt: usize,
    draft: Draft,
    /// Whether it may have been written: a response was lost.
    unsure: bool,
}

impl EntityFiller<'_> {
    async fn run(&self, state: &mut SeedState<'_>) -> anyhow::Result<EntityReport> {
        let entity = self.task.entity;
        let by_operator = self.task.by_operator;
        let mut filled = EntityReport { entity: entity.name.clone(), by_operator, ..EntityReport::default() };
        let mut seen = HashSet::new();
        let mut owners: Vec<(Option<usize>, usize)> =
            owners(self.task, state).into_iter().map(|owner| (owner, 0)).collect();
        let count = item_count(self.task, self.items);
        let to_itself = self.task.links.values().any(|link| link.entity == entity.name);
        let mut from = 0;
        while from < count {
            // Items that refer to their own entity need some to exist first.
            let step = if to_itself {
                (from * 3).max(REFERENCE_TARGET_COUNT)
            } else {
                CHUNK_SIZE.div_ceil(owners.len().max(1))
            };
            let end = count.min(from + step);
            let mut candidates = Vec::new();
            for (owner, misses) in &mut owners {
                for n in from..end {
                    if *misses == MAX_FAILURES_IN_A_ROW {
                        self.bar.inc(1);
                        continue;
                    }
                    match self.candidate_for(state, &mut seen, *owner, n, 0) {
                        Some(candidate) => {
                            *misses = 0;
                            candidates.push(candidate);
                        }
                        None => {
                            *misses += 1;
                            self.bar.inc(1);
                        }
                    }
                }
            }
            self.make(state, &mut seen, candidates, &mut filled).await?;
            from = end;
        }
        Ok(filled)
    }

    /// An item whose unique values no other item of this run has.
    fn candidate_for(
        &self,
        state: &SeedState<'_>,
        seen: &mut HashSet<String>,
        owner: Option<usize>,
        n: usize,
        first: usize,
    ) -> Option<Candidate> {
        for attempt in first..first + MAX_ATTEMPTS {
            let draft = state.draft(self.task, owner, n, attempt)?;
            let marks = unique_values(self.task.entity, owner, &draft);
            if marks.iter().all(|mark| !seen.contains(mark)) {
                seen.extend(marks);
                return Some(Candidate { owner, n, attempt, draft, unsure: false });
            }
        }
        None
    }

    async fn make(
        &self,
        state: &mut SeedState<'_>,
        seen: &mut HashSet<String>,
        mut candidates: Vec<Candidate>,
        filled: &mut EntityReport,
    ) -> anyhow::Result<()> {
        let entity = self.task.entity;
        let mut attempts_left = STORE_ATTEMPTS;
        let mut there = Vec::new();
        while !candidates.is_empty() {
            let making = candidates.into_iter().map(|candidate| async {
                let made = self.handles.create(entity, candidate.owner, &candidate.draft).await;
                (candidate, made)
            });
            let made: Vec<_> = stream::iter(making).buffered(self.at_once).inspect(|_| self.bar.inc(1)).collect().await;
            let mut again = Vec::new();
            for (candidate, made) in made {
                let Candidate { owner, n, attempt, draft, unsure } = candidate;
                match made {
                    Ok(()) => filled.created += 1,
                    Err(error) => match error.kind() {
                        ErrorKind::NotUnique { fields } if *fields == entity.id_fields() && unsure => {
                            filled.created += 1;
                        }
                        ErrorKind::NotUnique { fields } if *fields == entity.id_fields() => filled.existing += 1,
                        // A write conflict, a busy store or a lost response.
                        _ if matches!(error.code(), "contended" | "busy" | "unanswered") && attempts_left > 0 => {
                            let unsure = unsure || error.code() == "unanswered";
                            again.push(Candidate { owner, n, attempt, draft, unsure });
                            self.bar.dec(1);
                            continue;
                        }
                        // Another item has its values, or what it refers to is gone.
                        ErrorKind::NotUnique { .. } | ErrorKind::NoReference { .. } if attempt < MAX_ATTEMPTS => {
                            again.extend(self.candidate_for(state, seen, owner, n, attempt + 1));
                            self.bar.dec(1);
                            continue;
                        }
                        ErrorKind::NotUnique { .. } | ErrorKind::NoReference { .. } | ErrorKind::Invalid(_) => {
                            filled.error.get_or_insert_with(|| error.to_string());
                            continue;
                        }
                        _ => {
                            return Err(error)
                                .with_context(|| format!("an item of `{}` cannot be created", entity.name));
                        }
                    },
                }
                filled.tenants.extend(owner);
                if self.needed {
                    there.push((owner, n, draft));
                }
            }
            if !again.is_empty() {
                attempts_left = attempts_left.saturating_sub(1);
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            candidates = again;
        }
        // In order, so that references are the same in every run.
        there.sort_by_key(|(_, n, _)| *n);
        for (owner, _, draft) in there {
            state.made.entry((entity.name.clone(), owner)).or_default().push(draft);
        }
        Ok(())
    }
}

/// How many items of each entity a seeder writes by default.
fn default_item_count(seeder: &dyn Seeder) -> usize {
    seeder.default_items().unwrap_or(DEFAULT_ITEMS_PER_ENTITY)
}

/// The owners of an entity's items: all tenants, or none.
fn owners(task: &Task<'_>, state: &SeedState<'_>) -> Vec<Option<usize>> {
    if task.by_operator { vec![None] } else { (0..state.tenants.len()).map(Some).collect() }
}

/// How many items each owner gets.
fn item_count(task: &Task<'_>, items: usize) -> usize {
    if task.entity.id_fields().is_empty() { 1 } else { items }
}

/// The values that no other item may have: the id, and unique fields.
fn unique_values(entity: &Entity, owner: Option<usize>, draft: &Draft) -> Vec<String> {
    let mark = |kind: &str, within: bool, fields: &[&str]| {
        let values: Vec<_> = fields.iter().map(|path| value_at(&draft.fields, path).unwrap_or(&Json::Null)).collect();
        format!("{kind} {:?} {}", owner.filter(|_| within), serde_json::json!(values))
    };
    let tenant_in_key = entity.tenant.as_deref().is_some_and(|tenant| entity.is_key_field(tenant));
    let mut marks = vec![mark("id", tenant_in_key, &entity.id_fields())];
    for unique in &entity.unique {
        if unique.when.as_ref().is_none_or(|when| when.is_satisfied_by(&draft.fields)) {
            let fields: Vec<&str> = unique.fields.iter().map(String::as_str).collect();
            marks.push(mark(&unique.fields.join(" "), unique.within_tenant, &fields));
        }
    }
    marks
}

/// The value at a dotted path.
fn value_at<'f>(fields: &'f serde_json::Map<String, Json>, path: &str) -> Option<&'f Json> {
    match path.split_once('.') {
        None => fields.get(path),
        Some((first, rest)) => value_at(fields.get(first)?.as_object()?, rest),
    }
}

/// The last day of an earlier run. Ids hold times, so its first items are looked for, day by day.
async fn find_earlier_run(
    state: &mut SeedState<'_>,
    tasks: &[Task<'_>],
    seeders: &[Arc<dyn Seeder>],
    handles: &Handles,
) -> anyhow::Result<Option<i64>> {
    let alone = |task: &&Task<'_>| {
        task.entity.wall == Wall::Key && task.links.values().all(|link| link.entity == task.entity.name)
    };
    let today = state.today;
    for task in tasks.iter().filter(alone) {
        let mut ids = Vec::new();
        for back in 0..=MAX_LOOK_BACK_DAYS {
            state.until = today - back * DAY_MILLIS;
            let Some(draft) = state.draft(task, Some(0), 0, 0) else { break };
            let text = |path: &&str| match value_at(&draft.fields, path)? {
                Json::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            ids.push(task.entity.id_fields().iter().filter_map(text).collect::<Vec<_>>());
        }
        let different: BTreeSet<_> = ids.iter().collect();
        if different.len() < ids.len() {
            continue;
        }
        let ids: Vec<_> = ids.into_iter().map(|id| (task.entity.name.as_str(), id)).collect();
        if let Some(back) = first_there(handles, &ids).await? {
            return Ok(Some(today - i64::try_from(back)? * DAY_MILLIS));
        }
    }
    for seeder in seeders {
        let context = |back| SeedContext {
            until: today - back * DAY_MILLIS,
            ..state.context(default_item_count(seeder.as_ref()))
        };
        let marks: Vec<_> = (0..=MAX_LOOK_BACK_DAYS).map(|back| seeder.marker(&context(back))).collect();
        if let Some(back) = first_there(handles, &marks).await? {
            return Ok(Some(today - i64::try_from(back)? * DAY_MILLIS));
        }
    }
    Ok(None)
}

/// The position of the first of these items that the first tenant has.
async fn first_there(handles: &Handles, ids: &[(&str, Vec<String>)]) -> anyhow::Result<Option<usize>> {
    let Some(tenant) = handles.tenants.first() else { return Ok(None) };
    let parts: Vec<Vec<&str>> = ids.iter().map(|(_, id)| id.iter().map(String::as_str).collect()).collect();
    let wanted: Vec<_> = ids.iter().zip(&parts).map(|((entity, _), id)| (*entity, id.as_slice())).collect();
    Ok(tenant.get_many(&wanted).await?.iter().position(Option::is_some))
}

fn midnight(now: Timestamp) -> i64 {
    let millis = now.as_millisecond();
    millis - millis.rem_euclid(DAY_MILLIS)
}
