//! Encrypting everything with a new data key, in small steps between writes.
//!
//! The record is committed before the new key encrypts the first value, and with each step. So the work continues where it
//! was after a crash, and no value is ever encrypted with a key that is not in the record.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    ops::Bound,
    path::Path,
    sync::Arc,
    time::Duration,
};

use nagaya_store::Error;

use super::{
    DataKeys, EncryptionKey,
    data_keys::FILE_HEAD,
    state::{EncryptionRecord, Place, ReencryptionWork},
    unlock::encryption_ops,
};
use crate::{
    commit::Committer,
    files::{self, IoContext as _},
    layout::Keyspace,
    maintenance::ObjectWalk,
    storage::{Op, Storage, break_if},
};

/// The number of values, and of their bytes, that are encrypted again in one step; and the number that is looked at.
const STEP: usize = 500;
const STEP_BYTES: usize = 1024 * 1024;
const LOOKED_AT: u64 = 5_000;
/// The number of objects that are looked at in one step. At most one of them is encrypted.
const OBJECTS_LOOKED_AT: u64 = 100;
/// How long the next attempt waits after a failure that is not a fault of the disk.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The work of encrypting everything again, if there is some.
#[derive(Default)]
pub(crate) struct Reencryption {
    /// The record with the work that is left; `None` if it has to be read first.
    record: Option<EncryptionRecord>,
    objects: Option<ObjectWalk>,
    is_running: bool,
    failures: u32,
}

impl Reencryption {
    /// The work that a restart has interrupted.
    pub(crate) fn interrupted(storage: &Storage) -> Result<Self, Error> {
        let record = EncryptionRecord::read(&storage.view()?)?.filter(|record| record.work.is_some());
        Ok(Reencryption { is_running: record.is_some(), record, ..Reencryption::default() })
    }

    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }
}

impl Committer {
    /// Encrypts the store with another key from now on, and starts to encrypt again what is stored.
    pub(crate) fn change_key(&mut self, encryption_key: &EncryptionKey) -> Result<(), Error> {
        let disk = self.shared.storage.disk();
        let disk = disk.ok_or_else(|| Error::engine("a store in memory is not encrypted"))?;
        let former = disk.keys();
        if former.as_ref().is_some_and(|former| former.encryption_key == *encryption_key) {
            // The same request again continues the work.
            return match self.reencryption.is_running {
                true => Ok(()),
                false => Err(Error::engine(format!(
                    "the store is encrypted with the key {} already; give another one",
                    encryption_key.id()
                ))),
            };
        }
        let total = disk.approximate_values()?;
        let (record, keys) = EncryptionRecord::next(former.as_deref(), encryption_key, Some(total))?;
        self.commit(encryption_ops(&record)?, self.sequence)?;
        // Only now: the record must be durable before a value is encrypted with its key.
        if let Some(disk) = self.shared.storage.disk() {
            disk.install_keys(keys);
        }
        tracing::info!(key = encryption_key.id(), "the store has a new key; what is stored is encrypted again");
        self.reencryption = Reencryption { record: Some(record), is_running: true, ..Reencryption::default() };
        Ok(())
    }

    /// Performs one step of the work, if there is some.
    pub(crate) fn reencrypt_step(&mut self) {
        if !self.reencryption.is_running {
            return;
        }
        match self.try_reencrypt_step() {
            Ok(()) => self.reencryption.failures = 0,
            Err(error) => {
                let failures = &mut self.reencryption.failures;
                *failures = failures.saturating_add(1);
                if failures.is_power_of_two() {
                    tracing::warn!(%error, failures, "stored values cannot be encrypted again yet");
                }
                // It is unknown whether the step was committed: continue where the store says.
                (self.reencryption.record, self.reencryption.objects) = (None, None);
                if !(error.is_unavailable() || error.is_outcome_unknown()) {
                    std::thread::sleep(RETRY_DELAY);
                }
            }
        }
    }

    fn try_reencrypt_step(&mut self) -> Result<(), Error> {
        let record = match self.reencryption.record.take() {
            Some(record) => Some(record),
            None => EncryptionRecord::read(&self.shared.storage.view()?)?,
        };
        let keys = self.shared.storage.disk().and_then(|disk| disk.keys());
        let (Some(mut record), Some(keys)) = (record, keys) else {
            self.reencryption.is_running = false;
            return Ok(());
        };
        let Some(work) = &mut record.work else {
            self.reencryption.is_running = false;
            return Ok(());
        };
        let mut ops = match work.place.clone() {
            Place::Values { keyspace, after } => self.values_step(&keys, work, keyspace, after)?,
            Place::Objects => {
                if self.objects_step(&keys, work)? {
                    return self.finish(&keys);
                }
                Vec::new()
            }
        };
        // The place among the objects is not recorded: they tell themselves which key they have.
        if work.place != Place::Objects || !ops.is_empty() {
            ops.extend(encryption_ops(&record)?);
            self.commit(ops, self.sequence)?;
        }
        self.reencryption.record = Some(record);
        Ok(())
    }

