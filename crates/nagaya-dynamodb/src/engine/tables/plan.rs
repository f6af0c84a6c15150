//! Plans: the steps from the existing tables to the wanted ones.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::{IndexStatus, StreamViewType};
use nagaya_store::{Error, IndexSpec};

use super::{
    DesiredTable, Step,
    existing::{self, Billing, ExistingTable, Index, Setting},
    step::attributes,
};
use crate::engine::Dynamodb;

/// The steps to the wanted tables.
#[derive(Debug, Clone, Default)]
pub struct TablesPlan {
    /// The plan of each table, in the order of the request.
    pub tables: Vec<TablePlan>,
}

/// The steps for one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablePlan {
    /// Its name.
    pub table: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Differences that no step can change: the table would have to be created again.
    pub conflicts: Vec<String>,
    /// What the table has and the design does not. It stays unless the plan prunes.
    pub not_in_design: Vec<String>,
    /// Settings that the server does not support.
    pub unsupported: Vec<&'static str>,
    /// Remarks for people.
    pub notes: Vec<String>,
}

impl TablesPlan {
    /// The number of steps.
    pub fn step_count(&self) -> usize {
        self.tables.iter().map(|table| table.steps.len()).sum()
    }

    /// The settings of all tables that the server does not support.
    pub fn unsupported(&self) -> BTreeSet<&'static str> {
        self.tables.iter().flat_map(|table| table.unsupported.iter().copied()).collect()
    }

    /// All conflicts, each with its table.
    pub fn conflicts(&self) -> Vec<String> {
        let of_table = |table: &TablePlan| {
            table.conflicts.iter().map(|conflict| format!("`{}`: {conflict}", table.table)).collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of_table).collect()
    }
}

impl Dynamodb {
    /// Plans the steps to these tables. Changes nothing.
    ///
    /// With `prune`, indexes that are not wanted are removed. Key schemas never change: a different one is a conflict.
    pub async fn plan_tables(&self, wanted: &[DesiredTable], prune: bool) -> Result<TablesPlan, Error> {
        let mut tables = Vec::new();
        for wanted in wanted {
            tables.push(self.plan_table(wanted, prune).await?);
        }
        Ok(TablesPlan { tables })
    }

    pub(super) async fn plan_table(&self, wanted: &DesiredTable, prune: bool) -> Result<TablePlan, Error> {
        match existing::read(self, wanted).await? {
            Some(mut found) => {
                // A server without TTL does not report it; then the cached attribute counts.
                if found.ttl.is_none() && wanted.spec.ttl.is_some() {
                    found.ttl = self.table(&wanted.spec.name).await?.spec.ttl.clone();
                }
                Ok(plan_change(wanted, &found, prune))
            }
            None => {
                let (recovery, tags) = existing::probe_settings(self, wanted).await?;
                Ok(plan_create(wanted, &recovery, &tags))
            }
        }
    }
}

/// The plan for a table that does not exist.
fn plan_create(wanted: &DesiredTable, recovery: &Setting<bool>, tags: &Setting<()>) -> TablePlan {
    let mut plan = TablePlan { table: wanted.spec.name.clone(), ..TablePlan::default() };
    let encryption = wanted.encryption.clone().filter(|_| *recovery != Setting::Unsupported);
    plan.steps.push(Step::Create {
        key: wanted.spec.key.clone(),
        indexes: wanted.indexes().to_vec(),
        stream: wanted.stream,
        encryption,
        throughput: wanted.throughput.map(|(lowest, _)| lowest),
        protected: wanted.protected,
    });
    plan.steps.extend(wanted.spec.ttl.clone().map(Step::EnableTtl));
    plan.recovery(wanted, recovery);
    if wanted.encryption.is_some() && *recovery == Setting::Unsupported {
        plan.unsupported.push("encryption");
    }
    if *tags == Setting::Unsupported {
        plan.unsupported.push("tags");
    } else if !wanted.tags.is_empty() {
        plan.steps.push(Step::SetTags(wanted.tags.clone()));
    }
    plan.scaling(wanted);
    plan
}

