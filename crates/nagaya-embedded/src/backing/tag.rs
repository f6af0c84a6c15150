//! The numbers of commits, tagged so that nobody else can write one.
//!
//! What tenants write lies in the journal as it is. Without a tag they could write what looks like a commit, and make a torn
//! end look like damage.

use std::fmt;

use nagaya_store::Error;

/// Bytes of a number with its tag.
const TAGGED: usize = 8 + TAG;
const TAG: usize = 16;

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

    /// The number of a commit as it is stored.
    pub(crate) fn tagged(&self, commit: u64) -> [u8; TAGGED] {
        let mut bytes = [0; TAGGED];
        let (number, tag) = bytes.split_at_mut(8);
        number.copy_from_slice(&commit.to_be_bytes());
        tag.copy_from_slice(&self.tag(commit));
        bytes
    }

    fn tag(&self, commit: u64) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag.copy_from_slice(&blake3::keyed_hash(&self.0, &commit.to_be_bytes()).as_bytes()[..TAG]);
        tag
    }

    /// The number of a commit from what is stored, if this key made its tag.
    pub(crate) fn check(&self, stored: &[u8]) -> Option<u64> {
        number(stored).filter(|commit| self.tag(*commit) == stored[8..])
    }
}

/// The number of a commit from what is stored, whoever made its tag.
pub(crate) fn number(stored: &[u8]) -> Option<u64> {
    let (number, tag) = stored.split_first_chunk::<8>()?;
    (tag.len() == TAG).then(|| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_believed_if_its_tag_is_right() -> Result<(), Error> {
        let (own, other) = (CommitKey::random()?, CommitKey::random()?);
        let stored = own.tagged(7);
        assert_eq!((own.check(&stored), other.check(&stored), number(&stored)), (Some(7), None, Some(7)));
        for at in 0..stored.len() {
            let mut changed = stored;
            changed[at] ^= 1;
            assert_eq!(own.check(&changed), None);
        }
        assert_eq!((own.check(&stored[..8]), number(&stored[..8])), (None, None));
        Ok(())
    }
}
