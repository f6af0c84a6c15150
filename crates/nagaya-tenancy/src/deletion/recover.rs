//! Deletions that a crash has left under way.

use nagaya_store::{Query, Value};

use super::pending::{PARTITION, Pending};
use crate::{Error, Nagaya, room::Room};

impl Nagaya {
    /// Ends the deletions that were under way when a process ended: each is finished, or taken back where something forbids
    /// it. How many there were.
    ///
    /// Call it when a process starts. It reads one partition of each table, does no harm beside others that work on the same
    /// store, and gives the same result however often it is called. What it would find is seen by nobody: an item whose deletion is
    /// under way is not found.
    pub async fn recover(&self) -> Result<usize, Error> {
        let house = self.house();
        let mut ended = 0;
        for blueprint in house.referred_tables() {
            let mut after = None;
            loop {
                let query = Query { after, ..Query::table(&blueprint.table, PARTITION) };
                let page = house.store.query(query).await?;
                for item in &page.items {
                    let token = item.get(&blueprint.key.sort).and_then(Value::as_str).unwrap_or_default();
                    let Some(pending) = Pending::read(item, token) else {
                        tracing::warn!(table = blueprint.table, token, "a note of a deletion cannot be read");
                        continue;
                    };
                    if house.blueprint(&pending.entity).is_err() {
                        tracing::warn!(
                            entity = pending.entity,
                            token,
                            "a deletion is of an entity that is not there any more"
                        );
                        continue;
                    }
                    let room: Room = pending.room(&house);
                    room.resume_by_token(blueprint, token, false).await?;
                    ended += 1;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(ended)
    }
}
