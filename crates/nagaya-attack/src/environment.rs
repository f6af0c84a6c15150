//! A store with a data layer for the attacker and one for all others.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use nagaya_design::{Design, Entity, Wall};
use nagaya_seed::Rng;
use nagaya_store::{Clock, Item, Scan, Store, Write};
use serde_json::{Map, Value as Json};

use super::{
    Engine, json,
    scenario::{Failure, item_with_fields},
    values,
};
use nagaya_tenancy::{Error, IdGenerator, Nagaya, Operator, Principal, Record, Settings, Tenant};

/// The time of all attacks, in 2040: servers that sweep by a clock of their own find nothing to sweep.
pub(super) const NOW_MILLIS: i64 = 2_210_000_000_000;

/// Names that a careless layer confuses.
pub(super) const LOOKALIKES: [&str; 11] =
    ["t1", "t10", "T1", "t1-x", "t1%23", "t1 ", "t\u{e9}", "te\u{301}", "t1%23USER%23x", "TENANT#t1", "t1#USER#x"];

/// An item and its owner.
#[derive(Debug, Clone)]
pub(super) struct OwnedItem {
    /// The tenant; `None` for the system.
    pub(super) tenant: Option<String>,
    pub(super) entity: String,
    pub(super) id: Vec<String>,
    /// Its fields, those that cannot be read back included.
    pub(super) fields: Map<String, Json>,
}

/// The handle that creates items.
pub(super) enum Creator<'m> {
    Tenant(&'m Tenant),
    Operator(&'m Operator),
}

impl Creator<'_> {
    async fn create(&self, entity: &str, fields: Map<String, Json>) -> Result<Record, Error> {
        match self {
            Creator::Tenant(tenant) => tenant.create(entity, fields).await,
            Creator::Operator(operator) => operator.create(entity, fields).await,
        }
    }
}

/// A store with a data layer for the attacker and one for all others, so that the ids that the attacker gets do not depend on
/// what the others do.
pub(super) struct Environment {
    pub(super) store: Arc<dyn Store>,
    pub(super) attacker_layer: Nagaya,
    /// For what is done in one environment only.
    pub(super) probe: Nagaya,
    pub(super) others: Nagaya,
    /// The counter of the others' ids.
    next: Arc<AtomicU64>,
}

