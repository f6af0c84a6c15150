//! Numbers of commits with an authentication tag, so that only the engine can write one.
//!
//! The journal contains the bytes of tenants as they are. Without a tag, a tenant could write bytes that look like a
//! commit, and make a torn end look like damage.

use std::fmt;

use nagaya_store::Error;

use crate::bytes::random_bytes;

/// Bytes of the content: the commit number and a sequence number.
const CONTENT_BYTES: usize = 16;
const TAG_BYTES: usize = 16;

/// The record that every commit writes about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its number.
    pub(crate) number: u64,
    /// fjall's sequence number before the commit; its batch has this number or a slightly higher one.
    pub(crate) sequence: u64,
}

impl Commit {
    /// Bytes of an encoded commit.
    pub(crate) const LENGTH: usize = CONTENT_BYTES + TAG_BYTES;

    /// Decodes a commit without checking its tag.
    pub(crate) fn decode_unverified(stored: &[u8]) -> Option<Commit> {
        let (number, rest) = stored.split_first_chunk()?;
        let (sequence, tag) = rest.split_first_chunk()?;
        let (number, sequence) = (u64::from_be_bytes(*number), u64::from_be_bytes(*sequence));
        (tag.len() == TAG_BYTES).then_some(Commit { number, sequence })
    }
}

/// The secret key for the commit tags of a directory.
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
        random_bytes().map(CommitKey)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(CommitKey)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Encodes a commit with its tag.
    pub(crate) fn encode(&self, commit: Commit) -> [u8; Commit::LENGTH] {
        let mut bytes = [0; Commit::LENGTH];
        bytes[..8].copy_from_slice(&commit.number.to_be_bytes());
        bytes[8..CONTENT_BYTES].copy_from_slice(&commit.sequence.to_be_bytes());
        let tag = self.tag(&bytes[..CONTENT_BYTES]);
        bytes[CONTENT_BYTES..].copy_from_slice(&tag);
        bytes
    }

    /// Decodes a commit, if its tag was made with this key.
    pub(crate) fn decode(&self, stored: &[u8]) -> Option<Commit> {
        Commit::decode_unverified(stored).filter(|_| self.tag(&stored[..CONTENT_BYTES]) == stored[CONTENT_BYTES..])
    }

    fn tag(&self, content: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&blake3::keyed_hash(&self.0, content).as_bytes()[..TAG_BYTES]);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_decoded_only_if_its_tag_is_right() -> Result<(), Error> {
        let (own, other) = (CommitKey::random()?, CommitKey::random()?);
        let commit = Commit { number: 7, sequence: 30 };
        let stored = own.encode(commit);
        assert_eq!((own.decode(&stored), other.decode(&stored)), (Some(commit), None));
        assert_eq!(Commit::decode_unverified(&stored), Some(commit));
        for at in 0..stored.len() {
            let mut changed = stored;
            changed[at] ^= 1;
            assert_eq!(own.decode(&changed), None);
        }
        assert_eq!((own.decode(&stored[..8]), Commit::decode_unverified(&stored[..8])), (None, None));
        Ok(())
    }
}
