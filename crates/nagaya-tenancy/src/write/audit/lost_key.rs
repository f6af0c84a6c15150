//! The operator log and its key: whether it is known, and how the log goes on after it was lost.

use nagaya_store::WriteSet;

use super::{
    chain::{self, Head},
    log::entry_about_log,
};
use crate::{Error, ErrorKind, Nagaya, Operator};

impl Nagaya {
    /// Whether this process can write to the operator log; [`ErrorKind::UnknownAuditKey`] if it ends with an entry of an unknown key.
    pub async fn check_audit_key(&self) -> Result<(), Error> {
        Head::read_known(&self.state()).await.map(drop)
    }
}

impl Operator {
    /// Continues the operator log if the key that it ends with is lost; whether that was necessary. Everything else is refused
    /// then ([`ErrorKind::UnknownAuditKey`]).
    ///
    /// The new entry says for ever that nobody could check the one before it: a verification finds `headChanged` there.
    pub async fn continue_log(&self) -> Result<bool, Error> {
        let session = &self.0;
        let state = &session.state;
        session.require_reason()?;
        match Head::read_known(state).await {
            Err(error) if matches!(error.kind(), ErrorKind::UnknownAuditKey { .. }) => {}
            known => return known.map(|_| false),
        }
        let _turn = state.operator_log_turn().await;
        let head = Head::read(state).await?;
        session.store_pending(head.as_ref()).await?;
        let linked = chain::link(state, head.as_ref(), &[entry_about_log(session, "continue")]);
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