impl Environment {
    pub(super) async fn open<E: Engine>(design: &Design, engine: &E) -> Result<Self, Failure> {
        let store: Arc<dyn Store> = Arc::new(engine.open(Clock::new(|| NOW_MILLIS)).await?);
        let rng = Mutex::new(Rng::new(1, &[], [0; 2]));
        let own = IdGenerator::new(move || rng.lock().unwrap_or_else(PoisonError::into_inner).bits());
        let next = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&next);
        let others_items =
            IdGenerator::new(move || Rng::new(counted.fetch_add(1, Ordering::Relaxed), &[], [0; 2]).bits());
        let attacker_layer = Nagaya::open_with(design.clone(), store.clone(), settings(own));
        let probe = Nagaya::open_with(design.clone(), store.clone(), settings(IdGenerator::sequential()));
        let others = Nagaya::open_with(design.clone(), store.clone(), settings(others_items));
        attacker_layer.ensure_tables().await?;
        Ok(Environment { store, attacker_layer, probe, others, next })
    }

    /// Creates items of every wanted entity, those first that others refer to.
    pub(super) async fn populate(
        &self,
        creator: &Creator<'_>,
        tenant: Option<&str>,
        (salt, count): (usize, usize),
        wanted: impl Fn(&Entity) -> bool,
    ) -> Result<Vec<OwnedItem>, Failure> {
        let design = self.attacker_layer.design().clone();
        let mut made: Vec<OwnedItem> = Vec::new();
        let mut waiting: Vec<(usize, &Entity)> =
            design.entities.iter().enumerate().filter(|(_, entity)| wanted(entity)).collect();
        loop {
            let before = waiting.len();
            let mut left = Vec::new();
            for (at, entity) in waiting {
                let mut any = false;
                for n in 0..count {
                    let of = |name: &str, n: usize| {
                        let mut ids = made.iter().filter(|each| each.entity == name).map(|each| &each.id);
                        let first = ids.clone().next();
                        ids.nth(n).or(first).cloned()
                    };
                    let Some(fields) = values::fields(entity, n, salt, &of) else { continue };
                    // The same item has the same id in both environments.
                    self.next.store(((salt * 1_000 + at) * 1_000 + n) as u64 * 1_000 + 7, Ordering::Relaxed);
                    if design.holds_audit_entries(entity) {
                        // Nobody creates one, so it is written as the layer does.
                        made.push(self.write_entry(entity, tenant, fields, salt * 1_000 + n).await?);
                        any = true;
                        continue;
                    }
                    match creator.create(&entity.name, fields.clone()).await {
                        Ok(record) => {
                            let mut fields = fields;
                            fields.extend(record.to_json());
                            let (tenant, entity) = (tenant.map(str::to_owned), entity.name.clone());
                            made.push(OwnedItem { tenant, entity, id: record.id(), fields });
                            any = true;
                        }
                        // There are not enough different values.
                        Err(error) if n > 0 && error.code() == "taken" => {}
                        // Its tenant field does not take this name.
                        Err(error) if error.code() == "invalid" && !accepts_tenant(entity, tenant) => any = true,
                        Err(error) => {
                            let given = Json::Object(fields);
                            return Err(Failure::new(format!("{} of {given} cannot be created: {error}", entity.name)));
                        }
                    }
                }
                if !any {
                    left.push((at, entity));
                }
            }
            if left.is_empty() || left.len() == before {
                return Ok(made);
            }
            waiting = left;
        }
    }

    /// Writes an entry of a tenant's audit, whose generated fields have the n-th values.
    async fn write_entry(
        &self,
        entity: &Entity,
        tenant: Option<&str>,
        mut fields: Map<String, Json>,
        n: usize,
    ) -> Result<OwnedItem, Failure> {
        let design = self.attacker_layer.design();
        for field in entity.fields.iter().filter(|field| !field.optional) {
            if !fields.contains_key(&field.name) {
                let instant = || field.timestamp_value(NOW_MILLIS + i64::try_from(n).unwrap_or_default() * 1_000);
                fields
                    .extend(instant().or_else(|| values::nth_value(field, n)).map(|value| (field.name.clone(), value)));
            }
        }
        if let Some((path, tenant)) = entity.tenant.as_deref().zip(tenant) {
            json::set_at_path(&mut fields, path, tenant.into());
        }
        let item = item_with_fields(design, entity, &fields)?;
        self.store.write(Write::put(design.table_of(entity).physical_name(&design.name), item).into()).await?;
        let value = |path| json::value_at(&fields, path).map(values::as_text).unwrap_or_default();
        let id = entity.id_fields().into_iter().map(value).collect();
        Ok(OwnedItem { tenant: tenant.map(str::to_owned), entity: entity.name.clone(), id, fields })
    }

    /// Everything that is stored, by table of the design.
    pub(super) async fn stored(&self) -> Result<Vec<(usize, Item)>, Failure> {
        let design = self.attacker_layer.design();
        let mut found = Vec::new();
        for (at, table) in design.tables.iter().enumerate() {
            let mut scan = Scan::table(table.physical_name(&design.name));
            loop {
                let page = self.store.scan(scan.clone()).await?;
                found.extend(page.items.into_iter().map(|item| (at, item)));
                match page.next {
                    Some(next) => scan.after = Some(next),
                    None => break,
                }
            }
        }
        Ok(found)
    }
}

/// Settings that are the same in all data layers, except the ids.
pub(super) fn settings(ids: IdGenerator) -> Settings {
    let (clock, key) = (Clock::new(|| NOW_MILLIS), [7; 32]);
    Settings { clock, ids, cursor_keys: key.into(), audit_keys: key.into(), ..Settings::default() }
}

/// A user of a tenant.
pub(super) fn principal(tenant: &str) -> Principal {
    Principal::new(tenant, "somebody")
}

/// Lookalike names that are valid for the tenants of a design.
pub(super) fn names(design: &Design) -> Vec<String> {
    let mut prefixes = vec![""];
    for field in design.entities.iter().filter_map(|entity| entity.field(entity.tenant.as_deref()?)) {
        if !prefixes.contains(&field.prefix()) {
            prefixes.push(field.prefix());
        }
    }
    prefixes.iter().flat_map(|prefix| LOOKALIKES.iter().map(move |name| format!("{prefix}{name}"))).collect()
}

/// Whether a tenant may have items of an entity.
fn accepts_tenant(entity: &Entity, tenant: Option<&str>) -> bool {
    let field = entity.tenant.as_deref().and_then(|path| entity.field(path));
    tenant.zip(field).is_none_or(|(tenant, field)| field.accepts(&tenant.into()))
}

/// The tenants that attack: a plain name that others start with, and one that is full of delimiters where that is allowed.
pub(super) fn attackers(design: &Design) -> Vec<String> {
    let system = design.tenant.system.as_deref();
    let mut names = names(design);
    names
        .retain(|name| design.entities.iter().all(|entity| accepts_tenant(entity, Some(name))) && system != Some(name));
    let last = names.pop();
    names.into_iter().take(1).chain(last).collect()
}

/// Whether only its tenant may see an entity.
pub(super) fn is_private(entity: &Entity) -> bool {
    matches!(entity.wall, Wall::Key | Wall::Attribute)
}
