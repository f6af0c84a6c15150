//! Background work of a design with an audit archive: old entries move to it.

use std::time::Duration;

use nagaya_tenancy::{ArchiveStep, AuditArchiver};

use crate::{StopSignal, observe::TARGET};

/// The pause between two pages, so that requests have the store to themselves most of the time.
const BETWEEN_PAGES: Duration = Duration::from_millis(200);
/// How often the server looks whether it is time to move entries. Each look is a read of one item.
pub(crate) const DEFAULT_POLL: Duration = Duration::from_secs(5 * 60);

/// Moves old audit entries until `stop`. It can be interrupted anywhere: the next run continues.
pub(crate) async fn run(archiver: AuditArchiver, poll: Duration, mut stop: StopSignal) {
    let mut pause = poll;
    loop {
        let step = async {
            tokio::time::sleep(pause).await;
            archiver.step().await
        };
        let step = tokio::select! {
            () = stop.wait() => return,
            step = step => step,
        };
        pause = match step {
            Ok(ArchiveStep::More) => BETWEEN_PAGES.min(poll),
            Ok(ArchiveStep::Wait(wait)) => wait.min(poll),
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "old audit entries could not be moved; they will be later");
                poll
            }
        };
    }
}
