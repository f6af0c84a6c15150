//! Tasks: when one was completed follows from its status.

use nagaya_server::{Answer, Call, Problem};
use nagaya_tenancy::{ErrorKind, Record};
use serde_json::Value as Json;

use crate::{body, product::Product};

/// How often a change that lost a race is tried.
const ATTEMPTS: usize = 10;
const BY_STATUS: &str = "follows from the status; leave it out";

/// A task that is made as done is completed at once.
pub(crate) fn create(product: &Product, call: &mut Call) -> Result<(), Problem> {
    body::without(&call.body, &["completedAt"], BY_STATUS)?;
    if is_done(call.body.get("status")) {
        let now = product.now("task", "completedAt");
        call.body.insert("completedAt".to_owned(), now);
    }
    Ok(())
}

/// A change of status: becoming done completes the task, becoming anything else undoes that.
///
/// What is to be written depends on the task as it is, so it is written only onto that.
pub(crate) async fn update(product: &Product, call: &Call) -> Result<Option<Answer>, Problem> {
    body::without(&call.body, &["completedAt"], BY_STATUS)?;
    // Everything else is the derived handler's.
    let Some(status) = call.body.get("status") else { return Ok(None) };

    let tenant = call.tenant()?;
    let id = [call.parameter("taskId").ok_or_else(Problem::not_found)?];
    for _ in 0..ATTEMPTS {
        let task = tenant.get("task", &id).await?;
        call.knows(&task)?;
        let mut patch = call.body.clone();
        match (is_done(Some(status)), is_completed(&task)) {
            (true, false) => {
                patch.insert("completedAt".to_owned(), product.now("task", "completedAt"));
            }
            (false, _) => drop(patch.insert("completedAt".to_owned(), Json::Null)),
            (true, true) => {}
        }
        match tenant.update("task", &id, patch, &task).await {
            Ok(task) => return Ok(Some(Answer::record(task))),
            Err(error) if matches!(error.kind(), ErrorKind::VersionConflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(nagaya_tenancy::Error::from(ErrorKind::Contended).into())
}

fn is_done(status: Option<&Json>) -> bool {
    status.and_then(Json::as_str) == Some("done")
}

fn is_completed(task: &Record) -> bool {
    task.text("status") == Some("done") && task.text("completedAt").is_some()
}