/// The plan for an existing table.
fn plan_change(wanted: &DesiredTable, found: &ExistingTable, prune: bool) -> TablePlan {
    let mut plan = TablePlan { table: wanted.spec.name.clone(), ..TablePlan::default() };
    match &found.key {
        Some(key) if *key == wanted.spec.key => {}
        Some(key) => {
            let (is, should) = (attributes(key), attributes(&wanted.spec.key));
            plan.conflicts.push(format!("its key is {is} and should be {should}"));
        }
        None => plan.conflicts.push("its key has no sort attribute".to_owned()),
    }
    match (&found.ttl, &wanted.spec.ttl) {
        (Some(is), Some(should)) if is != should => {
            plan.conflicts.push(format!("its items expire by {is} and should by {should}"));
        }
        (Some(is), None) => plan.conflicts.push(format!("its items expire by {is} and should not")),
        (None, Some(should)) => plan.steps.push(Step::EnableTtl(should.clone())),
        _ => {}
    }
    match (&found.stream, wanted.stream) {
        (None, true) => plan.steps.push(Step::EnableStream),
        (Some(view), true) if *view != StreamViewType::NewAndOldImages => plan.conflicts.push(format!(
            "its stream carries {} and should NEW_AND_OLD_IMAGES: turn it off, and plan again",
            view.as_str()
        )),
        _ => {}
    }
    plan.recovery(wanted, &found.recovery);
    plan.encryption(wanted, found.kms_key.as_deref(), &found.recovery);
    plan.throughput(wanted, found.billing);
    if wanted.protected && !found.protected {
        plan.steps.push(Step::EnableDeletionProtection);
    }
    plan.tags(wanted, &found.tags);
    plan.indexes(wanted, &found.indexes, prune);
    plan.scaling(wanted);
    plan
}

impl TablePlan {
    fn recovery(&mut self, wanted: &DesiredTable, found: &Setting<bool>) {
        match found {
            _ if !wanted.recovery => {}
            Setting::Known(false) | Setting::NotRequested => self.steps.push(Step::EnableRecovery),
            Setting::Known(true) => {}
            Setting::Unsupported => self.unsupported.push("point-in-time recovery"),
            Setting::Denied => {
                self.notes.push("whether it has point-in-time recovery may not be read: left out".to_owned());
            }
        }
    }

    /// A server without backups does not support encryption either, and does not report it.
    fn encryption(&mut self, wanted: &DesiredTable, found: Option<&str>, recovery: &Setting<bool>) {
        let Some(key) = &wanted.encryption else { return };
        match (key.is_key_of(found), recovery) {
            (Some(true), _) => {}
            (Some(false), Setting::Unsupported) => self.unsupported.push("encryption"),
            (Some(false), _) => self.steps.push(Step::EnableEncryption(key.clone())),
            (None, _) => self.notes.push(format!(
                "its key is {}; whether the alias stands for it is not compared",
                found.unwrap_or_default()
            )),
        }
    }

    fn throughput(&mut self, wanted: &DesiredTable, found: Billing) {
        match (wanted.throughput, found) {
            (None, Billing::PerRequest) => {}
            (None, Billing::Provisioned { .. }) => self.steps.push(Step::SetThroughput(None)),
            (Some((lowest, highest)), Billing::Provisioned { read, write })
                if (lowest..=highest).contains(&read) && (lowest..=highest).contains(&write) => {}
            (Some((lowest, _)), _) => self.steps.push(Step::SetThroughput(Some(lowest))),
        }
    }

    fn scaling(&mut self, wanted: &DesiredTable) {
        if let Some((lowest, highest)) = wanted.throughput
            && lowest < highest
        {
            self.notes.push(format!("scaling up to {highest} units is the work of Application Auto Scaling"));
        }
    }

    fn tags(&mut self, wanted: &DesiredTable, found: &Setting<BTreeMap<String, String>>) {
        match found {
            _ if wanted.tags.is_empty() => {}
            Setting::Known(found) => {
                let lacking = |(key, value): &(&String, &String)| found.get(*key) != Some(*value);
                let lacking: BTreeMap<_, _> =
                    wanted.tags.iter().filter(lacking).map(|(key, value)| (key.clone(), value.clone())).collect();
                if !lacking.is_empty() {
                    self.steps.push(Step::SetTags(lacking));
                }
            }
            Setting::Unsupported => self.unsupported.push("tags"),
            Setting::Denied | Setting::NotRequested => self.notes.push("its tags may not be read: left out".to_owned()),
        }
    }