    /// The operations that encrypt some values of a keyspace again. Moves the place on.
    fn values_step(
        &self,
        keys: &DataKeys,
        work: &mut ReencryptionWork,
        number: u8,
        after: Option<Vec<u8>>,
    ) -> Result<Vec<Op>, Error> {
        let Some(keyspace) = Keyspace::ALL.get(usize::from(number)).copied() else {
            work.place = Place::Objects;
            return Ok(Vec::new());
        };
        let next = Place::Values { keyspace: number + 1, after: None };
        if matches!(keyspace, Keyspace::Expiry | Keyspace::Meta) {
            work.place = next;
            return Ok(Vec::new());
        }
        let (mut ops, mut bytes, mut seen, mut last) = (Vec::new(), 0, 0, None);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.shared.storage.view()?.range_stored(keyspace, from, None, false, |key, stored| {
            seen += 1;
            if keys.is_outdated(keyspace, key, stored) {
                bytes += stored.len();
                // A commit encrypts what it writes.
                let value = keys.open_value(keyspace, key, stored.clone())?;
                ops.push(Op::Put(keyspace, key.into(), value));
            }
            last = Some(key.to_vec());
            break_if(ops.len() >= STEP || bytes >= STEP_BYTES || seen >= LOOKED_AT)
        })?;
        work.done += seen;
        let is_done = ops.len() < STEP && bytes < STEP_BYTES && seen < LOOKED_AT;
        work.place = match is_done {
            true => next,
            false => Place::Values { keyspace: number, after: last },
        };
        Ok(ops)
    }

    /// Encrypts one of the next objects again; returns whether there are no more.
    fn objects_step(&mut self, keys: &DataKeys, work: &mut ReencryptionWork) -> Result<bool, Error> {
        let Some(disk) = self.shared.storage.disk() else { return Ok(true) };
        let root = disk.directory().join("objects");
        let mut walk = match self.reencryption.objects.take() {
            Some(walk) => walk,
            None => ObjectWalk::new(&root)?,
        };
        // An object that is being deleted is not written again. Nobody waits here: this thread commits all writes.
        let Some(_lock) = nagaya_store::files::try_lock_objects_shared(&root).context("lock", &root)? else {
            self.reencryption.objects = Some(walk);
            return Ok(false);
        };
        for _ in 0..OBJECTS_LOOKED_AT {
            let Some(found) = walk.next() else { return Ok(true) };
            let (name, path) = found?;
            work.done += 1;
            if reencrypt_file(keys, &name, &path)? {
                break;
            }
        }
        self.reencryption.objects = Some(walk);
        Ok(false)
    }

    /// Removes the former keys from the record.
    fn finish(&mut self, keys: &Arc<DataKeys>) -> Result<(), Error> {
        let (record, keys) = EncryptionRecord::finished(keys)?;
        self.commit(encryption_ops(&record)?, self.sequence)?;
        if let Some(disk) = self.shared.storage.disk() {
            disk.install_keys(keys);
        }
        self.reencryption = Reencryption::default();
        tracing::info!("everything is encrypted with the new key");
        Ok(())
    }
}

/// Encrypts a file again, if it has another key; returns whether it had.
fn reencrypt_file(keys: &DataKeys, name: &str, path: &Path) -> Result<bool, Error> {
    let mut file = match File::open(path) {
        // It has been deleted since it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        file => file.context("read", path)?,
    };
    let mut stored = Vec::new();
    std::io::Read::by_ref(&mut file).take(FILE_HEAD as u64).read_to_end(&mut stored).context("read", path)?;
    if !keys.is_outdated_file(&stored) {
        return Ok(false);
    }
    file.read_to_end(&mut stored).context("read", path)?;
    match keys.open_file(name, stored) {
        Ok(content) => {
            let sealed = keys.seal_file(name, &content)?;
            files::replace(path, |file| file.write_all(&sealed)).context("write", path)?;
        }
        // `store verify` finds it too. It cannot be saved with the former key either.
        Err(error) => tracing::error!(%error, object = name, "an object is damaged and stays as it is"),
    }
    Ok(true)
}
