//! The operator log and its key: whether it is known, and how the log goes on after it was lost.

use nagaya_store::WriteSet;

use super::{
    chain::{self, Head},
    log::reading_entry,
};
use crate::{Error, ErrorKind, Nagaya, Operator};

impl Nagaya {
    /// Whether this process can write to the operator log; [`ErrorKind::UnknownLogKey`] if it ends with an entry of an unknown key.
    pub async fn check_log_key(&self) -> Result<(), Error> {
        Head::read_known(&self.state()).await.map(drop)
    }
}

impl Operator {
    /// Continues the operator log if the key that it ends with is lost; whether that was necessary. Everything else is refused
    /// then ([`ErrorKind::UnknownLogKey`]).
    ///
    /// The new entry says for ever that nobody could check the one before it: a verification finds `headChanged` there.
    pub async fn continue_log(&self) -> Result<bool, Error> {
        let session = &self.0;
        let state = &session.state;
        session.require_reason()?;
        match Head::read_known(state).await {
            Err(error) if matches!(error.kind(), ErrorKind::UnknownLogKey { .. }) => {}
            known => return known.map(|_| false),
        }
        let _turn = state.log_turn().await;
        let head = Head::read(state).await?;
        session.store_pending(head.as_ref()).await?;
        let linked = chain::link(state, head.as_ref(), &[reading_entry(session, "continue")]);
        // Where entry and head cannot be one set, the head comes first and holds the entry.
        let sets: Vec<WriteSet> = match state.cross_partition() {
            true => vec![linked.into_iter().collect()],
            false => linked.into_iter().rev().map(WriteSet::from).collect(),
        };
        for set in sets {
            if !session.commit_if(set).await? {
                return Err(ErrorKind::Contention.into());
            }
        }
        Ok(true)
    }
}
