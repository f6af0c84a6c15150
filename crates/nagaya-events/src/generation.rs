//! Generations of a projection: the current one, the previous one, and the one that is being built.

use nagaya_tenancy::{ChangeSet, Nagaya, Operator, RecordOwner, SideRecord};
use serde_json::{Map, Value as Json};

use crate::{Error, ErrorKind, Processor, processor::principal};

/// The generations of a projection. All of them are kept up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generations {
    /// The one that queries read.
    pub current: u32,
    /// The one that queries read before.
    pub previous: Option<u32>,
    /// The one that is being built.
    pub building: Option<u32>,
    /// The highest number that has ever been used.
    newest: u32,
    /// How often the skip list of the projection has changed.
    pub(crate) skips: u64,
    note: Option<SideRecord>,
}

impl Generations {
    /// Reads them, and the skip list if it has changed.
    pub(crate) async fn read(processor: &Processor) -> Result<Self, Error> {
        let found = Generations::read_record(&processor.first_generation(), processor.projection.entity()).await?;
        processor.refresh_skips(found.skips).await?;
        Ok(found)
    }

    async fn read_record(first: &Operator, entity: &str) -> Result<Self, Error> {
        let note = first.side_record(entity, RecordOwner::System, &record_name(entity)).await?;
        let number = |name: &str| note.as_ref()?.number(name).and_then(|number| u32::try_from(number).ok());
        let current = number("current").unwrap_or(1);
        let (previous, building) = (number("previous"), number("building"));
        let skips = note.as_ref().and_then(|note| note.number("skips")).unwrap_or_default();
        Ok(Generations { current, previous, building, newest: number("newest").unwrap_or(1), skips, note })
    }

    /// The numbers of all generations.
    pub(crate) fn all(&self) -> Vec<u32> {
        [Some(self.current), self.previous, self.building].into_iter().flatten().collect()
    }

    /// Stores them, unless another process has since they were read.
    async fn write(&self, processor: &Processor) -> Result<(), Error> {
        let entity = processor.projection.entity();
        match self.add_write(entity, processor.first_generation().change_set()).commit().await {
            Err(error) if error.is_conflict() => {
                let why = format!("another process has changed the generations of `{entity}`; look again");
                Err(ErrorKind::Busy(why).into())
            }
            written => written.map(drop).map_err(Into::into),
        }
    }
}

impl Generations {
    /// Adds their write to a set, on the condition that they are still those that were read.
    pub(crate) fn add_write(&self, entity: &str, set: ChangeSet) -> ChangeSet {
        let mut fields = Map::new();
        fields.insert("current".to_owned(), self.current.into());
        fields.insert("newest".to_owned(), self.newest.into());
        fields.insert("skips".to_owned(), self.skips.into());
        for (name, number) in [("previous", self.previous), ("building", self.building)] {
            fields.extend(number.map(|number| (name.to_owned(), Json::from(number))));
        }
        set.side_record(entity, RecordOwner::System, &record_name(entity), Some(fields), self.note.as_ref())
    }
}

impl Processor {
    /// The generations of the projection.
    pub async fn generations(&self) -> Result<Generations, Error> {
        Generations::read(self).await
    }

    /// Starts a new generation, or continues one that was started.
    pub(crate) async fn start_generation(&self) -> Result<u32, Error> {
        let mut generations = Generations::read(self).await?;
        if let Some(building) = generations.building {
            return Ok(building);
        }
        let next = generations.newest + 1;
        // The table first: a generation that is stored has one.
        self.nagaya_of_generation(next).ensure_tables().await?;
        (generations.building, generations.newest) = (Some(next), next);
        generations.write(self).await?;
        Ok(next)
    }

    /// Makes a generation that was built the current one, by one conditional write; `false` if the skip list is no longer the
    /// one with which it was verified.
    pub(crate) async fn switch_to(&self, generation: u32, skips: u64) -> Result<bool, Error> {
        let mut generations = Generations::read(self).await?;
        if generations.building != Some(generation) {
            return Err(ErrorKind::Busy(format!("generation {generation} is not the one that is being built")).into());
        }
        if generations.skips != skips {
            return Ok(false);
        }
        generations.previous = Some(generations.current);
        (generations.current, generations.building) = (generation, None);
        generations.write(self).await?;
        self.nagaya.switch_generation(&self.table, generation);
        Ok(true)
    }

    /// Abandons the generation that is being built; its number.
    pub async fn abandon(&self) -> Result<Option<u32>, Error> {
        let mut generations = Generations::read(self).await?;
        let Some(building) = generations.building.take() else { return Ok(None) };
        generations.write(self).await?;
        Ok(Some(building))
    }

    /// Makes the previous generation the current one again; its number. It has been kept up to date all the time.
    pub async fn roll_back(&self) -> Result<u32, Error> {
        let mut generations = Generations::read(self).await?;
        let Some(previous) = generations.previous else {
            let why = format!("`{}` has no previous generation", self.projection.entity());
            return Err(ErrorKind::Busy(why).into());
        };
        generations.previous = Some(generations.current);
        generations.current = previous;
        generations.write(self).await?;
        self.nagaya.switch_generation(&self.table, previous);
        Ok(previous)
    }
}

/// Reads which generations are current, for all projections. Call it regularly, because another process may have switched.
/// A process that is late reads the previous generation, which is still kept up to date.
pub async fn refresh_generations(nagaya: &Nagaya) -> Result<(), Error> {
    let design = nagaya.design();
    for aggregate in &design.aggregates {
        for entity in aggregate.projections.iter().map(|at| &design.entities[*at]) {
            let table = &design.table_of(entity).id;
            let first = nagaya.with_generation(table, 1).operator("reads projections", &principal(""));
            let current = Generations::read_record(&first, &entity.name).await?.current;
            if current != nagaya.generation_of(table) {
                nagaya.switch_generation(table, current);
            }
        }
    }
    Ok(())
}

fn record_name(entity: &str) -> String {
    format!("generations-{entity}")
}