    fn indexes(&mut self, wanted: &DesiredTable, found: &[Index], prune: bool) {
        let wanted_now = wanted.indexes();
        for index in &wanted.spec.indexes {
            let is_due = wanted_now.iter().any(|due| due.name == index.name);
            match found.iter().find(|found| found.name == index.name) {
                Some(found) => self.index(index, found),
                None if is_due => self.steps.push(Step::AddIndex(index.clone())),
                None => {}
            }
        }
        for index in found.iter().filter(|found| wanted.spec.index(&found.name).is_none()) {
            match (&index.status, prune) {
                (IndexStatus::Deleting, _) => self.notes.push(format!("index {} is being removed", index.name)),
                (_, true) => self.steps.push(Step::RemoveIndex(index.name.clone())),
                (_, false) => self.not_in_design.push(format!("it has an index {}", index.name)),
            }
        }
    }

    fn index(&mut self, wanted: &IndexSpec, found: &Index) {
        let name = &wanted.name;
        match &found.key {
            Some(key) if *key == wanted.key => {}
            key => {
                let is = key.as_ref().map_or_else(|| "one attribute".to_owned(), attributes);
                let should = attributes(&wanted.key);
                self.conflicts.push(format!("the key of its index {name} is {is} and should be {should}"));
            }
        }
        if !found.projects_all {
            self.conflicts.push(format!("its index {name} does not carry whole items"));
        }
        match found.status {
            // It has to be deleted before it can be added again.
            IndexStatus::Deleting => self.steps.push(Step::AddIndex(wanted.clone())),
            IndexStatus::Creating => self.notes.push(format!("index {name} is being filled")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use nagaya_store::{KeySchema, TableSpec};

    use super::*;
    use crate::TableKey;

    const ARN: &str = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab";

    fn wanted(key: TableKey) -> DesiredTable {
        let spec = TableSpec::new("notes", KeySchema::strings("PK", "SK"));
        DesiredTable { encryption: Some(key), ..DesiredTable::new(spec) }
    }

    #[test]
    fn a_new_table_is_created_with_the_key_of_the_customer() {
        let plan = |key, recovery| plan_create(&wanted(key), &recovery, &Setting::NotRequested);
        let customer = plan(TableKey::Customer(ARN.to_owned()), Setting::NotRequested);
        assert!(customer.steps[0].to_string().ends_with(&format!("encryption with the key {ARN}")), "{customer:?}");
        let managed = plan(TableKey::Managed, Setting::NotRequested);
        assert!(managed.steps[0].to_string().ends_with("a stream, encryption"), "{managed:?}");
        let unsupported = plan(TableKey::Customer(ARN.to_owned()), Setting::Unsupported);
        assert_eq!(unsupported.unsupported, ["encryption"]);
        assert!(!unsupported.steps[0].to_string().contains("encryption"), "{unsupported:?}");
    }

    #[test]
    fn an_existing_table_gets_the_key_unless_it_has_it() {
        let steps = |key: TableKey, found| {
            let mut plan = TablePlan::default();
            plan.encryption(&wanted(key), found, &Setting::NotRequested);
            (plan.steps.iter().map(Step::to_string).collect::<Vec<_>>(), plan.notes.len())
        };
        let customer = |id: &str| TableKey::Customer(id.to_owned());
        let change = vec!["encrypt it with the key 1234abcd-12ab".to_owned()];
        assert_eq!(steps(customer("1234abcd-12ab"), None), (change.clone(), 0));
        assert_eq!(steps(customer("1234abcd-12ab"), Some("arn:aws:kms:eu-central-1:123456789012:key/9")), (change, 0));
        assert_eq!(steps(customer("1234abcd-12ab"), Some(ARN)), (Vec::new(), 0));
        assert_eq!(steps(customer(ARN), Some(ARN)), (Vec::new(), 0));
        assert_eq!(steps(TableKey::Managed, Some(ARN)), (Vec::new(), 0));
        assert_eq!(steps(customer("alias/notes"), Some(ARN)), (Vec::new(), 1));
    }
}
