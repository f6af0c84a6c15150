//! The numbers of commits, tagged so that nobody else can write one.
//!
//! What tenants write lies in the journal as it is. Without a tag they could write what looks like a commit, and make a torn
//! end look like damage.

use std::fmt;

use nagaya_store::Error;

/// Bytes of what is tagged: the number, and the sequence number that fjall had reached.
const SAID: usize = 16;
const TAG: usize = 16;
const TAGGED: usize = SAID + TAG;

/// What a commit says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its number.
    pub(crate) number: u64,
    /// The sequence number that fjall had reached before: its batch has this one, or one a little higher.
    pub(crate) sequence: u64,
}

/// What the tags of a directory's commits are made with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CommitKey([u8; CommitKey::LENGTH]);

impl fmt::Debug for CommitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitKey")
    }
}

impl CommitKey {
    pub(crate) const LENGTH: usize = 32;

    pub(crate) fn random() -> Result<Self, Error> {
        let mut key = [0; CommitKey::LENGTH];
        getrandom::fill(&mut key).map_err(|error| Error::engine(error.to_string()))?;
        Ok(CommitKey(key))
    }

    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(CommitKey)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A commit as it is stored.
    pub(crate) fn tagged(&self, commit: Commit) -> [u8; TAGGED] {
        let mut bytes = [0; TAGGED];
        bytes[..8].copy_from_slice(&commit.number.to_be_bytes());
        bytes[8..SAID].copy_from_slice(&commit.sequence.to_be_bytes());
        let tag = self.tag(&bytes[..SAID]);
        bytes[SAID..].copy_from_slice(&tag);
        bytes
    }

    fn tag(&self, said: &[u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag.copy_from_slice(&blake3::keyed_hash(&self.0, said).as_bytes()[..TAG]);
        tag
    }

    /// A commit from what is stored, if this key made its tag.
    pub(crate) fn check(&self, stored: &[u8]) -> Option<Commit> {
        read(stored).filter(|_| self.tag(&stored[..SAID]) == stored[SAID..])
    }
}

/// Bytes of a stored commit.
pub(crate) const LENGTH: usize = TAGGED;

/// A commit from what is stored, whoever made its tag.
pub(crate) fn read(stored: &[u8]) -> Option<Commit> {
    let (number, rest) = stored.split_first_chunk()?;
    let (sequence, tag) = rest.split_first_chunk()?;
    let (number, sequence) = (u64::from_be_bytes(*number), u64::from_be_bytes(*sequence));
    (tag.len() == TAG).then_some(Commit { number, sequence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_believed_if_its_tag_is_right() -> Result<(), Error> {
        let (own, other) = (CommitKey::random()?, CommitKey::random()?);
        let commit = Commit { number: 7, sequence: 30 };
        let stored = own.tagged(commit);
        assert_eq!((own.check(&stored), other.check(&stored), read(&stored)), (Some(commit), None, Some(commit)));
        for at in 0..stored.len() {
            let mut changed = stored;
            changed[at] ^= 1;
            assert_eq!(own.check(&changed), None);
        }
        assert_eq!((own.check(&stored[..8]), read(&stored[..8])), (None, None));
        Ok(())
    }
}
