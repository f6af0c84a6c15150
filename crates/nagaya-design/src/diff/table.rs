//! Tables and their indexes.

use super::{CALLERS, Differences, ITEMS, KEYS, text};
use crate::design::{KeyAttributes, Table};

/// The consistency levels of Cosmos DB, the strongest first.
const CONSISTENCY_LEVELS: [&str; 5] = ["strong", "bounded", "session", "prefix", "eventual"];

impl Differences {
    pub(super) fn table(&mut self, path: &str, old: &Table, new: &Table) {
        self.description(path, &old.description, &new.description);
        self.compare_value(path, "the name", &old.name, &new.name, Some(KEYS));
        let key = |key: &KeyAttributes| format!("{}/{}", key.partition, key.sort);
        self.compare_value(path, "the key", key(&old.key), key(&new.key), Some(KEYS));
        let section = format!("{path}.index");
        for (path, old, new) in self.named(&section, &old.indexes, &new.indexes, |index| &index.name, CALLERS) {
            self.compare_value(&path, "the key", key(&old.key), key(&new.key), Some("the index has to be rebuilt"));
        }
        self.compare_value(path, "the discriminator", text(&old.discriminator), text(&new.discriminator), Some(ITEMS));
        let lost = old.ttl.as_ref().map(|_| "stored expiry times no longer count");
        self.compare_value(path, "the TTL attribute", text(&old.ttl), text(&new.ttl), lost);
        let stopped = old.stream.then_some("consumers of the stream receive no changes");
        self.flag(path, "stream", old.stream, new.stream, stopped);
        let lost = old.point_in_time.then_some("past states can no longer be restored");
        self.flag(path, "point-in-time recovery", old.point_in_time, new.point_in_time, lost);
        self.flag(path, "encryption with a customer-managed key", old.kms, new.kms, None);
        let throughput = |table: &Table| match table.throughput {
            None => "on-demand".to_owned(),
            Some((min, max)) => format!("{min} to {max}"),
        };
        self.compare_value(path, "the throughput", throughput(old), throughput(new), None);
        let level =
            |table: &Table| CONSISTENCY_LEVELS.iter().position(|level| Some(*level) == table.consistency.as_deref());
        let is_weaker = level(old).zip(level(new)).is_some_and(|(old, new)| new > old);
        let stale = is_weaker.then_some("readers may see older states than before");
        self.compare_value(path, "the consistency", text(&old.consistency), text(&new.consistency), stale);
        if old.indexing != new.indexing {
            self.add(path, "the indexing policy changed", None);
        }
    }
}
