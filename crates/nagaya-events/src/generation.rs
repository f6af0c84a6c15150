//! Generations of a projection: the one that is read, the one before, and the one that is being built.

use nagaya_tenancy::{Keeper, Nagaya, Note, Operator};
use serde_json::{Map, Value as Json};

use crate::{Error, ErrorKind, Processor};

/// Which generations of a projection there are. All of them are fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generations {
    /// The one that is read.
    pub current: u32,
    /// The one that was read before.
    pub previous: Option<u32>,
    /// The one that is being built.
    pub building: Option<u32>,
    /// The greatest that has ever been begun.
    newest: u32,
    note: Option<Note>,
}

impl Generations {
    pub(crate) async fn read(processor: &Processor) -> Result<Self, Error> {
        Generations::of(&processor.first(), processor.projection.entity()).await
    }

    async fn of(first: &Operator, entity: &str) -> Result<Self, Error> {
        let note = first.note(entity, Keeper::House, &name(entity)).await?;
        let number = |name: &str| note.as_ref()?.number(name).and_then(|number| u32::try_from(number).ok());
        let current = number("current").unwrap_or(1);
        let (previous, building) = (number("previous"), number("building"));
        Ok(Generations { current, previous, building, newest: number("newest").unwrap_or(1), note })
    }

    /// All that are fed.
    pub(crate) fn fed(&self) -> Vec<u32> {
        [Some(self.current), self.previous, self.building].into_iter().flatten().collect()
    }

    /// Writes this down, if nobody else has written since it was read.
    async fn write(&self, processor: &Processor) -> Result<(), Error> {
        let mut fields = Map::new();
        fields.insert("current".to_owned(), self.current.into());
        fields.insert("newest".to_owned(), self.newest.into());
        for (name, number) in [("previous", self.previous), ("building", self.building)] {
            fields.extend(number.map(|number| (name.to_owned(), Json::from(number))));
        }
        let entity = processor.projection.entity();
        let set = processor.first().set();
        let set = set.note(entity, Keeper::House, &name(entity), Some(fields), self.note.as_ref());
        match set.commit().await {
            Err(error) if matches!(error.kind(), nagaya_tenancy::ErrorKind::Overtaken { .. }) => {
                let why = format!("somebody else works on the generations of `{entity}`; look again");
                Err(ErrorKind::Busy(why).into())
            }
            written => written.map(drop).map_err(Into::into),
        }
    }
}

impl Processor {
    /// The house with the first generation, in whose table the notes of all of them lie.
    pub(crate) fn first(&self) -> Operator {
        let principal = self.operator.principal().clone();
        self.house(1).operator("looks after projections", &principal)
    }

    /// Which generations there are.
    pub async fn generations(&self) -> Result<Generations, Error> {
        Generations::read(self).await
    }

    /// Begins a new generation, or goes on with one that was begun.
    pub(crate) async fn begin_generation(&self) -> Result<u32, Error> {
        let mut generations = Generations::read(self).await?;
        if let Some(building) = generations.building {
            return Ok(building);
        }
        let next = generations.newest + 1;
        // The table first: what is named is there.
        self.house(next).ensure().await?;
        (generations.building, generations.newest) = (Some(next), next);
        generations.write(self).await?;
        Ok(next)
    }

    /// Reads a generation from now on that was built, by one conditional write.
    pub(crate) async fn switch_to(&self, generation: u32) -> Result<(), Error> {
        let mut generations = Generations::read(self).await?;
        if generations.building != Some(generation) {
            return Err(ErrorKind::Busy(format!("generation {generation} is not the one that is being built")).into());
        }
        generations.previous = Some(generations.current);
        (generations.current, generations.building) = (generation, None);
        generations.write(self).await?;
        self.nagaya.switch(&self.table, generation);
        Ok(())
    }

    /// Gives up a generation that is being built.
    pub async fn abandon(&self) -> Result<Option<u32>, Error> {
        let mut generations = Generations::read(self).await?;
        let Some(building) = generations.building.take() else { return Ok(None) };
        generations.write(self).await?;
        Ok(Some(building))
    }

    /// Reads the previous generation again; which one that is. It has been fed all the time.
    pub async fn roll_back(&self) -> Result<u32, Error> {
        let mut generations = Generations::read(self).await?;
        let Some(previous) = generations.previous else {
            let why = format!("there is no generation of `{}` before the one that is read", self.projection.entity());
            return Err(ErrorKind::Busy(why).into());
        };
        generations.previous = Some(generations.current);
        generations.current = previous;
        generations.write(self).await?;
        self.nagaya.switch(&self.table, previous);
        Ok(previous)
    }
}

/// Uses the generations of all projections that are to be read now; to be called now and then, because another process may
/// have switched. Whoever is late by a moment reads one that is still fed.
pub async fn follow_generations(nagaya: &Nagaya) -> Result<(), Error> {
    let design = nagaya.design();
    for aggregate in &design.aggregates {
        for entity in aggregate.projections.iter().map(|at| &design.entities[*at]) {
            let table = &design.table_of(entity).id;
            let principal = nagaya_tenancy::Principal::new("", crate::processor::USER);
            let first = nagaya.generation(table, 1).operator("reads projections", &principal);
            let current = Generations::of(&first, &entity.name).await?.current;
            if current != nagaya.generation_of(table) {
                nagaya.switch(table, current);
            }
        }
    }
    Ok(())
}

fn name(entity: &str) -> String {
    format!("generations-{entity}")
}
